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
from typing import IO, Literal, NamedTuple, NoReturn, TypeVar

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
_OBJECT_WITH_DATA_LIST = re.compile(
    rb'\{\s*(?:"\w+"\s*:\s*(?:"[^"]*"|[\w.]+)\s*,\s*)*"data"\s*:\s*\['
)
_PEEK_BYTES = 4096  # of a file's beginning, which say its form
_PIECE_BYTES = 1 << 18  # that are read at once, or more
_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_Stream = IO[bytes]
T = TypeVar("T")


FileKind = Literal["parquet", "table", "json"]


def file_kind(path: Path | Member) -> FileKind | None:
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


def _refuse_constant(text: str) -> NoReturn:
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


class _LineAndColumn(NamedTuple):
    """A place in a file, both from 1."""

    line: int
    column: int


class JsonText:
    """A JSON text that is parsed value by value, so that a long list takes the memory of its
    longest entry.

    Methods raise DataError, with the line, for broken JSON. Libraries that stream were tried: ijson
    3.6 refuses the NaN of other tools' logs; json-stream 2.5 says nothing about a key that is there
    twice, or text after the end.
    """

    def __init__(
        self, file_name: str, stream: _Stream, decoder: json.JSONDecoder = _DECODER
    ) -> None:
        """Read from `stream` when a value is asked for.

        Args:
            file_name: The file, for errors.
            stream: Its bytes.
            decoder: Decodes single values; the default refuses NaN and Infinity.
        """
        self._file_name = file_name
        self._stream = stream
        self._decoder = decoder
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""  # the part of the file in memory
        self._position = 0  # the index in `_text` of the next character
        self._first_line = 1  # where the first character of `_text` stands in the file
        self._first_column = 1
        self._n_bytes_read = 0

    def next_value(self) -> object:
        """Parse and return the next value, and move on past it."""
        self._skip_space()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._position)
            except json.JSONDecodeError as error:
                # Perhaps the value goes on in the next piece of the file. Reading it moves
                # `_position`, so the place of the error is kept as a distance from it.
                distance_to_error = error.pos - self._position
                if not self._read_more():
                    error_position = self._position + distance_to_error
                    raise self._error_at(f"broken JSON: {error.msg}", error_position) from None
                continue
            except ValueError as error:
                raise self._error_at(_json_problem(error)) from None
            length = end - self._position
            # A number may go on after the text read so far: 12 before "34", and before "e-3". Then
            # more is read, which moves `_position`, and the value is parsed again.
            is_complete = end + len("e-") < len(self._text)
            if is_complete or not self._read_more():
                self._position += length
                return value

    def next_list(self) -> Iterator[object]:
        """Yield the entries of the list that comes next: "[1, 2]" -> 1, 2."""
        self._take_one_of("[")
        has_more = not self._take_if_next("]")
        while has_more:
            yield self.next_value()
            has_more = self._take_one_of(",]") == ","

    def next_object(self, list_key: str = "") -> Iterator[tuple[str, object]]:
        """Yield (key, value) of the object that comes next.

        With `list_key` "data": {"name": "x", "data": [1, 2]} -> ("name", "x"), ("data", 1),
        ("data", 2). So a long list is never in memory whole.

        Args:
            list_key: The key whose list is yielded entry by entry; "" for none.
        """
        keys: set[str] = set()
        self._take_one_of("{")
        has_more = not self._take_if_next("}")
        while has_more:
            key = self._next_key()
            if key in keys:
                raise self._error_at(f"broken JSON: the key '{key}' is given twice")
            keys.add(key)
            self._take_one_of(":")
            if key == list_key and self._skip_space() == "[":
                for entry in self.next_list():
                    yield key, entry
            else:
                yield key, self.next_value()
            has_more = self._take_one_of(",}") == ","

    def _next_key(self) -> str:
        """Parse and return the next value, which must be a text: the key of an object."""
        if self._skip_space() != '"':
            raise self._error_at("broken JSON: Expecting property name")
        key = self.next_value()
        assert isinstance(key, str)
        return key

    def require_end(self) -> None:
        """Raise DataError if anything but white space follows."""
        if self._skip_space():
            raise self._error_at("broken JSON: Extra data")

    def _skip_space(self) -> str:
        """Move to the next character that is no white space, and return it; "" at the end of the
        file.
        """
        while True:
            next_character = _NOT_SPACE.search(self._text, self._position)
            if next_character:
                self._position = next_character.start()
                return next_character.group()
            self._position = len(self._text)
            if not self._read_more():
                return ""

    def _take_one_of(self, characters: str) -> str:
        """Move past the next character that is no white space, and return it.

        Raises DataError unless it is one of `characters`.
        """
        character = self._skip_space()
        if character == "" or character not in characters:
            raise self._error_at(f"broken JSON: Expecting '{characters[0]}' delimiter")
        self._position += 1
        return character

    def _take_if_next(self, character: str) -> bool:
        """Move past the next character if it is `character`; return whether it was."""
        if self._skip_space() != character:
            return False
        self._position += 1
        return True

    def _read_more(self) -> bool:
        """Append the next piece of the file to the text in memory; return False at the end of the
        file.

        The text before the current position is dropped, so the position becomes 0; its line and
        column in the file are kept. The piece is twice as long as what is left, so a long value
        takes few pieces. Raises DataError for bytes that are not UTF-8.
        """
        unread_text = self._text[self._position :]
        data = self._stream.read(max(_PIECE_BYTES, 2 * len(unread_text)))
        place = self._line_and_column(self._position)
        self._first_line = place.line
        self._first_column = place.column
        try:
            self._text = unread_text + self._utf8.decode(data, final=not data)
        except UnicodeDecodeError as error:
            self._first_line += data.count(b"\n", 0, error.start)
            byte_number = self._n_bytes_read + error.start + 1
            problem = f"not UTF-8 at byte {byte_number} of the file ({error.reason})"
            raise DataError(
                self._file_name,
                line=self._first_line,
                field=None,
                problem=f"{problem}; save the file as UTF-8",
            ) from None
        self._position = 0
        self._n_bytes_read += len(data)
        return bool(data)

    def _line_and_column(self, position: int) -> _LineAndColumn:
        """The place in the file of the character `_text[position]`."""
        lines_before = self._text.count("\n", 0, position)
        if not lines_before:
            return _LineAndColumn(self._first_line, self._first_column + position)
        last_line_end = self._text.rfind("\n", 0, position)
        return _LineAndColumn(self._first_line + lines_before, position - last_line_end)

    def _error_at(self, problem: str, position: int | None = None) -> DataError:
        """Make the error for a problem, with its line and column in the file.

        Args:
            problem: What is wrong.
            position: Index in the text in memory; None: the current one.
        """
        if position is None:
            position = self._position
        place = self._line_and_column(position)
        problem_with_column = f"{problem} (column {place.column})"
        return DataError(self._file_name, line=place.line, field=None, problem=problem_with_column)


