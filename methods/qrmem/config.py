"""QRMeM's parameters. Where the paper leaves one open, docs/methods/qrmem.md#qrmem has the default
and its reason."""

from typing import Literal

from pydantic import ValidationInfo, field_validator

from harness.entities.recogniser import check_recogniser_name
from harness.errors import UnknownName
from harness.method import MethodConfig
from harness.method.settings import index_setting, recording_setting, setting


class QRMeMConfig(MethodConfig):
    """Where the paper leaves a setting open, docs/methods/qrmem.md#qrmem has the reason of the default."""

    # Memory: a change builds a new index.
    segment_tokens: int = index_setting(
        600,
        gt=0,
        help=(
            "Most tokens of a segment, by the builder's tokenizer; it ends where a sentence ends."
        ),
    )
    window: int | None = index_setting(
        None,
        gt=0,
        help=(
            "Most tokens of a request of memory and navigation, reply included; None = the "
            "model's window."
        ),
    )
    summary_tokens: int = index_setting(
        200,
        gt=0,
        help="Tokens of the summary T of the whole document, and of those it is made of.",
    )
    entity_tokens: int = index_setting(200, gt=0, help="Tokens of a reply that lists entities.")
    relation_tokens: int = index_setting(
        400, gt=0, help="Tokens of a reply that lists relations, and of a fused relation."
    )
    question_tokens: int = index_setting(150, gt=0, help="Tokens of a reply that lists questions.")
    questions: int = index_setting(
        4, gt=0, help="Most questions about a segment's graph in one round."
    )
    novelty: float = index_setting(
        0.6,
        gt=0,
        le=1,
        help="A question enters the pool only if its ROUGE-L with every one in it is below this.",
    )
    update: bool = index_setting(True, help="Ask questions and extract again, guided by them.")
    open_entities: bool = index_setting(
        True, help=("Let the model name entities too; without it the recogniser does that alone.")
    )
    recogniser: str = index_setting(
        "rules",
        help=(
            'Named-entity tool: "rules", "spacy", "stanza" (harness/entities/); the paper '
            "names CoreNLP, which Stanza succeeds (docs/methods/qrmem.md#qrmem-recogniser)."
        ),
    )
    retries: int = index_setting(
        4,
        ge=0,
        help="Further replies to a request of memory or navigation whose reply cannot be parsed.",
    )
    temperature: float = index_setting(
        0.7, gt=0, help="Temperature of these; the first reply is the likeliest one."
    )
    top_p: float = index_setting(0.9, gt=0, le=1, help="Nucleus of these.")
    # Navigation
    navigation: Literal["reflection", "entity-trial", "graph-expansion", "none"] = setting(
        "reflection",
        help=(
            '"reflection" (algorithm 1), "entity-trial", "graph-expansion", or "none": the '
            "segments of the question's entities are read as they are."
        ),
    )
    reflection: bool = setting(
        True,
        help=(
            '"reflection" only: compare edges with question, reason of the failure and '
            "entities; without it with the question alone."
        ),
    )
    max_trials: int = setting(
        5,
        ge=0,
        help="Most updates of the entity set; then the current segments answer the question.",
    )
    record_stops: int | None = recording_setting(
        None,
        ge=1,
        help=(
            '"reflection" and "entity-trial": continue past max_trials, up to this many '
            "updates, and record the answer of every other maximum (`harness study "
            "trials`); changes no answer."
        ),
    )
    reasoning_tokens: int = setting(300, gt=0, help="Tokens of a reply for its reasons.")
    start_share: float = setting(
        0.6,
        gt=0,
        le=1,
        help=(
            '"reflection" only: share of the room that the segments of the question\'s '
            "entities may take where they do not all fit; the rest is what navigation may "
            "add. With 1 they stay until the window is full, and as algorithm 1 filters "
            "S_add alone and never S_imp, a question with a frequent entity would be asked "
            "about the same segments at every trial."
        ),
    )
    fallback_k: int = setting(
        3,
        gt=0,
        help=(
            "Segments at the start, by similarity, where the memory has no entity of the question."
        ),
    )
    rounds: int = setting(2, gt=0, help='"graph-expansion": most rounds of expansion.')
    quantile: float = setting(
        0.8,
        ge=0,
        lt=1,
        help=(
            '"graph-expansion": an edge is similar enough if it is among the 1 - quantile '
            "most similar of all edges (the paper's threshold is not printed, and "
            "Contriever's products have no scale)."
        ),
    )
    top_k: int = setting(3, gt=0, help='"graph-expansion": segments retrieved.')

    @field_validator("recogniser")
    @classmethod
    def _check_recogniser(cls, value: str) -> str:
        """Return the name of a recogniser. Raises ValueError for one that does not exist."""
        try:
            return check_recogniser_name(value)
        except UnknownName as error:
            raise ValueError(str(error)) from None

    @field_validator("record_stops")
    @classmethod
    def _check_record_stops(cls, value: int | None, info: ValidationInfo) -> int | None:
        """Return the value; raise ValueError where stops are recorded for a navigation without
        trials."""
        if value is not None and info.data.get("navigation") in ("graph-expansion", "none"):
            raise ValueError(
                "this navigation has no trials to stop after; use navigation reflection or "
                "entity-trial"
            )
        return value
