"""Bytes to rows: JSON lines, a JSON list or object, gzipped or in an archive, parquet, and
tab-separated tables.

    for place, row in read_rows(Path("dev.jsonl")): ...        # row: a dict, or a BrokenRow saying why it is none

The first character distinguishes .json from .jsonl, since ".json" files of JSON lines are common. A
format whose files may be one object, {id: row, ...}, says which keys a row of its own can start
with. Blank lines, a byte-order mark and CRLF are tolerated. Nothing is repaired: no UTF-8 or no
JSON is an error.
"""

import codecs
import hashlib
import importlib
import json
import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, NoReturn, TypeVar

from harness.datasets.archives import Member, opened
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import RowError, type_name
from harness.datasets.tables import read_table
from harness.datasets.text_encoding import DecodedText, NotText, decode_text
from harness.errors import CannotRun, DataError

# QuALITY's official files are JSON lines named after their split (QuALITY.v1.0.1.htmlstripped.dev).
_SPLIT_SUFFIXES = (".dev", ".train", ".test")
SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".parquet", ".tsv", *_SPLIT_SUFFIXES)
_OBJECT_OF_DATA = re.compile(rb'\{\s*(?:"\w+"\s*:\s*(?:"[^"]*"|[\w.]+)\s*,\s*)*"data"\s*:\s*\[')
_PEEK_BYTES, _PIECE_BYTES = 4096, 1 << 18
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_Stream = IO[bytes]
T = TypeVar("T")


def file_kind(path: Path | Member) -> str | None:
    """The kind of a file by its name: "parquet", "table" (.tsv) or "json"; None for any other
    file.

    "json" is for all forms of JSON; the content tells them from each other.
    """
    name = path.name.lower()
    if not name.endswith(SUFFIXES):
        return None
    if name.endswith(".parquet"):
        return "parquet"
    if name.endswith(".tsv"):
        return "table"
    return "json"


def _refuse_constant(text: str) -> NoReturn:  # NaN or Infinity, which Python would take
    """Raise ValueError for NaN or Infinity, which Python's json would take."""
    raise ValueError(f"{text} is not a JSON value")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
PYTHON_JSON = json.JSONDecoder()
"""Takes NaN and Infinity, which Python's json writes for such numbers; for files of tools that
do."""


class NumberText(str):
    """A number of a JSON file as the text that stands there."""

    __slots__ = ()

    @property
    def number(self) -> object:
        """The number that the text spells: "7.50" -> 7.5."""
        return json.loads(self)


TEXT_JSON = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=NumberText, parse_int=NumberText
)
"""Takes numbers as the text that stands there: an answer 7.50 stays "7.50"."""


def _json_problem(error: Exception) -> str:
    """Say what is wrong with a JSON text: "broken JSON: Expecting value (column 3)".

    Args:
        error: What the decoder raised.
    """
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg} (column {error.colno})"
    return f"broken JSON: {error}"


def as_row(value: object) -> RawRow | BrokenRow:
    """Return an object as it is; for any other JSON value a BrokenRow that says what it is.

    3 -> BrokenRow("a row should be a JSON object, is a number")
    """
    if isinstance(value, dict | BrokenRow):
        return value
    return BrokenRow(f"a row should be a JSON object, is {type_name(value)}")


def parse_line(line: bytes, decoder: json.JSONDecoder = _DECODER) -> RawRow | BrokenRow:
    """Parse one line of a JSON lines file: its row, or a BrokenRow that says why there is none.

    Args:
        line: The bytes of the line, without white space at its ends.
        decoder: Decodes JSON; the default refuses NaN and Infinity.
    """
    try:
        return as_row(decoder.decode(line.decode("utf-8")))
    except UnicodeDecodeError as error:
        return BrokenRow(
            f"not UTF-8 at byte {error.start + 1} of the line ({error.reason}); save the file as "
            "UTF-8"
        )
    except ValueError as error:
        return BrokenRow(_json_problem(error))


