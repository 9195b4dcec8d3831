"""JSON-lines files written so that a crash at any moment leaves them readable.

append_line(fd, path, data)  one line, or several, fsync; a failed write is cut off again
read_lines(path, field)      every line of a JSON-lines file; a torn last line is left out, any other is an error
read_with_older(path, field) also those of PATH.gz, which older versions wrote
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from harness.errors import DataError, SaveError
from harness.storage.files import WrongValue, check_form, parse_object, save_error


class LinePlace(NamedTuple):
    """Where a line is in its file, counted in bytes; the length includes the line's end."""

    offset: int
    length: int


class JsonLine(NamedTuple):
    """The JSON object of a line, and where the line is in its file, as LinePlace counts it."""

    offset: int
    length: int
    value: dict[str, Any]

    @property
    def place(self) -> LinePlace:
        """Where the line is in its file."""
        return LinePlace(self.offset, self.length)


class _DamagedLine(NamedTuple):
    """A line that holds no object that can be used: its number, from 1, and what is wrong."""

    line_number: int
    problem: str


def append_line(fd: int, path: Path, data: bytes) -> None:
    """Append data to a file and wait until it is on disk. A failed write is cut off again.

    Args:
        fd: The descriptor of the open file.
        path: The file's name.
        data: One line or several, line ends included.

    Raises:
        SaveError: The write failed, or `path` is another file by now: an open file outlives its
            name, so further lines would be lost.
    """
    size_before = os.fstat(fd).st_size
    try:
        not_written = memoryview(data)
        while not_written:
            n_written = os.write(fd, not_written)
            not_written = not_written[n_written:]
        os.fsync(fd)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size_before)
        raise save_error(path, error) from error
    check_in_place(fd, path)


def check_in_place(fd: int, path: Path) -> None:
    """Raise SaveError where the open file `fd` is not the one at `path` any more."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(fd), path.stat()):
            return
    raise SaveError(
        f"{path} was removed or replaced while the run went on, so no further answer can be saved; "
        "put it back if "
        "you can, then run the same command again."
    )


def json_line(value: object) -> bytes:
    """Write a value as strict JSON (no NaN) on one line: UTF-8, with escapes only where a lone
    surrogate forces them.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False).encode() + b"\n"


def read_lines(
    path: Path,
    field: str,
    notes: list[str] | None = None,
    form: TypeAdapter[Any] | None = None,
    is_wanted: Callable[[bytes], bool] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of every line; a missing file has none.

    A bad last line is what a killed writer leaves: it is skipped.

    Args:
        path: The file.
        field: A key that every object must have, with a text.
        notes: A sentence on a bad last line is added to it.
        form: What each object must look like (run_schema.py); None: no check.
        is_wanted: Called with a line's bytes; False skips the line, also a damaged one.

    Raises:
        DataError: A line before the last is damaged.
    """
    for line in indexed_lines(path, field, notes, form, is_wanted):
        yield line.value


def read_with_older(path: Path, field: str) -> Iterator[dict[str, object]]:
    """Yield the JSON objects of the lines in PATH.gz, which older versions wrote and which may be
    missing, then those in `path`.

    Args:
        path: The file as it is named today.
        field: A key that every object of both files must have, with a text.

    Raises:
        DataError: A line of PATH.gz is damaged (but what a killed writer did not end is skipped),
            or one of `path` before its last.
    """
    older_file = path.with_name(f"{path.name}.gz")
    if older_file.exists():
        try:
            with gzip.open(older_file) as file:
                for line in file:
                    value = parse_object(line)
                    _check_has_text(value, field)
                    yield value
        except EOFError:  # a writer was killed
            pass
        except (OSError, ValueError, zlib.error) as error:
            raise DataError.of_file(
                older_file, f"damaged ({error}); remove it to go on without its texts"
            ) from None
    yield from read_lines(path, field)


def indexed_lines(
    path: Path,
    field: str,
    notes: list[str] | None = None,
    form: TypeAdapter[Any] | None = None,
    is_wanted: Callable[[bytes], bool] | None = None,
) -> Iterator[JsonLine]:
    """Yield the JSON object of every line with its place in the file; a missing file has none.

    A bad last line is what a killed writer leaves: it is skipped.

    Args:
        path: The file.
        field: A key that every object must have, with a text.
        notes: A sentence on a bad last line is added to it.
        form: What each object must look like (run_schema.py); None: no check.
        is_wanted: Called with a line's bytes; False skips the line, also a damaged one.

    Raises:
        DataError: A line before the last is damaged.
    """
    if not path.exists():
        return
    damaged: _DamagedLine | None = None
    end_offset = 0
    with open(path, "rb") as file:
        # Lines end at \n only, so U+2028 inside a text is no line end.
        for line_number, line in enumerate(file, start=1):
            end_offset += len(line)
            if damaged is not None:
                problem = f"{damaged.problem} in {path.parent}; delete that line, then run again"
                raise DataError(path.name, line=damaged.line_number, field=None, problem=problem)
            if is_wanted is not None and not is_wanted(line):
                continue
            try:
                value = _object_in_line(line, field)
            except ValueError as error:
                damaged = _DamagedLine(line_number, str(error))
                continue
            if form is not None:
                _check_form(value, form, path, line_number)
            yield JsonLine(end_offset - len(line), len(line), value)
    if damaged is not None and notes is not None:
        notes.append(
            f"{path.name}: the last line (line {damaged.line_number}) is torn and left out"
        )


def _object_in_line(line: bytes, field: str) -> dict[str, Any]:
    """Parse a line that holds a JSON object with a text under the key `field`. Raises
    ValueError.
    """
    try:
        value = parse_object(line)
    except ValueError as error:
        raise ValueError(f"not valid JSON ({error})") from None
    _check_has_text(value, field)
    return value


def _check_has_text(value: Mapping[str, object], field: str) -> None:
    """Raise ValueError where an object has no text under the key `field`."""
    if not isinstance(value.get(field), str):
        raise ValueError(f"not an object with a '{field}'")


def _check_form(value: object, form: TypeAdapter[Any], path: Path, line_number: int) -> None:
    """Raise DataError, with file and line, where a JSON object does not have the form it should.

    Args:
        value: The object.
        form: The form that it should have.
        path: The file that it is from.
        line_number: The number of its line.
    """
    try:
        check_form(value, form)
    except WrongValue as error:
        problem = f"{error}; such a record cannot be used"
        raise DataError(path, line_number, error.key, problem) from None


def lines_at(path: Path, places: Iterable[LinePlace]) -> Iterator[bytes]:
    """Read the lines of a file at given places, line ends included."""
    with open(path, "rb") as file:
        for place in places:
            file.seek(place.offset)
            yield file.read(place.length)
