"""Encoders and rerankers behind a server: POST /embeddings as OpenAI has it, POST /rerank as
text-embeddings-inference.

    encoder.base_url=http://127.0.0.1:8080/v1     {"model", "input": [...]} -> {"data": [{"index", "embedding"}, ...]}
    reranker.base_url=http://127.0.0.1:8081       {"query", "texts": [...]} -> [{"index", "score"}, ...]

Texts go in batches of `batch_size`, whole: one that is too long for the server fails its question.
Tokens are the server's counts (`usage`), else estimates (`Event.recounted`).
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeGuard, TypeVar

import numpy as np

from harness.config.schema import EncoderConfig
from harness.cost.flops import Event, EventKind, ModelShape
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts, model_of_server
from harness.errors import CannotRun, ModelOutputError
from harness.llm.endpoint_http import RetryPolicy, Server, Tries, UnusableReply, timed_tries
from harness.llm.endpoint_info import api_key
from harness.llm.endpoint_tokens import EstimatedTokens
from harness.parallel.scheduler import Took

T = TypeVar("T")

# Most bytes of a reply around its vectors, and of one vector.
_FRAME_BYTES = 1 << 20
_VECTOR_BYTES = 1 << 18
_NO_LIST = "the reply is no list of results"


@functools.cache
def _checked_server(config: EncoderConfig, role: str) -> Server:
    """The server of an encoder or reranker; it is asked, once a process, whether it answers.

    Args:
        config: Its address, key and rules for repeated tries.
        role: "encoder" or "reranker", for messages.

    Raises:
        CannotRun: Nobody answers.
    """
    model = model_of_server(config)
    policy = RetryPolicy(config.timeout, config.retries)
    server = Server(
        base_url=str(config.base_url),
        key=api_key(model),
        policy=policy,
        key_env=config.api_key_env,
        part=role,
    )
    server.check_alive()
    return server


@dataclass(frozen=True)
class _Results(Generic[T]):
    """A reply: a result for each text of a batch, in the order of the texts.

    Attributes:
        results: The results.
        said_tokens: Tokens read, as the server counts them; None where it does not say.
    """

    results: list[T]
    said_tokens: int | None

    def said_tokens_if_plausible(self, estimated_tokens: int) -> int | None:
        """The server's count of tokens; None where it says none, or an impossible number: 0, or
        more than 64 times our estimate, to which 64 are added for short texts.

        Args:
            estimated_tokens: The estimated number.
        """
        if self.said_tokens is None:
            return None
        if not 0 < self.said_tokens < 64 * (estimated_tokens + 64):
            return None
        return self.said_tokens


class _Served:
    """What encoders and rerankers behind a server share."""

    def __init__(self, config: EncoderConfig, meter: Meter, role: str) -> None:
        """Keep the server of an encoder or reranker; also look whether it answers.

        Args:
            config: Its address, model and batch size.
            meter: Records what its requests cost.
            role: "encoder" or "reranker", in records and messages.

        Raises:
            CannotRun: The settings are wrong, or nobody answers.
        """
        facts = encoder_facts(config, role)
        if facts.problems:
            raise CannotRun(facts.problems[0])
        self.name = config.name
        self.identity = facts.identity
        self._config = config
        self._meter = meter
        self._role = role
        self._server = _checked_server(config, role)
        self._shape: ModelShape | None = None
        if config.shape is not None:
            self._shape = ModelShape(**config.shape.model_dump())

    def _ask(
        self,
        kind: EventKind,
        path: str,
        body: Mapping[str, object],
        texts: Sequence[str],
        read: Callable[[object], _Results[T]],
    ) -> list[T]:
        """Send a batch of texts, and record what the request cost.

        Args:
            kind: "embed" or "rerank", as the cost is recorded.
            path: "/embeddings" or "/rerank".
            body: The request, which has the texts.
            texts: The batch, for counting tokens where the server does not say them.
            read: Reads a parsed reply. Raises UnusableReply.

        Returns:
            The result of each text.

        Raises:
            RequestFailed: No try gave a reply that can be used; what the tries cost is recorded.
        """
        # The meter gets two entries: the tries without a usable reply, and the reply.
        tries = Tries()  # `post` counts in it what it sends
        reply: _Results[T] | None = None
        lengths = list(map(EstimatedTokens().count, texts))
        estimated_tokens = sum(lengths)
        max_bytes = _FRAME_BYTES + _VECTOR_BYTES * len(texts)
        with timed_tries(tries) as took:  # its times are known once the block ends
            try:
                reply = self._server.post(path, body, read, max_bytes, tries)
            finally:
                n_unanswered = tries.sent - int(reply is not None)
                if n_unanswered:
                    self._book(kind, n_unanswered * estimated_tokens, answered=False)
        said_tokens = reply.said_tokens_if_plausible(estimated_tokens)
        self._book_reply(kind, said_tokens, lengths, took, tries.retries)
        return reply.results

    def _book_reply(
        self,
        kind: EventKind,
        said_tokens: int | None,
        lengths: Sequence[int],
        took: Took,
        retries: int,
    ) -> None:
        """Record in the meter what a request that was answered cost.

        Args:
            kind: "embed" or "rerank".
            said_tokens: Its tokens as the server counts them; None where the estimate counts.
            lengths: The estimated number of tokens of each text.
            took: Its time.
            retries: How often it was sent again.
        """
        n_tokens = said_tokens
        if n_tokens is None:
            n_tokens = sum(lengths)
        self._book(
            kind,
            n_tokens,
            # A token attends to every token of its own text.
            pairs=sum(length * length for length in lengths),
            # The last layer (an encoder's pooler, a reranker's head) runs once for each text.
            logits=len(lengths),
            requests=1,
            texts=len(lengths),
            retries=retries,
            recounted=int(said_tokens is None),
            seconds=took.seconds,
            queued=took.queued,
        )

    def _book(self, kind: EventKind, n_tokens: int, **counts: Any) -> None:
        """Record the cost of a request in the meter, under its present phase.

        Args:
            kind: "embed" or "rerank".
            n_tokens: The number of tokens that were read.
            **counts: Other fields of the Event.
        """
        event = Event(
            role=self._role,
            model=self.name,
            phase=self._meter.current_phase,
            kind=kind,
            new=n_tokens,
            billed=0,  # tokens that were written
            **counts,
        )
        self._meter.record(event, self._shape)

    def _batches(self, texts: Sequence[str]) -> list[Sequence[str]]:
        """The texts in batches of the configured size, in order."""
        size = self._config.batch_size
        return [texts[start : start + size] for start in range(0, len(texts), size)]


class ServedEncoder(_Served):
    """An encoder behind a server; what `tools.encoder()` returns."""

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Have the server encode texts, in batches of the configured size, and record what each
        batch cost in the meter.

        Args:
            texts: Without prefixes, which are added here.
            kind: "query" or "passage", which may have a prefix of their own.

        Returns:
            Vectors [len(texts), width], float32; of length 1 where they are compared by cosine.

        Raises:
            RequestFailed: The server gave no usable reply.
            ModelOutputError: Its vectors differ in width.
        """
        prefix = self._config.passage_prefix
        if kind == "query":
            prefix = self._config.query_prefix
        rows: list[list[float]] = []
        for batch in self._batches([prefix + text for text in texts]):
            body = {"model": self._config.source, "input": list(batch), "encoding_format": "float"}
            read = functools.partial(_read_vectors, len(batch))
            rows += self._ask("embed", "/embeddings", body, batch, read)
        if len(set(map(len, rows))) > 1:
            raise ModelOutputError(f"encoder '{self.name}' gave vectors of several widths")
        width = 0
        if rows:
            width = len(rows[0])
        vectors = np.asarray(rows, dtype=np.float32).reshape(len(rows), width)
        if self._config.similarity == "cosine":
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.maximum(norms, np.finfo(np.float32).tiny)  # zeros stay zeros
        return vectors

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Score passages by the dot product with the query, which is the cosine for vectors of
        length 1.

        Args:
            query: The vector of the question [width], from `encode`.
            passages: The vectors of the passages [passages, width].

        Returns:
            Scores [passages].
        """
        if len(passages):
            return np.asarray(passages @ query)
        return np.zeros(0, dtype=np.float32)  # the width of no vectors is unknown: 0


class ServedReranker(_Served):
    """A reranker behind a server; what `tools.reranker()` returns."""

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Have the server score passages for a question, in batches of the configured size, and
        record what each batch cost in the meter.

        Args:
            query: The question, without its prefix.
            passages: The passages, without their prefix.

        Returns:
            The raw logit of each pair of question and passage, [passages]; higher is better.

        Raises:
            RequestFailed: The server gave no usable reply.
        """
        question = self._config.query_prefix + query
        prefix = self._config.passage_prefix
        scores: list[float] = []
        for batch in self._batches([prefix + passage for passage in passages]):
            body = {"query": question, "texts": list(batch), "raw_scores": True}
            read = functools.partial(_read_scores, len(batch))
            pair_texts = [question + text for text in batch]
            scores += self._ask("rerank", "/rerank", body, pair_texts, read)
        return np.asarray(scores, dtype=np.float32)


