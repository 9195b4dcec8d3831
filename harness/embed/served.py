"""Encoders and rerankers behind a server: POST /embeddings as OpenAI has it, POST /rerank as
text-embeddings-inference.

    encoder.base_url=http://127.0.0.1:8080/v1     {"model", "input": [...]} -> {"data": [{"index", "embedding"}, ...]}
    reranker.base_url=http://127.0.0.1:8081       {"query", "texts": [...]} -> [{"index", "score"}, ...]

Texts go in batches of `batch_size`, whole: one that is too long for the server fails its question.
Tokens are the server's counts (`usage`), else estimates (`Event.recounted`).
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from harness.config.schema import EncoderConfig
from harness.cost.flops import Event, Kind, ModelShape
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts, model_of_server
from harness.errors import CannotRun, ModelOutputError
from harness.llm.endpoint_http import RetryPolicy, Server, Tries
from harness.llm.endpoint_info import api_key
from harness.llm.endpoint_tokens import EstimatedTokens
from harness.parallel.scheduler import timed

# Most bytes of a reply around its vectors, and of one vector.
_FRAME = 1 << 20
_VECTOR = 1 << 18


@functools.cache
def _server(config: EncoderConfig, role: str) -> Server:
    """The server of `config`, looked for once a process. Raises CannotRun where none answers."""
    model = model_of_server(config)
    policy = RetryPolicy(config.timeout, config.retries)
    server = Server(str(config.base_url), api_key(model), policy, config.api_key_env, role)
    server.check_alive()
    return server


def _counted_tokens(reply: Any, estimate: int) -> int | None:
    """The tokens that a server says it read; None where it says none, or an impossible number."""
    if not isinstance(reply, dict):
        return None
    counted = (reply.get("usage") or {}).get("prompt_tokens")
    if isinstance(counted, int) and 0 < counted < 64 * (estimate + 64):
        return counted
    return None


def _place(row: dict[str, Any]) -> int:
    """The number of the text that a result belongs to."""
    place: int = row["index"]
    return place


class _Served:
    """What encoders and rerankers behind a server share.

    Args:
        config: Its address, model and batch size.
        meter: Records what its requests cost.
        role: "encoder" or "reranker", in records and messages.
    """

    def __init__(self, config: EncoderConfig, meter: Meter, role: str) -> None:
        facts = encoder_facts(config, role)
        if facts.problems:
            raise CannotRun(facts.problems[0])
        self.name = config.name
        self.identity = facts.identity
        self._config = config
        self._meter = meter
        self._role = role
        self._server = _server(config, role)
        self._shape: ModelShape | None = None
        if config.shape is not None:
            self._shape = ModelShape(**config.shape.model_dump())

    def _ask(
        self,
        kind: Kind,
        path: str,
        body: dict[str, Any],
        texts: Sequence[str],
        check: Callable[[Any], str | None],
    ) -> Any:
        """Send a batch of texts, and record what the request cost.

        Args:
            kind: "embed" or "rerank", as the cost is recorded.
            path: "/embeddings" or "/rerank".
            body: The request, which has the texts.
            texts: The batch, for counting tokens where the server does not say them.
            check: Gives the problem of a parsed reply that cannot be used, None for a good one.

        Returns:
            The parsed reply.

        Raises:
            RequestFailed: No try gave a reply that can be used; what the tries cost is recorded.
        """
        tries = Tries()
        reply: Any = None
        estimator = EstimatedTokens()
        sizes = [estimator.count(text) for text in texts]
        estimate = sum(sizes)
        with timed() as took:
            try:
                reply = self._server.post(path, body, check, _FRAME + _VECTOR * len(texts), tries)
            finally:
                unanswered = tries.sent - int(reply is not None)
                if unanswered:
                    self._book(kind, unanswered * estimate, answered=False)
        counted = _counted_tokens(reply, estimate)
        n_tokens = counted
        if n_tokens is None:
            n_tokens = estimate
        self._book(
            kind,
            n_tokens,
            # A token attends to every token of its own text, so a text has size * size pairs.
            pairs=sum(size * size for size in sizes),
            # The last layer (an encoder's pooler, a reranker's head) runs once for each text.
            logits=len(texts),
            requests=1,
            texts=len(texts),
            retries=tries.retries,
            recounted=int(counted is None),
            **vars(took),
        )
        return reply

    def _book(self, kind: Kind, new: int, **counts: Any) -> None:
        """Record the cost of a request; new: its tokens; counts: other fields of an Event."""
        event = Event(
            self._role, self.name, self._meter.current_phase, kind, new, billed=0, **counts
        )
        self._meter.record(event, self._shape)

    def _batches(self, texts: Sequence[str]) -> list[Sequence[str]]:
        size = self._config.batch_size
        return [texts[at : at + size] for at in range(0, len(texts), size)]


class ServedEncoder(_Served):
    """An encoder behind a server; what `tools.encoder()` returns."""

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Vectors [len(texts), width], float32, normalised for cosine. Raises RequestFailed,
        ModelOutputError."""
        prefix = self._config.passage_prefix
        if kind == "query":
            prefix = self._config.query_prefix
        rows: list[list[float]] = []
        for batch in self._batches([prefix + text for text in texts]):
            body = {"model": self._config.source, "input": list(batch), "encoding_format": "float"}
            check = functools.partial(_vectors_problem, len(batch))
            reply = self._ask("embed", "/embeddings", body, batch, check)
            rows += [row["embedding"] for row in sorted(reply["data"], key=_place)]
        if len(set(map(len, rows))) > 1:
            raise ModelOutputError(f"encoder '{self.name}' gave vectors of several widths")
        width = 0
        if rows:
            width = len(rows[0])
        vectors = np.asarray(rows, dtype=np.float32).reshape(len(rows), width)
        if self._config.similarity == "cosine":
            vectors /= np.maximum(
                np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny
            )
        return vectors

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Scores [passages] of vectors from `encode`; those for cosine have length 1, so both are
        dot products."""
        if len(passages):
            return np.asarray(passages @ query)
        return np.zeros(0, dtype=np.float32)


class ServedReranker(_Served):
    """A reranker behind a server; what `tools.reranker()` returns."""

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Raw logit of each (query, passage) pair, [passages], higher is better. Raises
        RequestFailed."""
        question, prefix = self._config.query_prefix + query, self._config.passage_prefix
        scores: list[float] = []
        for batch in self._batches([prefix + passage for passage in passages]):
            body = {"query": question, "texts": list(batch), "raw_scores": True}
            check = functools.partial(_scores_problem, len(batch))
            reply = self._ask("rerank", "/rerank", body, [question + text for text in batch], check)
            scores += [row["score"] for row in sorted(reply, key=_place)]
        return np.asarray(scores, dtype=np.float32)


