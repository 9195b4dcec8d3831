"""A reply while it is written: token by token, in the thread of the batches, beside the replies of
other questions.

    session's thread     reads the prompt, picks the first token ──► waits ...................... ◄── reply is complete
    thread of batches    run(1 token of each reply) ──► next token of all replies at once ──► run ──► ...

A thread is woken once a reply: woken for every token, 64 of them took 58 % of the interpreter's
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.llm.attention_weights import BLOCK
from harness.llm.capture import WriteCapture
from harness.llm.kv import slot_of
from harness.llm.sampling import Sampler, draw
from harness.models import Decoding


@dataclass
class PassCost:
    """Counts of forward passes (harness.cost.flops.Event has the same fields).

    Attributes:
        new: Tokens that the model ran.
        logits: Rows of logits that were computed.
        pairs: (query, key) pairs of attention.
        ranking_pairs: Those that were multiplied a second time, to rank tokens.
        out: Tokens that were written.
        endings: Replies whose end markers were cut off.
        thinking: Written tokens that are thinking.
        unclosed: Replies whose thinking did not end.
    """

    new: int = 0
    logits: int = 0
    pairs: int = 0
    ranking_pairs: int = 0
    out: int = 0
    endings: int = 0
    thinking: int = 0
    unclosed: int = 0

    def add(self, other: PassCost) -> None:
        """Add the counts of other passes to these."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)


@dataclass
class Writing:
    """The state of one reply.

    Attributes:
        ids: The tokens of the context; written ones are appended.
        cache: Keys and values of the context.
        cached: How many tokens the model has run.
        start: Where the reply begins.
        sampler: Picks the tokens.
        decoding: How long the reply may be, and where it stops.
        stop_ids: Tokens that end it.
        text: Token ids -> their text.
        cost: Counts what is run.
        capture: Measures attention; None for nothing.
        finish: Why the reply ended: "stop" or "length".
    """

    ids: list[int]
    cache: Any
    cached: int
    sampler: Sampler
    decoding: Decoding
    stop_ids: frozenset[int]
    text: Callable[[Sequence[int]], str]
    cost: PassCost
    capture: WriteCapture | None = None
    finish: str = "length"

    def __post_init__(self) -> None:
        """Let the reply begin at the end of the context."""
        self.start = len(self.ids)

    def takes(self, token: int) -> bool:
        """Append a token to the reply, unless it ends the reply; returns whether the model must run
        it for a further token, or for its attention."""
        if token in self.stop_ids:
            self.finish = "stop"
            return False
        self.ids.append(token)
        self.cost.out += 1
        if self._ends_with_stop_string():
            self.finish = "stop"
            return False
        return self.cost.out < self.decoding.max_tokens or self.capture is not None

    def _ends_with_stop_string(self) -> bool:
        """Whether the newest token completes a stop string."""
        stop = self.decoding.stop
        if not stop:
            return False
        # A token carries at least a part of a character (4 bytes at most).
        longest = max(map(len, stop))
        recent_start = max(self.start, len(self.ids) - 4 * longest - 4)
        recent = self.text(self.ids[recent_start:])
        return any(string in recent for string in stop)

    def ran(self) -> bool:
        """Count the newest token as run. Also reduces the measured attention once BLOCK rows wait.

        Returns:
            Whether another token is wanted.
        """
        self.cached += 1
        self.cost.new += 1
        self.cost.logits += 1
        self.cost.pairs += slot_of(self.cache).n_tokens
        if self.capture is not None and len(self.capture.steps) >= BLOCK:
            self.capture.reduce()
        return self.cost.out < self.decoding.max_tokens


def next_tokens(rows: Sequence[Tensor], samplers: Sequence[Sampler]) -> list[int | None]:
    """The next token of each reply, all with one copy to the host; None where its logits are NaN or
    infinite.

    Args:
        rows: The logits of each reply [1, vocab].
        samplers: The sampler of each reply.
    """
    together = torch.cat(list(rows))
    highest, tokens = together.max(-1)  # the highest of a row with a NaN is NaN
    drawn = [n for n, sampler in enumerate(samplers) if not sampler.greedy]
    if drawn:
        tokens[drawn] = draw(together[drawn], [samplers[n] for n in drawn])
    tokens.masked_fill_(highest.isfinite().logical_not(), -1)
    return [_picked(token) for token in tokens.tolist()]


def _picked(token: int) -> int | None:
    """A token id; None for -1, which stands for logits that cannot be used."""
    if token >= 0:
        return token
    return None
