"""Whole files written so that a crash at any moment leaves the old content or the new, never half
of it.

A temporary file stands beside it until it is written, synced and renamed. JSON-lines files are in
json_lines.py.

Reading JSON and YAML; callers say which file it was and what to do:

read_object(path)              the JSON object in a file
as_object(data)                the JSON object in a text
check(value, form)             raises WrongValue where it is not of that form
parse_yaml(text, loader)       the values of a YAML text


Where files that outlive a run are kept.

home()        indexes, replies of judges, pinned revisions: `.harness/` in the current folder, or HARNESS_HOME
user_home()   converted models, the same for every folder: the user's cache folder, or HARNESS_HOME
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError

from harness.errors import SaveError, UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def save_error(path: Path, error: OSError, setting: str = "") -> SaveError:
    """A SaveError that says what could not be written and what to do.

    setting: the setting that names the folder; "" for a run folder, where --out is suggested if
    there is no folder.
    """
    why, folder = error.strerror or str(error), path if os.path.isdir(path) else path.parent
    if error.errno in _FULL:
        fix = "make room, then run the same command again; what was saved before is kept"
    elif not setting and os.path.isdir(folder):
        fix = f"make the folder {folder} writable, then run the same command again"
    else:
        fix = f"choose a folder you may write to with {setting or '--out'}"
    return SaveError(f"cannot write {path}: {why}; {fix}.")


def draft_path(path: Path) -> Path:
    """The temporary file for the next version of `path`; its name has host and process id, as
    folders are shared."""
    return path.with_name(f".{path.name}.{socket.gethostname()[:40]}.{os.getpid()}.tmp")


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, sync_folder: bool = True) -> None:
    """Replace `path` by `data`, or its pieces, in one step. Raises SaveError; the old file is then
    still there.

    sync_folder: sync the folder too, so that the new name survives a power cut; False where another
    file of it follows.
    """
    with replacing(path, sync_folder) as file:
        file.writelines([data] if isinstance(data, bytes) else data)


@contextlib.contextmanager
def replacing(path: Path, sync_folder: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` if the block ends well; sync_folder: as in write_atomic.
    Raises SaveError."""
    draft = draft_path(path)
    try:
        with open(draft, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        if sync_folder:
            fd = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    except BaseException as error:  # a signal too must leave the old file
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise save_error(path, error) from error
        raise


def delete_drafts(folder: Path, name: str = "*") -> None:
    """Delete what a killed writer of files named `name`, a pattern, left in `folder`; hold its lock
    meanwhile."""
    for draft in folder.glob(f".{name}.*.tmp"):
        with contextlib.suppress(OSError):
            draft.unlink()


def check_writable(folder: Path) -> None:
    """Make `folder` and check that it can be written by writing a file. Raises SaveError."""
    probe = draft_path(folder / "touch")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(probe, "wb") as file:
            file.write(b"\0" * 65536)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise save_error(folder, error) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def as_object(data: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError, also for any other JSON value."""
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value


class WrongValue(ValueError):
    """A value of the wrong type: key is its place ("config.dataset.name"), the message says what it
    should be."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


def check(value: Any, form: TypeAdapter[Any]) -> None:
    """Raise WrongValue where a key is missing or not of its type."""
    try:
        form.validate_python(value, strict=True)
    except ValidationError as e:
        # Report the most deeply nested error, the last of several; names of types in its place are
        # no keys.
        deepest = max(reversed(e.errors()), key=lambda error: len(error["loc"]))
        place = [
            str(key)
            for key in deepest["loc"]
            if key != "float" and not str(key).startswith("dict[")
        ]
        problem = (
            deepest["msg"]
            .replace("Input should be", "should be")
            .replace("Field required", "is missing")
        )
        raise WrongValue(".".join(place), problem.replace("dictionary", "object")) from None


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file. Raises OSError, ValueError."""
    return as_object(path.read_bytes())


def parse_yaml(text: str | bytes, loader: Any = None) -> Any:
    """Parse a YAML text by PyYAML's safe loader or one made from it. Raises ValueError,
    yaml.YAMLError."""
    import yaml

    return yaml.load(
        text, Loader=loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )  # C: ten times as fast


def home() -> Path:
    """The folder for caches, built models and lock files (not created here)."""
    return Path(os.environ.get("HARNESS_HOME") or ".harness")


def user_home() -> Path:
    """The folder for what is made once for a user (not created here): HARNESS_HOME or the XDG cache
    folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("HARNESS_HOME") or os.path.join(cache, "longdoc-harness"))


def check_home() -> None:
    """Make the folder that HARNESS_HOME names; the default one is not made: a run may need none.
    Raises UserError."""
    if not os.environ.get("HARNESS_HOME"):
        return
    try:
        home().mkdir(parents=True, exist_ok=True)
        os.scandir(home()).close()
    except OSError as e:
        why = f"cannot be used ({os.strerror(e.errno or 0)})"
        raise UserError(
            f"HARNESS_HOME='{home()}' {why}; set it to a folder that you may write to"
        ) from e


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(
        json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    os.replace(draft, path)


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """The JSON object in a file, {} where there is no file. Raises OSError, ValueError."""
    return read_object(path) if path.exists() else {}