class JsonText:
    """A JSON text that is parsed value by value, so that a long list takes the memory of its
    longest entry.

    name: the file, for errors; decoder: of single values. Methods raise DataError, with the line,
    for broken JSON. Libraries that stream were tried: ijson 3.6 refuses the NaN of other tools'
    logs; json-stream 2.5 says nothing about a key that is there twice, or text after the end.
    """

    def __init__(self, name: str, stream: _Stream, decoder: json.JSONDecoder = _DECODER) -> None:
        """Read from `stream` when a value is asked for.

        `_text` is the part of the file in memory and `_at` the index in it of the next character;
        `_line` and `_column` are the place of `_text`'s first character in the file, and `_bytes`
        counts the bytes that were read.
        """
        self._name, self._stream, self._decoder = name, stream, decoder
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._line, self._column, self._bytes = "", 0, 1, 1, 0

    def value(self) -> object:
        """Parse and return the next value, and move on past it."""
        self._peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                wrong = error.pos - self._at
                if not self._read_more():
                    raise self._error_at(f"broken JSON: {error.msg}", self._at + wrong) from None
                continue
            except ValueError as error:
                raise self._error_at(_json_problem(error)) from None
            size = end - self._at
            # The number before "e-", where the text read so far ends, goes on after it.
            if end + 2 < len(self._text) or not self._read_more():
                self._at += size
                return value

    def entries(self) -> Iterator[object]:
        """Yield the entries of the list that comes next: "[1, 2]" -> 1, 2."""
        self._take("[")
        more = not self._take_if_next("]")
        while more:
            yield self.value()
            more = self._take(",]") == ","

    def pairs(self, list_key: str = "") -> Iterator[tuple[str, object]]:
        """Yield (key, value) of the object that comes next.

        With `list_key` "data": {"name": "x", "data": [1, 2]} -> ("name", "x"), ("data", 1),
        ("data", 2). So a long list is never in memory whole.

        Args:
            list_key: The key whose list is yielded entry by entry; "" for none.
        """
        keys: set[str] = set()
        self._take("{")
        more = not self._take_if_next("}")
        while more:
            key = self._key()
            if key in keys:
                raise self._error_at(f"broken JSON: the key '{key}' is given twice")
            keys.add(key)
            self._take(":")
            if key == list_key and self._peek() == "[":
                for entry in self.entries():
                    yield key, entry
            else:
                yield key, self.value()
            more = self._take(",}") == ","

    def _key(self) -> str:
        """Parse and return the next value, which must be a text: the key of an object."""
        if self._peek() != '"':
            raise self._error_at("broken JSON: Expecting property name")
        key = self.value()
        assert isinstance(key, str)
        return key

    def end(self) -> None:
        """Raise DataError if anything but white space follows."""
        if self._peek():
            raise self._error_at("broken JSON: Extra data")

    def _peek(self) -> str:
        """Skip white space and return the next character without consuming it; "" at the end."""
        while True:
            match = _NOT_SPACE.search(self._text, self._at)
            if match:
                self._at = match.start()
            else:
                self._at = len(self._text)
            if self._at < len(self._text) or not self._read_more():
                return self._text[self._at : self._at + 1]

    def _take(self, signs: str) -> str:
        """Move past the next character that is no white space, and return it.

        Raises DataError unless it is one of `signs`.
        """
        sign = self._peek()
        if sign == "" or sign not in signs:
            raise self._error_at(f"broken JSON: Expecting '{signs[0]}' delimiter")
        self._at += 1
        return sign

    def _take_if_next(self, sign: str) -> bool:
        """Move past the next character if it is `sign`; return whether it was."""
        if self._peek() != sign:
            return False
        self._take(sign)
        return True

    def _read_more(self) -> bool:
        """Append the next piece of the file to the text in memory; return False at the end of the
        file.

        The text before the current position is dropped, and the piece is twice as long as what is
        left, so a long value takes few pieces. Raises DataError for bytes that are not UTF-8.
        """
        data = self._stream.read(max(_PIECE_BYTES, 2 * (len(self._text) - self._at)))
        self._line, self._column = self._line_and_column(self._at)
        try:
            self._text = self._text[self._at :] + self._utf8.decode(data, not data)
        except UnicodeDecodeError as error:
            self._line += data.count(b"\n", 0, error.start)
            problem = (
                f"not UTF-8 at byte {self._bytes + error.start + 1} of the file ({error.reason})"
            )
            raise DataError(
                self._name, self._line, None, f"{problem}; save the file as UTF-8"
            ) from None
        self._at, self._bytes = 0, self._bytes + len(data)
        return bool(data)

    def _line_and_column(self, position: int) -> tuple[int, int]:
        """The line and the column in the file, each from 1, of the character `_text[position]`."""
        lines_before = self._text.count("\n", 0, position)
        if not lines_before:
            return self._line, self._column + position
        last_line_end = self._text.rfind("\n", 0, position)
        return self._line + lines_before, position - last_line_end

    def _error_at(self, problem: str, position: int | None = None) -> DataError:
        """Make the error for a problem, with its line and column in the file.

        Args:
            problem: What is wrong.
            position: Index in the text in memory; None: the current one.
        """
        if position is None:
            position = self._at
        line, column = self._line_and_column(position)
        return DataError(self._name, line, None, f"{problem} (column {column})")


