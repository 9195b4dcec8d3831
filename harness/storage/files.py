"""Files written so that a crash at any moment leaves them readable.

write_atomic(path, data)     a temporary file beside it, fsync, rename: the old content or the new, never half
append_line(fd, path, data)  one line, fsync; a failed write is cut off again
read_lines(path, field)      every line of a JSON-lines file; a torn last line is left out, any other is an error
cut_torn_line(path, field)   cut a torn last line off, and say so
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from harness.errors import DataError, SaveError
from harness.storage.untrusted import as_object, regular_only

if TYPE_CHECKING:
    from harness.storage.run_schema import Schema


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def save_error(path: Path, error: OSError, place: str = "--out") -> SaveError:
    """A SaveError that says what could not be written and what to do. place: the option that sets the folder."""
    why = error.strerror or str(error)
    if error.errno == errno.ELOOP:
        fix = "it is a link to another place; remove it, then run the same command again"
    elif error.errno in _FULL:
        fix = "make room, then run the same command again; what was saved before is kept"
    else:
        fix = f"choose a folder you may write to with {place}"
    return SaveError(f"cannot write {path}: {why}; {fix}.")


def no_link(path: str, flags: int) -> int:
    """An opener for `open` that refuses links (OSError): a run folder may come from a stranger."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o644)


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at `path`, links not followed; None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def draft_path(path: Path) -> Path:
    """The temporary file for the next version of `path`; its name has host and process id, as folders are shared."""
    return path.with_name(f".{path.name}.{socket.gethostname()[:40]}.{os.getpid()}.tmp")


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, sync_folder: bool = True) -> None:
    """Replace `path` by `data`, or its pieces, in one step. Raises SaveError; the old file is then still there.

    sync_folder: sync the folder too, so that the new name survives a power cut; False where another file of it follows.
    """
    with replacing(path, sync_folder) as file:
        file.writelines([data] if isinstance(data, bytes) else data)


@contextlib.contextmanager
def replacing(path: Path, sync_folder: bool = True) -> Iterator[IO[bytes]]:
    """Open a draft that replaces `path` when the block ends; any exception leaves the old file. Raises SaveError.

    sync_folder: as in write_atomic.
    """
    draft = draft_path(path)
    try:
        with open(draft, "wb", opener=no_link) as file:
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


def delete_drafts(folder: Path, names: Sequence[str] = ("*",)) -> None:
    """Delete drafts of the files `names` that a killed writer left in `folder`; call it while holding the lock."""
    pattern = re.compile("|".join(fnmatch.translate(f".{name}.*.tmp") for name in names))
    for draft in filter(pattern.match, os.listdir(folder)):  # once: a folder of many shards has thousands of files
        with contextlib.suppress(OSError):
            (folder / draft).unlink()


def check_writable(folder: Path) -> None:
    """Make `folder` and check that it can be written by writing a file. Raises SaveError."""
    probe = draft_path(folder / "touch")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(probe, "wb", opener=no_link) as file:
            file.write(b"\0" * 65536)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise save_error(folder, error) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def append_line(fd: int, path: Path, data: bytes) -> None:
    """Append one line and wait until it is on disk.

    Raises SaveError; what a failed write left behind is cut off, so that the file still ends with a whole line.
    """
    size = os.fstat(fd).st_size
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise save_error(path, error) from error


def json_line(value: Any) -> bytes:
    """Strict JSON on one line, readable UTF-8 unless a lone surrogate forces escapes."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False).encode() + b"\n"


def _parse(line: bytes, field: str, schema: Schema | None = None) -> tuple[dict[str, Any] | None, str]:
    """Return the line's object, or None and the problem. Raises WrongValue where only one value is wrong."""
    if schema is not None:
        try:
            return schema.parse(line), ""
        except ValueError as error:
            if getattr(error, "key", "") not in ("", field):
                raise
    try:
        value = as_object(line)
    except ValueError as error:
        return None, f"not valid JSON ({error})"
    return (value, "") if isinstance(value.get(field), str) else (None, f"not an object with a '{field}'")


def read_lines(
    path: Path,
    field: str,
    notes: list[str] | None = None,
    schema: Schema | None = None,
    wanted: Callable[[bytes], bool] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the object of every line, checked by `schema` where one is given; a missing file has none.

    wanted: called with a line's bytes; lines for which it is false are skipped, damaged ones too. A bad last line is
    what a killed writer leaves: it is skipped and reported in `notes`. A bad one before raises DataError.
    """
    for _, _, value in indexed_lines(path, field, notes, schema, wanted):
        yield value


def indexed_lines(
    path: Path,
    field: str,
    notes: list[str] | None = None,
    schema: Schema | None = None,
    wanted: Callable[[bytes], bool] | None = None,
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield (byte offset, length, object) of every line, as `read_lines` does."""
    if not path.exists():
        return
    bad: tuple[int, str] | None = None
    end = 0
    with open(path, "rb", opener=regular_only) as file:
        for number, line in enumerate(file, start=1):  # lines end at \n only, so U+2028 inside a text is no line end
            end += len(line)
            if bad is not None:
                raise DataError(path.name, bad[0], None, f"{bad[1]} in {path.parent}; delete that line, then run again")
            if wanted is not None and not wanted(line):
                continue
            try:
                value, problem = _parse(line, field, schema)
            except ValueError as error:
                why = f"{error}; such a record cannot be used"
                raise DataError(path, number, getattr(error, "key", None), why) from None
            if value is None:
                bad = (number, problem)
            else:
                yield end - len(line), len(line), value
    if bad is not None and notes is not None:
        notes.append(f"{path.name}: the last line (line {bad[0]}) is torn and left out")


def cut_torn_line(path: Path, field: str) -> str | None:
    """Repair a torn last line: cut it off, or add its missing line end. Returns a sentence, None if nothing was torn.

    Raises DataError for a bad line before the last, and SaveError when the file cannot be changed.
    """
    if not path.exists():
        return None
    number, end = 0, 0
    for number, (at, size, _) in enumerate(indexed_lines(path, field), start=1):  # noqa: B007 - the last one counts
        end = at + size
    try:
        with open(path, "r+b", opener=no_link) as file:
            if torn := file.seek(0, os.SEEK_END) - end:
                file.truncate(end)
            else:
                file.seek(max(end - 1, 0))
                if file.read(1) in (b"\n", b""):
                    return None
                file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise save_error(path, error) from error
    how = f" by cutting {torn} bytes" if torn else ""
    return f"{path.name}: line {number + (torn > 0)} was torn; repaired{how}"
