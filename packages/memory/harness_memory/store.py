"""Mem0's own memory of one document, with the models of a run in place of its clients.

    store = MemoryStore(model, encoder, width=384)
    store.add("Ann built the mill.")          -> its model is asked; [Memory("2f..", "Ann built the mill")]
    store.points()                            -> what its vector store holds, for an index
    MemoryStore(...).restore(points)          -> the same memory again
    store.search("Who built it?", 20)         -> [Found("2f..", "Ann built the mill", 0.71)]

Nothing is sent anywhere but to these models: the package's telemetry is switched off before it is
imported, its vectors are in a qdrant collection in this process's memory, and its history in a
SQLite database there. Source: mem0ai 2.2.1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from harness.method import Encoder
from harness.storage.files import harness_home

_OWNER = "document"  # Mem0 keeps the memories of users apart; a document here is one user.


class Writes(Protocol):
    """Asks a language model."""

    def __call__(self, system: str, user: str, /) -> str:
        """The reply to a system turn and a user turn."""


@dataclass(frozen=True)
class Memory:
    """A memory: a sentence that the model extracted. id: the package's."""

    id: str
    text: str


@dataclass(frozen=True)
class Found:
    """A memory that a search found. score: the package's, higher is better."""

    id: str
    text: str
    score: float


@dataclass(frozen=True)
class Points:
    """What a collection of the vector store holds.

    Attributes:
        ids: Of the memories.
        payloads: What the package stores of each.
        vectors: float32 [memories, width].
    """

    ids: list[str]
    payloads: list[dict[str, Any]]
    vectors: np.ndarray


@dataclass
class _Client:
    """Stands in place of one of the package's clients.

    Attributes:
        failure: What stopped a request. The package turns some errors into a line of a log and
            others into errors of its own; MemoryStore raises this one.
    """

    failure: Exception | None = None

    def _kept(self, ask: Callable[[], Any]) -> Any:
        """The result of a request; an error of it is kept and raised."""
        try:
            return ask()
        except Exception as error:
            self.failure = error
            raise


@dataclass
class _Model(_Client):
    """In place of its client of a language model."""

    writes: Writes = field(kw_only=True)

    def generate_response(self, messages: Sequence[Mapping[str, str]], **_options: object) -> str:
        """The reply to a system and a user message; options as the form of the reply are not
        passed on."""
        system, user = (message["content"] for message in messages)
        reply: str = self._kept(lambda: self.writes(system, user))
        return reply


@dataclass
class _Embedder(_Client):
    """In place of its client of an embedding model."""

    encoder: Encoder = field(kw_only=True)

    def embed(self, text: str, memory_action: str = "add") -> list[float]:
        """The vector of a text; memory_action "search" encodes a query."""
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        """The vectors of texts; memory_action "search" encodes queries."""
        kind: Literal["query", "passage"] = "passage"
        if memory_action == "search":
            kind = "query"
        vectors = self._kept(lambda: self.encoder.encode(list(texts), kind))
        return [[float(value) for value in vector] for vector in vectors]


class MemoryStore:
    """Mem0's memory of one document."""

    def __init__(self, writes: Writes, encoder: Encoder, width: int) -> None:
        """Open an empty memory.

        Args:
            writes: Asks the model that extracts memories.
            encoder: Encodes memories and questions.
            width: Numbers of its vectors.
        """
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ.setdefault("MEM0_DIR", str(harness_home() / "mem0"))
        from mem0 import Memory as PackageMemory
        from qdrant_client import QdrantClient

        unused = {"provider": "openai", "config": {"api_key": "not used"}}
        collection = {
            "client": QdrantClient(":memory:"),
            "collection_name": "memories",
            "embedding_model_dims": width,
        }
        self._memory = PackageMemory.from_config(
            {
                "llm": unused,
                "embedder": unused,
                "vector_store": {"provider": "qdrant", "config": collection},
                "history_db_path": ":memory:",
            }
        )
        self._model = _Model(writes=writes)
        self._embedder = _Embedder(encoder=encoder)
        self._memory.llm = self._model
        self._memory.embedding_model = self._embedder

    def add(self, text: str) -> list[Memory]:
        """Let the model extract memories of a text; returns those that are new."""
        messages = [{"role": "user", "content": text}]
        done = self._checked(lambda: self._memory.add(messages, user_id=_OWNER))
        return [Memory(one["id"], one["memory"]) for one in done["results"]]

    def search(self, question: str, k: int) -> list[Found]:
        """The k memories that the package finds for a question, best first."""
        owner = {"user_id": _OWNER}
        done = self._checked(lambda: self._memory.search(question, filters=owner, top_k=k))
        return [Found(one["id"], one["memory"], float(one["score"])) for one in done["results"]]

    def points(self) -> Points:
        """All that the vector store holds of the memories."""
        client = self._memory.vector_store.client
        count = client.count("memories").count
        found, _ = client.scroll("memories", limit=max(count, 1), with_vectors=True)
        vectors = np.array([point.vector for point in found], dtype=np.float32)
        return Points(
            [str(point.id) for point in found], [point.payload for point in found], vectors
        )

    def restore(self, points: Points) -> None:
        """Put memories into an empty store."""
        if not points.ids:
            return
        vectors = [[float(value) for value in vector] for vector in points.vectors]
        self._memory.vector_store.insert(vectors=vectors, ids=points.ids, payloads=points.payloads)

    def _checked(self, call: Callable[[], Any]) -> Any:
        """The result of a call of the package.

        Raises:
            Exception: What stopped a request to one of the models, as it was raised there.
        """
        try:
            result = call()
        except Exception:
            self._raise_failure()
            raise
        self._raise_failure()
        return result

    def _raise_failure(self) -> None:
        """Raise what stopped a request, if anything did."""
        failure = self._model.failure or self._embedder.failure
        if failure is not None:
            raise failure
