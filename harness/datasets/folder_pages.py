"""The pages of a folder of documents.

    guide/setup.md, faq.txt, page.html, manual.pdf, plan.docx, pages.jsonl ({"id", "title", "text"})
        -> Page(id="guide/setup", title="Setting up", sections=(("Warranty", "two years"), ...)), ...

A page's id is its path in the folder, without the suffix; where two files differ in nothing but the
suffix, their ids keep it. Markdown, HTML and office files are read as Markdown, whose headings
start sections; each page of a PDF is a section ("manual#page 3").
"""

import io
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from harness.datasets.files import parse_each, read_rows
from harness.datasets.folder_files import document_files
from harness.datasets.html_markdown import declared_encoding, html_to_markdown
from harness.datasets.markdown_pages import PageSection, parse_converted_html, parse_markdown
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import StrictRow
from harness.datasets.text_encoding import NotText, decode_text
from harness.errors import DataError

_NEEDS_PYPDF = "needs pypdf: pip install 'longdoc-harness[pdf]'"
_NEEDS_MARKITDOWN = "needs markitdown: pip install 'longdoc-harness[documents]'"
_NESTED_TOO_DEEP = "its tags are nested too deep"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the folder.

    Attributes:
        id: Its id, "guide/setup".
        title: Its title.
        sections: The sections, in order.
    """

    id: str
    title: str
    sections: tuple[PageSection, ...]


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a file holds.

    Attributes:
        pages: Its pages; a file of one page gives it the file's id.
        guessed_encoding: The encoding of a text, where that was guessed; else "".
        blank_note: What of the file has no text, "2 of its pages have no text"; "" for nothing.
    """

    pages: tuple[Page, ...]
    guessed_encoding: str = ""
    blank_note: str = ""


# (path, id of the page where the file is one page) -> what the file holds.
_FileReader = Callable[[Path, str], FileContent]


@dataclass(frozen=True, slots=True)
class FolderPages:
    """The pages of a folder.

    Attributes:
        pages: In the order of their paths.
        unread_files: Each file that was not read, or not in full: "logo.png (.png is not read)".
        files_of_guessed_encoding: Each with its encoding: "menu.txt (read as cp1252)".
        files_of_same_name: The files with pages that differ from another in nothing but the suffix.
        file_by_page_id: Page id -> the file that it is from.
    """

    pages: tuple[Page, ...]
    unread_files: tuple[str, ...]
    files_of_guessed_encoding: tuple[str, ...]
    files_of_same_name: tuple[str, ...]
    file_by_page_id: dict[str, str] = field(default_factory=dict)

    def notes(self, folder_name: str) -> tuple[str, ...]:
        """Sentences on what was not read, what was guessed, and which ids keep their ending; ()
        for none.

        Args:
            folder_name: The name of the folder, for the sentences.
        """
        notes = []
        if self.unread_files:
            noun = "files were"
            if len(self.unread_files) == 1:
                noun = "file was"
            counted = f"{len(self.unread_files)} {noun} not read, or not in full"
            notes.append(f"{counted}, in {folder_name}: {', '.join(self.unread_files)}")
        if self.files_of_guessed_encoding:
            listed = ", ".join(self.files_of_guessed_encoding)
            notes.append(f"not UTF-8, so the encoding was guessed, in {folder_name}: {listed}")
        if self.files_of_same_name:
            listed = ", ".join(self.files_of_same_name)
            notes.append(f"pages whose id keeps the ending, as another has the same name: {listed}")
        return tuple(notes)


class _DecodedFile(NamedTuple):
    r"""The text of a file with "\n" as its line ends; guessed_encoding: "" where none was guessed."""

    text: str
    guessed_encoding: str


class _Unreadable(Exception):
    """Why a file cannot be read, as a phrase."""


class _PageRow(StrictRow):
    id: str
    text: str
    title: str = ""


