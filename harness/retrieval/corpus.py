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
from typing import TYPE_CHECKING, Literal, NamedTuple

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

_KNOWN_FORMS = (
    "a row has id, text and perhaps title; FlashRAG's id and contents, KILT's wikipedia_id, "
    "wikipedia_title and text, DPR's table id, text, title"
)
_DPR_HEADER = b"id\ttext\ttitle"  # the first line of DPR's psgs_w100.tsv
Form = Literal["rows", "flashrag", "dpr", "kilt"]
"""The form of a corpus file, as in the module's docstring."""


@dataclass(frozen=True, slots=True)
class Page:
    """One row of a corpus.

    Attributes:
        id: Its id.
        document_key: What all rows of one document share, "title Aaron".
        title: Its title; "" for none.
        text: Its text without the title.
    """

    id: str
    document_key: str
    title: str
    text: str


class WrittenCorpus(NamedTuple):
    """A corpus that was made of a folder.

    Attributes:
        file: The file that was written.
        notes: Sentences on what of the folder was not read, and what was guessed.
    """

    file: Path
    notes: tuple[str, ...]


def write_folder_as_corpus(folder: Path, target_folder: Path) -> WrittenCorpus:
    """Write the pages of a folder (harness/datasets/folder_pages.py) as a corpus in KILT's form.

    Args:
        folder: The folder with the pages.
        target_folder: The folder to write to, made where it is missing; the file is named
            "NAME-1a2b3c4d.jsonl" after its content.

    Raises:
        DataError: The folder has no page, or two pages with one id.
        SaveError: The file cannot be written.
    """
    from harness.datasets.folder_pages import read_pages  # loads lxml and bs4

    folder_pages = read_pages(folder)
    content = b"".join(json_line(_kilt_row(page)) for page in folder_pages.pages)
    folder_name = folder.resolve().name
    content_hash = hashlib.sha256(content).hexdigest()[:8]
    file = target_folder / f"{folder_name}-{content_hash}.jsonl"
    make_folder(target_folder, "HARNESS_HOME")
    write_atomic(file, content, setting="HARNESS_HOME")
    return WrittenCorpus(file, folder_pages.notes(folder_name))


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
    for heading, text in page.sections:
        if heading.strip():
            paragraphs.append(f"{heading}\n")
        if text.strip():
            paragraphs.append(f"{text}\n")
    return paragraphs


