"""Threads that write at the same time share one write, and one failure."""

import threading
import time

import pytest

from harness.errors import SaveError
from harness.storage.shared_writes import SharedWrites


def written_by(count, write_all):
    """Write 0, then 1 to count - 1 while the write of 0 goes on; returns the errors by item."""
    errors = {}
    began, others_wait = threading.Event(), threading.Event()

    def slow(items):
        if items == [0]:
            began.set()
            others_wait.wait(60)
        write_all(items)

    shared = SharedWrites(slow)

    def write(item):
        try:
            shared.write(item)
        except SaveError as error:
            errors[item] = error

    threads = [threading.Thread(target=write, args=[item]) for item in range(count)]
    threads[0].start()
    began.wait(60)
    for number, thread in enumerate(threads[1:], start=1):
        thread.start()
        while len(shared._waiting) < number:
            time.sleep(0.001)
    others_wait.set()
    for thread in threads:
        thread.join(60)
    return errors


def test_those_that_come_while_one_writes_are_written_together():
    calls = []
    assert written_by(9, calls.append) == {}
    assert calls == [[0], [1, 2, 3, 4, 5, 6, 7, 8]]


def test_a_write_that_fails_fails_for_all_that_it_held_and_for_no_other():
    def fails(items):
        if 3 in items:
            raise SaveError("full")

    assert set(written_by(5, fails)) == {1, 2, 3, 4}


def test_a_thread_alone_writes_at_once():
    calls = []
    shared = SharedWrites(calls.append)
    for item in "ab":
        shared.write(item)
    assert calls == [["a"], ["b"]]
    with pytest.raises(ZeroDivisionError):
        SharedWrites(lambda _: 1 / 0).write("a")
