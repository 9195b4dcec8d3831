"""The rows of a corpus, streamed from a file (gzipped or not): plain rows, or one of three published
forms.

    rows       {"id": "p1", "title": "Aaron", "text": "Aaron was a prophet ..."}; title may be left out
    FlashRAG   {"id": "0", "contents": "\\"Aaron\\"\\nAaron was a prophet ..."}                a passage of 100 words
    DPR        id <tab> text <tab> title, the first line of psgs_w100.tsv                     the same passages
    KILT       {"wikipedia_id": "290", "wikipedia_title": "A", "text": ["A\\n", "Section::::Use.", ..]}     a page

In KILT's form each row is a document, whose words are cut into passages. In the others, rows
that share a title are one document; a row is one passage unless it is longer than two.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.datasets.archives import opened
from harness.datasets.files import parse_line
from harness.datasets.kilt_text import wiki_text
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow, RowPlace
from harness.datasets.rows import type_name
from harness.errors import DataError
from harness.storage.files import make_folder, write_atomic
from harness.storage.json_lines import json_line

if TYPE_CHECKING:
    from harness.datasets.folder_pages import Page as FolderPage

_KNOWN = (
    "a row has id, text and perhaps title; FlashRAG's id and contents, KILT's wikipedia_id, "
    "wikipedia_title and text, DPR's table id, text, title"
)
_TABLE = b"id\ttext\ttitle"  # the first line of DPR's psgs_w100.tsv


@dataclass(frozen=True, slots=True)
class Page:
    """One row of a corpus. document: a key that all rows of one document share; title: "" for
    none."""

    id: str
    document: str
    title: str
    text: str


def file_of_folder(folder: Path, place: Path) -> tuple[Path, tuple[str, ...]]:
    """Write the pages of a folder (harness/datasets/folder_pages.py) as a corpus in KILT's form.

    Args:
        folder: The folder with the pages.
        place: The folder to write to; the file is named "NAME-1a2b3c4d.jsonl" after its content.

    Returns:
        The file, and sentences on what was not read and what was assumed.

    Raises:
        DataError: The folder has no page, or two pages with one id.
    """
    from harness.datasets.folder_pages import read_pages  # loads lxml and bs4

    read = read_pages(folder)
    content = b"".join(json_line(_kilt_row(page)) for page in read.pages)
    name = folder.resolve().name
    file = place / f"{name}-{hashlib.sha256(content).hexdigest()[:8]}.jsonl"
    make_folder(place, "HARNESS_HOME")
    write_atomic(file, content, setting="HARNESS_HOME")
    return file, read.notes(name)


def _kilt_row(page: FolderPage) -> dict[str, object]:
    """A page of a folder as a row of KILT's form: {"wikipedia_id", "wikipedia_title", "text":
    [..]}.
    """
    return {"wikipedia_id": page.id, "wikipedia_title": page.title, "text": _paragraphs(page)}


def _paragraphs(page: FolderPage) -> list[str]:
    r"""The headings and texts of a page's sections that are not blank, each with a line end.

    ("Use", "Turn it on.") -> "Use\n", "Turn it on.\n"
    """
    paragraphs = []
    for section in page.sections:
        paragraphs += [f"{part}\n" for part in section if part.strip()]
    return paragraphs


class Corpus:
    """A file of pages or passages.

    Attributes:
        path: The path of the file.
        name: The name of the file.
        words: The number of words of a passage that is cut from a row.
        form: "rows", "flashrag", "dpr" or "kilt".
    """

    def __init__(self, path: Path, words: int) -> None:
        """Read the first row to find out the form of the file.

        Args:
            path: The file.
            words: The number of words of a passage that is cut here.

        Raises:
            DataError: The file has no rows, or rows of another form.
        """
        self.path = path
        self.name = path.name
        self.words = words
        if path.name.lower().endswith((".zip", ".tar", ".parquet")):
            raise DataError(
                path,
                None,
                None,
                f"a corpus is a file of lines (also .gz); unpack or convert it; {_KNOWN}",
            )
        self.form = self._detect_form()

    def _detect_form(self) -> str:
        """The form of the corpus by its first row: "rows", "flashrag", "dpr" or "kilt".

        Raises DataError for a file without rows, and for a row of no known form.
        """
        number, line = next(self.lines(), (0, b""))
        if not line:
            raise DataError(self.path, None, None, "the corpus has no rows")
        if line == _TABLE:
            return "dpr"
        row = parse_line(line)
        if isinstance(row, BrokenRow):
            raise DataError(
                self.path, number + 1, None, f"not a row of a corpus ({row.problem}); {_KNOWN}"
            )
        if "wikipedia_title" in row:
            return "kilt"
        if "contents" in row:
            return "flashrag"
        if "id" in row and "text" in row:
            return "rows"
        raise DataError(
            self.path,
            number + 1,
            None,
            f"an unknown form of corpus ({', '.join(row)[:80]}); {_KNOWN}",
        )

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (number from 0, line) of each line with a row; blank lines and DPR's header are
        left out.

        Raises DataError if the file cannot be read.
        """
        with opened(self.path) as stream:
            first = next(stream, b"\n").removeprefix(codecs.BOM_UTF8)
            is_header = getattr(self, "form", "") == "dpr"  # while the form is looked for: none
            if not first.isspace() and not is_header:
                yield 0, first.strip()
            for number, line in enumerate(stream, start=1):
                if not line.isspace():
                    yield number, line.strip(b" \r\n")  # a tab before an empty title stays

    def page(self, number: int, line: bytes) -> Page:
        """Parse a line of the file into the row that it holds.

        Args:
            number: The line's number, from 0, for the error.
            line: The line's bytes.

        Raises:
            DataError: It is no row of this form; the message names the line and the field.
        """
        place = RowPlace(self.name, line=number + 1)
        if self.form == "dpr":
            return _dpr_page(line, place)
        row = parse_line(line)
        if isinstance(row, BrokenRow):
            raise place.error(None, row.problem)
        if self.form == "kilt":
            return _kilt_page(row, place)
        if self.form == "rows":
            return _plain_page(row, place)
        return _flashrag_page(row, place)

    def passages(self, page: Page) -> list[str]:
        """Cut a row's text into passages of `words` words; [] for a row without text.

        A row of another form than KILT's is already a passage and stays as it is, up to twice that
        length.
        """
        if self.form != "kilt" and self._is_short(page.text):
            if not page.text:
                return []
            return [page.text]
        words = page.text.split()
        starts = range(0, len(words), self.words)
        return [" ".join(words[start : start + self.words]) for start in starts]

    def _is_short(self, text: str) -> bool:
        """Whether a text has at most twice the words of a passage."""
        limit = 2 * self.words
        # A text with fewer spaces needs no splitting, which for 21 million passages is most of the
        # time.
        return text.count(" ") < limit or len(text.split()) <= limit