class Corpus:
    """A file of pages or passages.

    Attributes:
        path: The path of the file.
        name: The name of the file.
        words_per_passage: The number of words of a passage that is cut from a row.
        form: The form of its rows.
    """

    def __init__(self, path: Path, words_per_passage: int) -> None:
        """Read the first row to find out the form of the file.

        Args:
            path: The file.
            words_per_passage: The number of words of a passage that is cut from a row.

        Raises:
            DataError: The file is an archive or parquet, has no rows, or rows of another form.
        """
        self.path = path
        self.name = path.name
        self.words_per_passage = words_per_passage
        if path.name.lower().endswith((".zip", ".tar", ".parquet")):
            raise DataError.of_file(
                path,
                f"a corpus is a file of lines (also .gz); unpack or convert it; {_KNOWN_FORMS}",
            )
        self.form = self._detect_form()

    def _detect_form(self) -> Form:
        """The form of the corpus by its first row: "dpr" for the header line of DPR's table, "kilt"
        for an object with "wikipedia_title", "flashrag" for one with "contents", "rows" for one
        with "id" and "text".

        Raises DataError for a file without rows, and for a row of no known form.
        """
        line_index, line = next(self._lines_with_text(), (0, b""))
        if not line:
            raise DataError.of_file(self.path, "the corpus has no rows")
        if line == _DPR_HEADER:
            return "dpr"
        line_number = line_index + 1
        row = parse_line(line)
        if isinstance(row, BrokenRow):
            problem = f"not a row of a corpus ({row.problem}); {_KNOWN_FORMS}"
            raise DataError(self.path, line=line_number, field=None, problem=problem)
        if "wikipedia_title" in row:
            return "kilt"
        if "contents" in row:
            return "flashrag"
        if "id" in row and "text" in row:
            return "rows"
        problem = f"an unknown form of corpus ({', '.join(row)[:80]}); {_KNOWN_FORMS}"
        raise DataError(self.path, line=line_number, field=None, problem=problem)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line index from 0, line) of each line with a row; blank lines and DPR's header are
        left out.

        Raises DataError if the file cannot be read.
        """
        for line_index, line in self._lines_with_text():
            is_header = self.form == "dpr" and line_index == 0
            if not is_header:
                yield line_index, line

    def _lines_with_text(self) -> Iterator[tuple[int, bytes]]:
        """Yield (line index from 0, line) of each line of the file that is not blank.

        Raises DataError if the file cannot be read.
        """
        with opened(self.path) as stream:
            first_line = next(stream, b"\n").removeprefix(codecs.BOM_UTF8)
            if not first_line.isspace():
                yield 0, first_line.strip()
            for line_index, line in enumerate(stream, start=1):
                if not line.isspace():
                    yield line_index, line.strip(b" \r\n")  # a tab before an empty title stays

    def parse_page(self, line_index: int, line: bytes) -> Page:
        """Parse a line of the file into the row that it holds.

        Args:
            line_index: The line's index, from 0, for the error.
            line: The line's bytes.

        Raises:
            DataError: It is no row of this form; the message names the line and the field.
        """
        place = RowPlace(self.name, line=line_index + 1)
        if self.form == "dpr":
            return _parse_dpr_page(line, place)
        row = parse_line(line)
        if isinstance(row, BrokenRow):
            raise place.error(field=None, problem=row.problem)
        if self.form == "kilt":
            return _parse_kilt_page(row, place)
        if self.form == "rows":
            return _parse_plain_page(row, place)
        return _parse_flashrag_page(row, place)

    def cut_passages(self, page: Page) -> list[str]:
        """Cut a row's text into passages of `words_per_passage` words; [] for a row without text.

        A row of another form than KILT's is already a passage and stays as it is, up to twice that
        length.
        """
        is_passage_itself = self.form != "kilt" and self._is_short(page.text)
        if is_passage_itself:
            if not page.text:
                return []
            return [page.text]
        size = self.words_per_passage
        words = page.text.split()
        return [" ".join(words[start : start + size]) for start in range(0, len(words), size)]

    def _is_short(self, text: str) -> bool:
        """Whether a text has at most twice the words of a passage."""
        max_words = 2 * self.words_per_passage
        # A text with fewer spaces needs no splitting, which for 21 million passages is most of the
        # time.
        return text.count(" ") < max_words or len(text.split()) <= max_words


def _id_in_row(row: RawRow, key: str, place: RowPlace) -> str:
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


def _string_in_row(row: RawRow, key: str, place: RowPlace) -> str:
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


def _page_with_title(row_id: str, title: str, text: str) -> Page:
    """Make a row of a corpus in which the rows with one title are one document.

    A row without a title is a document of its own.

    Args:
        row_id: The row's id.
        title: Its title; "" for none.
        text: Its text without the title.
    """
    document_key = f"row {row_id}"
    if title:
        document_key = f"title {title}"
    return Page(row_id, document_key, title, text)


def _parse_dpr_page(line: bytes, place: RowPlace) -> Page:
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
        raise place.error(field=None, problem=problem) from None
    try:
        (columns,) = csv.reader([decoded], delimiter="\t")
        # A tab at the end of the line.
        ends_with_empty_column = columns[3:] == [""]
        if ends_with_empty_column:
            columns = columns[:3]
        row_id, text, title = columns
    except (ValueError, csv.Error):
        problem = "should have three columns: id, text, title"
        raise place.error(field=None, problem=problem) from None
    return _page_with_title(row_id, title, text.strip())


def _parse_plain_page(row: RawRow, place: RowPlace) -> Page:
    """Turn a row {"id", "text"}, perhaps with a "title", into a Page. Raises DataError for a field
    that is missing or no string.
    """
    title = ""
    if row.get("title") is not None:
        title = _string_in_row(row, "title", place).strip()
    row_id = _id_in_row(row, "id", place)
    text = _string_in_row(row, "text", place).strip()
    return _page_with_title(row_id, title, text)


def _parse_flashrag_page(row: RawRow, place: RowPlace) -> Page:
    r"""Turn a row of FlashRAG's form into a Page.

    {"id": "0", "contents": "\"Aaron\"\nAaron was a prophet."} -> the title "Aaron" and the text
    "Aaron was a prophet."; contents of one line are a text without a title. Raises DataError for a
    field that is missing or no string.
    """
    row_id = _id_in_row(row, "id", place)
    contents = _string_in_row(row, "contents", place)
    title, _, text = contents.partition("\n")
    if not text.strip():
        return _page_with_title(row_id, title="", text=contents.strip())
    return _page_with_title(row_id, title.strip().strip('"'), text.strip())


def _parse_kilt_page(row: RawRow, place: RowPlace) -> Page:
    """Turn a row of KILT's form, with a list of paragraphs as "text", into a Page with one text.

    Raises DataError for a field that is missing or of another type.
    """
    page_id = _id_in_row(row, "wikipedia_id", place)
    title = _string_in_row(row, "wikipedia_title", place)
    paragraphs = row.get("text")
    if isinstance(paragraphs, dict):  # the hub's copy
        paragraphs = paragraphs.get("paragraph")
    if not isinstance(paragraphs, list) or not all(isinstance(text, str) for text in paragraphs):
        raise place.error("text", "should be a list of paragraphs")
    return Page(page_id, f"page {page_id}", title, wiki_text(paragraphs, title))
