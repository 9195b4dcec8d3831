"""What is printed of an error that ends a command, and its exit code (harness/cli/main.py lists the
codes)."""

import errno
import sys
import traceback

import typer

from harness.errors import SaveError, UserError, printable


def print_error(e: Exception) -> int:
    """Print an error, one of this program or of this machine in a sentence, and return the exit
    code."""
    if isinstance(e, typer.TyperException):
        context, message = getattr(e, "ctx", None), e.format_message()
        if type(e).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(f"{message}\n")
            return 2
        message = (
            message.partition(" (Possible options")[0].partition(", unable to parse")[0].rstrip(".")
        )
        if matches := getattr(e, "possibilities", None):
            message += f". Did you mean '{matches[0]}'?"
        sentence, code = (
            message + (f"  ({context.command_path} --help)" if context is not None else ""),
            2,
        )
    elif isinstance(e, UserError | SaveError):
        sentence, code = str(e), 2 if isinstance(e, UserError) else 3
    elif (error := _system_error(e)) is not None:
        sentence, code = error
    else:
        traceback.print_exc()
        return 1
    sys.stdout.flush()
    sys.stderr.write(f"error: {printable(sentence)}\n")
    return code


def _system_error(e: Exception) -> tuple[str, int] | None:
    """Message and exit code for an error of this machine (disk, permissions, limits); None for a
    bug."""
    name = f"'{str(e.filename)[:60]}'" if isinstance(e, OSError) and e.filename else "a file"
    sentences = {
        errno.ENAMETOOLONG: (
            f"{name}... is longer than a file's name may be; give a shorter one",
            2,
        ),
        errno.EACCES: (
            f"{name} may not be used (permission denied); allow it, or name another place",
            2,
        ),
        errno.EMFILE: ("too many files are open; allow more with: ulimit -n 1024", 2),
        errno.ENFILE: ("too many files are open on this machine; end other programs", 2),
        errno.ENOSPC: (
            (
                "nothing more can be written: no space is left; make room, then run the same command "
                "again"
            ),
            3,
        ),
    }
    if isinstance(e, RuntimeError) and str(e) == "can't start new thread":
        return (
            (
                "this machine allows no more threads; allow more with: ulimit -u 4096, or use "
                "--parallel 1"
            ),
            2,
        )
    return sentences.get(e.errno or 0) if isinstance(e, OSError) else None
