"""What the method of a stored run declares, read from the code of this installation.

    declared(run)     Declared(one_request=True, reads_documents=True, indexes=True)

Only the shipped methods are looked up, by their short names: a received file never names code that
is imported. Of a method of the user's own nothing is known.
"""

from dataclasses import asdict, dataclass
from typing import Any

from harness.config import registry
from harness.config.registry import short_name
from harness.errors import UserError
from harness.method import Method
from harness.storage.run_folder import StoredRun


@dataclass(frozen=True)
class Declared:
    """What a method's class says of every run of it.

    one_request: it asks a model once a question, and not for an index; reads_documents: it reads
    documents; indexes: it builds an index; floor: it only marks what others must beat;
    scoring_roles: roles whose model scores plain texts, which are no prompts; asks_application: its
    reader is an application of the user's.
    """

    one_request: bool
    reads_documents: bool
    indexes: bool
    floor: bool
    scoring_roles: frozenset[str]
    asks_application: bool

    def as_json(self) -> dict[str, Any]:
        """The values by name, equal for equal ones."""
        return {**asdict(self), "scoring_roles": sorted(self.scoring_roles)}


def declared(run: StoredRun) -> Declared | None:
    """What the run's method declares; None for one that is not shipped."""
    name = short_name(str(run.config["method"].get("implementation")))
    if name not in registry.shipped("methods"):
        return None
    try:
        method: type[Method] = registry.load(name, Method)
    except (UserError, ImportError):
        return None
    return Declared(
        one_request=method.traits.one_request,
        reads_documents=method.traits.reads_documents,
        indexes=method.scope != "none" and not run.config.get("retriever"),
        floor=method.traits.floor,
        scoring_roles=_scoring_roles(method),
        asks_application="application" in method.needs.get("reader", ()),
    )


def _scoring_roles(method: type[Method]) -> frozenset[str]:
    """The roles whose model must be able to score a text."""
    return frozenset(role for role, needs in method.needs.items() if "score" in needs)
