"""Garbage collection does not stop a run while a reply is awaited.

    with heap_kept_out_of_collections():
        models are loaded
        keep_heap_out_of_collections()
        questions are asked

A full collection visits every object of the process. With the modules of torch and a loaded model
it takes about a second, which the run would count as the time of the application or the server
whose reply it waits for. Objects that are frozen are not visited.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from functools import cache


@contextlib.contextmanager
def heap_kept_out_of_collections() -> Iterator[None]:
    """Take the objects that exist now out of garbage collections until the block ends.

    In a process that had frozen objects itself before the first such block everything stays frozen,
    as the two cannot be told apart.
    """
    freezes_itself = process_freezes_objects()
    keep_heap_out_of_collections()
    try:
        yield
    finally:
        if not freezes_itself:
            gc.unfreeze()


@cache
def process_freezes_objects() -> bool:
    """Whether the process had frozen objects when this was first asked.

    The answer is cached, as Python counts the frozen objects one by one: 0.2 s for each batch of
    questions in a process with ten million of them.
    """
    return gc.get_freeze_count() > 0


def keep_heap_out_of_collections() -> None:
    """Take the objects that exist now out of garbage collections (gc.freeze); takes no time."""
    gc.freeze()
