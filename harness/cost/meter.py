"""Events in, usage out: what every model call cost, by phase and role.

    Event(role, model, phase, kind, new, cached, logits, seconds) ── usage.py, flops.py ──► usage {phase: {...}}

FLOPs are kept under every convention, so a table can be made under another one after the run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import overload

from harness.cost.flops import CONVENTIONS, PHASES, Event, Flops, ModelShape, Request, flops
from harness.cost.usage import Usage, usage_of
from harness.types import Search


class Branch:
    """The events of one item of a tools.map call: inside `with branch`, the thread records there.

    Attributes:
        events: The events of the item, in order.
        requests: The requests of the item, where these are kept.
        searches: The searches of the item.
        phase: The phase under which new events are booked.
        flops: The sum so far, with that of the events before the item.
    """

    def __init__(self, threads: threading.local, phase: str, parent: Branch | None = None) -> None:
        """Make a branch without events.

        Args:
            threads: Holds, for each thread, the branch that it records on.
            phase: The phase of the first events.
            parent: The branch whose FLOPs so far it begins with; None: 0.
        """
        self.events: list[Event] = []
        self.requests: list[Request] = []
        self.searches: list[Search] = []
        self.phase = phase
        # Kept as a running sum: a search asks after every step, and summing all events each time
        # was quadratic.
        self.flops = Flops(dict.fromkeys(CONVENTIONS, 0.0))
        if parent is not None:
            self.flops = Flops(parent.flops)
        self._threads = threads

    def __enter__(self) -> None:
        """Let the calling thread record on this branch, until the `with` block ends."""
        self._branch_before = getattr(self._threads, "branch", None)
        self._threads.branch = self

    def __exit__(self, *_: object) -> None:
        """Let the calling thread record on the branch again on which it did before the block."""
        self._threads.branch = self._branch_before


def _flops_by_convention(event: Event, shape: ModelShape) -> Flops:
    """FLOPs of a call, under each convention.

    Args:
        event: The call.
        shape: The sizes of its model.
    """
    return Flops({name: flops(event, shape, name) for name in CONVENTIONS})


class Meter:
    """Collects events. One meter a question or a document; thread-safe, because tools.map may run
    calls together.

    Items that run together have a branch each, so that the events, their order and phase do not
    depend on which of them was faster. A thread that belongs to no branch records on the meter
    itself.

    Attributes:
        keeps_requests: Whether `request` keeps texts.
        document: What the calls are about, "" where that is unknown.
        shapes: Sizes of models by `Event.shape`.
    """

    def __init__(
        self, phase: str = "answer", *, keeps_requests: bool = False, document: str = ""
    ) -> None:
        """Make a meter without events.

        Args:
            phase: The phase of the first events.
            keeps_requests: Whether `request` keeps texts.
            document: What the calls are about; "" where that is unknown.
        """
        self.keeps_requests = keeps_requests
        self.document = document
        self.shapes: dict[str, ModelShape] = {}
        self._threads = threading.local()
        self._root = Branch(self._threads, phase)
        self._lock = threading.Lock()

    @property
    def _branch(self) -> Branch:
        """The branch that the calling thread records on."""
        return getattr(self._threads, "branch", None) or self._root

    @property
    def events(self) -> list[Event]:
        """The events of the calling thread's branch; outside tools.map, all events of this
        meter.
        """
        return self._branch.events

    @property
    def requests(self) -> list[Request]:
        """The requests of the calling thread's branch that were kept."""
        return self._branch.requests

    @property
    def searches(self) -> list[Search]:
        """The searches of the calling thread's branch."""
        return self._branch.searches

    @property
    def current_phase(self) -> str:
        """The phase under which new events are booked."""
        return self._branch.phase

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the events of the `with` block under another phase.

        Args:
            name: One of PHASES.

        Raises:
            ValueError: There is no such phase.
        """
        if name not in PHASES:
            raise ValueError(f"phase {name!r} is not one of {PHASES}")
        branch = self._branch
        outer_phase = branch.phase
        branch.phase = name
        try:
            yield
        finally:
            branch.phase = outer_phase

    def fork(self, count: int) -> list[Branch]:
        """Make a branch for each of `count` items that run together.

        Each is entered once, in any thread, and `join` brings them back. An item begins in the
        phase, and with the FLOPs, that the calling thread has now.
        """
        parent = self._branch
        return [Branch(self._threads, parent.phase, parent) for _ in range(count)]

    def join(self, branches: Iterable[Branch]) -> None:
        """Append the events, requests and searches of branches, in order, to those of the calling
        thread.

        Args:
            branches: Made by `fork`; their items are done.
        """
        for branch in branches:
            for event in branch.events:
                self.record(event, self.shapes.get(event.shape))
            self._branch.requests.extend(branch.requests)
            self._branch.searches.extend(branch.searches)

    def record(self, event: Event, shape: ModelShape | None) -> None:
        """Add an event to those of the calling thread's branch, and its FLOPs to theirs where the
        model's sizes are known and a usable reply came. Also keeps the sizes in `shapes`, by the
        word that the event names them by.

        Args:
            event: A call of a model, or a search.
            shape: The sizes of the model; None where they are unknown (a scripted model, or a
                server's).
        """
        if shape is None:
            event = replace(event, shape="")
            with self._lock:
                self._branch.events.append(event)
            return
        event = replace(event, shape=shape.key)
        with self._lock:
            branch = self._branch
            branch.events.append(event)
            self.shapes[event.shape] = shape
            if event.answered:  # FLOPs are those of requests that gave a usable reply
                branch.flops = branch.flops + _flops_by_convention(event, shape)

    @contextlib.contextmanager
    def request(self, role: str, kind: str, prompt: Callable[[], str]) -> Iterator[list[str]]:
        """Record the request that is made in the `with` block, if this meter keeps requests.

        The block appends the reply to the list that it is given. A request that fails is kept with
        an empty reply, as its cost is counted too.

        Args:
            role: The role of the model.
            kind: "write", "probe" or "score".
            prompt: Returns the context as text; called only where requests are kept.

        Yields:
            A list for the reply.
        """
        replies: list[str] = []
        if not self.keeps_requests:
            yield replies
            return
        whole_prompt = prompt()
        try:
            yield replies
        finally:
            self._branch.requests.append(
                Request(role, self.current_phase, kind, whole_prompt, "".join(replies))
            )

    @overload
    def flops(self) -> Flops: ...

    @overload
    def flops(self, convention: str) -> float: ...

    def flops(self, convention: str | None = None) -> Flops | float:
        """FLOPs so far: those of one convention as a number, or those of each as `Flops`.

        Inside tools.map, items that run together do not count each other's.

        Args:
            convention: One of CONVENTIONS; None: all of them.
        """
        total = self._branch.flops
        if convention is None:
            return total
        return total[convention]

    def flops_of_newest_event(self) -> Flops:
        """FLOPs of the newest event of the calling thread's branch, under each convention; 0 where
        the sizes of its model are unknown.
        """
        event = self.events[-1]
        shape = self.shapes.get(event.shape)
        if shape is None:
            return Flops(dict.fromkeys(CONVENTIONS, 0.0))
        return _flops_by_convention(event, shape)

    def usage(self) -> Usage:
        """The sums of all events so far by phase: {"search": {"tokens_in": 812, ...}, ...}."""
        return usage_of(self.events, self.shapes)
