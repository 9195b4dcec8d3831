"""Which Scheduler a thread belongs to, and locks that its threads wait for without holding a slot.

current()                     the Scheduler of the calling thread, None outside of one
with locks.hold("key"): ...   one thread at a time for each key
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.parallel.scheduler import Scheduler

local = threading.local()  # scheduler, member, queued: of a thread of a Scheduler


class Stopped(BaseException):
    """The run ends: not an Exception, so that no method takes it for a failure of its own."""


def current() -> Scheduler | None:
    """The Scheduler that the calling thread is a member of; None outside of one."""
    scheduler: Scheduler | None = getattr(local, "scheduler", None)
    return scheduler


class KeyedLocks:
    """A lock for each key; threads that wait for it give up their slot. Without a Scheduler nothing is locked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}

    @contextlib.contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Hold the lock of `key` in the block; a thread may nest it. Raises Stopped when the run ends meanwhile."""
        scheduler = current()
        if scheduler is None:
            yield
            return
        with self._lock:
            lock = self._locks.setdefault(key, threading.RLock())
        if not lock.acquire(blocking=False):
            try:
                with scheduler.without_slot():
                    lock.acquire()
            except Stopped:
                lock.release()
                raise
        try:
            yield
        finally:
            lock.release()