def read_pages(folder: Path, questions_file: Path | None = None) -> FolderPages:
    """Read the pages of a folder and its subfolders, in the order of their paths.

    The id of a file's one page is the file's name without its suffix ("guide/setup"), or with it
    where another file differs in nothing else. A file of rows gives its pages ids of their own.

    Args:
        folder: The folder; hidden files and folders are left out.
        questions_file: The file of questions, which is no page where it stands in the folder.

    Returns:
        The pages, and what was not read, or not in full, or in an encoding that was guessed.

    Raises:
        DataError: The folder has no page, two pages have one id, or a link leads out of the folder.
    """
    path_by_name = _path_by_name(folder, questions_file)
    names_that_differ_in_suffix = _names_that_differ_in_suffix(path_by_name)
    files = _ReadFiles()
    for name, path in path_by_name.items():
        page_id = _without_suffix(name)
        if name in names_that_differ_in_suffix:
            page_id = name
        files.read_and_add(name, path, page_id)
    if not files.page_by_id:
        raise _no_page(folder, files.unread_files)
    # Each is the id of its file's one page, unless the file was not read.
    ids_with_suffix = [name for name in names_that_differ_in_suffix if name in files.page_by_id]
    return FolderPages(
        pages=tuple(files.page_by_id.values()),
        unread_files=tuple(files.unread_files),
        files_of_guessed_encoding=tuple(files.files_of_guessed_encoding),
        files_of_same_name=tuple(ids_with_suffix),
        file_by_page_id=files.file_by_page_id,
    )


@dataclass
class _ReadFiles:
    """What was read of the files of a folder so far.

    Attributes:
        page_by_id: Their pages.
        file_by_page_id: Page id -> the file that it is from.
        unread_files: Each file that was not read, or not in full: "logo.png (.png is not read)".
        files_of_guessed_encoding: Each with its encoding: "menu.txt (read as cp1252)".
    """

    page_by_id: dict[str, Page] = field(default_factory=dict)
    file_by_page_id: dict[str, str] = field(default_factory=dict)
    unread_files: list[str] = field(default_factory=list)
    files_of_guessed_encoding: list[str] = field(default_factory=list)

    def read_and_add(self, name: str, path: Path, page_id: str) -> None:
        """Read a file and add its pages; a file that cannot be read is added to `unread_files`.

        Args:
            name: The file's name in the folder, "guide/setup.md".
            path: Its path.
            page_id: The id of its page where it is one page.

        Raises:
            DataError: An earlier page has the id of one of its pages, or a row of it is malformed.
        """
        try:
            read_file = _reader_for_suffix(path.suffix.lower())
            content = read_file(path, page_id)
        except _Unreadable as error:
            self.unread_files.append(f"{name} ({error})")
            return
        if content.guessed_encoding:
            self.files_of_guessed_encoding.append(f"{name} (read as {content.guessed_encoding})")
        if content.blank_note:
            self.unread_files.append(f"{name} ({content.blank_note})")
        for page in content.pages:
            if page.id in self.page_by_id:
                other_file = self.file_by_page_id[page.id]
                problem = f"two pages have the id '{page.id}', the other in {other_file}"
                raise DataError.of_file(name, f"{problem}; rename or remove one")
            self.page_by_id[page.id] = page
            self.file_by_page_id[page.id] = name


def _path_by_name(folder: Path, questions_file: Path | None) -> dict[str, Path]:
    """Map the name of each file of the folder, "guide/setup.md", to its path, in the order of
    names.

    Args:
        folder: The folder.
        questions_file: The file of questions, which is left out; None: there is none.
    """
    path_by_name: dict[str, Path] = {}
    for path in document_files(folder):
        if questions_file is None or not path.samefile(questions_file):
            path_by_name[_name_in_folder(path, folder)] = path
    return path_by_name


def _no_page(folder: Path, unread_files: Sequence[str]) -> DataError:
    """Make the error that a folder has no page that can be read.

    Args:
        folder: The folder.
        unread_files: Its files, each with why it is not read.
    """
    kinds = ", ".join(sorted(SUFFIXES))
    problem = f"the folder has no page that can be read ({kinds})"
    if unread_files:
        problem += f": {', '.join(unread_files[:5])}"
    return DataError.of_file(folder.name, problem)


def _name_in_folder(path: Path, folder: Path) -> str:
    r"""The path of a file in the folder, "guide/setup.md", in UTF-8 whatever the locale.

    A byte that is no UTF-8 is spelled out, "\xff".

    Args:
        path: The file.
        folder: The folder that it is in.
    """
    return os.fsencode(path.relative_to(folder).as_posix()).decode("utf-8", "backslashreplace")


def _without_suffix(name: str) -> str:
    """The name of a file without its suffix: "guide/setup.md" -> "guide/setup"."""
    return name.removesuffix(PurePosixPath(name).suffix)


