"""Bytes to rows: JSON lines, a JSON list or object, gzipped or in an archive, parquet, and tab-separated tables.

    for place, row in read_rows(Path("dev.jsonl")): ...        # row: a dict, or a Broken saying why it is none

The first character distinguishes .json from .jsonl, since ".json" files of JSON lines are common. A format whose
files may be one object, {id: row, ...}, says which keys a row of its own can start with. Blank lines, a byte-order mark
and CRLF are tolerated. Nothing is repaired: no UTF-8 or no JSON is an error.
"""

import codecs
import csv
import hashlib
import importlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, NoReturn, TypeVar

from harness.datasets.archives import Member, opened
from harness.datasets.rows import RowError, type_name
from harness.errors import CannotRun, DataError

# QuALITY's official files are JSON lines named after their split (QuALITY.v1.0.1.htmlstripped.dev).
_SPLITS = (".dev", ".train", ".test")
SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".parquet", ".tsv", *_SPLITS)
_WRAPPED = re.compile(rb'\{\s*(?:"\w+"\s*:\s*(?:"[^"]*"|[\w.]+)\s*,\s*)*"data"\s*:\s*\[')
_PEEK = 4096
_Stream = IO[bytes]
Rows = Iterator[tuple["RowPlace", "dict[str, Any] | Broken"]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The place of a row: its file and, from 1, its line (JSON lines) or its row (JSON list, parquet)."""

    file: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        found = (f"{name} {number}" for name, number in (("line", self.line), ("row", self.row)) if number is not None)
        return ", ".join([self.file, *found])

    def error(self, field: str | None, problem: str) -> DataError:
        """A DataError for this place. field: the bad field (None: the whole row); problem: what is wrong with it."""
        if self.line is not None or self.row is None:
            return DataError(self.file, self.line, field, problem)
        return DataError(f"{self.file}, row {self.row}", None, field, problem)


@dataclass(frozen=True, slots=True)
class Broken:
    """A line or list entry that holds no row, and why."""

    problem: str


def file_kind(path: Path | Member) -> str | None:
    """ "parquet", "table" or "json" by the file's name (the content distinguishes JSON's forms), None for others."""
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        return None
    return {".parquet": "parquet", ".tsv": "table"}.get(PurePosixPath(name).suffix, "json")


def _refuse_constant(text: str) -> NoReturn:  # NaN or Infinity, which Python would take
    raise ValueError(f"{text} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
PYTHON_JSON = json.JSONDecoder()
"""Takes NaN and Infinity, which Python's json writes for such numbers; for files of tools that do."""


def _json_problem(error: Exception) -> str:
    """What is wrong with a JSON text, in words, from the error that the decoder raised."""
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg} (column {error.colno})"
    return f"broken JSON: {error}"


def as_row(value: Any) -> dict[str, Any] | Broken:
    """Return a JSON object as it is, as a row; for any other value a Broken that says what it is."""
    return value if isinstance(value, dict) else Broken(f"a row should be a JSON object, is {type_name(value)}")


