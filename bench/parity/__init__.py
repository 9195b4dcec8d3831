"""The authors' own programs beside ours, stage by stage: `python -m bench.parity` (docs/parity.md
has what it found).

A pair is a module here with PROGRAM (the repository or package), METHODS (rows that it is about),
REASONS (stage -> why items differ; what was done about it) and compare(code, rows, found). Nothing
of a program enters this project: it is imported from the folder that is named.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock


@dataclass
class Stage:
    """Items compared and equal. answers: what the others change in the answers to 20 questions;
    reason: why."""

    compared: int = 0
    equal: int = 0
    answers: str = ""
    reason: str = ""


class Found(defaultdict[str, Stage]):
    """The stages of a pair by name, in the order in which they begin."""

    def __init__(self) -> None:
        """Begin without a stage; a stage that is asked for is made."""
        super().__init__(Stage)

    def add(self, name: str, theirs: Any, ours: Any, near: float = 1e-9) -> None:
        """Count an item of stage `name`, and whether both are equal: numbers within `near`,
        relative or absolute."""
        self[name].compared += 1
        self[name].equal += is_near(theirs, ours, near)

    def each(
        self, name: str, theirs: Iterable[Any], ours: Iterable[Any], near: float = 1e-9
    ) -> None:
        """Compare two sequences item by item, as `add` does. Raises ValueError for different
        lengths."""
        for pair in zip(theirs, ours, strict=True):
            self.add(name, *pair, near)

    def sets(self, name: str, theirs: Collection[Any], ours: Collection[Any]) -> None:
        """Count the items of `ours`, and as equal those that `theirs` has too, in any place."""
        self[name].compared += len(ours)
        self[name].equal += len({*theirs} & {*ours})


def is_near(a: Any, b: Any, near: float = 1e-9) -> bool:
    """Whether two values are equal, numbers in them within `near`."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(is_near(x, y, near) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=near, abs_tol=near)
    return bool(a == b)


def stand_in(*names: str) -> None:
    """Put mocks in place of modules that a program imports and the compared parts do not use."""
    for name in names:
        sys.modules.setdefault(name, mock.MagicMock())


def import_theirs(folder: Path, module: str) -> Any:
    """Import a module of the program in `folder`."""
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(folder))
