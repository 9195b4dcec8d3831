"""Forward passes of one context: what each gave and cost, and the transaction that books them.

with Transaction(session, "prefill") as passes:
    rows = passes.run(ids, n_logits=1)        a pass; its cost is added
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
        n_cached: Tokens in the cache before its passes.
        cost: The cost of its passes.
        time_share: Its share of the transaction's time, 0 to 1.
        n_requests: Requests to the model.
    """

    kind: EventKind
    n_cached: int
    cost: PassCost
    time_share: float = 1.0
    n_requests: int = 0


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
        n_requests: int = 0,
        n_closing: int = 0,
        is_booked: bool = True,
    ) -> None:
        """Begin at the end of the session's cache; the clock starts with the `with` block.

        Args:
            session: The session whose context is run.
            kind: The kind of the event.
            n_requests: How many requests to the model are booked.
            n_closing: How many last tokens of the last pass close the turn for a probe; they are an
                event of their own.
            is_booked: False for tokens whose cost was booked with a reply from the cache.
        """
        self.cost = PassCost()
        self._session = session
        self._cached_at_begin = session._cache.get_seq_length()
        self._kind = kind
        self._n_requests = n_requests
        self._n_closing = n_closing
        self._is_booked = is_booked
        self._timer = timed()
        self._took = Took()

    def run(
        self,
        ids: Sequence[int],
        n_logits: int = 1,
        capture: Capture | None = None,
        block_names: Sequence[bytes] = (),
        label_ids: Sequence[int] = (),
    ) -> Tensor | None:
        """Run tokens after those that have keys and values. Also adds the cost of the pass to
        `cost`.

        Args:
            ids: The token ids.
            n_logits: For how many of the last tokens logits are returned.
            capture: Measures the attention; None for nothing.
            block_names: Names of the blocks of the context that the tokens complete, by which other
                contexts find them (see ForwardRequest).
            label_ids: Ids of a probe's labels, which need exact logits (see ForwardRequest).

        Returns:
            The last logits, float32 [n_logits, vocab]; None for 0.

        Raises:
            ModelOutputError: They are NaN or infinite.
        """
        session = self._session
        request = ForwardRequest(
            ids,
            session._cache,
            n_logits=n_logits,
            capture=capture,
            block_names=block_names,
            label_ids=label_ids,
        )
        logits = session._model.forward(request, session._adapter)
        n_before = session._cache.get_seq_length() - len(ids)
        multiplies_twice = isinstance(capture, HeadCapture)
        self.cost.add(pass_cost(len(ids), n_before, n_logits, multiplies_twice))
        if logits is not None and not bool(logits.amax(-1).isfinite().all()):
            raise session._model.bad_logits_error(n_before + len(ids))
        return logits

    def bookings(self) -> list[Booking]:
        """The events that are booked: one for all passes, unless the last tokens close the turn for
        a probe (`_n_closing`) and its logits were computed. Then these are an event of the kind
        "probe", and the tokens before them, if any, one without logits; the time is shared between
        both by their tokens."""
        if not self._n_closing or not self.cost.logits:
            whole = Booking(
                self._kind, self._cached_at_begin, self.cost, n_requests=self._n_requests
            )
            return [whole]
        n_queued = self.cost.new - self._n_closing
        n_before_closing = self._cached_at_begin + n_queued
        probe_cost = pass_cost(self._n_closing, n_before_closing, n_logits=1)
        queued_cost = PassCost(new=n_queued, logits=0, pairs=self.cost.pairs - probe_cost.pairs)
        probe_share = self._n_closing / self.cost.new
        probe = Booking(
            "probe",
            n_before_closing,
            probe_cost,
            time_share=probe_share,
            n_requests=self._n_requests,
        )
        if not n_queued:
            return [probe]
        queued = Booking(self._kind, self._cached_at_begin, queued_cost, time_share=1 - probe_share)
        return [queued, probe]

    def roll_back(self) -> None:
        """Drop from the cache what the passes added to it."""
        rewind(self._session._cache, self._session._n_cached)

    def book(self) -> None:
        """Record the cost of the passes on the meter, an event for each booking."""
        for booking in self.bookings():
            self._session._book(
                booking.kind,
                cached=booking.n_cached,
                requests=booking.n_requests,
                seconds=self._took.seconds * booking.time_share,
                queued=self._took.queued * booking.time_share,
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


def pass_cost(n_new: int, n_before: int, n_logits: int, multiplies_twice: bool = False) -> PassCost:
    """The cost of a pass.

    Args:
        n_new: Tokens that are run.
        n_before: Tokens in the cache before them.
        n_logits: How many rows of logits are computed.
        multiplies_twice: Whether queries and keys are multiplied a second time, to rank tokens.
    """
    # (query, key) pairs: each new token attends to all before it and to itself.
    pairs = n_new * n_before + n_new * (n_new + 1) // 2
    ranking_pairs = 0
    if multiplies_twice:
        ranking_pairs = pairs
    return PassCost(n_new, n_logits, pairs, ranking_pairs)
