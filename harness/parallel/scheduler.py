"""Threads that work in parallel, and one thread that runs their requests as batches.

    question 1 ──method code──┐ forward pass
    question 2 ──method code──┤ forward pass  ──► when every thread waits: queue.run([...]) ──► those go on
    map item 2 ──method code──┘ forward pass

    scheduler = Scheduler(4)                 at most 4 threads work at once; each holds a slot
    scheduler.start_threads(work, work)      members: each work() has its own thread, which first waits for a slot
    scheduler.do(queue, ask)                 queue.run([ask, ...]) with asks of other members; the result of this ask
    scheduler.call(fn)                       fn() in the thread that runs the batches
    with scheduler.without_slot(): ...       wait for another member; the slot is free meanwhile
    with scheduler.waiting_for_server(): ... wait for a server; no batch waits for this member
    scheduler.stop(); scheduler.wait()       members end with Stopped at their next call; then wait for their end
    with timed() as took: ...                took.seconds that the block ran, took.queued that it waited for others

Method code stays sequential. A batch waits until all members wait, so that it holds as many asks as
possible, and its queue takes as many of them as one batch holds (`RequestQueue.take`), the one that
waits longest among them; the others stay queued. A member at work for longer than MAX_WAIT seconds
delays one batch by that much, and no further one until it asks again.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from harness.parallel.members import Stopped, current, this_thread

# Seconds that asks wait for members which are still at work (loading, encoding, long Python code).
MAX_WAIT = 0.25
R = TypeVar("R")


@dataclass
class Took:
    """The time of a block.

    Attributes:
        seconds: Seconds in which it, or the batch that it was in, ran.
        queued: Seconds in which it waited for others.
    """

    seconds: float = 0.0
    queued: float = 0.0


@contextlib.contextmanager
def timed() -> Iterator[Took]:
    """Context manager: gives a Took that is filled in when the block ends. Calls that ran in a
    batch took the whole batch's time each."""
    took = Took()
    began = time.perf_counter()
    queued_before = _queued()
    try:
        yield took
    finally:
        took.queued = _queued() - queued_before
        took.seconds = max(time.perf_counter() - began - took.queued, 0.0)


def add_queued(seconds: float) -> None:
    """Count `seconds` that the calling thread waited for other calls."""
    this_thread.queued = _queued() + max(seconds, 0.0)


def _queued() -> float:
    """Seconds that the calling thread has waited for other calls so far."""
    seconds: float = getattr(this_thread, "queued", 0.0)
    return seconds


class Again(NamedTuple):
    """The outcome of a request that goes on: its thread waits on.

    Attributes:
        ask: The next request, which takes the place of the one before in the queue.
    """

    ask: Any


class RequestQueue(Protocol):
    """Runs requests ("asks") of one kind together.

    Attributes:
        ahead: Whether they run before those of other queues.
    """

    ahead: bool

    def take(self, asks: Sequence[Any]) -> Sequence[int]:
        """Which of the asks the next batch has, by their indices; the first one, which waits
        longest, is among them."""

    def run(self, asks: Sequence[Any]) -> list[Any]:
        """Run the asks of a batch; returns the result of each in order, or the exception where one
        failed, or an Again where one goes on."""


