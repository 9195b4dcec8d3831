"""tools.map with several items at work at once: order kept, the first failure in order raised, costs booked in order.

    map_together(scheduler, fn, items, meter) -> [fn(item), ...]

The calling thread works too; for every item that begins, one more member starts while the scheduler has a free
place. So a map inside a map, or in a run whose places are all taken, runs in the calling thread alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from harness.cost.meter import Meter
from harness.parallel.scheduler import Scheduler

T = TypeVar("T")
R = TypeVar("R")


def map_together(scheduler: Scheduler, fn: Callable[[T], R], items: Sequence[T], meter: Meter) -> list[R]:
    """Apply fn to every item.

    When one raises, no further item is begun, those that have begun are waited for (what they cost is booked, the
    parts they kept stay), and the exception of the first failed item in order is raised.
    """
    job = _Map(scheduler, fn, items, meter)
    job.work()
    if job.others:
        with scheduler.aside():
            job.wait()
    meter.join(job.branches)
    if job.errors:
        raise job.errors[min(job.errors)]
    return [job.results[n] for n in range(len(items))]


class _Map(Generic[T, R]):
    def __init__(self, scheduler: Scheduler, fn: Callable[[T], R], items: Sequence[T], meter: Meter) -> None:
        self._scheduler, self._fn, self._items = scheduler, fn, items
        self.branches = meter.fork(len(items))
        self.results: dict[int, R] = {}
        self.errors: dict[int, BaseException] = {}
        self.others = 0  # members beside the calling thread that are at work on this map
        self._begun = 0
        self._changed = threading.Condition()

    def work(self) -> None:
        """Take items in order until there are none left, or one has failed."""
        while (n := self._next()) is not None:
            try:
                with self.branches[n]:
                    self.results[n] = self._fn(self._items[n])
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that called map
                self.errors[n] = error

    def _next(self) -> int | None:
        with self._changed:
            if self.errors or self._begun == len(self._items):
                return None
            n, self._begun = self._begun, self._begun + 1
            if self._begun < len(self._items):
                self.others += self._scheduler.start_if_free(self.work, self._lower)
        return n

    def _lower(self) -> None:
        with self._changed:
            self.others -= 1
            self._changed.notify()

    def wait(self) -> None:
        """Wait for the members that still work."""
        with self._changed:
            while self.others:
                self._changed.wait()
