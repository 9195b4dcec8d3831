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
        """How many tokens the span has."""
        return self.end - self.start

    @property
    def attention(self) -> tuple[float, ...]:
        """The mean attention of these tokens to each watched span; () when nothing was watched.

        Also runs what the session has still queued, as that computes it.
        """
        if self._attention is None and self.session is not None:
            self.session.flush()
        return self._attention or ()


@dataclass(frozen=True)
class Probe:
    """How likely each of a few labels is as the next thing that the model writes.

    Attributes:
        p: Label -> its share of the labels' probabilities, which sums to 1.
        mass: Label -> the probability of its first token among all tokens.
        top: The label whose first token is the likeliest of all tokens, which greedy decoding would
            write; None where that is another token.
    """

    p: dict[str, float]
    mass: dict[str, float]
    top: str | None = None

    @classmethod
    def of(cls, mass: dict[str, float], top: str | None) -> Probe:
        """Make a probe of the probabilities of the labels' first tokens.

            Probe.of({"Yes": 0.3, "No": 0.1}, "Yes").p    -> {"Yes": 0.75, "No": 0.25}

        Where all are 0, each label gets the same share.

        Args:
            mass: Label -> the probability of its first token among all tokens.
            top: The label whose first token is the likeliest of all tokens; None for no label.
        """
        sum_of_probabilities = sum(mass.values())
        if sum_of_probabilities <= 0:
            return cls(dict.fromkeys(mass, 1 / len(mass)), mass, top)
        shares = {label: probability / sum_of_probabilities for label, probability in mass.items()}
        return cls(shares, mass, top)


@dataclass(frozen=True)
class Decoding:
    """How a reply is written.

    Attributes:
        max_tokens: Most tokens.
        stop: The reply ends before the first of these texts.
        temperature: 0 is greedy.
        top_p: Share of probability that a sampled reply is drawn from, the likeliest first.
        seed: Of a sampled reply; None draws as 0 does, but the cache of replies (--cache replies)
            does not hold the reply.
        schema: JSON text of the JSON schema that a server holds the reply to, "" for none; a loaded
            model writes freely.
    """

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    schema: str = ""


@dataclass(frozen=True)
class Sampling:
    """How the replies to one question are drawn where a method leaves them greedy.

    Attributes:
        seed: Of the question; each request draws by it and by its own context, so that no order of
            requests changes a draw.
        temperature: 0 leaves them greedy.
        top_p: Share of probability that a sampled reply is drawn from, the likeliest first.
        max_tokens: Most tokens of any reply; None: as the method says.
    """

    seed: int
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int | None = None

    def applied_to(self, decoding: Decoding, read_context: Callable[[], str]) -> Decoding:
        """A copy of `decoding` that follows this sampling: no more tokens than `max_tokens`, and
        drawn where it was greedy.

        Args:
            decoding: How the method would have the reply written.
            read_context: Gives the request's context as text; called only if the reply is drawn, as
                its seed depends on the context.
        """
        if self.max_tokens:
            decoding = replace(decoding, max_tokens=min(decoding.max_tokens, self.max_tokens))
        stays_greedy = self.temperature == 0
        is_drawn_by_method = decoding.temperature > 0
        if stays_greedy or is_drawn_by_method:
            return decoding
        seed = derived_seed(self.seed, read_context())
        return replace(decoding, temperature=self.temperature, top_p=self.top_p, seed=seed)


