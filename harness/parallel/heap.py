"""Garbage collection does not stop a run while a reply is awaited.

    with heap_kept_out_of_collections():
        models are loaded
        keep_heap_out_of_collections()
        questions are asked

A full collection visits every object of the process. With the modules of torch and a loaded model it
takes about a second, which the run would count as the time of the application or the server whose
reply it waits for. Objects that are frozen are not visited.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def heap_kept_out_of_collections() -> Iterator[None]:
    """Take the objects that exist now out of garbage collections until the block ends.

    In a process that has frozen objects itself everything stays frozen, as the two cannot be told
    apart.
    """
    was_frozen = gc.get_freeze_count() > 0
    keep_heap_out_of_collections()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()


def keep_heap_out_of_collections() -> None:
    """Freeze what was made since the last call; takes no time."""
    gc.freeze()
