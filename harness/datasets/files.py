"""Bytes to rows: JSON lines, a JSON list, either gzipped, and parquet; every row comes with its place.

    for place, row in read_rows(Path("dev.jsonl")): ...        # row: a dict, or a Broken saying why it is none

.json and .jsonl are told apart by their first character, since ".json" files of JSON lines are common. Blank lines,
a byte-order mark and CRLF line ends are tolerated. Nothing is repaired: what is not UTF-8 or not JSON is an error.
"""

from __future__ import annotations

import codecs
import gzip
import importlib
import json
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from harness.datasets.rows import told
from harness.errors import CannotRun, DataError

__all__ = ["SUFFIXES", "Broken", "Place", "kind_of", "read_rows"]

SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".parquet")
_PEEK = 4096
_Stream = BufferedReader | gzip.GzipFile
_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is: its file and, from 1, its line (JSON lines) or its row (JSON list, parquet)."""

    file: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}" if self.line is not None else f"{self.file}, row {self.row}"

    def error(self, field: str | None, problem: str) -> DataError:
        """A DataError that names this place."""
        if self.line is not None or self.row is None:
            return DataError(self.file, self.line, field, problem)
        return DataError(f"{self.file}, row {self.row}", None, field, problem)


@dataclass(frozen=True, slots=True)
class Broken:
    """A line or list entry that holds no row, and why."""

    problem: str


def kind_of(path: Path) -> str | None:
    """ "parquet" or "json" by the file's name (.jsonl and .json are told apart by content), None for other files."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        return None
    return "parquet" if name.endswith(".parquet") else "json"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' appears twice in one object")
    return row


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_a_number)


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg} (column {error.colno})"
    return f"broken JSON: {error}"


def _object(value: Any) -> dict[str, Any] | Broken:
    return value if isinstance(value, dict) else Broken(f"a row should be a JSON object, is {told(value)}")


def _parse_line(line: bytes) -> dict[str, Any] | Broken:
    try:
        return _object(_DECODER.decode(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        return Broken(f"not UTF-8 at byte {error.start + 1} of the line ({error.reason}); save the file as UTF-8")
    except (ValueError, RecursionError) as error:
        return Broken(_why(error))


def _read_lines(name: str, stream: _Stream) -> Iterator[tuple[Place, dict[str, Any] | Broken]]:
    for number, line in enumerate(stream, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.strip():
            yield Place(name, line=number), _parse_line(line.strip())


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _read_list(name: str, stream: _Stream) -> Iterator[tuple[Place, dict[str, Any] | Broken]]:
    """The entries of a JSON list one by one: the text is held whole, the parsed rows are not."""
    data = stream.read().removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"not UTF-8 at byte {error.start + 1} of the file ({error.reason}); save the file as UTF-8"
        raise DataError(name, line, None, problem) from None
    del data

    def fail(at: int, problem: str) -> DataError:
        return DataError(name, text.count("\n", 0, at) + 1, None, f"broken JSON: {problem}")

    at, number = _skip_space(text, _skip_space(text, 0) + 1), 0
    if text[at : at + 1] != "]":
        while True:
            number += 1
            try:
                value, at = _DECODER.raw_decode(text, at)
            except json.JSONDecodeError as error:
                raise fail(error.pos, f"{error.msg} (in row {number})") from None
            except (ValueError, RecursionError) as error:
                raise Place(name, row=number).error(None, _why(error)) from None
            yield Place(name, row=number), _object(value)
            at = _skip_space(text, at)
            mark = text[at : at + 1]
            if mark == "]":
                break
            if mark != ",":
                raise fail(at, f"',' or ']' expected after row {number}")
            at = _skip_space(text, at + 1)
    at = _skip_space(text, at + 1)
    if at < len(text):
        raise fail(at, "text after the end of the list")


def _read_parquet(path: Path) -> Iterator[tuple[Place, dict[str, Any] | Broken]]:
    # Only this reader needs the packages; they take over a second to import.
    try:
        arrow, hf = importlib.import_module("pyarrow"), importlib.import_module("datasets")
    except ImportError as error:
        raise CannotRun(f"reading {path.name} needs the package '{error.name}': pip install datasets") from None
    with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
        try:
            rows = hf.Dataset.from_parquet(str(path), streaming=True, cache_dir=scratch)
            for number, row in enumerate(rows, start=1):
                yield Place(path.name, row=number), dict(row)
        except (arrow.ArrowException, OSError, hf.exceptions.DatasetsError) as error:
            problem = f"not a readable parquet file ({error})".replace("\n", " ")
            raise DataError(path.name, None, None, problem) from None


def read_rows(path: Path) -> Iterator[tuple[Place, dict[str, Any] | Broken]]:
    """The rows of one file in order, streamed; blank lines hold no row.

    Raises DataError for a file that cannot be read on: not the format its name says, not UTF-8, broken list.
    """
    if kind_of(path) == "parquet":
        yield from _read_parquet(path)
        return
    zipped = path.name.lower().endswith(".gz")
    try:
        with gzip.open(path, "rb") if zipped else path.open("rb") as stream:
            head = stream.read(_PEEK).removeprefix(codecs.BOM_UTF8).lstrip()
            stream.seek(0)
            yield from (_read_list if head.startswith(b"[") else _read_lines)(path.name, stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(path.name, None, None, f"not a readable gzip file ({error})") from None
    except OSError as error:
        raise DataError(path.name, None, None, f"cannot be read ({error.strerror or error})") from None