class _CallQueue:
    """The queue whose asks are functions without arguments: it calls them one after the other."""

    ahead = True

    def take(self, asks: Sequence[Any]) -> Sequence[int]:
        """All of them."""
        return range(len(asks))

    def run(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """The result of each function, or the exception that it raised."""
        return [result_or_error(fn) for fn in asks]


_CALLS = _CallQueue()


def result_or_error(fn: Callable[[], Any]) -> Any:
    """fn(), or the exception that it raised."""
    try:
        return fn()
    except Exception as error:  # noqa: BLE001 - raised again in the thread that called
        return error


def in_forward_thread(fn: Callable[[], R]) -> R:
    """Return fn(). Where several questions are in flight it is run in the thread of the forward
    passes: libraries' tokenizers change their own settings with every call, and a pool of threads
    for each question would slow all of them down."""
    scheduler = current()
    if scheduler is None:
        return fn()
    result: R = scheduler.call(fn)
    return result


def _call_openmp(function: str, *numbers: int) -> None:
    """Call a C function of the OpenMP library that torch has loaded; nothing happens without one.

    Args:
        function: Its name, as "omp_set_num_threads".
        *numbers: Its integer arguments.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    # AttributeError: another thread has imported torch by half.
    with contextlib.suppress(AttributeError, OSError):
        # The first such call in a thread sets its number of threads, and would undo ours if it
        # came later.
        torch.get_num_threads()
        loaded_libraries = ctypes.CDLL(None)
        getattr(loaded_libraries, function)(*numbers)


class _WaitingAsk:
    """An ask that is queued.

    Attributes:
        member: The thread that asks.
        queue: The queue that runs it.
        ask: The request.
        queued_at: When it was queued, by time.monotonic.
        since: Since when it waits; later than `queued_at` where it goes on (`Again`).
        outcome: Its result, or an exception.
        run_seconds: Seconds of the batches that it was in.
        gate: A lock that is released once `outcome` is set.
    """

    def __init__(self, member: object, queue: RequestQueue, ask: Any) -> None:
        """Queue it now, with its gate closed.

        Args:
            member: The thread that asks.
            queue: The queue that runs it.
            ask: The request.
        """
        self.member, self.queue, self.ask = member, queue, ask
        self.queued_at = self.since = time.monotonic()
        self.outcome: Any = None
        self.run_seconds = 0.0
        # A bare lock is a third of an Event's cost.
        self.gate = threading.Lock()
        self.gate.acquire()


def _run(queue: RequestQueue, batch: Sequence[_WaitingAsk]) -> list[Any]:
    """Run the asks of a batch together, and return the outcome of each in order. Also adds the
    whole batch's seconds to the `run_seconds` of every one."""
    began = time.monotonic()
    outcomes: list[Any] = queue.run([waiting.ask for waiting in batch])
    for waiting in batch:
        waiting.run_seconds += time.monotonic() - began
    return outcomes


class Scheduler:
    """At most `slots` threads at work, and one thread that runs their requests as batches; see the
    module's docstring.

    Attributes:
        slots: The most threads at work at once.
        stopped: Whether the run ends.
    """

    def __init__(self, slots: int) -> None:
        """Start the thread that runs the batches; no other thread runs yet.

        Args:
            slots: The most threads at work at once.
        """
        self.slots = slots
        self.stopped = False
        self._working: set[object] = set()  # members that hold a slot and wait for nothing
        self._late: set[object] = set()  # those of them that no batch waits for any more
        self._held = 0  # slots that are taken
        self._asks: list[_WaitingAsk] = []
        self._ended = 0.0  # when the last batch did
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)  # notifies the thread that runs the batches
        self._free = threading.Condition(self._lock)  # notifies members that wait for a slot
        self._members: list[threading.Thread] = []
        # OpenMP keeps helper threads for each thread that ever computed. With more of them than
        # cores they sleep between two products instead of waiting: a batch of 8 contexts of
        # SmolLM2-135M took 109 ms instead of 41 on two cores. So this thread gives its helpers up
        # (1: softly, all else stays), and members never get any.
        _call_openmp("omp_pause_resource_all", 1)
        self._batches = threading.Thread(target=self._run_batches, name="batches", daemon=True)
        self._batches.start()

    def start_threads(self, *works: Callable[[], None]) -> None:
        """Start a thread for each function; each begins as soon as a slot is free. A function may
        raise nothing but Stopped."""
        with self._lock:
            for work in works:
                self._start_member(work, reserved=self._held < self.slots)

    def start_thread_if_free(self, work: Callable[[], None], ended: Callable[[], None]) -> bool:
        """Start one thread as `start_threads` does, unless every slot is taken. Never waits.

        Args:
            work: What the thread does.
            ended: Called when it ends, even if the run ended before its work began.

        Returns:
            Whether the thread was started.
        """
        with self._lock:
            if self._held >= self.slots or self.stopped:
                return False
            self._start_member(work, reserved=True, ended=ended)
        return True

    def _reserve(self, member: object) -> None:
        """Give a member a slot, and count it as working."""
        self._held += 1
        self._working.add(member)

    def _start_member(
        self, work: Callable[[], None], reserved: bool, ended: Callable[[], None] | None = None
    ) -> None:
        """Start a thread that takes a slot, works, and gives the slot back.

        Args:
            work: What it does.
            reserved: Whether it has its slot already, and counts as working.
            ended: Called after its work, even if the run ended before it began.
        """
        member = object()  # stands for the thread, before and while it works
        if reserved:
            # Counted before it runs: the next batch waits for what the new member will ask.
            self._reserve(member)

        def body() -> None:  # of the thread
            """Run the member in its thread: take a slot, work, give the slot back."""
            this_thread.scheduler, this_thread.member = self, member
            _call_openmp("omp_set_num_threads", 1)
            if not reserved:
                self._take_slot()
            try:
                with contextlib.suppress(Stopped):
                    self.check()
                    work()
            finally:
                if ended is not None:
                    ended()
                self._give_slot_back()

        thread = threading.Thread(target=body, name="member", daemon=True)
        self._members = [*(t for t in self._members if t.is_alive()), thread]
        thread.start()

    def _take_slot(self) -> None:
        """Wait until a slot is free; the calling thread then holds one and counts as working.

        When the run is stopped it takes one at once, even beyond the limit: the thread has to go on
        in order to end, and gives the slot back.
        """
        with self._lock:
            while self._held >= self.slots and not self.stopped:
                self._free.wait()
            self._reserve(this_thread.member)

    def _give_slot_back(self) -> None:
        """Free the calling thread's slot. It no longer counts as working, so no batch waits for it;
        one that waited for it alone may begin."""
        with self._lock:
            self._held -= 1
            self._forget_member(this_thread.member)
            self._free.notify()
            self._wake_if_ready()

    def _forget_member(self, member: object) -> None:
        """Count a thread as not working, as it waits itself or has ended: no batch waits for it."""
        self._working.discard(member)
        self._late.discard(member)

    def _wake_if_ready(self) -> None:
        """Wake the thread of the batches where its wait may be over: all threads wait, or the first
        request has come, so that the time of waiting has to be counted."""
        if self._working <= self._late or len(self._asks) == 1:
            self._idle.notify()

    @contextlib.contextmanager
    def without_slot(self) -> Iterator[None]:
        """Context manager that frees the thread's slot during its block, which waits for another
        thread. Raises Stopped after the block if the run ends."""
        self._give_slot_back()
        try:
            yield
        finally:
            self._take_slot()
        self.check()

    @contextlib.contextmanager
    def waiting_for_server(self) -> Iterator[None]:
        """Context manager for a block that waits for a server: the slot stays taken, but no batch
        waits for this thread."""
        with self._lock:
            self._late.add(this_thread.member)
            self._wake_if_ready()
        try:
            yield
        finally:
            with self._lock:
                self._late.discard(this_thread.member)

    def check(self) -> None:
        """Raise Stopped when the run ends."""
        if self.stopped:
            raise Stopped

    def do(self, queue: RequestQueue, ask: Any) -> Any:
        """Queue a request, wait until a batch has run it, and return its result.

        Args:
            queue: The queue that runs it.
            ask: The request.

        Raises what the request raised, and Stopped where the run ends.
        """
        waiting = _WaitingAsk(this_thread.member, queue, ask)
        with self._lock:
            self.check()
            self._asks.append(waiting)
            # This thread now waits itself, so a batch need not wait for a request of it.
            self._forget_member(waiting.member)
            self._wake_if_ready()
        waiting.gate.acquire()  # until the outcome is set
        seconds = time.monotonic() - waiting.queued_at
        add_queued(seconds - waiting.run_seconds)
        if isinstance(waiting.outcome, BaseException):
            raise waiting.outcome
        return waiting.outcome

    def call(self, fn: Callable[[], R]) -> R:
        """Return fn(), run in the thread of the batches: one call at a time, with one pool of
        library threads."""
        result: R = self.do(_CALLS, fn)
        return result

    def _run_batches(self) -> None:
        """What the batch thread does until the run ends: wait for requests, run those of one queue
        together, and return their results."""
        while True:
            with self._lock:
                self._wait_until_ready()
                if self.stopped:
                    self._hand_out(self._asks, [Stopped() for _ in self._asks])
                    return
                self._late |= self._working  # all others had MAX_WAIT seconds
                try:
                    taken = self._next_batch()
                except Exception as error:  # noqa: BLE001 - a fault of the queue is raised by every ask
                    self._hand_out(self._asks, [error] * len(self._asks))
                    continue
            self._run_batch(taken)
            taken = []  # else logits stay in memory until the next batch

    def _wait_until_ready(self) -> None:
        """Wait until a batch may begin, or the run ends; the caller holds the lock."""
        while not self.stopped and not self._ready():
            seconds = None
            if self._asks:
                seconds = max(self._seconds_left(), 0)
            self._idle.wait(seconds)

    def _next_batch(self) -> list[_WaitingAsk]:
        """The asks of the next batch, all of one queue: of a queue that runs ahead of others if it
        has any, else of the queue whose ask has waited longest. Raises what the queue's `take`
        raises."""
        queue = self._asks[0].queue
        for waiting in self._asks:
            if waiting.queue.ahead:
                queue = waiting.queue
                break
        asks = [waiting for waiting in self._asks if waiting.queue is queue]
        return [asks[n] for n in queue.take([waiting.ask for waiting in asks])]

    def _run_batch(self, taken: list[_WaitingAsk]) -> None:
        """Run these asks of one queue together, and hand their outcomes out. Calls of functions run
        one by one, so that each takes its own time alone."""
        queue = taken[0].queue
        batches = [taken]
        if queue is _CALLS:
            batches = [[waiting] for waiting in taken]
        outcomes: list[Any] = []
        try:
            for batch in batches:
                outcomes += _run(queue, batch)
        except BaseException as error:  # noqa: BLE001 - a fault of the queue itself is raised by every ask
            outcomes = [error] * len(taken)
        with self._lock:
            self._hand_out(taken, outcomes)
            self._ended = time.monotonic()

    def _ready(self) -> bool:
        """Whether a batch may begin: there is a request, and all threads wait or had MAX_WAIT
        seconds."""
        return bool(self._asks) and (self._working <= self._late or self._seconds_left() <= 0)

    def _seconds_left(self) -> float:
        """How many seconds the next batch still waits for threads that are at work; 0 or less for
        none."""
        # MAX_WAIT counts from the end of the last batch: asks that waited for it join those of its
        # members.
        return max(self._asks[0].since, self._ended) + MAX_WAIT - time.monotonic()

    def _hand_out(self, taken: list[_WaitingAsk], outcomes: list[Any]) -> None:
        """Give each of these asks its outcome (a result or an exception), dequeue it and wake its
        thread. One that goes on (Again) moves to the end of the queue instead.

        Args:
            taken: The asks of a batch.
            outcomes: The outcome of each.
        """
        taken_ids = {id(waiting) for waiting in taken}
        self._asks = [waiting for waiting in self._asks if id(waiting) not in taken_ids]
        ended = []
        for waiting, outcome in zip(taken, outcomes, strict=True):
            if isinstance(outcome, Again):
                waiting.ask, waiting.since = outcome.ask, time.monotonic()
                self._asks.append(waiting)
            else:
                waiting.outcome = outcome
                ended.append(waiting)
        # Counted before they wake: else the first one to ask again would run alone.
        self._working.update(w.member for w in ended)
        for waiting in ended:
            waiting.gate.release()

    def stop(self) -> None:
        """End the run: threads end with Stopped at their next call; a batch that runs is still
        finished."""
        with self._lock:
            self.stopped = True
            self._idle.notify_all()
            self._free.notify_all()

    def wait(self, seconds: float | None = None) -> None:
        """Return when all threads have ended; only after `stop`, or when the members end by
        themselves.

        Args:
            seconds: How long to wait for members after the current batch, which is always waited
                for; None for as long as it takes.
        """
        if seconds is not None:  # after `stop` no further batch begins
            self._batches.join()
        end = None
        if seconds is not None:
            end = time.monotonic() + seconds
        while True:
            with self._lock:
                alive = [t for t in self._members if t.is_alive()]
            if not alive or (end is not None and time.monotonic() >= end):
                break
            for thread in alive:
                left = None
                if end is not None:
                    left = max(end - time.monotonic(), 0)
                thread.join(left)
        self.stop()
        self._batches.join()
