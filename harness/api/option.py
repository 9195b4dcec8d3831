"""How a value is given on the command line, declared beside the value.

    limit: Annotated[int | None, choice("--limit N", "Only the first N questions.", "all")] = None

A request (run_request.py) and the options of every command are declared so. The command line makes
its options of it (harness/cli/command.py); Python sees a plain field.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Option:
    """An option of a command, as metadata of an Annotated type.

    Attributes:
        section: Its section of the help, of help_page.SECTIONS.
        spec: Its names and what stands for its value, "--method -m NAME,...".
        help: What it does.
        default: The default in words, where the value itself does not say it.
        complete: The kind of preset whose names the shell completes.
        min: Smallest value of a number.
        max: Largest value of a number.
        typed: The type as it is typed, where it differs from that of the value.
        read: Makes the value of what is typed. Raises UserError.
    """

    section: str
    spec: str
    help: str
    default: str | None = None
    complete: str | None = None
    min: float | None = None
    max: float | None = None
    typed: Any = None
    read: Callable[[Any], Any] | None = None

    @property
    def flags(self) -> list[str]:
        """The names of the option: ["--method", "-m"]."""
        return [word for word in self.spec.split(" ") if word.startswith("-")]

    @property
    def placeholder(self) -> str | None:
        """What stands for the option's value in the help, "NAME,..."; None for a switch."""
        return self.spec.removeprefix(" ".join(self.flags)).strip() or None


choice = functools.partial(Option, "What to run")
setting = functools.partial(Option, "Settings")
execution = functools.partial(Option, "Execution")
output = functools.partial(Option, "Output")

LocalData = Annotated[
    str | None, choice("--data PATH", "Local file or folder to load instead of the hub.")
]
RetryFailed = Annotated[bool, execution("--retry-failed", "Run the questions that failed again.")]
Out = Annotated[str, output("--out DIR", "Folder for the results.")]
Traces = Annotated[
    int, output("--traces N", "Questions of a run that MLflow shows as traces, 0 for none.", min=0)
]


def split_names(names: Iterable[str]) -> list[str]:
    """Split names at commas, each once, in order: ["a,b", 'c,"d,e"'] -> ["a", "b", "c", "d,e"].

    A name in quotation marks may hold a comma.
    """
    lines: list[str] = []  # csv takes a line end inside a text for an error
    for name in names:
        lines += name.splitlines()
    parts: dict[str, None] = {}  # as an ordered set
    for row in csv.reader(lines, skipinitialspace=True):
        parts |= dict.fromkeys(part.strip() for part in row)
    return [part for part in parts if part]
