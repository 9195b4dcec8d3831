"""The log of a training, one JSON line every so many steps: after a resumption no step is in it twice.

append(path, {"step": 50, ...})     at the end
cut(path, step=100)                 without what was logged after step 100, and without a line that was torn
cut(path, step=100, task="one")     of one of several tasks by their own "task_step"; the lines of others stay
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def append(path: Path, line: Mapping[str, Any]) -> None:
    """Write one more line. Raises OSError."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def cut(path: Path, step: int, task: str | None = None) -> None:
    """Drop the lines of steps that will be done again; a reader sees the old file or the new one. Raises OSError."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if _step(line, task) <= step]
    if kept != lines:
        draft = path.with_name(f".{path.name}")
        draft.write_text("".join(kept), encoding="utf-8")
        draft.replace(path)


def _step(line: str, task: str | None) -> float:
    """The step of a line; of one that was torn: after all others, of another task: before all others."""
    if not line.endswith("\n"):
        return math.inf
    try:
        told = json.loads(line)
        if task is not None and told["task"] != task:
            return -math.inf
        return float(told["step" if task is None else "task_step"])
    except (ValueError, KeyError, TypeError):
        return math.inf