def _rows_by_key(pairs: Iterator[tuple[str, object]]) -> Iterator[object]:
    """Yield the rows of a JSON object {id: row, ...}, each with its key as "id".

    ("q1", {"question": "Who?"}) -> {"question": "Who?", "id": "q1"}. A BrokenRow where the row's
    own "id" differs; a value that is no object is yielded as it is.
    """
    for key, value in pairs:
        if not isinstance(value, dict):
            yield value
        elif value.get("id", key) != key:
            yield BrokenRow(f"its key is '{key}' and its 'id' another")
        else:
            yield {**value, "id": key}


def _first_key_in(beginning: bytes) -> str | None:
    """The first key of an object whose text begins with `beginning`; None if that is too short for
    it.

    b'{"q1": {"que' -> "q1"
    """
    text = beginning.decode("utf-8", errors="replace")[1:].lstrip()
    try:
        key, _ = _DECODER.raw_decode(text)
    except ValueError:
        return None
    if not isinstance(key, str):
        return None
    return key


def _read_parquet(path: Path) -> Rows:
    """Yield (place, row) for each row of a parquet file.

    Also imports pyarrow and datasets, which takes a second.

    Raises:
        CannotRun: One of them is not installed.
        DataError: The file is damaged.
    """
    try:
        arrow, hf = importlib.import_module("pyarrow"), importlib.import_module("datasets")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise CannotRun(
            f"reading {path.name} needs the package '{error.name}': pip install datasets"
        ) from None
    with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
        try:
            parquet.read_metadata(path)  # of a damaged file `datasets` would also log a page
            rows = hf.Dataset.from_parquet(str(path), streaming=True, cache_dir=scratch)
            for number, row in enumerate(rows, start=1):
                yield RowPlace(path.name, row=number), dict(row)
        except (arrow.ArrowException, OSError, hf.exceptions.DatasetsError) as error:
            problem = f"not a readable parquet file ({error}); fetch it again".replace("\n", " ")
            raise DataError(path.name, None, None, problem) from None


def read_text_file(path: Path) -> DecodedText:
    """Read and decode a file of text, also one compressed by gzip. Raises DataError if it is no
    text.
    """
    with opened(path) as stream:
        data = stream.read()
    return _decoded(path.name, data)


def _decoded(name: str, data: bytes) -> DecodedText:
    """Decode the bytes of the file `name`. Raises DataError for bytes that are no text."""
    try:
        return decode_text(data)
    except NotText:
        raise DataError(name, None, None, "not text; save the file as UTF-8") from None


def _read_table(name: str, data: bytes) -> Rows:
    """Yield (place, row) for each row of a tab-separated table with a header.

    Raises DataError for what is not UTF-8 or no table.
    """
    decoded = _decoded(name, data)
    if decoded.assumed:
        raise DataError(name, None, None, "not UTF-8; save the file as UTF-8")
    yield from read_table(name, decoded.text, "\t")


def _name_of(source: Path | Member) -> str:
    """The name of a file for messages: "dev.jsonl", or for a file in an archive
    "a.zip/dev.jsonl".
    """
    if isinstance(source, Member):
        return str(source)
    return source.name


def json_value(source: Path | Member, decoder: json.JSONDecoder = _DECODER) -> object:
    """Parse the one JSON value that a file holds.

    Args:
        source: The file.
        decoder: Decodes JSON; the default refuses NaN and Infinity.

    Raises:
        DataError: It is no JSON, or something follows the value.
    """
    with opened(source) as stream:
        text = JsonText(_name_of(source), stream, decoder)
        value = text.value()
        text.end()
        return value


