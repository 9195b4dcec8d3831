"""Whole files written so that a crash at any moment leaves the old content or the new, never half
of it.

A temporary file stands beside it until it is written, synced and renamed. JSON-lines files are in
json_lines.py.

Reading JSON (YAML: yaml_text.py); callers say which file it was and what to do:

read_object(path)              the JSON object in a file
parse_object(data)             the JSON object in a text
check_form(value, form)        raises WrongValue where it is not of that form

Where files that outlive a run are kept.

harness_home()  indexes, replies of judges, pinned revisions: `.harness/` in the current folder, or HARNESS_HOME
user_home()     converted models, the same for every folder: the user's cache folder, or HARNESS_HOME
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from harness.errors import SaveError, UserError

DRAFT_FOLDER = ".draft-"
_SECONDS_UNTIL_ABANDONED = 86_400  # after which the process that wrote a draft has ended
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def save_error(path: Path, error: OSError, setting: str = "") -> SaveError:
    """Make a SaveError that says what could not be written and what to do.

    Args:
        path: What could not be written.
        error: Why.
        setting: The setting that names the folder; "" for a run folder, where --out is suggested if
            there is no folder.
    """
    why = error.strerror or str(error)
    folder = path
    if not os.path.isdir(path):
        folder = path.parent
    is_run_folder = not setting and os.path.isdir(folder)
    if error.errno in _DISK_IS_FULL:
        advice = "make room, then run the same command again; what was saved before is kept"
    elif is_run_folder:
        advice = f"make the folder {folder} writable, then run the same command again"
    else:
        advice = f"choose a folder you may write to with {setting or '--out'}"
    return SaveError(f"cannot write {path}: {why}; {advice}.")


def draft_path(path: Path) -> Path:
    """A new path of a temporary file beside `path`: "a.json" -> ".a.json.<16 hex>.tmp".

    Its name is random: threads of one process, and machines that share the folder, may write the
    same file at once.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def make_folder(folder: Path, setting: str = "") -> None:
    """Make a folder and those above it. Raises SaveError, whose advice names `setting`, the setting
    that the folder is from ("": --out).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise save_error(folder, error, setting) from error


def write_atomic(
    path: Path, data: bytes | Iterable[bytes], *, sync_folder: bool = True, setting: str = ""
) -> None:
    """Replace a file in one step; if that fails, the old file is still there.

    Args:
        path: The file, in a folder that is there.
        data: Its new content, whole or in pieces.
        sync_folder: Sync the folder too, so that the new name survives a power cut; False where
            another file of it follows.
        setting: The setting that an error advises to change; "": --out.

    Raises:
        SaveError: The file cannot be written.
    """
    if isinstance(data, bytes):
        data = [data]
    with replacing(path, sync_folder=sync_folder, setting=setting) as file:
        file.writelines(data)


@contextlib.contextmanager
def replacing(path: Path, sync_folder: bool = True, setting: str = "") -> Iterator[IO[bytes]]:
    """Give an open temporary file that replaces `path` once the block ends well.

    If the block raises, the temporary file is deleted and the old file stays.

    Args:
        path: The file, in a folder that is there.
        sync_folder: Sync the folder too, so that the new name survives a power cut.
        setting: The setting that an error advises to change; "": --out.

    Raises:
        SaveError: The file cannot be written.
    """
    draft = draft_path(path)
    try:
        with open(draft, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        if sync_folder:
            _sync(path.parent)
    except BaseException as error:  # a signal too must leave the old file
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise save_error(path, error, setting) from error
        raise


@contextlib.contextmanager
def new_folder(folder: Path, setting: str) -> Iterator[Path]:
    """Yield an empty folder to write into; it becomes `folder` once the block ends well.

    If another process made `folder` meanwhile, that one stays and no error is raised.

    Args:
        folder: The folder that is to be made; those above it are made too.
        setting: The setting that an error advises to change.

    Raises:
        SaveError: Something cannot be written.
    """
    draft = folder.with_name(f"{DRAFT_FOLDER}{secrets.token_hex(8)}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
        yield draft
        for path in draft.rglob("*"):
            _sync(path)
        os.rename(draft, folder)
        _sync(folder.parent)
    except OSError as error:
        is_made_by_other_process = (
            error.errno in (errno.ENOTEMPTY, errno.EEXIST) and folder.is_dir()
        )
        if not is_made_by_other_process:
            raise save_error(folder, error, setting) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Delete a folder: it is renamed first, so that no reader sees half of it.

    One that cannot be renamed stays, without an error.
    """
    draft = folder.with_name(f"{DRAFT_FOLDER}{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        os.rename(folder, draft)
    shutil.rmtree(draft, ignore_errors=True)


def delete_abandoned_drafts(parent: Path) -> None:
    """Delete the drafts that killed writers of `new_folder` left in `parent` more than a day
    ago.
    """
    with contextlib.suppress(OSError):
        for draft in parent.glob(f"{DRAFT_FOLDER}*"):
            if time.time() - draft.stat().st_mtime > _SECONDS_UNTIL_ABANDONED:
                shutil.rmtree(draft, ignore_errors=True)


def _sync(path: Path) -> None:
    """Wait until the content of a file or folder is on disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete_drafts(folder: Path, file_pattern: str = "*") -> None:
    """Delete the temporary files (".NAME.*.tmp") that a killed writer left in a folder.

    Only the holder of the lock on these files may call it: the drafts of a living writer would be
    deleted too.

    Args:
        folder: The folder.
        file_pattern: A glob pattern of the names of the files that were being written.
    """
    for draft in folder.glob(f".{file_pattern}.*.tmp"):
        with contextlib.suppress(OSError):
            draft.unlink()


def check_writable(folder: Path) -> None:
    """Make `folder` and check that it can be written: write a temporary file of 64 KiB and delete
    it.

    Raises SaveError.
    """
    test_file = draft_path(folder / "touch")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(test_file, "wb") as file:
            file.write(b"\0" * 64 * 1024)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise save_error(folder, error) from error
    finally:
        with contextlib.suppress(OSError):
            test_file.unlink(missing_ok=True)


def parse_object(data: str | bytes) -> dict[str, Any]:
    """Parse a text that holds a JSON object. Raises ValueError, also for any other JSON value."""
    try:
        value = from_json(data)
    except ValueError:
        # Slower, but it reads lone surrogates and deeper nesting, and says what is wrong.
        value = _parse_slowly(data)
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value


def _parse_slowly(data: str | bytes) -> Any:
    """Parse any JSON value with Python's own parser. Raises ValueError."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class WrongValue(ValueError):
    """A value of the wrong type: key is its place ("config.dataset.name"), the message says what it
    should be."""

    def __init__(self, key: str, problem: str) -> None:
        """Keep the place of the value.

        Args:
            key: The place of the value: "config.dataset.name".
            problem: What the value should be; the message of the error.
        """
        super().__init__(problem)
        self.key = key


def check_form(value: Any, form: TypeAdapter[Any]) -> None:
    """Raise WrongValue where parsed JSON does not have the keys and types that `form` asks for."""
    try:
        form.validate_python(value, strict=True)
    except ValidationError as error:
        raise wrong_value(error) from None


def wrong_value(error: ValidationError) -> WrongValue:
    """Turn pydantic's error into one sentence about one value.

    Of several problems it is the last of the most deeply nested ones.
    {"loc": ("usage", "dict[str,float]", "search"), "msg": "Input should be a valid number"}
        -> WrongValue("usage.search", "should be a valid number")
    """
    last_first = reversed(error.errors())
    deepest = max(last_first, key=lambda each: len(each["loc"]))
    keys = [str(key) for key in deepest["loc"] if not _is_name_of_type(str(key))]
    problem = deepest["msg"].replace("Input should be", "should be")
    problem = problem.replace("Field required", "is missing")
    problem = re.sub(r" or instance of \w+$", "", problem)
    problem = problem.replace("dictionary", "object")
    return WrongValue(".".join(keys), problem)


def _is_name_of_type(key: str) -> bool:
    """Whether a part of an error's place is no key but pydantic's name of a type, as
    "dict[str,float]".
    """
    return key == "float" or key.startswith("dict[")


def read_object(path: Path) -> dict[str, Any]:
    """Read and parse the JSON object in a file. Raises OSError, ValueError."""
    return parse_object(path.read_bytes())


def harness_home() -> Path:
    """The folder for caches, built models and lock files: HARNESS_HOME, else .harness in the
    current folder. It is not created here.
    """
    return Path(os.environ.get("HARNESS_HOME") or ".harness")


def user_home() -> Path:
    """The folder for what is made once for a user: HARNESS_HOME, else longdoc-harness in the user's
    cache folder (XDG_CACHE_HOME or ~/.cache). It is not created here.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("HARNESS_HOME") or os.path.join(cache, "longdoc-harness"))


def check_home() -> None:
    """Make the folder that HARNESS_HOME names and check that it can be listed. Raises UserError.

    The default folder is not made: a run may need none.
    """
    if not os.environ.get("HARNESS_HOME"):
        return
    try:
        harness_home().mkdir(parents=True, exist_ok=True)
        os.scandir(harness_home()).close()
    except OSError as error:
        why = f"cannot be used ({os.strerror(error.errno or 0)})"
        raise UserError(
            f"HARNESS_HOME='{harness_home()}' {why}; set it to a folder that you may write to"
        ) from error


def write_json(path: Path, value: Any, setting: str = "") -> None:
    """Write a JSON object into a file, whose folder is made. Raises SaveError.

    Args:
        path: The file.
        value: The object; its keys are sorted.
        setting: The setting that an error advises to change; "": --out.
    """
    make_folder(path.parent, setting)
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_atomic(path, text.encode(), setting=setting)


def read_json_or_empty(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file; {} where there is no file. Raises OSError, ValueError."""
    if not path.exists():
        return {}
    return read_object(path)
