"""Forward passes of one context: what each gave and cost, and the transaction that books them.

with Transaction(session, "prefill") as passes:
    rows = passes.run(ids, logits=1)          a pass; its cost is added
────► one event of the meter; after an error the cache is rolled back, and what ran is booked
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from torch import Tensor

from harness.cost.flops import EventKind
from harness.llm.batched_forward import ForwardRequest
from harness.llm.capture import Capture, HeadCapture
from harness.llm.hf_context import Context
from harness.llm.kv import rewind
from harness.llm.writing import PassCost
from harness.parallel.scheduler import Took, timed


@dataclass(frozen=True)
class Booking:
    """One event of a transaction.

    Attributes:
        kind: The kind of the event.
        cached: Tokens in the cache before its passes.
        cost: The cost of its passes.
        share: Its share of the transaction's time, 0 to 1.
        requests: Requests to the model.
    """

    kind: EventKind
    cached: int
    cost: PassCost
    share: float = 1.0
    requests: int = 0


class Transaction(AbstractContextManager["Transaction"]):
    """Passes over one context that are booked together.

    After an error, an interrupt too, the cache is rolled back to what the session had run, since
    some pieces may have been read or copied; what ran is booked nevertheless.

    Attributes:
        cost: The cost of the passes so far.
    """

    def __init__(
        self,
        session: Context,
        kind: EventKind,
        requests: int = 0,
        closing: int = 0,
        is_booked: bool = True,
    ) -> None:
        """Begin at the end of the session's cache; the clock starts with the `with` block.

        Args:
            session: The session whose context is run.
            kind: The kind of the event.
            requests: How many requests to the model are booked.
            closing: How many last tokens of the last pass close the turn for a probe; they are an
                event of their own.
            is_booked: False for tokens whose cost was booked with a reply from the cache.
        """
        self.cost = PassCost()
        self._session = session
        self._cached = session._cache.get_seq_length()
        self._kind = kind
        self._requests = requests
        self._closing = closing
        self._is_booked = is_booked
        self._timer = timed()
        self._took = Took()

    def run(
        self,
        ids: Sequence[int],
        logits: int = 1,
        capture: Capture | None = None,
        blocks: Sequence[bytes] = (),
        labels: Sequence[int] = (),
    ) -> Tensor | None:
        """Run tokens after those that have keys and values. Also adds the cost of the pass to
        `cost`.

        Args:
            ids: The tokens.
            logits: For how many of the last tokens logits are returned.
            capture: Measures the attention; None for nothing.
            blocks: Hashes of the context's blocks, by which other contexts find them (see
                ForwardRequest).
            labels: For each row of logits, ids of tokens that need exact logits (see
                ForwardRequest).

        Returns:
            The last logits, float32 [logits, vocab]; None for 0.

        Raises:
            ModelOutputError: They are NaN or infinite.
        """
        session = self._session
        ask = ForwardRequest(ids, session._cache, logits, capture, blocks, labels)
        rows = session._model.forward(ask, session._adapter)
        before = session._cache.get_seq_length() - len(ids)
        self.cost.add(pass_cost(len(ids), before, logits, ranks=isinstance(capture, HeadCapture)))
        if rows is not None and not bool(rows.amax(-1).isfinite().all()):
            raise session._model.bad_logits(before + len(ids))
        return rows

    def bookings(self) -> list[Booking]:
        """The events that are booked: one, or two where a probe's closing words were run together
        with queued tokens. The time is shared between two by their tokens."""
        if not self._closing or not self.cost.logits:
            return [Booking(self._kind, self._cached, self.cost, requests=self._requests)]
        queued_tokens = self.cost.new - self._closing
        before_closing = self._cached + queued_tokens
        probe = pass_cost(self._closing, before_closing, logits=1)
        queued = PassCost(queued_tokens, 0, self.cost.pairs - probe.pairs)
        share = self._closing / self.cost.new
        bookings = [Booking("probe", before_closing, probe, share, self._requests)]
        if queued_tokens:
            bookings.insert(0, Booking(self._kind, self._cached, queued, 1 - share))
        return bookings

    def roll_back(self) -> None:
        """Drop from the cache what the passes added to it."""
        rewind(self._session._cache, self._session._cached)

    def book(self) -> None:
        """Record the cost of the passes on the meter, an event for each booking."""
        for booking in self.bookings():
            self._session._book(
                booking.kind,
                cached=booking.cached,
                requests=booking.requests,
                seconds=self._took.seconds * booking.share,
                queued=self._took.queued * booking.share,
                **vars(booking.cost),
            )

    def __enter__(self) -> Self:
        """Start the clock."""
        self._took = self._timer.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Stop the clock, roll back after an error, and book the cost."""
        self._timer.__exit__(None, None, None)
        if error is not None:
            self.roll_back()
        if self._is_booked:
            self.book()


def pass_cost(new: int, before: int, logits: int, ranks: bool = False) -> PassCost:
    """The cost of a pass.

    Args:
        new: Tokens that are run.
        before: Tokens in the cache before them.
        logits: How many rows of logits are computed.
        ranks: Whether queries and keys are multiplied a second time, to rank tokens.
    """
    # (query, key) pairs: each new token attends to all before it and to itself.
    pairs = new * before + new * (new + 1) // 2
    return PassCost(new, logits, pairs, ranking_pairs=pairs * ranks)
