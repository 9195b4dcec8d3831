"""The time that traces may take in one pass over run folders."""

from __future__ import annotations

import time


class TracingTime:
    """A number of seconds, which begins with the first question to `is_over`.

    MLflow's import and a new database come before that, and take tens of seconds on a busy
    machine.
    """

    def __init__(self, seconds: float) -> None:
        """Keep how many seconds traces may take; none of them has begun."""
        self._seconds = seconds
        self._end: float | None = None

    def is_over(self) -> bool:
        """Whether the seconds have passed. The first call also begins them."""
        now = time.monotonic()
        if self._end is None:
            self._end = now + self._seconds
        return now >= self._end
