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


class _WaitingItem(Generic[T]):
    """An item that waits to be written, with the thread that brought it.

    Attributes:
        item: The item.
        written: Whether writing it was tried.
        error: Why it is not written; None where it is.
        wake_up: A lock, released once writing was tried or once its thread is to write.
    """

    def __init__(self, item: T) -> None:
        """Begin with the gate closed: its thread waits."""
        self.item = item
        self.written = False
        self.error: BaseException | None = None
        self.wake_up = threading.Lock()
        self.wake_up.acquire()


class SharedWrites(Generic[T]):
    """Writes items of several threads together: one of the threads
    that wait writes for all of them.
    """

    def __init__(self, write_all: Callable[[Sequence[T]], None]) -> None:
        """Begin with nothing to write.

        Args:
            write_all: Writes items in the order in which they came; called by one thread at a time.
        """
        self._write_all = write_all
        self._waiting: list[_WaitingItem[T]] = []
        self._is_writing = False  # whether a thread writes, or was told to
        self._lock = threading.Lock()

    def write(self, item: T) -> None:
        """Write an item, alone or with those of other threads; returns once it is written.

        Raises what `write_all` raised for the items that were written together.
        """
        own_item = _WaitingItem(item)
        with self._lock:
            self._waiting.append(own_item)
            another_writes = self._is_writing
            self._is_writing = True
        if another_writes:
            own_item.wake_up.acquire()
        if not own_item.written:  # it is this thread's turn to write
            self._write_waiting()
        if own_item.error is not None:
            raise own_item.error

    def _write_waiting(self) -> None:
        """Write all items that wait, wake their threads, and have one thread of those that came
        meanwhile write next.
        """
        with self._lock:
            batch, self._waiting = self._waiting, []
        error: BaseException | None = None
        try:
            self._write_all([waiting.item for waiting in batch])
        except BaseException as write_error:  # noqa: BLE001 - raised by every thread of the batch
            error = write_error
        for waiting in batch:
            waiting.error = error
            waiting.written = True
            waiting.wake_up.release()
        with self._lock:
            self._is_writing = bool(self._waiting)
            if self._is_writing:
                self._waiting[0].wake_up.release()