def _rows_with_id(pairs: Iterator[tuple[str, object]]) -> Iterator[object]:
    """Yield the rows of a JSON object {id: row, ...}, each with its key as "id".

    ("q1", {"question": "Who?"}) -> {"question": "Who?", "id": "q1"}. A BrokenRow where the row's
    own "id" differs; a value that is no object is yielded as it is.

    Args:
        pairs: (key, row) of the object.
    """
    for key, row in pairs:
        if not isinstance(row, dict):
            yield row
        elif row.get("id", key) != key:
            yield BrokenRow(f"its key is '{key}' and its 'id' another")
        else:
            yield {**row, "id": key}


def _first_key_in(beginning: bytes) -> str | None:
    """The first key of an object whose text begins with `beginning`; None if that is too short for
    it.

    b'{"q1": {"que' -> "q1"
    """
    after_brace = beginning.decode("utf-8", errors="replace")[1:].lstrip()
    try:
        key, _ = _DECODER.raw_decode(after_brace)
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
        arrow = importlib.import_module("pyarrow")
        hf_datasets = importlib.import_module("datasets")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise CannotRun(
            f"reading {path.name} needs the package '{error.name}': pip install datasets"
        ) from None
    with tempfile.TemporaryDirectory(prefix="harness-") as cache_folder:
        try:
            parquet.read_metadata(path)  # of a damaged file `datasets` would also log a page
            rows = hf_datasets.Dataset.from_parquet(
                str(path), streaming=True, cache_dir=cache_folder
            )
            for number, row in enumerate(rows, start=1):
                yield RowPlace(path.name, row=number), dict(row)
        except (arrow.ArrowException, OSError, hf_datasets.exceptions.DatasetsError) as error:
            problem = f"not a readable parquet file ({error}); fetch it again".replace("\n", " ")
            raise DataError.of_file(path.name, problem) from None


