"""What a session with a language model returns: spans of its context, probabilities, written
text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from harness.stats.rng import derived_seed
from harness.thinking import split_known_thinking


@dataclass(eq=False)
class Span:
    """Tokens [start, end) of a session's context.

    `attention[i]` is the mean attention (over heads, layers and both token sets) of these tokens,
    as queries, to the i-th span of the `watch` list given to `feed`. Reading it runs what is still
    queued (`flush` of `session`).
    """

    start: int
    end: int
    session: Any = field(default=None, repr=False)
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
    """Next-token probabilities by label. `mass`: of the label's first token; `p`: `mass` scaled to
    sum to 1.

    top: the label whose first token is the likeliest of all tokens, which greedy decoding would
    write; None where that is another token.
    """

    p: dict[str, float]
    mass: dict[str, float]
    top: str | None = None

    @classmethod
    def of(cls, mass: dict[str, float], top: str | None) -> Probe:
        """Make a Probe from raw probabilities, label -> probability; where all are 0, each label
        gets the same share."""
        total = sum(mass.values())
        return cls(
            {label: m / total if total > 0 else 1 / len(mass) for label, m in mass.items()},
            mass,
            top,
        )


@dataclass(frozen=True)
class Decoding:
    """How a reply is written: at most `max_tokens` tokens, up to the first of `stop`; temperature 0
    is greedy.

    seed: of a sampled reply; None draws as 0 does, but the cache of replies (--cache replies) does
    not keep the reply. schema: JSON text of the JSON schema that a server holds the reply to, "" for
    none; a loaded model writes freely.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    schema: str = ""


@dataclass(frozen=True)
class Sampling:
    """How the replies to one question are drawn where a method leaves them greedy; max_tokens: of
    any reply.

    seed: of the question; each request draws by it and by its own context, so that no order of
    requests changes a draw.
    """

    seed: int
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int | None = None

    def applied_to(self, decoding: Decoding, context: Callable[[], str]) -> Decoding:
        """`decoding` with `max_tokens`, and sampled if it is greedy; context: returns the request's
        context as text."""
        decoding = replace(
            decoding, max_tokens=min(decoding.max_tokens, self.max_tokens or decoding.max_tokens)
        )
        if not self.temperature or decoding.temperature:
            return decoding
        seed = derived_seed(self.seed, context())
        return replace(decoding, temperature=self.temperature, top_p=self.top_p, seed=seed)


@dataclass(frozen=True)
class Written:
    """Text written by the model.

    offsets[i] = (start, end) character range of token i in `text`; attention has shape [tokens,
    watched spans]: row i is the mean attention (over heads, layers and the watched span's tokens)
    of token i as a query. finish is
    "stop" (end of turn or a stop string) or "length". ending: whether markers of the end of a turn
    were cut off the end of the reply (harness/llm/endings.py). thinking: a reasoning model's, in
    front of `text`; unclosed: it used up the limit, so that there is no answer; refused: a server
    says that the model refuses to answer.
    """

    text: str
    span: Span
    finish: str
    offsets: tuple[tuple[int, int], ...] = ()
    attention: np.ndarray | None = None
    ending: bool = False
    thinking: str = ""
    unclosed: bool = False
    refused: bool = False

    @property
    def problem(self) -> str:
        """What the reply lacks: "refused", "thought" (the limit went into thinking), "empty",
        "unfinished", or ""."""
        text = self.text.strip()
        if self.refused:
            return "refused"
        if self.unclosed:
            return "thought"
        return "empty" if not text else "unfinished" if self.finish == "length" else ""

    def without_thinking(self) -> Written:
        """The reply whose thinking, between the markers of a known model, is moved from `text` to
        `thinking`; itself where it has none."""
        split = split_known_thinking(self.text)
        if not split.thinking:
            return self
        start, end = len(split.thinking), len(split.thinking) + len(split.answer)
        kept = self.tokens_between(start, end)
        offsets = tuple((max(a - start, 0), b - start) for a, b in self.offsets[kept])
        first = self.span.start + (kept.start or 0)
        return replace(
            self,
            text=split.answer,
            span=Span(first, first + len(offsets)),
            offsets=offsets,
            attention=None if self.attention is None else self.attention[kept],
            thinking=split.thinking,
            unclosed=not split.closed,
        )

    def tokens_between(self, start: int, end: int) -> slice:
        """The tokens of characters [start, end) of the text, as a slice of `offsets` and of the
        rows of `attention`."""
        rows = [i for i, (a, b) in enumerate(self.offsets) if a < end and b > start]
        return slice(rows[0], rows[-1] + 1) if rows else slice(0, 0)

    def attention_between(self, start: int, end: int) -> np.ndarray:
        """Mean attention of the tokens of text[start:end], shape [watched spans]. ValueError if
        none was watched."""
        if self.attention is None:
            raise ValueError("nothing was watched while writing")
        rows = self.attention[self.tokens_between(start, end)]
        return rows.mean(axis=0) if len(rows) else np.zeros(self.attention.shape[1])


class PlainGeneration(Protocol):
    """A reply that a method writes on the transformers model itself (`Session.write_plain`).

    Attributes:
        net: The network, a PreTrainedModel in inference mode; leave it as it was.
        ids: Tokens of the context, the chat template's included.
    """

    net: Any
    ids: tuple[int, ...]

    def read(self, ids: Sequence[int], cache: Any, position: int) -> Any:
        """Run tokens and return the logits of the last one.

        Args:
            ids: Tokens.
            cache: A cache of transformers, which is extended.
            position: Of the first of them.

        Returns:
            A float32 tensor [vocab].
        """

    def write(self, row: Any, cache: Any, position: int) -> None:
        """Write the reply up to its end.

        Args:
            row: The logits of its first token [vocab].
            cache: A cache of transformers, which is extended.
            position: Of the first token of the reply.
        """

    def drop(self, cache: Any, kept: int) -> None:
        """From now on count only `kept` tokens of what `cache` holds."""

    def rank(self, pairs: int) -> None:
        """Count so many products of a query and a key, of each head, beside those of the passes."""
