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


EXAMPLES_HEADING = "\n\nExamples:\n\n"
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

    Attributes:
        name: The name that tables show.
        identity: Everything that changes its vectors, for cache keys and the manifest.
    """

    name: str
    identity: dict[str, object]

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """The vectors of texts: float32 [texts, width].

        Args:
            texts: The texts.
            kind: What they are; it decides the prefix before them and, where the encoder has two
                networks, which one reads them.
        """

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """The scores of passages for a query: float [passages], by cosine or dot product, as the
        encoder's config says.

        Args:
            query: The vector of the query [width].
            passages: The vectors of the passages [passages, width].
        """


class Reranker(Protocol):
    """A cross-encoder bound to a meter: what `tools.reranker()` returns.

    Attributes:
        name: The name that tables show.
        identity: Everything that changes its scores, for cache keys and the manifest.
    """

    name: str
    identity: dict[str, object]

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """The scores of passages for a query: float [passages], higher is better."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a retriever found.

    Attributes:
        page: The name of its page; "" where the retriever says none.
        text: Its text; None where the retriever gives none.
        score: Higher is better; None where the retriever gives none.
    """

    page: str = ""
    text: str | None = None
    score: float | None = None


class Retriever(Protocol):
    """A retriever bound to a meter: what `tools.retriever()` returns.

    Attributes:
        name: The name that tables show.
    """

    name: str

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k passages for a query, best first, each with its text."""


class Tools(Protocol):
    """What a method may use.

    Attributes:
        task: The instruction and answer length that hold for every question.
        question: The question that is being answered, or for which an index of scope "question" is
            built; None while another index is built.
        meter: Counts the cost of everything.
        seed: The run's seed, for a method's own draws.
    """

    task: Task
    question: Question | None
    meter: Meter
    seed: int

    def model(self, role: str = "reader") -> MeteredModel:
        """The language model of a role: "reader", "builder", "searcher", "compressor" or
        "refiner"."""

    def encoder(self, role: str = "encoder") -> Encoder:
        """The sentence encoder of a role."""

    def reranker(self, role: str = "reranker") -> Reranker:
        """The cross-encoder of a role."""

    def retriever(self) -> Retriever | None:
        """The retriever that takes the place of the method's own ranking; None where the run has
        none."""

    def search(self, query: str, k: int) -> list[SearchHit]:
        """The `k` best passages for a query, best first; fewer where fewer match.

        Searches the run's corpus (--corpus), else asks its retriever (--retriever), else searches
        the question's own documents. For methods whose traits have `searches`, while they answer.
        """

    def map(self, fn: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return [fn(item), ...] in order; items must not depend on each other: the engine may run
        several at once."""

    def keep(self, key: str, fn: Callable[[], Any]) -> Any:
        """Return the result that an interrupted build of this index stored under `key`; where there
        is none, that of `fn`, which is stored."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Context manager that counts the cost of its block as "search" or "answer". While
        answering, what is outside of such a block counts as "answer"."""

    def progress(self, done: int, total: int, what: str) -> None:
        """Show how far a long step is.

        Args:
            done: Units that are done.
            total: All units.
            what: The units in words: "gists".
        """


class IndexTools(Tools, Protocol):
    """What a method may use while it builds an index: Tools, and results that other methods'
    indexes share."""

    def share(
        self, name: str, role: str, needs: Mapping[str, object], fn: Callable[[], Any]
    ) -> Any:
        """Return the cached result for (name, needs), computing it with `fn` on a miss; the cache
        is shared by the indexes of all methods. The cost of `fn` is counted in both cases.

        Args:
            name: The name of the result: "tree".
            role: The only role whose model `fn` uses.
            needs: Everything else that the result depends on (texts, prompts, sizes), as JSON
                values, with "version" for the code of `fn`: raise it when the same needs give
                another result.
            fn: Computes the result, as JSON values.
        """