@dataclass(frozen=True)
class Written:
    """Text written by the model.

    Attributes:
        text: Without thinking.
        span: Its tokens in the context.
        finish: "stop" (end of turn or a stop string) or "length".
        offsets: The character range (start, end) of each token in `text`.
        attention: [tokens, watched spans]; row i is the mean attention (over heads, layers and the
            watched span's tokens) of token i as a query.
        ending: Whether markers of the end of a turn were cut off the end of the reply
            (harness/llm/endings.py).
        thinking: A reasoning model's, before `text`.
        unclosed: Whether the thinking used up the limit, so that there is no answer.
        refused: Whether a server says that the model refuses to answer.
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
        """What the reply lacks, in one word; "" where it lacks nothing.

        "refused"; "thought" (the limit went into thinking); "empty";
        "unfinished" (cut at its limit).
        """
        if self.refused:
            return "refused"
        if self.unclosed:
            return "thought"
        if not self.text.strip():
            return "empty"
        if self.finish == "length":
            return "unfinished"
        return ""

    def without_thinking(self) -> Written:
        """A copy in which the thinking of a known reasoning model, with its markers, is moved from
        `text` to `thinking`; the reply itself where it has no thinking.

        Offsets, span and attention of the copy are cut to the answer.
        """
        split = split_known_thinking(self.text)
        if not split.thinking:
            return self
        answer_start = len(split.thinking)
        tokens_of_answer = self.tokens_between(answer_start, answer_start + len(split.answer))
        offsets = []
        for token_start, token_end in self.offsets[tokens_of_answer]:
            offsets.append((max(token_start - answer_start, 0), token_end - answer_start))
        first_token = self.span.start + (tokens_of_answer.start or 0)
        attention = None
        if self.attention is not None:
            attention = self.attention[tokens_of_answer]
        return replace(
            self,
            text=split.answer,
            span=Span(first_token, first_token + len(offsets)),
            offsets=tuple(offsets),
            attention=attention,
            thinking=split.thinking,
            unclosed=not split.closed,
        )

    def tokens_between(self, start: int, end: int) -> slice:
        """The tokens that characters [start, end) of the text are in, as a slice of token numbers.

        The slice fits `offsets` and the rows of `attention`; it is empty where no token is there.
        """
        token_numbers = []
        for token_number, (token_start, token_end) in enumerate(self.offsets):
            if token_start < end and token_end > start:
                token_numbers.append(token_number)
        if not token_numbers:
            return slice(0, 0)
        return slice(token_numbers[0], token_numbers[-1] + 1)

    def attention_between(self, start: int, end: int) -> np.ndarray:
        """The mean attention of the tokens in text[start:end] to each watched span; shape (spans,).

        Zeros where no token is there. Raises ValueError if nothing was watched.
        """
        if self.attention is None:
            raise ValueError("nothing was watched while writing")
        attention_of_tokens = self.attention[self.tokens_between(start, end)]
        if not len(attention_of_tokens):
            return np.zeros(self.attention.shape[1])
        mean_over_tokens: np.ndarray = attention_of_tokens.mean(axis=0)
        return mean_over_tokens


class PlainGeneration(Protocol):
    """A reply that a method writes on the transformers model itself (`Session.write_plain`).

    Attributes:
        net: The network, a PreTrainedModel in inference mode; leave it as it was.
        ids: Tokens of the context, the chat template's included.
    """

    net: Any
    ids: tuple[int, ...]

    def read(self, ids: Sequence[int], cache: Any, position: int) -> Any:
        """Run the network on tokens and return the logits of the last one.

        Args:
            ids: The tokens.
            cache: A cache of transformers, which is extended by them.
            position: The position of the first token in the context.

        Returns:
            A float32 tensor [vocab].
        """

    def write(self, row: Any, cache: Any, position: int) -> None:
        """Write the reply up to its end, token by token, as the run's decoding picks them. It is
        kept here; `Session.write_plain` returns it once the method's function ends.

        Args:
            row: The logits of its first token [vocab].
            cache: A cache of transformers, which is extended.
            position: The position of the reply's first token in the context.
        """

    def drop(self, cache: Any, kept: int) -> None:
        """Say that the method has dropped entries of `cache`: costs count
        only `kept` tokens in it from now.
        """

    def rank(self, pairs: int) -> None:
        """Add the cost of `pairs` products of a query and a key in each
        head, beyond those of the passes.
        """