def _names_that_differ_in_suffix(names: Iterable[str]) -> list[str]:
    """The names of files of one page that differ from another in nothing but the suffix.

    ["a.md", "a.txt", "b.md"] -> ["a.md", "a.txt"]
    """
    one_page_names = list(filter(_is_file_of_one_page, names))
    counts = Counter(map(_without_suffix, one_page_names))
    return [name for name in one_page_names if counts[_without_suffix(name)] > 1]


def _is_file_of_one_page(name: str) -> bool:
    """Whether a file is one page, by its suffix: "setup.md" -> True, "pages.jsonl" -> False."""
    return PurePosixPath(name).suffix.lower() in _SUFFIXES_OF_ONE_PAGE


def _make_page(page_id: str, title: str, sections: Sequence[PageSection]) -> Page:
    """Make a page of what a file holds.

    Args:
        page_id: The page's id.
        title: Its title; "": the id is its title.
        sections: Its sections.

    Raises:
        _Unreadable: No section has a heading or a text.
    """
    has_text = any(section.heading.strip() or section.text.strip() for section in sections)
    if not has_text:
        raise _Unreadable("empty")
    return Page(page_id, title or page_id, tuple(sections))


def _read_text(path: Path) -> _DecodedFile:
    r"""Read and decode a file of text; its line ends become "\n". The encoding is the one that the
    file shows or, for HTML, declares; else it is guessed. Raises _Unreadable for what is no text.
    """
    data = path.read_bytes()
    declared = None
    if path.suffix.lower() in _HTML_SUFFIXES:
        declared = declared_encoding(data)
    try:
        decoded = decode_text(data, declared)
    except NotText:
        raise _Unreadable("not text") from None
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    return _DecodedFile(text, decoded.guessed_encoding)


def _read_markdown(path: Path, page_id: str) -> FileContent:
    """Read a file of Markdown as one page, whose headings start its sections. Raises
    _Unreadable.
    """
    text, guessed_encoding = _read_text(path)
    parsed = parse_markdown(text)
    page = _make_page(page_id, parsed.title, parsed.sections)
    return FileContent((page,), guessed_encoding)


def _read_plain(path: Path, page_id: str) -> FileContent:
    """Read a file of plain text as one page, one section without a heading. Raises _Unreadable."""
    text, guessed_encoding = _read_text(path)
    section = PageSection(heading="", text=text.strip("\n"))
    page = _make_page(page_id, title="", sections=[section])
    return FileContent((page,), guessed_encoding)


def _read_html(path: Path, page_id: str) -> FileContent:
    """Read a page of HTML as Markdown, whose headings start its sections.

    Raises _Unreadable where it is no text, empty or nested too deeply.
    """
    text, guessed_encoding = _read_text(path)
    try:
        converted = html_to_markdown(text)
    except RecursionError:
        raise _Unreadable(_NESTED_TOO_DEEP) from None
    parsed = parse_converted_html(converted.markdown, converted.title)
    page = _make_page(page_id, parsed.title, parsed.sections)
    return FileContent((page,), guessed_encoding)


def _read_office(path: Path, page_id: str) -> FileContent:
    """Read a file of an office program, or a book, as Markdown by markitdown.

    Raises _Unreadable for a damaged one or one with a password, and where markitdown is missing.
    """
    if not zipfile.is_zipfile(path):  # markitdown would show its bytes as text
        raise _Unreadable("cannot be read: it is damaged, or has a password")
    page = _convert_with_markitdown(page_id, path.read_bytes(), path.suffix.lower())
    return FileContent((page,))


def _read_csv(path: Path, page_id: str) -> FileContent:
    """Read a table as one page, which is a table of Markdown, by markitdown. Raises
    _Unreadable.
    """
    text, guessed_encoding = _read_text(path)
    page = _convert_with_markitdown(page_id, text.encode(), ".csv")
    return FileContent((page,), guessed_encoding)


