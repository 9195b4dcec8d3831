"""The time that traces may take in one pass over run folders."""

from __future__ import annotations

import time


class TracingTime:
    """A number of seconds, which is started after MLflow's import and a new database.

    These two take tens of seconds on a busy machine.
    """

    def __init__(self, seconds: float) -> None:
        """Keep how many seconds traces may take; they are not started yet."""
        self._seconds = seconds
        self._end: float | None = None

    def start_once(self) -> None:
        """Start the seconds, unless they have been started."""
        if self._end is None:
            self._end = time.monotonic() + self._seconds

    def is_over(self) -> bool:
        """Whether the seconds were started and have passed."""
        return self._end is not None and time.monotonic() >= self._end
