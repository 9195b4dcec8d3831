"""Locks that threads of a Scheduler wait for without holding a slot.

with locks.hold("key"): ...   one thread at a time for each key
"""

import contextlib
import threading
from collections.abc import Iterator

from harness.parallel.members import Stopped, current_scheduler


class KeyedLocks:
    """A lock for each key; threads that wait for it give up their slot. Without a Scheduler nothing
    is locked."""

    def __init__(self) -> None:
        """Begin without locks; the lock of a key is made when it is first held."""
        self._lock = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}

    @contextlib.contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Context manager: holds the lock of `key` in its block; a thread may nest it. Raises
        Stopped when the run ends meanwhile."""
        scheduler = current_scheduler()
        if scheduler is None:  # questions are answered in turn: there is no other thread
            yield
            return
        with self._lock:
            lock = self._locks.setdefault(key, threading.RLock())
        if not lock.acquire(blocking=False):
            try:
                with scheduler.without_slot():
                    lock.acquire()
            except Stopped:  # raised at the end of the block, where the lock was acquired
                lock.release()
                raise
        try:
            yield
        finally:
            lock.release()
