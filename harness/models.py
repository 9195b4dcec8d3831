"""Interfaces of language models, sentence encoders and rerankers.

A session is one growing context; every token goes through the model once.

    s = llm.session()
    s.system("You are brief.")          a system turn, at the beginning only
    s.user("Question: ")                open a user turn
    q = s.feed(question.text)           -> Span; run lazily, together with what follows
    v = s.feed(node, watch=[q])         -> Span; v.attention[0] = mean attention of its tokens to q
    p = s.probe(["Yes", "No"])          next-token probabilities as if the turn ended here; context unchanged
    s.reply("Yes"); s.user("Now ...")   what the model is taken to have said; the next turn
    a = s.write(max_tokens=32)          -> Written: text, span, per-token attention to watched spans
    s.score("text")                     log-probability of each token of text in this context; context unchanged
    with s.branch(): ...                rolled back afterwards
    s.room(); s.close()

Methods see only this file's interface. The back ends are in harness/llm; encoders and rerankers in harness/embed.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np

from harness.errors import CannotRun

if TYPE_CHECKING:
    from harness.cost.flops import ModelShape
    from harness.cost.meter import Meter


CAPABILITIES = ("attention", "probe", "score", "adapters", "sampling")


@dataclass(eq=False)
class Span:
    """Tokens [start, end) of a session's context.

    `attention[i]` is the mean attention (over heads, layers and both token sets) of these tokens, as queries, to the
    i-th span of the `watch` list given to `feed`. Reading it runs what is still queued.
    """

    start: int
    end: int
    session: Session | None = field(default=None, repr=False)
    _attention: tuple[float, ...] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def attention(self) -> tuple[float, ...]:
        """Mean attention to each watched span; () when nothing was watched."""
        if self._attention is None and self.session is not None:
            self.session.flush()
        return self._attention or ()


@dataclass(frozen=True)
class Probe:
    """Next-token probabilities of some labels. `p` sums to 1 over the labels; `mass` is the raw probability.

    top: the label whose first token is the likeliest of all tokens, which greedy decoding would write; None where
    that is another token.
    """

    p: dict[str, float]
    mass: dict[str, float]
    top: str | None = None


@dataclass(frozen=True)
class Written:
    """Text written by the model.

    offsets[i] = (start, end) character range of token i in `text`; attention has shape [tokens, watched spans]: row
    i is the mean attention (over heads, layers and the watched span's tokens) of token i as a query. finish is
    "stop" (end of turn or a stop string) or "length". ending: whether markers of the end of a turn were cut off the end
    of the reply (harness/llm/endings.py).
    """

    text: str
    span: Span
    finish: str
    offsets: tuple[tuple[int, int], ...] = ()
    attention: np.ndarray | None = None
    ending: bool = False

    def tokens_between(self, start: int, end: int) -> slice:
        """The tokens that carry characters [start, end) of the text, as a slice of `offsets` and `attention` rows."""
        rows = [i for i, (a, b) in enumerate(self.offsets) if a < end and b > start]
        return slice(rows[0], rows[-1] + 1) if rows else slice(0, 0)

    def attention_between(self, start: int, end: int) -> np.ndarray:
        """Mean attention of the tokens of text[start:end] to each watched span, shape [watched spans]."""
        if self.attention is None:
            raise ValueError("nothing was watched while writing")
        rows = self.attention[self.tokens_between(start, end)]
        return rows.mean(axis=0) if len(rows) else np.zeros(self.attention.shape[1])


class Session(abc.ABC):
    """One growing context; see the module's docstring. Used as a context manager it closes itself."""

    def begin_text(self) -> None:  # noqa: B027 - most back ends have nothing to do
        """Before the first turn: begin with the token that parts texts (BOS, else EOS) where nothing else does."""

    def system(self, text: str) -> Span:
        """Begin the context with a system turn of `text`. Raises CannotRun where the model takes none."""
        raise CannotRun("this model takes no system turn; use prompts without one")

    @abc.abstractmethod
    def user(self, text: str = "") -> Span:
        """Open a user turn and put `text` in it."""

    @abc.abstractmethod
    def feed(self, text: str, watch: Sequence[Span] = ()) -> Span:
        """Append `text` to the open turn, encoded on its own; markers of the chat template in it stay plain text.

        Raises WindowExceeded when it does not fit, ForgedTurn for a marker that has no other tokens.
        """

    @abc.abstractmethod
    def flush(self) -> None:
        """Run what is queued."""

    @abc.abstractmethod
    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        """Next-token probabilities of `labels` as if the user turn ended here and the reply began with `after`.

        Raises ValueError when two labels share their first token.
        """

    @abc.abstractmethod
    def reply(self, text: str) -> Span:
        """Close the user turn and put `text` into the context as the model's reply."""

    @abc.abstractmethod
    def write(
        self,
        max_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        watch: Sequence[Span] = (),
        begin: str = "",
    ) -> Written:
        """Let the model reply, at most `max_tokens` tokens; `begin` is put into its mouth first (not returned)."""

    @abc.abstractmethod
    def score(self, text: str) -> list[float]:
        """Log-probability (nats) of each token of `text` in this context; the context is unchanged."""

    @abc.abstractmethod
    def branch(self) -> AbstractContextManager[None]:
        """Everything inside is rolled back afterwards."""

    @abc.abstractmethod
    def length(self) -> int:
        """Tokens in the context, queued ones included."""

    @abc.abstractmethod
    def room(self) -> int:
        """Tokens left in the window."""

    @abc.abstractmethod
    def close(self) -> None:
        """Free the context."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class ModelFacts:
    """name as in tables; identity: all that changes the output; problems: sentences that forbid the run.

    refusals: capability -> why this model lacks it, a sentence without its full stop, where there is more to say.
    """

    name: str
    capabilities: frozenset[str] = frozenset()
    window: int = 0
    identity: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)


class LanguageModel(abc.ABC):
    """A model with its tokenizer.

    name: as in tables; capabilities: subset of CAPABILITIES; window: tokens of context, output included;
    shape: for FLOPs, None where unknown; identity: everything that changes its output (weights hash or revision,
    dtype, attention kernel, tokenizer hash, template hash), for cache keys and the manifest; first_prompts:
    role -> {"text", "ids"} of the first context it ran since loading, where the back end knows it.
    """

    name: str
    capabilities: frozenset[str]
    window: int
    shape: ModelShape | None
    identity: dict[str, Any]
    first_prompts: dict[str, dict[str, Any]]

    @abc.abstractmethod
    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> Session:
        """Open an empty context; what it costs goes to `meter` under `role`."""

    @abc.abstractmethod
    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`, encoded on its own without special tokens."""

    @abc.abstractmethod
    def turn_tokens(self) -> int:
        """Tokens that the chat template adds for one user turn and the head of its reply, BOS included."""

    def system_tokens(self, text: str) -> int:
        """Tokens that a system turn of `text` adds to those of `turn_tokens`. Raises CannotRun as Session.system."""
        return self.count(text)

    def count(self, text: str) -> int:
        """Number of tokens of `text`, encoded on its own without special tokens."""
        return len(self.offsets(text))


class MeteredModel:
    """A LanguageModel bound to one meter and role: what `tools.model(role)` returns."""

    def __init__(self, model: LanguageModel, meter: Meter, role: str, adapter: str | None = None) -> None:
        self._model, self._meter, self.role, self._adapter = model, meter, role, adapter
        self.name, self.window, self.identity = model.name, model.window, model.identity
        self.capabilities, self.shape = model.capabilities, model.shape

    def session(self, adapter: str | None = None) -> Session:
        """Open a metered session."""
        return self._model.session(self._meter, self.role, adapter or self._adapter)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """As LanguageModel.offsets."""
        return self._model.offsets(text)

    def count(self, text: str) -> int:
        """As LanguageModel.count."""
        return self._model.count(text)

    def turn_tokens(self) -> int:
        """As LanguageModel.turn_tokens."""
        return self._model.turn_tokens()

    def system_tokens(self, text: str) -> int:
        """As LanguageModel.system_tokens."""
        return self._model.system_tokens(text)


class Encoder(Protocol):
    """A sentence encoder bound to a meter: what `tools.encoder()` returns.

    name: as in tables; identity: everything that changes its vectors, for cache keys and the manifest.
    """

    name: str
    identity: dict[str, Any]

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Vectors of shape [len(texts), width], float32; `kind` picks prefix and length limit."""

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Scores of shape [passages]: cosine or dot product, as the encoder's config says."""


class Reranker(Protocol):
    """A cross-encoder bound to a meter: what `tools.reranker()` returns."""

    name: str
    identity: dict[str, Any]

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Scores of shape [passages], higher is better."""
