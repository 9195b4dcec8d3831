"""Where files that outlive a run are kept: `.harness/` in the current folder, or HARNESS_HOME."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def home() -> Path:
    """The folder for caches, built models and lock files (not created here)."""
    return Path(os.environ.get("HARNESS_HOME") or ".harness")


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(draft, path)


def read_lock(path: Path) -> dict[str, Any]:
    """The JSON object in `path`, {} when there is none."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
