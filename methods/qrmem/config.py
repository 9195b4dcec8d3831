"""QRMeM's parameters. Where the paper leaves one open, docs/methods/qrmem.md#qrmem has the default
and its reason."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from harness.entities.recogniser import checked_name
from harness.errors import UnknownName
from harness.method import MethodConfig


class QRMeMConfig(MethodConfig):
    """Memory (m), navigation (n).

    segment_tokens   m   tokens of a segment at most, by the builder's tokenizer; it ends where a sentence ends
    window           mn  tokens of a request, reply included; None = the model's window
    summary_tokens   m   tokens of the summary T of the whole document, and of those it is made of
    entity_tokens    m   tokens of a reply that lists entities
    relation_tokens  m   tokens of a reply that lists relations, and of a fused relation
    question_tokens  m   tokens of a reply that lists questions
    questions        m   most questions about a segment's graph in one round
    novelty          m   a question enters the pool only if its ROUGE-L with every one in it is below this
    update           m   ask questions and extract again, guided by them
    open_entities    m   let the model name entities too; without it the recogniser does that alone
    recogniser       m   named-entity tool: "rules", "spacy", "stanza" (harness/entities/); the paper names CoreNLP,
                         which Stanza succeeds (docs/methods/qrmem.md#qrmem-recogniser)
    retries          mn  further replies to a request whose reply cannot be parsed
    temperature      mn  of these; the first reply is the likeliest one
    top_p            mn  of these
    navigation       n   "reflection" (algorithm 1), "entity-trial", "graph-expansion", or "none": the segments of the
                         question's entities are read as they are
    reflection       n   "reflection" only: compare edges with question, reason of the failure and entities; without it
                         with the question alone
    max_trials       n   updates of the entity set at most; then the current segments answer the question
    record_stops     n   "reflection" and "entity-trial": continue past max_trials, up to this many updates, and
                         record the answer of every other maximum (`harness study trials`); changes
                         no answer
    reasoning_tokens n   tokens of a reply for its reasons
    start_share      n   "reflection" only: share of the room that the segments of the question's entities may take
                         where they do not all fit; the rest is what navigation may add. With 1 they
                         stay until the window is full. But algorithm 1 filters S_add alone and
                         never S_imp, so each segment that it reached would go at once: a question
                         with a frequent entity would be asked about the same segments at every
                         trial. "entity-trial" and "none" add nothing: 1 there
    fallback_k       n   segments to begin with, by similarity, where the memory has no entity of the question
    rounds           n   "graph-expansion": rounds of expansion at most
    quantile         n   "graph-expansion": an edge is similar enough if it is among the 1 - quantile most similar of
                         all edges (the paper's threshold is not printed, and Contriever's products
                         have no scale)
    top_k            n   "graph-expansion": segments retrieved
    """

    segment_tokens: int = Field(default=600, gt=0)
    window: int | None = Field(default=None, gt=0)
    summary_tokens: int = Field(default=200, gt=0)
    entity_tokens: int = Field(default=200, gt=0)
    relation_tokens: int = Field(default=400, gt=0)
    question_tokens: int = Field(default=150, gt=0)
    questions: int = Field(default=4, gt=0)
    novelty: float = Field(default=0.6, gt=0, le=1)
    update: bool = True
    open_entities: bool = True
    recogniser: str = "rules"
    retries: int = Field(default=4, ge=0)
    temperature: float = Field(default=0.7, gt=0)
    top_p: float = Field(default=0.9, gt=0, le=1)
    navigation: Literal["reflection", "entity-trial", "graph-expansion", "none"] = "reflection"
    reflection: bool = True
    max_trials: int = Field(default=5, ge=0)
    record_stops: int | None = Field(default=None, ge=1)
    reasoning_tokens: int = Field(default=300, gt=0)
    start_share: float = Field(default=0.6, gt=0, le=1)
    fallback_k: int = Field(default=3, gt=0)
    rounds: int = Field(default=2, gt=0)
    quantile: float = Field(default=0.8, ge=0, lt=1)
    top_k: int = Field(default=3, gt=0)

    @field_validator("recogniser")
    @classmethod
    def _check_recogniser(cls, value: str) -> str:
        """The name of a recogniser that exists. Raises ValueError for any other."""
        try:
            return checked_name(value)
        except UnknownName as error:
            raise ValueError(str(error)) from None

    @field_validator("record_stops")
    @classmethod
    def _check_record_stops(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("navigation") in ("graph-expansion", "none"):
            raise ValueError(
                "this navigation has no trials to stop after; use navigation reflection or "
                "entity-trial"
            )
        return value


INDEX_FIELDS = (
    "segment_tokens",
    "window",
    "summary_tokens",
    "entity_tokens",
    "relation_tokens",
    "question_tokens",
    "questions",
    "novelty",
    "update",
    "open_entities",
    "recogniser",
    "retries",
    "temperature",
    "top_p",
)
