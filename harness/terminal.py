"""The command's way to the terminal: control characters of data, models and servers are escaped on it.

    with guarded():
        print("a\\x1b]0;title\\x07")     a\\x1b]0;title\\x07, as harness.errors.printable shows it

Every line of every verb goes through here, and so do warnings, tracebacks and what libraries print. On stderr each line
is also cut to 2,000 characters; on stdout, where tables and JSON go, nothing is cut.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from harness.errors import printable


class _Screen:
    """A text stream whose `write` escapes; all else is the stream's own."""

    def __init__(self, stream: TextIO, cut: bool) -> None:
        self.stream, self._cut = stream, cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write `text` as `printable` shows it."""
        shown = "\n".join(map(printable, text.split("\n"))) if self._cut else printable(text, None)
        self.stream.write(shown)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of `lines`."""
        for line in lines:
            self.write(line)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Escape what is written to stdout and stderr inside."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("Any", _Screen(sys.stdout, False)), cast("Any", _Screen(sys.stderr, True))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def bars_allowed() -> Iterator[None]:
    """Let a library draw its progress bar on stderr inside; what the bar shows must be checked before."""
    before = sys.stderr
    sys.stderr = _plain(before)
    try:
        yield
    finally:
        sys.stderr = before


def _plain(stream: TextIO) -> TextIO:
    return stream.stream if isinstance(stream, _Screen) else stream


def erase_line(stream: TextIO) -> None:
    """Move to the start of the terminal's line and empty it; nothing else of this program writes control characters."""
    _plain(stream).write("\r\x1b[K")


def say(line: str) -> None:
    """Print a line on stderr, where everything but results goes."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