def json_object(source: Path | Member) -> dict[str, object]:
    """Parse the one JSON object that a file holds; the caller knows its first key by `first_key`.

    Raises DataError if the JSON is broken.
    """
    value = json_value(source)
    assert isinstance(value, dict)
    return value


def first_key(source: Path | Member) -> str | None:
    """The first key of a JSON file that starts with an object: '{"q1": ...' -> "q1".

    None for any other file, and where the key is longer than what is read. Raises DataError if the
    file cannot be opened.
    """
    if file_kind(source) != "json":
        return None
    with opened(source) as stream:
        beginning = stream.read(_PEEK_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
    if not beginning.startswith(b"{"):
        return None
    return _first_key_in(beginning)


def parse_each(rows: Rows, parse: Callable[[RawRow], T], advice: str = "") -> Iterator[T]:
    """Yield parse(row) of each row.

    Args:
        rows: The rows with their places.
        parse: Parses a row; raises RowError.
        advice: Is added to the end of the error's sentence.

    Raises:
        DataError: A row is broken, or cannot be parsed.
    """
    for place, raw in rows:
        try:
            if isinstance(raw, BrokenRow):
                raise RowError(None, raw.problem)
            yield parse(raw)
        except RowError as error:
            raise place.error(error.field, error.problem + advice) from None


def content_digest(source: Path | Member) -> bytes:
    """The sha256 of the bytes of a file, those unzipped where it is compressed. Raises
    DataError.
    """
    sha256 = hashlib.sha256()
    with opened(source) as stream:
        while data := stream.read(1 << 20):
            sha256.update(data)
    return sha256.digest()


def read_rows(
    source: Path | Member, row_keys: Collection[str] = (), decoder: json.JSONDecoder = _DECODER
) -> Rows:
    """Yield (place, row) for each row of a file, in order; a BrokenRow where a line or an entry is
    no row.

    A file {"data": [row, ...]}, with a version or a name before it, holds that list.

    Args:
        source: The file.
        row_keys: The keys of a row; given, a file that starts with an object whose first key is
            none of them holds one object {id: row, ...}.
        decoder: Decodes JSON; the default refuses NaN and Infinity.

    Raises:
        DataError: The file cannot be read on: it is not of the format that its name says, not
            UTF-8, or its list is broken.
    """
    if file_kind(source) == "parquet":
        if isinstance(source, Member):
            raise DataError(
                str(source), None, None, "parquet inside an archive is not read; unpack it"
            )
        yield from _read_parquet(source)
        return
    name = _name_of(source)
    with opened(source) as stream:
        if file_kind(source) == "table":
            yield from _read_table(name, stream.read())
            return
        beginning = stream.read(_PEEK_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
        stream.seek(0)
        text = JsonText(name, stream, decoder)
        if beginning.startswith(b"["):
            rows = text.entries()
        elif _OBJECT_OF_DATA.match(beginning):
            rows = (value for key, value in text.pairs("data") if key == "data")
        elif row_keys and _is_object_by_id(beginning, row_keys):
            rows = _rows_by_key(text.pairs())
        else:
            yield from _read_lines(name, stream, decoder)
            return
        for number, row in enumerate(rows, start=1):
            yield RowPlace(name, row=number), as_row(row)
        text.end()


def _is_object_by_id(beginning: bytes, row_keys: Collection[str]) -> bool:
    """Whether a file is one object {id: row, ...}: its first key is none of a row's keys.

    Args:
        beginning: The first bytes of the file.
        row_keys: The keys of a row.
    """
    return beginning.startswith(b"{") and _first_key_in(beginning) not in (None, *row_keys)


def _read_lines(name: str, stream: IO[bytes], decoder: json.JSONDecoder) -> Rows:
    """Yield (place, row) for each line of a JSON lines file; blank lines are left out.

    Args:
        name: The file's name, for messages.
        stream: The file.
        decoder: Decodes JSON.
    """
    for number, line in enumerate(stream, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.isspace():
            yield RowPlace(name, line=number), parse_line(line.strip(), decoder)
