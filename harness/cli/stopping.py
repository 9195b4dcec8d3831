"""Stop a long command: the first Ctrl-C or SIGTERM ends it after the current step, the second at once."""

import contextlib
import shlex
import signal
import sys
import threading
from collections.abc import Callable

from harness.cli.output import say
from harness.parallel.signals import interrupt_on_signals, on_signals
from harness.storage.paths import masked

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C or SIGTERM ended."""


def print_resume_command(outcome: str) -> None:
    """Print the `outcome` of the work, then this command, which resumes it, passwords masked."""
    command = ["harness", *sys.argv[1:]]
    shown = [masked(word) for word in command]
    say(f"{outcome}. The same command resumes" + (" (replace *** by the password):" if shown != command else ":"))
    say(shlex.join(shown))


def until_interrupted(work: Callable[[], int], outcome: str) -> int:
    """Call `work` and return its exit code; after Ctrl-C or SIGTERM print `outcome`, how to resume, and return 130."""
    with interrupt_on_signals():
        try:
            return work()
        except KeyboardInterrupt:
            print_resume_command(outcome)
            return INTERRUPTED


def stop_on_signals(stop: threading.Event) -> contextlib.AbstractContextManager[None]:
    """Inside the block set `stop` at the first Ctrl-C or SIGTERM, raise KeyboardInterrupt at the second."""

    def stop_or_raise(_number: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        say("stopping after this step; press Ctrl-C again to stop at once")

    return on_signals(stop_or_raise, signal.SIGINT, signal.SIGTERM)
