"""Stop a long command: the first Ctrl-C or SIGTERM ends it after the current step, the second at
once."""

import shlex
import sys
from collections.abc import Callable

from harness.cli.output import say
from harness.parallel.signals import interrupt_on_signals
from harness.storage.paths import with_address_secrets_masked

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C or SIGTERM ended."""


def print_resume_command(outcome: str) -> None:
    """Print how the work ended (`outcome`), then this command, which
    resumes it, with passwords masked.
    """
    command = ["harness", *sys.argv[1:]]
    masked_command = [with_address_secrets_masked(word) for word in command]
    advice = "The same command resumes"
    if masked_command != command:
        advice += " (replace *** by the password)"
    say(f"{outcome}. {advice}:")
    say(shlex.join(masked_command))


def until_interrupted(work: Callable[[], int], outcome: str) -> int:
    """Call `work` and return its exit code.

    After Ctrl-C or SIGTERM it prints `outcome` and the command that resumes, and returns 130.
    """
    with interrupt_on_signals():
        try:
            return work()
        except KeyboardInterrupt:
            print_resume_command(outcome)
            return INTERRUPTED
