"""Lines of `harness doctor` and of `reproduce --check`: what is there, and the command for what is
not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.cli.table_output import columns

State = Literal["ok", "hub", "missing", "problem"]


@dataclass(frozen=True)
class Check:
    """A line below `part`. state: hub: downloaded at first use; missing: some runs need it;
    problem: no run works."""

    part: str
    state: State
    name: str
    text: str


def print_checks(checks: Sequence[Check]) -> None:
    """Print the checks of each part below its name."""
    for part in dict.fromkeys(check.part for check in checks):
        print(f"{part}\n{columns([(c.state, c.name, c.text) for c in checks if c.part == part])}\n")
