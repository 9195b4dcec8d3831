"""The progress of a command that goes through stages: reading rows, indexing passages, searching."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm


@contextlib.contextmanager
def stage_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a function that shows progress: show("indexing", 300,
    1000), with None for no known total.

    On a terminal that is a moving line, in a log a line a minute.
    """
    bars: dict[str, tqdm[Any]] = {}

    def show(stage: str, done: int, total: int | None) -> None:
        """Show how far a stage is; a new stage takes the place of the one before it.

        Args:
            stage: The name of the stage.
            done: How much of it is done.
            total: How much there is; None if unknown.
        """
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
    """How many seconds lie between two drawings of a bar: 0.2 on a terminal, 60 in a log."""
    if sys.stderr.isatty():
        return 0.2
    return 60.0