def read_text_file(path: Path) -> DecodedText:
    """Read and decode a file of text, also one compressed by gzip. Raises DataError if it is no
    text.
    """
    with opened(path) as stream:
        data = stream.read()
    return _decode_file(path.name, data)


def _decode_file(file_name: str, data: bytes) -> DecodedText:
    """Decode the bytes of a file. Raises DataError, with its name, for bytes that are no text."""
    try:
        return decode_text(data)
    except NotText:
        raise DataError.of_file(file_name, "not text; save the file as UTF-8") from None


def _read_tab_separated(file_name: str, data: bytes) -> Rows:
    """Yield (place, row) for each row of a tab-separated table with a header.

    Raises DataError for what is not UTF-8 or no table.
    """
    decoded = _decode_file(file_name, data)
    if decoded.guessed_encoding:
        raise DataError.of_file(file_name, "not UTF-8; save the file as UTF-8")
    yield from read_table(file_name, decoded.text, "\t")


def name_for_messages(source: Path | Member) -> str:
    """The name of a file for messages: "dev.jsonl", or for a file in an archive
    "a.zip/dev.jsonl".
    """
    if isinstance(source, Member):
        return str(source)
    return source.name


def read_json_value(source: Path | Member, decoder: json.JSONDecoder = _DECODER) -> object:
    """Parse the one JSON value that a file holds.

    Args:
        source: The file.
        decoder: Decodes JSON; the default refuses NaN and Infinity.

    Raises:
        DataError: It is no JSON, or something follows the value.
    """
    with opened(source) as stream:
        text = JsonText(name_for_messages(source), stream, decoder)
        value = text.next_value()
        text.require_end()
        return value


def read_json_object(source: Path | Member) -> dict[str, object]:
    """Parse the one JSON object that a file holds, which must start with an object.

    Raises DataError if the JSON is broken.
    """
    value = read_json_value(source)
    assert isinstance(value, dict)
    return value


def read_first_key(source: Path | Member) -> str | None:
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


def sha256_of_content(source: Path | Member) -> bytes:
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
            raise DataError.of_file(str(source), "parquet inside an archive is not read; unpack it")
        yield from _read_parquet(source)
        return
    file_name = name_for_messages(source)
    with opened(source) as stream:
        if file_kind(source) == "table":
            yield from _read_tab_separated(file_name, stream.read())
            return
        beginning = stream.read(_PEEK_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
        stream.seek(0)
        text = JsonText(file_name, stream, decoder)
        if beginning.startswith(b"["):
            rows = text.next_list()
        elif _OBJECT_WITH_DATA_LIST.match(beginning):
            rows = _entries_of_data_list(text)
        elif row_keys and _is_object_by_id(beginning, row_keys):
            rows = _rows_with_id(text.next_object())
        else:
            yield from _read_lines(file_name, stream, decoder)
            return
        for number, row in enumerate(rows, start=1):
            yield RowPlace(file_name, row=number), as_row(row)
        text.require_end()


def _entries_of_data_list(text: JsonText) -> Iterator[object]:
    """Yield the entries of the list "data" of the object that comes next.

    {"version": "1", "data": [row 1, row 2]} -> row 1, row 2
    """
    for key, entry in text.next_object(list_key="data"):
        if key == "data":
            yield entry


def _is_object_by_id(beginning: bytes, row_keys: Collection[str]) -> bool:
    """Whether a file is one object {id: row, ...}: its first key is none of a row's keys.

    Args:
        beginning: The first bytes of the file.
        row_keys: The keys of a row.
    """
    if not beginning.startswith(b"{"):
        return False
    key = _first_key_in(beginning)
    return key is not None and key not in row_keys


def _read_lines(file_name: str, stream: IO[bytes], decoder: json.JSONDecoder) -> Rows:
    """Yield (place, row) for each line of a JSON lines file; blank lines are left out.

    Args:
        file_name: The file's name, for messages.
        stream: The file.
        decoder: Decodes JSON.
    """
    for number, line in enumerate(stream, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.isspace():
            yield RowPlace(file_name, line=number), parse_line(line.strip(), decoder)
