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
        events: Of the item.
        requests: Of the item, where they are kept.
        searches: Of the item.
        phase: Under which new events are booked.
        flops: The sum so far, with what came before the item.
    """

    def __init__(self, local: threading.local, phase: str, parent: Branch | None = None) -> None:
        """A branch without events.

        Args:
            local: Holds the branch of each thread.
            phase: Of the first events.
            parent: Whose FLOPs it begins with; None: 0.
        """
        self.events: list[Event] = []
        self.requests: list[Request] = []
        self.searches: list[Search] = []
        self.phase = phase
        # Kept as a running sum: a search asks after every step, and summing all events each time
        # was quadratic.
        self.flops: Flops = Flops(parent.flops if parent else dict.fromkeys(CONVENTIONS, 0.0))
        self._local = local

    def __enter__(self) -> None:
        self._before = getattr(self._local, "branch", None)
        self._local.branch = self

    def __exit__(self, *_: object) -> None:
        self._local.branch = self._before


def _flops_of(event: Event, shape: ModelShape) -> Flops:
    """FLOPs of a call by convention. shape: of its model."""
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
        """A meter without events.

        Args:
            phase: Of the first events.
            keeps_requests: Whether `request` keeps texts.
            document: What the calls are about.
        """
        self.keeps_requests = keeps_requests
        self.document = document
        self.shapes: dict[str, ModelShape] = {}
        self._local = threading.local()
        self._root = Branch(self._local, phase)
        self._lock = threading.Lock()

    @property
    def _branch(self) -> Branch:
        """The branch of the calling thread."""
        return getattr(self._local, "branch", None) or self._root

    @property
    def events(self) -> list[Event]:
        """The events of the calling thread's branch; outside tools.map, all events."""
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
        """Count the events of the block under phase `name`, one of PHASES. Raises ValueError for
        another."""
        if name not in PHASES:
            raise ValueError(f"phase {name!r} is not one of {PHASES}")
        branch = self._branch
        before, branch.phase = branch.phase, name
        try:
            yield
        finally:
            branch.phase = before

    def fork(self, count: int) -> list[Branch]:
        """Branches for `count` items that run together, each entered once, in any thread; `join`
        ends them.

        An item begins in the phase, and with the FLOPs, that the calling thread has now.
        """
        parent = self._branch
        return [Branch(self._local, parent.phase, parent) for _ in range(count)]

    def join(self, branches: Iterable[Branch]) -> None:
        """Append the events of the branches to the calling thread's, in the order of `branches`."""
        for branch in branches:
            for event in branch.events:
                self.record(event, self.shapes.get(event.shape))
            self._branch.requests.extend(branch.requests)
            self._branch.searches.extend(branch.searches)

    def record(self, event: Event, shape: ModelShape | None) -> None:
        """Keep `event`. shape: its model's sizes, None where FLOPs are unknown (a scripted model,
        or a server's)."""
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
            if event.answered:
                branch.flops = branch.flops + _flops_of(event, shape)

    @contextlib.contextmanager
    def request(self, role: str, kind: str, prompt: Callable[[], str]) -> Iterator[list[str]]:
        """Keep the request made inside (see Request) if this meter keeps them; append its reply to
        the yielded list.

        A request that fails is kept with an empty reply: its cost is counted too.

        Args:
            role: Of the model.
            kind: "write", "probe" or "score".
            prompt: Returns the context as text; called only where requests are kept.
        """
        replies: list[str] = []
        if not self.keeps_requests:
            yield replies
            return
        text = prompt()
        try:
            yield replies
        finally:
            self._branch.requests.append(
                Request(role, self.current_phase, kind, text, "".join(replies))
            )

    @overload
    def flops(self) -> Flops: ...

    @overload
    def flops(self, convention: str) -> float: ...

    def flops(self, convention: str | None = None) -> Flops | float:
        """FLOPs so far, of all conventions or of one. Inside tools.map, items in flight do not
        count each other's."""
        total = self._branch.flops
        if convention is None:
            return total
        return total[convention]

    def flops_of_newest_event(self) -> Flops:
        """FLOPs of the newest event of the calling thread's branch, of all conventions."""
        event = self.events[-1]
        shape = self.shapes.get(event.shape)
        if shape is None:
            return Flops(dict.fromkeys(CONVENTIONS, 0.0))
        return _flops_of(event, shape)

    def usage(self) -> Usage:
        """The result of `usage_of` for the events so far."""
        return usage_of(self.events, self.shapes)
