"""What the engine gives a method: the task, models, encoders and rerankers, all metered
(harness/engine/tools.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from harness.types import Question, SearchHit

if TYPE_CHECKING:
    import numpy as np

    from harness.cost.meter import Meter
    from harness.models import MeteredModel


T = TypeVar("T")
R = TypeVar("R")


SHOTS = "\n\nExamples:\n\n"
"""The heading of the solved examples after an instruction (dataset.shots)."""


class Task(BaseModel):
    """The part of a prompt that is the same for every method. Hashes leave defaults out.

    Attributes:
        instruction: How to answer, one sentence.
        max_answer_tokens: Longest answer.
        shots: Hash of the training rows from which each question's solved examples are chosen, the
            nearest ones; "" for none.
        raw_replies: Whether white space around a reply is part of the answer (code).
        chat: Whether the shared prompt stands in the model's chat template.
        reply_schema: A reply's JSON schema as JSON text, which the instruction has too; "" for
            none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    instruction: str
    max_answer_tokens: int
    shots: str = ""
    raw_replies: bool = False
    chat: bool = True
    reply_schema: str = ""

    def answer_in(self, reply: str) -> str:
        """The answer in a reply: stripped, or with `raw_replies` as it was written."""
        if self.raw_replies:
            return reply
        return reply.strip()


class Encoder(Protocol):
    """A sentence encoder bound to a meter: what `tools.encoder()` returns.

    name: as in tables; identity: everything that changes its vectors, for cache keys and the
    manifest.
    """

    name: str
    identity: dict[str, object]

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Vectors of shape [len(texts), width], float32; kind: picks the prefix and the network, if
        there are two."""

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Scores of shape [passages]: cosine or dot product, as the encoder's config says."""


class Reranker(Protocol):
    """A cross-encoder bound to a meter: what `tools.reranker()` returns. name, identity: as of
    Encoder."""

    name: str
    identity: dict[str, object]

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Scores of shape [passages], higher is better."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a retriever found.

    page: the name of its page, "" where the retriever says none; text: None where it gives none;
    score: higher is better, None where it gives none.
    """

    page: str = ""
    text: str | None = None
    score: float | None = None


class Retriever(Protocol):
    """A retriever bound to a meter: what `tools.retriever()` returns. name: as in tables."""

    name: str

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k passages for a query, best first, each with its text."""


class Tools(Protocol):
    """What a method may use.

    Attributes:
        task: What is asked of every answer.
        question: The one being answered, or for which an index of scope "question" is built; None
            for other indexes.
        meter: Counts the cost of everything.
        seed: Of the run, for a method's own draws.
    """

    task: Task
    question: Question | None
    meter: Meter
    seed: int

    def model(self, role: str = "reader") -> MeteredModel:
        """The language model of a role: reader, builder, searcher, compressor, refiner (default:
        the reader)."""

    def encoder(self, role: str = "encoder") -> Encoder:
        """The sentence encoder of a role."""

    def reranker(self, role: str = "reranker") -> Reranker:
        """The cross-encoder of a role."""

    def retriever(self) -> Retriever | None:
        """The retriever that takes the place of the method's own ranking; None where the run has
        none."""

    def search(self, query: str, k: int) -> list[SearchHit]:
        """The `k` best passages for a query, best first; fewer where fewer match.

        Of the run's corpus (--corpus), else by its retriever (--retriever), else of the question's
        own documents. For methods whose traits have `searches`, while they answer.
        """

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return [fn(item), ...] in order; items must not depend on each other: the engine may run
        several at once."""

    def keep(self, key: str, fn: Callable[[], Any]) -> Any:
        """Return the result stored under `key` if the building of this index was interrupted
        before, else that of `fn`, which is stored."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Count the cost of what happens inside as "search" or "answer" (the default while
        answering)."""

    def progress(self, done: int, total: int, what: str) -> None:
        """Report that a long step is at `done` of `total`; what: the units that are counted,
        "gists"."""


class IndexTools(Tools, Protocol):
    """What a method may use while it builds an index: Tools, and results that other methods'
    indexes share."""

    def share(
        self, name: str, role: str, needs: Mapping[str, object], fn: Callable[[], Any]
    ) -> Any:
        """Return the cached result for (name, needs), computing it with `fn` on a miss; the cache
        is shared by the indexes of all methods.

        The cost of fn is counted in both cases. fn uses the model of `role` alone; needs:
        everything that its result depends on (texts, prompts, sizes), as JSON values, with
        "version" for the code of fn: raise it when the same needs give another result.
        """
