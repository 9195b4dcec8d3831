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
        """Show how much of a stage is done, in place of the stage before it."""
        if stage not in bars:
            for bar in bars.values():
                bar.close()
            bars[stage] = tqdm(
                desc=stage,
                total=total,
                initial=done,
                leave=False,
                mininterval=_seconds_between_lines(),
                unit="",
            )
        bars[stage].update(done - bars[stage].n)

    try:
        yield show
    finally:
        for bar in bars.values():
            bar.close()


def _seconds_between_lines() -> float:
    """How often a bar is drawn: a terminal shows it at once, a log gets a line a minute."""
    if sys.stderr.isatty():
        return 0.2
    return 60.0
