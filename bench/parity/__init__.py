"""The authors' own programs beside ours, stage by stage: `python -m bench.parity` (docs/parity.md has what it found).

A pair is a module here with PROGRAM (the repository or package), METHODS (rows that it is about) and
run(code, rows) -> stages. Nothing of a program enters this project: it is imported from the folder that is named.
"""

from __future__ import annotations

import importlib
import math
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOLERANCE = 1e-9  # between two numbers, relative to the larger one


@dataclass(frozen=True)
class Stage:
    """One stage of a pair. compared, equal: items; reason: why the others differ; settled: what is done about it."""

    name: str
    compared: int
    equal: int
    reason: str = ""
    settled: str = ""


def stage(name: str, theirs: Iterable[Any], ours: Iterable[Any], reason: str = "", settled: str = "") -> Stage:
    """Compare two sequences item by item; numbers within TOLERANCE. Raises ValueError for different lengths."""
    pairs = list(zip(theirs, ours, strict=True))
    equal = sum(same(a, b) for a, b in pairs)
    return Stage(name, len(pairs), equal, reason if equal < len(pairs) else "", settled if equal < len(pairs) else "")


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, numbers in them within TOLERANCE."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(a == b)


def theirs(folder: Path, module: str, stand_ins: Mapping[str, Sequence[str]] = {}) -> Any:
    """Import a module of the program in `folder`. stand_ins: packages that the compared parts do not use -> names."""
    for name, attributes in stand_ins.items():
        if name not in sys.modules:
            made = types.ModuleType(name)
            for attribute in attributes:
                setattr(made, attribute, type(attribute, (), {"__class_getitem__": classmethod(lambda cls, _: cls)}))
            sys.modules[name] = made
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(str(folder))
