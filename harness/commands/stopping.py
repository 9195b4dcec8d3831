"""A long command that is asked to stop: the first Ctrl-C or SIGTERM ends the step at hand, the second everything."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

__all__ = ["say", "signals"]


def say(line: str) -> None:
    """A line for whoever watches, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextlib.contextmanager
def signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at the first signal, raise KeyboardInterrupt at the second."""

    def ask(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        say("stopping after this step; once more to stop at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