def parse_line(line: bytes, decoder: json.JSONDecoder = _DECODER) -> dict[str, Any] | Broken:
    """Parse one line of a JSON lines file: its row, or a Broken that says why there is none."""
    try:
        return as_row(decoder.decode(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        return Broken(f"not UTF-8 at byte {error.start + 1} of the line ({error.reason}); save the file as UTF-8")
    except ValueError as error:
        return Broken(_json_problem(error))


def _read_lines(name: str, stream: _Stream, decoder: json.JSONDecoder) -> Rows:
    """Yield the rows of a JSON lines file, blank lines left out. name: the file."""
    for number, line in enumerate(stream, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.isspace():
            yield RowPlace(name, line=number), parse_line(line.strip(), decoder)


def _parse_whole(name: str, stream: _Stream, decoder: json.JSONDecoder) -> Any:
    """Parse the one JSON value of a file. name: the file. Raises DataError with the line where it is broken."""
    data = stream.read().removeprefix(codecs.BOM_UTF8)
    try:
        return decoder.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"not UTF-8 at byte {error.start + 1} of the file ({error.reason}); save the file as UTF-8"
        raise DataError(name, line, None, problem) from None
    except ValueError as error:
        raise DataError(name, getattr(error, "lineno", None), None, _json_problem(error)) from None


def _rows_by_key(name: str, stream: _Stream) -> Rows:
    """Yield the rows of a JSON object {id: row, ...}, each with its key as "id"; the others of a row are its own."""
    rows = _parse_whole(name, stream, json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_once))
    for number, (key, value) in enumerate(rows.items(), start=1):
        row = as_row(value)
        if isinstance(row, dict):
            same = row.get("id", key) == key
            row = {**row, "id": key} if same else Broken(f"its key is '{key}' and its 'id' another")
        yield RowPlace(name, row=number), row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of these pairs. Raises ValueError for a key that is there twice, as the first would be lost."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' is given twice")
    return made


def _first_key_in(head: bytes) -> str | None:
    """The first key of an object that starts with `head`; None if `head` is too short for it."""
    text = head.decode("utf-8", errors="replace")[1:].lstrip()
    try:
        key, _ = _DECODER.raw_decode(text)
    except ValueError:
        return None
    return key if isinstance(key, str) else None


def _read_parquet(path: Path) -> Rows:
    """Yield the rows of a parquet file. Imports its packages, which takes a second. Raises CannotRun, DataError."""
    try:
        arrow, hf = importlib.import_module("pyarrow"), importlib.import_module("datasets")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise CannotRun(f"reading {path.name} needs the package '{error.name}': pip install datasets") from None
    with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
        try:
            parquet.read_metadata(path)  # of a damaged file `datasets` would also log a page
            rows = hf.Dataset.from_parquet(str(path), streaming=True, cache_dir=scratch)
            for number, row in enumerate(rows, start=1):
                yield RowPlace(path.name, row=number), dict(row)
        except (arrow.ArrowException, OSError, hf.exceptions.DatasetsError) as error:
            problem = f"not a readable parquet file ({error}); fetch it again".replace("\n", " ")
            raise DataError(path.name, None, None, problem) from None


def _read_table(name: str, stream: _Stream) -> Rows:
    """Yield the rows of a tab-separated table with a header, every value a string. Raises DataError if unreadable."""
    text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
    reader = csv.DictReader(text, delimiter="\t")
    try:
        for row in reader:
            place = RowPlace(name, line=reader.line_num)
            if None in row or None in row.values():
                yield place, Broken(f"has not the {len(reader.fieldnames or ())} columns of the header")
            else:
                yield place, dict(row)
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(name, reader.line_num + 1, None, f"not a table in UTF-8 ({error})") from None


def json_value(source: Path | Member, decoder: json.JSONDecoder = _DECODER) -> Any:
    """The one JSON value that a file holds. Raises DataError."""
    with opened(source) as stream:
        return _parse_whole(str(source) if isinstance(source, Member) else source.name, stream, decoder)


def first_key(source: Path | Member) -> str | None:
    """The first key of a JSON file that starts with an object; None for any other file. Raises DataError."""
    if file_kind(source) != "json":
        return None
    with opened(source) as stream:
        head = stream.read(_PEEK).removeprefix(codecs.BOM_UTF8).lstrip()
    return _first_key_in(head) if head.startswith(b"{") else None


def parse_each(rows: Rows, parse: Callable[[dict[str, Any]], T], advice: str = "") -> Iterator[T]:
    """Yield parse(row) of each row. Raises DataError, with place and `advice`, for a broken row and a RowError."""
    for place, raw in rows:
        try:
            if isinstance(raw, Broken):
                raise RowError(None, raw.problem)
            yield parse(raw)
        except RowError as error:
            raise place.error(error.field, error.problem + advice) from None


def content_digest(source: Path | Member) -> bytes:
    """sha256 of the (unzipped) bytes of a file, read in pieces. Raises DataError."""
    whole = hashlib.sha256()
    with opened(source) as stream:
        while piece := stream.read(1 << 20):
            whole.update(piece)
    return whole.digest()


def read_rows(source: Path | Member, row_keys: Collection[str] = (), decoder: json.JSONDecoder = _DECODER) -> Rows:
    """Yield (place, row) for each row of a file, in order; a Broken where a line or an entry is no row.

    row_keys: the keys of a row; given, a file that starts with an object whose first key is none of them holds one
    object {id: row, ...}. A file {"data": [row, ...]}, with a version or a name before it, holds that list. decoder:
    of JSON. Raises DataError for a file that cannot be read on: not the format its name says, not UTF-8, broken list.
    """
    if file_kind(source) == "parquet":
        if isinstance(source, Member):
            raise DataError(str(source), None, None, "parquet inside an archive is not read; unpack it")
        yield from _read_parquet(source)
        return
    name = str(source) if isinstance(source, Member) else source.name
    with opened(source) as stream:
        if file_kind(source) == "table":
            yield from _read_table(name, stream)
            return
        head = stream.read(_PEEK).removeprefix(codecs.BOM_UTF8).lstrip()
        stream.seek(0)
        wrapped = _WRAPPED.match(head)
        if row_keys and not wrapped and head.startswith(b"{") and _first_key_in(head) not in (None, *row_keys):
            yield from _rows_by_key(name, stream)
        elif wrapped or head.startswith(b"["):
            listed = _parse_whole(name, stream, decoder)
            listed = listed if isinstance(listed, list) else listed["data"]
            yield from ((RowPlace(name, row=n), as_row(row)) for n, row in enumerate(listed, start=1))
        else:
            yield from _read_lines(name, stream, decoder)
