"""The log of a training as JSON lines; after a resumption no step is in it twice.

append(path, {"step": 50, ...})     add a line
cut(path, step=100)                 remove the lines after step 100, and an incomplete last line
cut(path, step=100, task="one")     the same for the lines of one task, by their "task_step"
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line. Raises OSError."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def cut(path: Path, step: int, task: str | None = None) -> None:
    """Remove the lines of steps that will be repeated, atomically. Raises OSError."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if _step(line, task) <= step]
    if kept != lines:
        draft = path.with_name(f".{path.name}")
        draft.write_text("".join(kept), encoding="utf-8")
        draft.replace(path)


def _step(line: str, task: str | None) -> float:
    """The step of a line: infinite for an incomplete line, minus infinity for another task's."""
    if not line.endswith("\n"):
        return math.inf
    try:
        values = json.loads(line)
        if task is not None and values["task"] != task:
            return -math.inf
        return float(values["step" if task is None else "task_step"])
    except (ValueError, KeyError, TypeError):
        return math.inf
