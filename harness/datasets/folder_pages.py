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
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from harness.datasets.files import parse_each, read_rows
from harness.datasets.folder_files import document_files
from harness.datasets.html_markdown import declared_encoding, html_to_markdown
from harness.datasets.markdown_pages import parse_converted_html, parse_markdown
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import StrictRow
from harness.datasets.text_encoding import NotText, decode_text
from harness.errors import DataError

_NEEDS_PYPDF = "needs pypdf: pip install 'longdoc-harness[pdf]'"
_NEEDS_MARKITDOWN = "needs markitdown: pip install 'longdoc-harness[documents]'"
_NESTED = "its tags are nested too deep"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the folder.

    Attributes:
        id: Its id, "guide/setup".
        title: Its title.
        sections: (heading, text) of each; the text before the first heading has the heading "".
    """

    id: str
    title: str
    sections: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What a file holds.

    Attributes:
        pages: Its pages; a file of one page gives it the file's id.
        note: What was assumed or not read, as messages say it in brackets after the file's name; ""
            for nothing.
    """

    pages: tuple[Page, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class FolderPages:
    """The pages of a folder.

    Attributes:
        pages: In the order of their paths.
        unread: Each file that was not read, or not in full: "logo.png (.png is not read)".
        assumed: Each file of which something was assumed: "menu.txt (read as cp1252)".
        alike: The files that differ in nothing but the suffix.
        files: Page id -> the file that it is from.
    """

    pages: tuple[Page, ...]
    unread: tuple[str, ...]
    assumed: tuple[str, ...]
    alike: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)

    def notes(self, folder: str) -> tuple[str, ...]:
        """Sentences on what was not read, what was assumed, and which ids keep their ending; ()
        for none.

        Args:
            folder: The name of the folder, for the sentences.
        """
        notes = []
        if self.unread:
            noun = "files were"
            if len(self.unread) == 1:
                noun = "file was"
            listed = ", ".join(self.unread)
            notes.append(
                f"{len(self.unread)} {noun} not read, or not in full, in {folder}: {listed}"
            )
        if self.assumed:
            listed = ", ".join(self.assumed)
            notes.append(f"not UTF-8, so the encoding was guessed, in {folder}: {listed}")
        if self.alike:
            listed = ", ".join(self.alike)
            notes.append(f"pages whose id keeps the ending, as another has the same name: {listed}")
        return tuple(notes)


class _Unreadable(Exception):
    """Why a file cannot be read, as a phrase."""


class _PageRow(StrictRow):
    id: str
    text: str
    title: str = ""


def read_pages(folder: Path, questions: Path | None = None) -> FolderPages:
    """Read the pages of a folder and its subfolders, in the order of their paths.

    Args:
        folder: The folder; hidden files and folders are left out.
        questions: The file of questions, which is no page where it stands in the folder.

    Returns:
        The pages, and what was not read.

    Raises:
        DataError: The folder has no page, two pages have one id, or a link leads out of the folder.
    """
    paths = _paths_of_pages(folder, questions)
    alike = _alike(paths)
    pages: dict[str, Page] = {}
    files: dict[str, str] = {}
    unread: list[str] = []
    assumed: list[str] = []
    for name, path in paths.items():
        page_id = _without_suffix(name)
        if name in alike:
            page_id = name
        try:
            read = _reader_of(path.suffix.lower())(path, page_id)
        except _Unreadable as error:
            unread.append(f"{name} ({error})")
            continue
        if read.note.startswith("read as"):
            assumed.append(f"{name} ({read.note})")
        elif read.note:
            unread.append(f"{name} ({read.note})")
        for page in read.pages:
            if page.id in pages:
                same = f"two pages have the id '{page.id}', the other in {files[page.id]}"
                raise DataError(name, None, None, f"{same}; rename or remove one")
            pages[page.id] = page
            files[page.id] = name
    if not pages:
        raise _no_page(folder, unread)
    alike_pages = tuple(name for name in alike if name in pages)
    return FolderPages(tuple(pages.values()), tuple(unread), tuple(assumed), alike_pages, files)