def _rows_problem(rows: Any, count: int) -> str | None:
    """Why `rows` of a reply are not one for each of `count` texts, by "index"; None where they
    are."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return "the reply is no list of results"
    if sorted(str(row.get("index")) for row in rows) != sorted(map(str, range(count))):
        return f"the reply has not one result for each of {count} texts"
    return None


def _vectors_problem(count: int, reply: Any) -> str | None:
    """Why a parsed reply of /embeddings cannot be used, None for one that can."""
    rows: Any = None
    if isinstance(reply, dict):
        rows = reply.get("data")
    problem = _rows_problem(rows, count)
    if problem:
        return problem
    if all(map(_has_vector, rows)):
        return None
    return "the reply has an embedding that is no list of numbers"


def _has_vector(row: dict[str, Any]) -> bool:
    """Whether a result has an embedding: a list of numbers that is not empty."""
    vector = row.get("embedding")
    return isinstance(vector, list) and bool(vector) and all(map(_is_finite, vector))


def _scores_problem(count: int, reply: Any) -> str | None:
    """Why a parsed reply of /rerank cannot be used, None for one that can."""
    problem = _rows_problem(reply, count)
    if problem:
        return problem
    if all(_is_finite(row.get("score")) for row in reply):
        return None
    return "the reply has a score that is no number"


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