def _convert_with_markitdown(page_id: str, content: bytes, suffix: str) -> Page:
    """Convert a file to Markdown by markitdown, and parse it as one page.

    Args:
        page_id: The id of the page.
        content: The bytes of the file.
        suffix: Its suffix, which says the format: ".docx".

    Raises:
        _Unreadable: markitdown is not installed, or cannot read the file.
    """
    try:
        from markitdown import MarkItDown, MarkItDownException, StreamInfo  # an extra
    except ImportError:
        raise _Unreadable(_NEEDS_MARKITDOWN) from None
    stream_info = StreamInfo(extension=suffix, charset="utf-8")
    try:
        converter = MarkItDown(enable_plugins=False)
        converted = converter.convert_stream(io.BytesIO(content), stream_info=stream_info)
    except MarkItDownException as error:
        raise _Unreadable(_cannot_be_read(error)) from None
    parsed = parse_markdown(converted.markdown.replace("\r\n", "\n"))
    return _make_page(page_id, converted.title or parsed.title, parsed.sections)


def _read_pdf(path: Path, page_id: str) -> FileContent:
    """Read a PDF as one page, whose sections are its own pages with text, "page 1"; its title is
    that of the PDF's metadata. Also notes how many pages have no text.

    Raises _Unreadable where pypdf is missing, and for a damaged file or one without any text.
    """
    try:
        from pypdf import PdfReader, errors  # an extra
    except ImportError:
        raise _Unreadable(_NEEDS_PYPDF) from None
    errors_of_damaged_files = (
        errors.PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    )
    try:
        reader = PdfReader(path)
        texts = [page.extract_text().strip() for page in reader.pages]
        title = ""
        if reader.metadata is not None:
            title = str(reader.metadata.title or "")
    except errors_of_damaged_files as error:
        raise _Unreadable(_cannot_be_read(error)) from None
    sections = []
    for page_number, text in enumerate(texts, start=1):
        if text:
            sections.append(PageSection(f"page {page_number}", text))
    page = _make_page(page_id, title, sections)
    blank_note = _note_on_blank_parts(len(texts) - len(sections), "pages")
    return FileContent((page,), blank_note=blank_note)


def _note_on_blank_parts(n_blank: int, plural_noun: str) -> str:
    """The note on parts of a file without text: "2 of its pages have no text"; "" for none.

    Args:
        n_blank: How many parts have no text.
        plural_noun: What the parts are called, "pages" or "rows".
    """
    if not n_blank:
        return ""
    return f"{n_blank} of its {plural_noun} have no text"


def _cannot_be_read(error: Exception) -> str:
    """Why a file cannot be read, from the error of the library: "cannot be read: EOF marker not
    found".
    """
    return f"cannot be read: {' '.join(str(error).split())[:200] or type(error).__name__}"


def _read_rows(path: Path, page_id: str) -> FileContent:
    """Read a file of rows {"id", "title", "text"}, each a page with an id of its own.

    Args:
        path: The file.
        page_id: Not used.

    Raises:
        _Unreadable: No row has a text.
        DataError: A row is malformed.
    """
    del page_id
    rows = list(parse_each(read_rows(path), _parse_page_row))
    pages = []
    for row in rows:
        if row.text.strip():
            section = PageSection(heading="", text=row.text)
            pages.append(Page(row.id, row.title or row.id, (section,)))
    if not pages:
        raise _Unreadable("empty")
    blank_note = _note_on_blank_parts(len(rows) - len(pages), "rows")
    return FileContent(tuple(pages), blank_note=blank_note)


def _parse_page_row(raw: RawRow) -> _PageRow:
    """Parse a row {"id", "text"}, perhaps with a "title"; BEIR calls the id "_id". Raises
    RowError.
    """
    if "_id" in raw:
        raw = {"id": raw["_id"], **raw}
    return _PageRow.read(raw)


def _reader_for_suffix(suffix: str) -> _FileReader:
    """The function that reads files with a suffix, ".md", as `_read_markdown` does.

    Raises _Unreadable for a kind of file that is not read.
    """
    reader = _READERS.get(suffix)
    if reader is None:
        raise _Unreadable(f"{suffix or 'no suffix'} is not read")
    return reader


_HTML_SUFFIXES = (".html", ".htm", ".xhtml")
_READERS: dict[str, _FileReader] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".txt": _read_plain,
    ".rst": _read_plain,
    **dict.fromkeys(_HTML_SUFFIXES, _read_html),
    ".pdf": _read_pdf,
    ".docx": _read_office,
    ".pptx": _read_office,
    ".xlsx": _read_office,
    ".epub": _read_office,
    ".csv": _read_csv,
    ".jsonl": _read_rows,
}
SUFFIXES = tuple(_READERS)
_SUFFIXES_OF_ONE_PAGE = tuple(suffix for suffix in SUFFIXES if suffix != ".jsonl")