def _read_vectors(n_texts: int, reply: object) -> _Results[list[float]]:
    """Read a reply of /embeddings: the vector of each text, and the server's count of tokens.

    {"data": [{"index": 0, "embedding": [0.1, 0.2]}], "usage": {"prompt_tokens": 3}}
    -> _Results([[0.1, 0.2]], 3)

    Args:
        n_texts: The number of texts that were sent.
        reply: The parsed reply.

    Raises:
        UnusableReply: It is of another form, or has not one vector for each text.
    """
    if not isinstance(reply, dict):
        raise UnusableReply(_NO_LIST)
    rows = _rows_in_order(reply.get("data"), n_texts)
    usage = reply.get("usage")
    said_tokens = None
    if isinstance(usage, dict):
        said_tokens = usage.get("prompt_tokens")
    if not isinstance(said_tokens, int):
        said_tokens = None
    return _Results(list(map(_vector_in, rows)), said_tokens)


def _vector_in(row: Mapping[str, object]) -> list[float]:
    """The "embedding" of one result, a list of numbers that is not empty. Raises UnusableReply."""
    vector = row.get("embedding")
    if not isinstance(vector, list) or not vector or not all(map(_is_finite, vector)):
        raise UnusableReply("the reply has an embedding that is no list of numbers")
    return vector


