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
from typing import Any, Literal

import torch
from torch import Tensor

from harness.llm.attention_weights import BLOCK
from harness.llm.capture import WriteCapture
from harness.llm.kv import slot_of
from harness.llm.sampling import Sampler, draw
from harness.models import Decoding


@dataclass
class PassCost:
    """Counts of forward passes (harness.cost.flops.Event has the same fields, by these names).

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
        ids: The token ids of the context; written ones are appended.
        cache: Keys and values of the context.
        n_cached: How many tokens the model has run.
        start: Where the reply begins among `ids`.
        sampler: Picks the tokens.
        decoding: How long the reply may be, and where it stops.
        stop_ids: Ids of tokens that end it.
        decode: Token ids -> their text.
        cost: Counts what is run.
        capture: Measures attention; None for nothing.
        finish: Why the reply ended.
    """

    ids: list[int]
    cache: Any
    n_cached: int
    sampler: Sampler
    decoding: Decoding
    stop_ids: frozenset[int]
    decode: Callable[[Sequence[int]], str]
    cost: PassCost
    capture: WriteCapture | None = None
    finish: Literal["stop", "length"] = "length"

    def __post_init__(self) -> None:
        """Let the reply begin at the end of the context."""
        self.start = len(self.ids)

    def add_token(self, token_id: int) -> bool:
        """Append a token to the reply, unless it ends the reply; returns whether the model must run
        it for a further token, or for its attention."""
        if token_id in self.stop_ids:
            self.finish = "stop"
            return False
        self.ids.append(token_id)
        self.cost.out += 1
        if self._ends_with_stop_string():
            self.finish = "stop"
            return False
        is_measured = self.capture is not None
        return self.wants_more() or is_measured

    def wants_more(self) -> bool:
        """Whether the reply is shorter than it may be."""
        return self.cost.out < self.decoding.max_tokens

    def _ends_with_stop_string(self) -> bool:
        """Whether the newest token completes a stop string."""
        stop_strings = self.decoding.stop
        if not stop_strings:
            return False
        # A token carries at least a part of a character (4 bytes at most).
        max_tokens_of_stop = 4 * max(map(len, stop_strings)) + 4
        recent_start = max(self.start, len(self.ids) - max_tokens_of_stop)
        recent_text = self.decode(self.ids[recent_start:])
        return any(string in recent_text for string in stop_strings)

    def count_run(self) -> bool:
        """Count the newest token as run. Also reduces the measured attention once BLOCK rows wait.

        Returns:
            Whether another token is wanted.
        """
        self.n_cached += 1
        self.cost.new += 1
        self.cost.logits += 1
        self.cost.pairs += slot_of(self.cache).n_tokens
        if self.capture is not None and len(self.capture.waiting_steps) >= BLOCK:
            self.capture.reduce_waiting()
        return self.wants_more()


_UNUSABLE = -1  # in the place of a token id, where the logits are NaN or infinite


def next_tokens(logits: Sequence[Tensor], samplers: Sequence[Sampler]) -> list[int | None]:
    """The id of the next token of each reply, all with one copy to the host; None where its logits
    are NaN or infinite.

    Args:
        logits: The logits of each reply [1, vocab].
        samplers: The sampler of each reply.
    """
    rows = torch.cat(list(logits))
    highest, token_ids = rows.max(-1)  # the highest of a row with a NaN is NaN
    drawn = [n for n, sampler in enumerate(samplers) if not sampler.greedy]
    if drawn:
        token_ids[drawn] = draw(rows[drawn], [samplers[n] for n in drawn])
    token_ids.masked_fill_(highest.isfinite().logical_not(), _UNUSABLE)
    return [_usable(token_id) for token_id in token_ids.tolist()]


def _usable(token_id: int) -> int | None:
    """A token id; None where it stands for logits that cannot be used."""
    if token_id == _UNUSABLE:
        return None
    return token_id