def _paths_of_pages(folder: Path, questions: Path | None) -> dict[str, Path]:
    """Map the name of each file of the folder to its path, in the order of names.

    Args:
        folder: The folder.
        questions: The file of questions, which is left out; None: there is none.
    """
    paths: dict[str, Path] = {}
    for path in document_files(folder):
        if questions is None or not path.samefile(questions):
            paths[_name(path, folder)] = path
    return paths


def _no_page(folder: Path, unread: Sequence[str]) -> DataError:
    """Make the error that a folder has no page that can be read.

    Args:
        folder: The folder.
        unread: Its files, each with why it is not read.
    """
    kinds = ", ".join(sorted(SUFFIXES))
    problem = f"the folder has no page that can be read ({kinds})"
    if unread:
        problem += f": {', '.join(unread[:5])}"
    return DataError(folder.name, None, None, problem)


def _name(path: Path, folder: Path) -> str:
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


def _alike(names: Iterable[str]) -> list[str]:
    """The names of pages that differ from another one in nothing but the suffix.

    ["a.md", "a.txt", "b.md"] -> ["a.md", "a.txt"]
    """
    pages = [name for name in names if PurePosixPath(name).suffix.lower() in _ONE_PAGE]
    counts = Counter(map(_without_suffix, pages))
    return [name for name in pages if counts[_without_suffix(name)] > 1]


def _page(page_id: str, title: str, sections: Sequence[tuple[str, str]]) -> Page:
    """Make a page of what a file holds.

    Args:
        page_id: The page's id.
        title: Its title; "": the id is its title.
        sections: (heading, text) of each section.

    Raises:
        _Unreadable: No section has a heading or a text.
    """
    if not any(heading.strip() or text.strip() for heading, text in sections):
        raise _Unreadable("empty")
    return Page(page_id, title or page_id, tuple(sections))


def _read_text(path: Path) -> tuple[str, str]:
    r"""The text of a file with "\n" as its line ends, and a note on its encoding where that was
    guessed.

    ("Menu\n...", "read as cp1252"), or the note "". Raises _Unreadable for what is no text.
    """
    data = path.read_bytes()
    declared = None
    if path.suffix.lower() in _HTML:
        declared = declared_encoding(data)
    try:
        decoded = decode_text(data, declared)
    except NotText:
        raise _Unreadable("not text") from None
    text = decoded.text.replace("\r\n", "\n").replace("\r", "\n")
    note = ""
    if decoded.guessed_encoding:
        note = f"read as {decoded.guessed_encoding}"
    return text, note


def _read_markdown(path: Path, page_id: str) -> ReadFile:
    """Read a file of Markdown as one page, whose headings start its sections. Raises
    _Unreadable.
    """
    text, note = _read_text(path)
    page = parse_markdown(text)
    return ReadFile((_page(page_id, page.title, page.sections),), note)


def _read_plain(path: Path, page_id: str) -> ReadFile:
    """Read a file of plain text as one page, one section without a heading. Raises _Unreadable."""
    text, note = _read_text(path)
    return ReadFile((_page(page_id, "", [("", text.strip("\n"))]),), note)


def _read_html(path: Path, page_id: str) -> ReadFile:
    """Read a page of HTML as Markdown, whose headings start its sections.

    Raises _Unreadable where it is no text, empty or nested too deeply.
    """
    text, note = _read_text(path)
    try:
        converted = html_to_markdown(text)
    except RecursionError:
        raise _Unreadable(_NESTED) from None
    page = parse_converted_html(converted.markdown, converted.title)
    return ReadFile((_page(page_id, page.title, page.sections),), note)


def _read_office(path: Path, page_id: str) -> ReadFile:
    """Read a file of an office program, or a book, as Markdown by markitdown.

    Raises _Unreadable for a damaged one or one with a password, and where markitdown is missing.
    """
    if not zipfile.is_zipfile(path):  # markitdown would show its bytes as text
        raise _Unreadable("cannot be read: it is damaged, or has a password")
    return _read_converted(page_id, path.read_bytes(), path.suffix.lower())


def _read_csv(path: Path, page_id: str) -> ReadFile:
    """Read a table as one page, which is a table of Markdown, by markitdown. Raises
    _Unreadable.
    """
    text, note = _read_text(path)
    return replace(_read_converted(page_id, text.encode(), ".csv"), note=note)