def _read_scores(n_texts: int, reply: object) -> _Results[float]:
    """Read a reply of /rerank: the score of each text.

    [{"index": 1, "score": 0.2}, {"index": 0, "score": 7.5}] -> _Results([7.5, 0.2], None)

    Args:
        n_texts: The number of texts that were sent.
        reply: The parsed reply.

    Raises:
        UnusableReply: It is of another form, or has not one score for each text.
    """
    scores: list[float] = []
    for row in _rows_in_order(reply, n_texts):
        score = row.get("score")
        if not _is_finite(score):
            raise UnusableReply("the reply has a score that is no number")
        scores.append(score)
    return _Results(scores, said_tokens=None)  # the reply has no count of tokens


def _rows_in_order(rows: object, n_texts: int) -> list[Mapping[str, object]]:
    """The results of a reply in the order of their "index", which is that of the texts.

    [{"index": 1, "score": 0.2}, {"index": "0", "score": 7.5}], 2 -> the second, the first

    Args:
        rows: The list of results, objects with an "index", a number or its text.
        n_texts: The number of texts that were sent.

    Raises:
        UnusableReply: They are no list of objects, or not one for each text.
    """
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnusableReply(_NO_LIST)
    by_index = {str(row.get("index")): row for row in rows}
    wanted = [str(index) for index in range(n_texts)]
    is_complete = all(index in by_index for index in wanted)
    if len(rows) != n_texts or not is_complete:
        raise UnusableReply(f"the reply has not one result for each of {n_texts} texts")
    return [by_index[index] for index in wanted]


def _is_finite(value: object) -> TypeGuard[float]:
    """Whether a value is a number, neither NaN nor infinite; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
