"""What the method of a stored run declares, read from the code of this installation.

    declared(run)     Declared(one_request=True, reads_documents=True, indexes=True)

Only the shipped methods are looked up, by their short names: a received file never names code that
is imported. Of a method of the user's own nothing is known.
"""

from dataclasses import asdict, dataclass

from pydantic import ValidationError

from harness.config import registry
from harness.config.registry import short_name
from harness.errors import UserError
from harness.method import Method
from harness.storage.run_folder import StoredRun

_TOKENIZING = {"reader"}  # a role of an index that may need its tokenizer alone


@dataclass(frozen=True)
class Declared:
    """What a method's class says of every run of it.

    Args:
        one_request: Whether it asks a model once a question, and not for an index.
        reads_documents: Whether it reads documents.
        indexes: Whether it builds an index.
        floor: Whether it only marks what others must beat.
        scoring_roles: Roles whose model scores plain texts, which are no prompts.
        asks_application: Whether its reader is an application of the user's.
        most_shown: Most passages that an answer shows by the run's settings; None where they set no
            number or are not those of this version.
        most_tokens_shown: Most tokens of these passages together; None likewise.
        index_models: Roles whose models are asked for every index.
        disjoint: Whether the passages that an answer shows never overlap.
    """

    one_request: bool
    reads_documents: bool
    indexes: bool
    floor: bool
    scoring_roles: frozenset[str]
    asks_application: bool
    most_shown: int | None
    most_tokens_shown: int | None
    index_models: frozenset[str]
    disjoint: bool

    def as_json(self) -> dict[str, object]:
        """The values by name, with sets as sorted lists, so that equal ones give equal JSON."""
        roles = {
            "scoring_roles": sorted(self.scoring_roles),
            "index_models": sorted(self.index_models),
        }
        return {**asdict(self), **roles}


def declared(run: StoredRun) -> Declared | None:
    """What the run's method declares; None for one that is not shipped."""
    method = _shipped_class(run)
    if method is None:
        return None
    settled = shipped_method(run)
    if run.config.retriever:
        settled = None  # passages are quotes of any length, which may have several places
    most_shown = most_tokens_shown = None
    index_models: frozenset[str] = frozenset()
    disjoint = False
    if settled is not None:
        most_shown = settled.most_shown()
        most_tokens_shown = settled.most_tokens_shown()
        if settled.indexes_by_model():
            index_models = frozenset(settled.index_roles) - _TOKENIZING
        disjoint = settled.passages_are_disjoint()
    return Declared(
        one_request=method.traits.one_request,
        reads_documents=method.traits.reads_documents,
        indexes=method.scope != "none" and not run.config.retriever,
        floor=method.traits.floor,
        scoring_roles=_scoring_roles(method),
        asks_application="application" in method.needs.get("reader", ()),
        most_shown=most_shown,
        most_tokens_shown=most_tokens_shown,
        index_models=index_models,
        disjoint=disjoint,
    )


def shipped_method(run: StoredRun) -> Method | None:
    """The method of the run with the run's settings.

    None for a method that is not shipped, and for settings that this version does not know.
    """
    method = _shipped_class(run)
    if method is None:
        return None
    params = dict(run.config.method.params)
    if run.manifest.hashed is not None:
        params = {**run.manifest.hashed.unset, **params}
    try:
        return method(method.Config.model_validate(params))
    except ValidationError:
        return None


def _shipped_class(run: StoredRun) -> type[Method] | None:
    """The class of the run's method, if it is shipped; None for one of the user's own, or one that
    cannot be imported."""
    name = short_name(str(run.config.method.implementation))
    if name not in registry.targets("methods"):
        return None
    try:
        method: type[Method] = registry.load(name, Method)
    except (UserError, ImportError):
        return None
    return method


def _scoring_roles(method: type[Method]) -> frozenset[str]:
    """The roles of a method whose model must be able to score a text."""
    return frozenset(role for role, needs in method.needs.items() if "score" in needs)
