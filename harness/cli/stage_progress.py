"""The progress of a command that goes through stages: reading rows, indexing passages, searching."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm


@contextlib.contextmanager
def stage_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """A function that shows (stage, number done, of how many): a line of the terminal, or one a
    minute in a log."""
    bars: dict[str, tqdm[Any]] = {}

    def show(stage: str, done: int, total: int | None) -> None:
        if stage not in bars:
            for bar in bars.values():
                bar.close()
            often = 0.2 if sys.stderr.isatty() else 60.0
            bars[stage] = tqdm(
                desc=stage, total=total, initial=done, leave=False, mininterval=often, unit=""
            )
        bars[stage].update(done - bars[stage].n)

    try:
        yield show
    finally:
        for bar in bars.values():
            bar.close()
