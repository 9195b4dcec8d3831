"""Threads that work in parallel, and one thread that runs their requests as batches.

    question 1 ──method code──┐ forward pass
    question 2 ──method code──┤ forward pass  ──► when every thread waits: queue.run([...]) ──► those go on
    map item 2 ──method code──┘ forward pass

    scheduler = Scheduler(4)                 at most 4 threads work at once; each holds a slot
    scheduler.start_threads(work, work)      members: each work() has its own thread, which first waits for a slot
    scheduler.run_in_batch(queue, request)   queue.run([request, ...]) with those of other members; this one's result
    scheduler.call(fn)                       fn() in the thread that runs the batches
    with scheduler.without_slot(): ...       wait for another member; the slot is free meanwhile
    with scheduler.waiting_for_server(): ... wait for a server; no batch waits for this member
    scheduler.stop(); scheduler.wait()       members end with Stopped at their next call; then wait for their end
    with timed() as took: ...                took.seconds that the block ran, took.queued that it waited for others

Method code stays sequential. A batch waits until all members wait, so that it holds as many
requests as possible, and its queue takes as many of them as one batch holds (`RequestQueue.take`),
the one that waits longest among them; the others stay queued. A member at work for longer than
MAX_WAIT_SECONDS delays one batch by that much, and no further one until it sends the next request.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from harness.parallel.members import Stopped, current_scheduler, this_thread

# Seconds that requests wait for members which are still at work (loading, encoding, long Python
# code).
MAX_WAIT_SECONDS = 0.25
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
    """Context manager: gives a Took, whose seconds are filled in when the block ends: those in
    which the thread waited for other calls (`queued`), and all others (`seconds`).

    A call that ran in a batch took the whole batch's time.
    """
    took = Took()
    start_time = time.perf_counter()
    queued_before = _seconds_queued_so_far()
    try:
        yield took
    finally:
        took.queued = _seconds_queued_so_far() - queued_before
        took.seconds = max(time.perf_counter() - start_time - took.queued, 0.0)


def add_queued(seconds: float) -> None:
    """Count `seconds` that the calling thread waited for other calls."""
    this_thread.queued = _seconds_queued_so_far() + max(seconds, 0.0)


def _seconds_queued_so_far() -> float:
    """Seconds that the calling thread has waited for other calls so far."""
    seconds: float = getattr(this_thread, "queued", 0.0)
    return seconds


class Again(NamedTuple):
    """The outcome of a request that goes on: its thread waits on.

    Attributes:
        request: The next request, which takes the place of the one before in the queue.
    """

    request: Any


class RequestQueue(Protocol):
    """Runs requests of one kind together.

    Attributes:
        runs_first: Whether they run before those of other queues.
    """

    runs_first: bool

    def take(self, requests: Sequence[Any]) -> Sequence[int]:
        """Which of the requests the next batch has, by their indices; the first one, which waits
        longest, is among them."""

    def run(self, requests: Sequence[Any]) -> list[Any]:
        """Run the requests of a batch; returns the result of each in order, or the exception where
        one failed, or an Again where one goes on."""


class _CallQueue:
    """The queue whose requests are functions without arguments: it calls them one after the
    other."""

    runs_first = True

    def take(self, requests: Sequence[Any]) -> Sequence[int]:
        """Choose all waiting requests for the next batch; returns their indices."""
        return range(len(requests))

    def run(self, requests: Sequence[Callable[[], Any]]) -> list[Any]:
        """The result of each function, or the exception that it raised."""
        return [result_or_error(fn) for fn in requests]


_FUNCTION_CALLS = _CallQueue()


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
    scheduler = current_scheduler()
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


class _QueuedRequest:
    """A request that waits for its batch.

    Attributes:
        member: The thread that made it.
        queue: The queue that runs it.
        request: What the queue is given.
        queued_at: When it was queued, by time.monotonic.
        waits_since: Since when it waits; later than `queued_at` where it goes on (`Again`).
        outcome: Its result, or an exception.
        run_seconds: Seconds of the batches that it was in.
        gate: A lock that is released once `outcome` is set.
    """

    def __init__(self, member: object, queue: RequestQueue, request: Any) -> None:
        """Begin its wait now. `gate` is opened once `outcome` is set; the waiting restarts
        (`waits_since`) where the request goes on in another batch.

        Args:
            member: The thread that made it.
            queue: The queue that runs it.
            request: What the queue is given.
        """
        self.member = member
        self.queue = queue
        self.request = request
        self.queued_at = self.waits_since = time.monotonic()
        self.outcome: Any = None
        self.run_seconds = 0.0
        # A bare lock is a third of an Event's cost.
        self.gate = threading.Lock()
        self.gate.acquire()


def _run_requests(queue: RequestQueue, batch: Sequence[_QueuedRequest]) -> list[Any]:
    """Run the requests of a batch together, and return the outcome of each in order. Also adds the
    whole batch's seconds to the `run_seconds` of every one."""
    start_time = time.monotonic()
    outcomes: list[Any] = queue.run([queued.request for queued in batch])
    for queued in batch:
        queued.run_seconds += time.monotonic() - start_time
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
        self._not_waited_for: set[object] = set()  # those of them that no batch waits for any more
        self._n_slots_taken = 0
        self._requests: list[_QueuedRequest] = []
        self._last_batch_end = 0.0  # by time.monotonic
        self._lock = threading.Lock()
        self._batch_may_begin = threading.Condition(self._lock)
        self._slot_is_free = threading.Condition(self._lock)
        self._members: list[threading.Thread] = []
        # OpenMP keeps helper threads for each thread that ever computed. With more of them than
        # cores they sleep between two products instead of waiting: a batch of 8 contexts of
        # SmolLM2-135M took 109 ms instead of 41 on two cores. So this thread gives its helpers up
        # (1: softly, all else stays), and members never get any.
        _call_openmp("omp_pause_resource_all", 1)
        self._batch_thread = threading.Thread(target=self._run_batches, name="batches", daemon=True)
        self._batch_thread.start()

    def start_threads(self, *works: Callable[[], None]) -> None:
        """Start a thread for each function; each begins as soon as a slot is free. A function may
        raise nothing but Stopped."""
        with self._lock:
            for work in works:
                self._start_member(work, reserved=self._n_slots_taken < self.slots)

    def start_thread_if_free(self, work: Callable[[], None], on_end: Callable[[], None]) -> bool:
        """Start one thread as `start_threads` does, unless every slot is taken. Never waits.

        Args:
            work: What the thread does.
            on_end: Called when it ends, even if the run ended before its work began.

        Returns:
            Whether the thread was started.
        """
        with self._lock:
            if self._n_slots_taken >= self.slots or self.stopped:
                return False
            self._start_member(work, reserved=True, on_end=on_end)
        return True

    def _reserve(self, member: object) -> None:
        """Give a member a slot, and count it as working."""
        self._n_slots_taken += 1
        self._working.add(member)

    def _start_member(
        self, work: Callable[[], None], reserved: bool, on_end: Callable[[], None] | None = None
    ) -> None:
        """Start a thread that takes a slot, works, and gives the slot back.

        Args:
            work: What it does.
            reserved: Whether it has its slot already, and counts as working.
            on_end: Called after its work, even if the run ended before it began.
        """
        member = object()  # stands for the thread, before and while it works
        if reserved:
            # Counted before it runs: the next batch waits for the new member's request.
            self._reserve(member)

        def run_member() -> None:
            """What the thread does: take a slot, work, give the slot back."""
            this_thread.scheduler, this_thread.member = self, member
            _call_openmp("omp_set_num_threads", 1)
            if not reserved:
                self._take_slot()
            try:
                with contextlib.suppress(Stopped):
                    self.raise_if_stopped()
                    work()
            finally:
                if on_end is not None:
                    on_end()
                self._give_slot_back()

        thread = threading.Thread(target=run_member, name="member", daemon=True)
        self._members = [*(each for each in self._members if each.is_alive()), thread]
        thread.start()

    def _take_slot(self) -> None:
        """Wait until a slot is free; the calling thread then holds one and counts as working.

        When the run is stopped it takes one at once, even beyond the limit: the thread has to go on
        in order to end, and gives the slot back.
        """
        with self._lock:
            while self._n_slots_taken >= self.slots and not self.stopped:
                self._slot_is_free.wait()
            self._reserve(this_thread.member)

    def _give_slot_back(self) -> None:
        """Free the calling thread's slot. It no longer counts as working, so no batch waits for it;
        one that waited for it alone may begin."""
        with self._lock:
            self._n_slots_taken -= 1
            self._count_as_not_working(this_thread.member)
            self._slot_is_free.notify()
            self._wake_if_ready()

    def _count_as_not_working(self, member: object) -> None:
        """Count a thread as not working, as it waits itself or has ended: no batch waits for it."""
        self._working.discard(member)
        self._not_waited_for.discard(member)

    def _wake_if_ready(self) -> None:
        """Wake the thread of the batches where its wait may be over: all threads wait, or the first
        request has come, so that the time of waiting has to be counted."""
        all_wait = self._working <= self._not_waited_for
        if all_wait or len(self._requests) == 1:
            self._batch_may_begin.notify()

    @contextlib.contextmanager
    def without_slot(self) -> Iterator[None]:
        """Context manager that frees the thread's slot during its block, which waits for another
        thread. Raises Stopped after the block if the run ends."""
        self._give_slot_back()
        try:
            yield
        finally:
            self._take_slot()
        self.raise_if_stopped()

    @contextlib.contextmanager
    def waiting_for_server(self) -> Iterator[None]:
        """Context manager for a block that waits for a server: the slot stays taken, but no batch
        waits for this thread."""
        with self._lock:
            self._not_waited_for.add(this_thread.member)
            self._wake_if_ready()
        try:
            yield
        finally:
            with self._lock:
                self._not_waited_for.discard(this_thread.member)

    def raise_if_stopped(self) -> None:
        """Raise Stopped when the run ends."""
        if self.stopped:
            raise Stopped

    def run_in_batch(self, queue: RequestQueue, request: Any) -> Any:
        """Queue a request, wait until a batch has run it, and return its result.

        Args:
            queue: The queue that runs it.
            request: What the queue is given.

        Raises what the request raised, and Stopped where the run ends.
        """
        queued = _QueuedRequest(this_thread.member, queue, request)
        with self._lock:
            self.raise_if_stopped()
            self._requests.append(queued)
            # This thread now waits itself, so a batch need not wait for a request of it.
            self._count_as_not_working(queued.member)
            self._wake_if_ready()
        queued.gate.acquire()  # until the outcome is set
        seconds = time.monotonic() - queued.queued_at
        add_queued(seconds - queued.run_seconds)
        if isinstance(queued.outcome, BaseException):
            raise queued.outcome
        return queued.outcome

    def call(self, fn: Callable[[], R]) -> R:
        """Return fn(), run in the thread of the batches: one call at a time, with one pool of
        library threads."""
        result: R = self.run_in_batch(_FUNCTION_CALLS, fn)
        return result

    def _run_batches(self) -> None:
        """What the batch thread does until the run ends: wait for requests, run those of one queue
        together, and return their results."""
        while True:
            with self._lock:
                self._wait_until_ready()
                if self.stopped:
                    self._hand_out(self._requests, [Stopped() for _ in self._requests])
                    return
                # Members still at work had MAX_WAIT_SECONDS: this batch and later ones begin
                # without them.
                self._not_waited_for |= self._working
                try:
                    taken = self._next_batch()
                except Exception as error:  # noqa: BLE001 - a fault of the queue is raised by every request
                    self._hand_out(self._requests, [error] * len(self._requests))
                    continue
            self._run_batch(taken)
            taken = []  # else logits stay in memory until the next batch

    def _wait_until_ready(self) -> None:
        """Wait until a batch may begin, or the run ends; the caller holds the lock."""
        while not self.stopped and not self._ready():
            max_seconds = None
            if self._requests:
                max_seconds = max(self._seconds_until_batch(), 0)
            self._batch_may_begin.wait(max_seconds)

    def _next_batch(self) -> list[_QueuedRequest]:
        """The requests of the next batch, all of one queue: of a queue that runs first if it has
        any, else of the queue whose request has waited longest. Raises what the queue's `take`
        raises."""
        queue = self._requests[0].queue
        for queued in self._requests:
            if queued.queue.runs_first:
                queue = queued.queue
                break
        of_queue = [queued for queued in self._requests if queued.queue is queue]
        indices = queue.take([queued.request for queued in of_queue])
        return [of_queue[index] for index in indices]

    def _run_batch(self, taken: list[_QueuedRequest]) -> None:
        """Run these requests, all of one queue, together, and hand their outcomes out. Calls of
        functions run one by one, so that each takes its own time alone. An error of the queue
        itself is the outcome of every request."""
        queue = taken[0].queue
        batches = [taken]
        if queue is _FUNCTION_CALLS:
            batches = [[queued] for queued in taken]
        outcomes: list[Any] = []
        try:
            for batch in batches:
                outcomes += _run_requests(queue, batch)
        except BaseException as error:  # noqa: BLE001 - raised again by every request
            outcomes = [error] * len(taken)
        with self._lock:
            self._hand_out(taken, outcomes)
            self._last_batch_end = time.monotonic()

    def _ready(self) -> bool:
        """Whether a batch may begin: there is a request, and all threads wait or had
        MAX_WAIT_SECONDS seconds."""
        if not self._requests:
            return False
        all_wait = self._working <= self._not_waited_for
        return all_wait or self._seconds_until_batch() <= 0

    def _seconds_until_batch(self) -> float:
        """How many seconds the next batch still waits for threads that are at work; 0 or less for
        none."""
        # MAX_WAIT_SECONDS counts from the end of the last batch: requests that waited for it join
        # those of its members.
        waits_since = max(self._requests[0].waits_since, self._last_batch_end)
        return waits_since + MAX_WAIT_SECONDS - time.monotonic()

    def _hand_out(self, taken: list[_QueuedRequest], outcomes: list[Any]) -> None:
        """Give each of these requests its outcome (a result or an exception), dequeue it and wake
        its thread. One that goes on (Again) moves to the end of the queue instead.

        Args:
            taken: The requests of a batch.
            outcomes: The outcome of each.
        """
        taken_ids = {id(queued) for queued in taken}
        self._requests = [queued for queued in self._requests if id(queued) not in taken_ids]
        ended: list[_QueuedRequest] = []
        for queued, outcome in zip(taken, outcomes, strict=True):
            if isinstance(outcome, Again):
                queued.request = outcome.request
                queued.waits_since = time.monotonic()
                self._requests.append(queued)
            else:
                queued.outcome = outcome
                ended.append(queued)
        # Counted before they wake: else the request of the first one to wake would run alone.
        self._working.update(queued.member for queued in ended)
        for queued in ended:
            queued.gate.release()

    def stop(self) -> None:
        """End the run: threads end with Stopped at their next call; a batch that runs is still
        finished."""
        with self._lock:
            self.stopped = True
            self._batch_may_begin.notify_all()
            self._slot_is_free.notify_all()

    def wait(self, seconds: float | None = None) -> None:
        """Return when all threads have ended; only after `stop`, or when the members end by
        themselves.

        Args:
            seconds: How long to wait for members after the current batch, which is always waited
                for; None for as long as it takes.
        """
        deadline = math.inf
        if seconds is not None:  # after `stop` no further batch begins
            self._batch_thread.join()
            deadline = time.monotonic() + seconds
        while True:
            with self._lock:
                alive = [thread for thread in self._members if thread.is_alive()]
            if not alive or time.monotonic() >= deadline:
                break
            for thread in alive:
                seconds_left = None
                if seconds is not None:
                    seconds_left = max(deadline - time.monotonic(), 0)
                thread.join(seconds_left)
        self.stop()
        self._batch_thread.join()
