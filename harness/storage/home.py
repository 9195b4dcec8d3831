"""Where files that outlive a run are kept.

home()        indexes, replies of judges, pinned revisions: `.harness/` in the current folder, or HARNESS_HOME
user_home()   converted models, the same for every folder: the user's cache folder, or HARNESS_HOME
"""

import json
import os
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.storage.read_files import read_object


def home() -> Path:
    """The folder for caches, built models and lock files (not created here)."""
    return Path(os.environ.get("HARNESS_HOME") or ".harness")


def user_home() -> Path:
    """The folder for what is made once for a user (not created here): HARNESS_HOME or the XDG cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("HARNESS_HOME") or os.path.join(cache, "longdoc-harness"))


def check_home() -> None:
    """Make the folder that HARNESS_HOME names; the default one is not made: a run may need none. Raises UserError."""
    if not os.environ.get("HARNESS_HOME"):
        return
    try:
        home().mkdir(parents=True, exist_ok=True)
        os.scandir(home()).close()
    except OSError as e:
        why = f"cannot be used ({os.strerror(e.errno or 0)})"
        raise UserError(f"HARNESS_HOME='{home()}' {why}; set it to a folder that you may write to") from e


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(draft, path)


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """The JSON object in a file, {} where there is no file. Raises OSError, ValueError."""
    return read_object(path) if path.exists() else {}