def _id(row: RawRow, key: str, place: RowPlace) -> str:
    """The id in a field of a row as text: {"id": 290} -> "290".

    Args:
        row: A row of the corpus.
        key: The field.
        place: Where the row stands, for the error.

    Raises:
        DataError: It is missing, blank, or neither a string nor a whole number.
    """
    value = row.get(key)
    if value is None:
        raise place.error(key, "is missing")
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise place.error(key, "should be a string or a whole number")
    return str(value)


def _string(row: RawRow, key: str, place: RowPlace) -> str:
    """The string in a field of a row.

    Args:
        row: A row of the corpus.
        key: The field.
        place: Where the row stands, for the error.

    Raises:
        DataError: It is missing, or is no string.
    """
    if key not in row:
        raise place.error(key, "is missing")
    value = row[key]
    if not isinstance(value, str):
        raise place.error(key, f"should be a string, is {type_name(value)}")
    return value


def _titled_page(number: str, title: str, text: str) -> Page:
    """Make a row of a corpus in which the rows with one title are one document.

    A row without a title is a document of its own.

    Args:
        number: The row's id.
        title: Its title; "" for none.
        text: Its text without the title.
    """
    document = f"row {number}"
    if title:
        document = f"title {title}"
    return Page(number, document, title, text)


def _dpr_page(line: bytes, place: RowPlace) -> Page:
    """Parse a line of DPR's table, 'id <tab> "text" <tab> title'.

    Args:
        line: The line's bytes.
        place: Where it stands, for the error.

    Raises:
        DataError: It is not UTF-8, or has not three columns.
    """
    try:
        decoded = line.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 at byte {error.start + 1} of the line; save the file as UTF-8"
        raise place.error(None, problem) from None
    try:
        (columns,) = csv.reader([decoded], delimiter="\t")
        if columns[3:] == [""]:
            columns = columns[:3]
        number, text, title = columns
    except (ValueError, csv.Error):
        raise place.error(None, "should have three columns: id, text, title") from None
    return _titled_page(number, title, text.strip())


def _plain_page(row: RawRow, place: RowPlace) -> Page:
    """Turn a row {"id", "text"}, perhaps with a "title", into a Page. Raises DataError for a field
    that is missing or no string.
    """
    title = ""
    if row.get("title") is not None:
        title = _string(row, "title", place).strip()
    return _titled_page(_id(row, "id", place), title, _string(row, "text", place).strip())


def _flashrag_page(row: RawRow, place: RowPlace) -> Page:
    r"""Turn a row of FlashRAG's form into a Page.

    {"id": "0", "contents": "\"Aaron\"\nAaron was a prophet."} -> the title "Aaron" and the text
    "Aaron was a prophet."; contents of one line are a text without a title. Raises DataError for a
    field that is missing or no string.
    """
    number = _id(row, "id", place)
    contents = _string(row, "contents", place)
    title, _, text = contents.partition("\n")
    if not text.strip():
        return Page(number, f"row {number}", "", contents.strip())
    return _titled_page(number, title.strip().strip('"'), text.strip())


def _kilt_page(row: RawRow, place: RowPlace) -> Page:
    """Turn a row of KILT's form, with a list of paragraphs as "text", into a Page with one text.

    Raises DataError for a field that is missing or of another type.
    """
    number = _id(row, "wikipedia_id", place)
    title = _string(row, "wikipedia_title", place)
    text = row.get("text")
    if isinstance(text, dict):  # the hub's copy
        text = text.get("paragraph")
    if not isinstance(text, list) or not all(isinstance(part, str) for part in text):
        raise place.error("text", "should be a list of paragraphs")
    return Page(number, f"page {number}", title, wiki_text(text, title))
