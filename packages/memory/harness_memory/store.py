"""Mem0's own memory of one document, with the models of a run in place of its clients.

    store = MemoryStore(model, encoder, width=384)
    store.add("Ann built the mill.")          -> its model is asked; [Memory("2f..", "Ann built the mill")]
    store.points()                            -> what its vector store holds, for an index
    MemoryStore(...).restore(points)          -> the same memory again
    store.search("Who built it?", 20)         -> [FoundMemory("2f..", "Ann built the mill", 0.71)]

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

_USER_ID = "document"  # Mem0 keeps the memories of users apart; a document here is one user.


class AskModel(Protocol):
    """A function that asks a language model."""

    def __call__(self, system: str, user: str, /) -> str:
        """The reply to a system turn and a user turn."""


@dataclass(frozen=True)
class Memory:
    """A sentence that the model extracted, under the id that the package gave it."""

    id: str
    text: str


@dataclass(frozen=True)
class FoundMemory:
    """A memory that a search found, with the package's score: higher is better."""

    id: str
    text: str
    score: float


@dataclass(frozen=True)
class StoredPoints:
    """The memories of a vector store.

    Attributes:
        ids: The id of each memory.
        payloads: What the package stores of each, as JSON values.
        vectors: The vector of each, float32 [memories, width].
    """

    ids: list[str]
    payloads: list[dict[str, Any]]
    vectors: np.ndarray


@dataclass
class _FailureKeeper:
    """A client in place of one of the package's, which remembers why a request failed.

    Attributes:
        failure: The last error of a request; None before one. The package turns some errors into a
            line of a log and others into errors of its own; MemoryStore raises this one.
    """

    failure: Exception | None = None

    def _ask_keeping_failure(self, ask: Callable[[], Any]) -> Any:
        """The result of a request. An error of it is also stored as `failure`."""
        try:
            return ask()
        except Exception as error:
            self.failure = error
            raise


@dataclass
class _ModelClient(_FailureKeeper):
    """Takes the place of the package's client of a language model."""

    ask_model: AskModel = field(kw_only=True)

    def generate_response(self, messages: Sequence[Mapping[str, str]], **_options: object) -> str:
        """The reply to a system and a user message; options as the form of the reply are not
        passed on."""
        system, user = (message["content"] for message in messages)
        reply: str = self._ask_keeping_failure(lambda: self.ask_model(system, user))
        return reply


@dataclass
class _EmbedderClient(_FailureKeeper):
    """Takes the place of the package's client of an embedding model."""

    encoder: Encoder = field(kw_only=True)

    def embed(self, text: str, memory_action: str = "add") -> list[float]:
        """The vector of a text; memory_action "search" encodes a query."""
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        """The vectors of texts; memory_action "search" encodes queries."""
        kind: Literal["query", "passage"] = "passage"
        if memory_action == "search":
            kind = "query"
        vectors = self._ask_keeping_failure(lambda: self.encoder.encode(list(texts), kind))
        return [[float(value) for value in vector] for vector in vectors]


class MemoryStore:
    """Mem0's memory of one document."""

    def __init__(self, ask_model: AskModel, encoder: Encoder, width: int) -> None:
        """Open an empty memory of the package mem0ai, in RAM, that asks our models: the package's
        own clients are made, as it needs some, and then replaced. Also turns its telemetry off.

        Args:
            ask_model: Asks the model that extracts memories.
            encoder: Encodes memories and questions.
            width: How many numbers a vector of the encoder has.
        """
        os.environ["MEM0_TELEMETRY"] = "False"
        os.environ.setdefault("MEM0_DIR", str(harness_home() / "mem0"))
        from mem0 import Memory as PackageMemory
        from qdrant_client import QdrantClient

        unused_client = {"provider": "openai", "config": {"api_key": "not used"}}
        vector_collection = {
            "client": QdrantClient(":memory:"),
            "collection_name": "memories",
            "embedding_model_dims": width,
        }
        self._memory = PackageMemory.from_config(
            {
                "llm": unused_client,
                "embedder": unused_client,
                "vector_store": {"provider": "qdrant", "config": vector_collection},
                "history_db_path": ":memory:",
            }
        )
        self._model_client = _ModelClient(ask_model=ask_model)
        self._embedder_client = _EmbedderClient(encoder=encoder)
        self._memory.llm = self._model_client
        self._memory.embedding_model = self._embedder_client

    def add(self, text: str) -> list[Memory]:
        """Let the model extract memories from a text, store them, and return those that are new."""
        messages = [{"role": "user", "content": text}]
        reply = self._call_raising_failures(lambda: self._memory.add(messages, user_id=_USER_ID))
        return [Memory(memory["id"], memory["memory"]) for memory in reply["results"]]

    def search(self, question: str, k: int) -> list[FoundMemory]:
        """The k memories that the package finds for a question, best first."""
        user_filter = {"user_id": _USER_ID}
        reply = self._call_raising_failures(
            lambda: self._memory.search(question, filters=user_filter, top_k=k)
        )
        return [
            FoundMemory(memory["id"], memory["memory"], float(memory["score"]))
            for memory in reply["results"]
        ]

    def points(self) -> StoredPoints:
        """All memories of the store with their vectors, to be put into an index."""
        client = self._memory.vector_store.client
        n_points = client.count("memories").count
        stored_points, _ = client.scroll("memories", limit=max(n_points, 1), with_vectors=True)
        return StoredPoints(
            ids=[str(point.id) for point in stored_points],
            payloads=[point.payload for point in stored_points],
            vectors=np.array([point.vector for point in stored_points], dtype=np.float32),
        )

    def restore(self, points: StoredPoints) -> None:
        """Put the memories of another store into this one, which must be empty.

        Args:
            points: What the other store's method `points` gave.
        """
        if not points.ids:
            return
        vectors = [[float(value) for value in vector] for vector in points.vectors]
        self._memory.vector_store.insert(vectors=vectors, ids=points.ids, payloads=points.payloads)

    def _call_raising_failures(self, call: Callable[[], Any]) -> Any:
        """Call a function of the package, and return its result.

        Raises:
            Exception: The error of a request to one of the models inside the call, as it was raised
                there; else what the package raised.
        """
        try:
            result = call()
        except Exception:
            self._raise_failure()
            raise
        self._raise_failure()
        return result

    def _raise_failure(self) -> None:
        """Raise the error of a request to the model or the encoder, if one failed."""
        failure = self._model_client.failure or self._embedder_client.failure
        if failure is not None:
            raise failure