def _read_converted(page_id: str, content: bytes, suffix: str) -> ReadFile:
    """Convert a file to Markdown by markitdown, and read it as one page.

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
    kind = StreamInfo(extension=suffix, charset="utf-8")
    try:
        reader = MarkItDown(enable_plugins=False)
        converted = reader.convert_stream(io.BytesIO(content), stream_info=kind)
    except MarkItDownException as error:
        raise _Unreadable(_cannot_be_read(error)) from None
    page = parse_markdown(converted.markdown.replace("\r\n", "\n"))
    return ReadFile((_page(page_id, converted.title or page.title, page.sections),))


def _read_pdf(path: Path, page_id: str) -> ReadFile:
    """Read a PDF as one page, whose sections are its own pages, "page 1". Raises _Unreadable."""
    try:
        from pypdf import PdfReader, errors  # an extra
    except ImportError:
        raise _Unreadable(_NEEDS_PYPDF) from None
    damaged = (errors.PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
    try:
        reader = PdfReader(path)
        texts = [page.extract_text().strip() for page in reader.pages]
        title = ""
        if reader.metadata is not None:
            title = str(reader.metadata.title or "")
    except damaged as error:
        raise _Unreadable(_cannot_be_read(error)) from None
    sections = [(f"page {n}", text) for n, text in enumerate(texts, start=1) if text]
    note = _blank_note(len(texts) - len(sections), "pages")
    return ReadFile((_page(page_id, title, sections),), note)


def _blank_note(n_blank: int, parts: str) -> str:
    """The note on parts of a file without text: "2 of its pages have no text"; "" for none.

    Args:
        n_blank: How many parts have no text.
        parts: What they are called, "pages" or "rows".
    """
    if not n_blank:
        return ""
    return f"{n_blank} of its {parts} have no text"


def _cannot_be_read(error: Exception) -> str:
    """Why a file cannot be read, from the error of the library: "cannot be read: EOF marker not
    found".
    """
    return f"cannot be read: {' '.join(str(error).split())[:200] or type(error).__name__}"


def _read_rows(path: Path, page_id: str) -> ReadFile:
    """Read a file of rows {"id", "title", "text"}, each a page with an id of its own.

    Args:
        path: The file.
        page_id: Not used.

    Raises:
        _Unreadable: No row has a text.
        DataError: A row is malformed.
    """
    del page_id
    rows = list(parse_each(read_rows(path), _page_row))
    with_text = [row for row in rows if row.text.strip()]
    if not with_text:
        raise _Unreadable("empty")
    pages = [Page(row.id, row.title or row.id, (("", row.text),)) for row in with_text]
    return ReadFile(tuple(pages), _blank_note(len(rows) - len(pages), "rows"))


def _page_row(raw: RawRow) -> _PageRow:
    """Parse a row {"id", "text"}, perhaps with a "title"; BEIR calls the id "_id". Raises
    RowError.
    """
    if "_id" in raw:
        raw = {"id": raw["_id"], **raw}
    return _PageRow.read(raw)


def _reader_of(suffix: str) -> Callable[[Path, str], ReadFile]:
    """The function that reads files with a suffix, ".md", as `_read_markdown` does.

    Raises _Unreadable for a kind of file that is not read.
    """
    reader = _READERS.get(suffix)
    if reader is None:
        raise _Unreadable(f"{suffix or 'no suffix'} is not read")
    return reader


_HTML = (".html", ".htm", ".xhtml")
_READERS: dict[str, Callable[[Path, str], ReadFile]] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".txt": _read_plain,
    ".rst": _read_plain,
    **dict.fromkeys(_HTML, _read_html),
    ".pdf": _read_pdf,
    ".docx": _read_office,
    ".pptx": _read_office,
    ".xlsx": _read_office,
    ".epub": _read_office,
    ".csv": _read_csv,
    ".jsonl": _read_rows,
}
SUFFIXES = tuple(_READERS)
_ONE_PAGE = tuple(suffix for suffix in SUFFIXES if suffix != ".jsonl")
