"""What the method of a stored run declares, read from the code of this installation.

    method_declaration(run)     MethodDeclaration(one_request=True, builds_indexes=True, ...)

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

_ROLES_WITHOUT_REQUESTS = {"reader"}  # a role of an index that may need its tokenizer alone


@dataclass(frozen=True)
class MethodDeclaration:
    """What a method's class says of every run of it.

    Args:
        one_request: Whether it asks a model once a question, and not for an index.
        reads_documents: Whether it reads documents.
        builds_indexes: Whether it builds an index.
        is_floor: Whether it is a floor, which only marks what others must beat.
        scoring_roles: Roles whose model scores plain texts, which are no prompts.
        asks_application: Whether its reader is an application of the user's.
        ranks_by_attention: Whether its reader's attention may rank passages, in requests that write
            nothing.
        max_passages: Most passages that an answer shows by the run's settings; None where they set
            no number or are not those of this version.
        max_passage_tokens: Most tokens of these passages together; None likewise.
        index_models: Roles whose models are asked for every index.
        has_disjoint_passages: Whether the passages that an answer shows never overlap.
        has_ordered_passages: Whether they stand in the order of the text.
    """

    one_request: bool
    reads_documents: bool
    builds_indexes: bool
    is_floor: bool
    scoring_roles: frozenset[str]
    asks_application: bool
    ranks_by_attention: bool
    max_passages: int | None
    max_passage_tokens: int | None
    index_models: frozenset[str]
    has_disjoint_passages: bool
    has_ordered_passages: bool

    def as_json(self) -> dict[str, object]:
        """The values by name, with sets as sorted lists, so that equal ones give equal JSON."""
        roles = {
            "scoring_roles": sorted(self.scoring_roles),
            "index_models": sorted(self.index_models),
        }
        return {**asdict(self), **roles}


def method_declaration(run: StoredRun) -> MethodDeclaration | None:
    """What the run's method declares; None for one that is not shipped.

    What follows from its settings (numbers of passages, order, models of the index) is not declared
    where these are not those of this version, or a retriever of the user's own gives the passages.
    """
    method = _shipped_class(run)
    if method is None:
        return None
    configured = configured_shipped_method(run)
    if run.config.retriever:
        configured = None  # its passages are quotes of any length, which may have several places
    max_passages = max_passage_tokens = None
    index_models: frozenset[str] = frozenset()
    has_disjoint_passages = False
    has_ordered_passages = False
    if configured is not None:
        max_passages = configured.most_shown()
        max_passage_tokens = configured.most_tokens_shown()
        if configured.indexes_by_model():
            index_models = frozenset(configured.index_roles) - _ROLES_WITHOUT_REQUESTS
        has_disjoint_passages = configured.passages_are_disjoint()
        has_ordered_passages = configured.passages_are_in_order()
    return MethodDeclaration(
        one_request=method.traits.one_request,
        reads_documents=method.traits.reads_documents,
        builds_indexes=method.scope != "none" and not run.config.retriever,
        is_floor=method.traits.floor,
        scoring_roles=_scoring_roles(method),
        asks_application="application" in method.needs.get("reader", ()),
        ranks_by_attention="attention" in method.needs.get("reader", ()),
        max_passages=max_passages,
        max_passage_tokens=max_passage_tokens,
        index_models=index_models,
        has_disjoint_passages=has_disjoint_passages,
        has_ordered_passages=has_ordered_passages,
    )


def asks_models_for_indexes(run: StoredRun) -> bool:
    """Whether a model is asked for indexes of the run: its costs are sums that no record shows
    again. Of a method that is not shipped, whether any index has costs of a request."""
    declaration = method_declaration(run)
    if declaration is not None:
        return declaration.builds_indexes and bool(declaration.index_models)
    for line in run.index_lines:
        for phase in line.usage.values():
            if phase.get("requests"):
                return True
    return False


def configured_shipped_method(run: StoredRun) -> Method | None:
    """The method of the run with the run's settings; those that run.yaml leaves unset have the values
    that the run's hash covers.

    None for a method that is not shipped, and for settings that this version does not know.
    """
    method = _shipped_class(run)
    if method is None:
        return None
    parameters = dict(run.config.method.params)
    if run.manifest.hashed is not None:
        parameters = {**run.manifest.hashed.unset, **parameters}
    try:
        return method(method.Config.model_validate(parameters))
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
    """The roles of a method whose model scores plain texts: needs = {"scorer": {"score"}} gives
    {"scorer"}."""
    scoring = [role for role, needs in method.needs.items() if "score" in needs]
    return frozenset(scoring)
