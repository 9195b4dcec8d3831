"""Writes of several threads, made together: one of the threads that wait writes for all of them.

    shared = SharedWrites(write_all)
    shared.write(item)       returns once write_all([..., item, ...]) has returned

While one thread writes and syncs a file, others come; the first of them then writes for all that
came. So a disk that takes 5 ms to sync is asked 200 times a second, however many threads write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class _Waiting(Generic[T]):
    """An item that is not written yet.

    Attributes:
        item: The item.
        written: Whether it was tried.
        error: Why it is not written.
        gate: Released once it was tried, or once its thread is to write.
    """

    def __init__(self, item: T) -> None:
        self.item = item
        self.written = False
        self.error: BaseException | None = None
        self.gate = threading.Lock()
        self.gate.acquire()


class SharedWrites(Generic[T]):
    """See the module. write_all: writes items in the order in which they came; called by one thread
    at a time."""

    def __init__(self, write_all: Callable[[Sequence[T]], None]) -> None:
        self._write_all = write_all
        self._waiting: list[_Waiting[T]] = []
        self._busy = False  # whether a thread writes, or was told to
        self._lock = threading.Lock()

    def write(self, item: T) -> None:
        """Return once the item is written. Raises what `write_all` raised for it, or for items that
        were written with it."""
        mine = _Waiting(item)
        with self._lock:
            self._waiting.append(mine)
            waits = self._busy
            self._busy = True
        if waits:
            mine.gate.acquire()
        if not mine.written:
            self._write_waiting()
        if mine.error is not None:
            raise mine.error

    def _write_waiting(self) -> None:
        """Write all that wait, and have the next thread write what has come meanwhile."""
        with self._lock:
            batch, self._waiting = self._waiting, []
        error: BaseException | None = None
        try:
            self._write_all([waiting.item for waiting in batch])
        except BaseException as raised:  # noqa: BLE001 - raised by every thread of the batch
            error = raised
        for waiting in batch:
            waiting.error = error
            waiting.written = True
            waiting.gate.release()
        with self._lock:
            self._busy = bool(self._waiting)
            if self._busy:
                self._waiting[0].gate.release()
