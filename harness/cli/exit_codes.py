"""What is printed of an error that ends a command, and its exit code (harness/cli/main.py lists the
codes)."""

import errno
import sys
import traceback
from typing import Any, NamedTuple

import typer

from harness.errors import SaveError, UserError, printable


def print_error(error: Exception) -> int:
    """Print an error that ended a command, and return the exit code.

    An error of the user, of this program or of this machine is one sentence; a bug has its
    traceback. A group that was called without a command prints its help.
    """
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help of a group
        sys.stderr.write(f"{_message_of(error)}\n")
        return 2
    ending = _ending_of(error)
    if ending is None:
        traceback.print_exc()
        return 1
    sys.stdout.flush()
    sys.stderr.write(f"error: {printable(ending.sentence)}\n")
    return ending.code


class _Ending(NamedTuple):
    """How a command ends: what is printed, and its exit code."""

    sentence: str
    code: int


def _ending_of(error: Exception) -> _Ending | None:
    """How a command ends after an error: a sentence and its exit code; None for a bug."""
    if isinstance(error, typer.TyperException):
        return _Ending(_usage_sentence(error), 2)
    if isinstance(error, UserError):
        return _Ending(str(error), 2)
    if isinstance(error, SaveError):
        return _Ending(str(error), 3)
    return _ending_of_machine_error(error)


def _message_of(error: Any) -> str:
    """The message of an error that typer raised."""
    message: str = error.format_message()
    return message


def _usage_sentence(error: Exception) -> str:
    """Write a mistake in the command line as a sentence, with the command whose help says more.

    "No such option: --metod. Did you mean '--method'?  (harness run --help)"
    """
    message = _message_of(error).partition(" (Possible options")[0]
    message = message.partition(", unable to parse")[0].rstrip(".")
    matches = getattr(error, "possibilities", None)
    if matches:
        message += f". Did you mean '{matches[0]}'?"
    context = getattr(error, "ctx", None)
    if context is not None:
        message += f"  ({context.command_path} --help)"
    return message


def _ending_of_machine_error(error: Exception) -> _Ending | None:
    """The sentence and exit code for an error of this machine (disk,
    permissions, limits); None for a bug.
    """
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return _Ending(
            "this machine allows no more threads; allow more with: ulimit -u 4096, or use "
            "--parallel 1",
            2,
        )
    if not isinstance(error, OSError):
        return None
    file_name = "a file"
    if error.filename:
        file_name = f"'{str(error.filename)[:60]}'"
    ending_by_errno = {
        errno.ENAMETOOLONG: _Ending(
            f"{file_name}... is longer than a file's name may be; give a shorter one", 2
        ),
        errno.EACCES: _Ending(
            f"{file_name} may not be used (permission denied); allow it, or name another place", 2
        ),
        errno.EMFILE: _Ending("too many files are open; allow more with: ulimit -n 1024", 2),
        errno.ENFILE: _Ending("too many files are open on this machine; end other programs", 2),
        errno.ENOSPC: _Ending(
            "nothing more can be written: no space is left; make room, then run the same command "
            "again",
            3,
        ),
    }
    return ending_by_errno.get(error.errno or 0)
