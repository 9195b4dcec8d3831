"""A long command that is asked to stop: the first Ctrl-C or SIGTERM ends the step at hand, the second everything.

say_again("interrupted; a checkpoint is saved", ["harness", "run", ...])     and how it goes on, the command last
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from harness.storage.paths import masked


def say(line: str) -> None:
    """A line for whoever watches, on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def say_again(what: str, command: Sequence[str]) -> None:
    """Say `what` became of the work, and the command that goes on, without the passwords that were typed in it."""
    shown = [masked(word) for word in command]
    say(f"{what}. The same command goes on from there" + (" (with what *** stands for):" if shown != command else ":"))
    say(shlex.join(shown))


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
