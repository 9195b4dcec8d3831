"""A folder of documents and a file of questions about it.

    --documents wiki      guide/setup.md, faq.txt, page.html, manual.pdf, pages.jsonl ({"id", "title", "text"})
    --questions q.jsonl   {"question": "How long is the warranty?", "answer": "two years", "document": "guide/setup",
                            "gold_pages": ["guide/setup#Warranty"]}; also .json, .csv, .tsv and
                            .yaml

A page's id is its path in the folder, without the suffix. Only "question" and an answer ("answer"
or "answers") are needed. A question that names no "document" (or "documents") is asked about the
whole folder: its document is all pages, one after another. A page is its sections: Markdown
headings outside of code blocks start one, and each page of a PDF is one ("manual#page 3"). They are
the document's passages, so "gold_pages", a page or a page and a heading, mark what supports an
answer.
"""

import csv
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset
from harness.datasets.check_rows import RowChecker
from harness.datasets.files import RowPlace, Rows, as_row, parse_each, read_rows
from harness.datasets.find_files import FileOptions, Source
from harness.datasets.folder_files import document_files
from harness.datasets.html_pages import page_text
from harness.datasets.open_rows import parse_question
from harness.datasets.rows import Group, RowError, Skip, StrictRow, canonical_line, type_name
from harness.errors import ConfigError, DataError
from harness.stats.question_clusters import WHOLE_FOLDER
from harness.types import Document, Example, Gold, Passage, Question, Support

SEPARATOR = "\n\n"
_MARKDOWN, _PLAIN, _HTML, _ROWS = (
    (".md", ".markdown"),
    (".txt", ".rst"),
    (".html", ".htm"),
    (".jsonl",),
)
_PDF = ".pdf"
_NEEDS_PYPDF = "needs pypdf: pip install 'longdoc-harness[pdf]'"
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_HEADING = re.compile(r"#{1,6}[ \t]+(.+?)[ \t#]*$")
_FENCE = re.compile(r"[ ]{0,3}(```+|~~~+)")


class Options(FileOptions):
    """Those of every data set that is read from files, and the folder."""

    documents: str | None = Field(
        default=None, description="the folder of pages: .md, .txt, .rst, .html, .pdf, .jsonl"
    )


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the folder. sections: (heading, text); the text before the first heading has the
    heading ""."""

    id: str
    title: str
    sections: tuple[tuple[str, str], ...]


class _PageRow(StrictRow):
    id: str
    text: str
    title: str = ""


def markdown_sections(text: str) -> list[tuple[str, str]]:
    """Split Markdown into sections at its headings; a "#" inside a code block starts none.

    Args:
        text: Markdown without front matter.

    Returns:
        (heading, text) of each section that is not blank. The text does not repeat its heading;
        tables and code blocks stay as they are.
    """
    sections: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        heading = None if fence or mark else _HEADING.match(line)
        if heading:
            sections.append((heading[1].strip(), []))
        else:
            sections[-1][1].append(line)
    joined = [(heading, "\n".join(lines).strip("\n")) for heading, lines in sections]
    return [(heading, body) for heading, body in joined if heading or body.strip()]


def _page(name: str, suffix: str, text: str) -> Page:
    """A page from the `text` of a file. Its title: front matter, else the first heading, else its
    id `name`."""
    title = ""
    if suffix in _MARKDOWN:
        if front := _FRONT_MATTER.match(text):
            try:
                values = yaml.safe_load(front[1])
            except yaml.YAMLError:
                values = None
            title = str(values.get("title") or "") if isinstance(values, dict) else ""
            text = text[front.end() :]
        sections = markdown_sections(text)
        title = title or next((heading for heading, _ in sections if heading), "")
    else:
        sections = [("", page_text(text) if suffix in _HTML else text.strip("\n"))]
    return Page(name, title or name, tuple(sections))


def read_pages(folder: Path) -> tuple[list[Page], list[str]]:
    """Read the pages of a folder and its subfolders, in the order of their paths.

    Args:
        folder: The folder; hidden files and folders are left out.

    Returns:
        The pages, and for each file that was not read a phrase "logo.png (not text)".

    Raises:
        DataError: The folder has no page, two pages have one id, or a link leads out of the folder.
    """
    pages: dict[str, Page] = {}
    files: dict[str, str] = {}  # a page's id -> its file
    unread = []
    for path in document_files(folder):
        # The name in UTF-8 whatever the locale; a byte that is none is spelled out.
        name = os.fsencode(path.relative_to(folder).as_posix()).decode("utf-8", "backslashreplace")
        suffix = path.suffix.lower()
        if suffix not in (*_MARKDOWN, *_PLAIN, *_HTML, *_ROWS, _PDF):
            unread.append(f"{name} ({suffix or 'no suffix'} is not read)")
            continue
        try:
            if suffix == _PDF:
                page, blank = _read_pdf(path, name[: -len(suffix)])
                new_pages: Iterable[Page] = [page]
                unread += (
                    [f"{name} ({blank} of its pages have no text)"]
                    if blank and page.sections
                    else []
                )
            elif suffix in _ROWS:
                rows = parse_each(read_rows(path), _PageRow.read)
                new_pages = [Page(row.id, row.title or row.id, (("", row.text),)) for row in rows]
            else:
                new_pages = [_read_page(path, name, suffix)]
        except UnicodeDecodeError:
            unread.append(f"{name} (not text in UTF-8)")
            continue
        except _Unreadable as error:
            unread.append(f"{name} ({error})")
            continue
        for page in new_pages:
            if not any(heading.strip() or text.strip() for heading, text in page.sections):
                unread.append(f"{name} (empty)")
            elif page.id in pages:
                same = f"two pages have the id '{page.id}', the other in {files[page.id]}"
                raise DataError(name, None, None, f"{same}; rename or remove one")
            else:
                pages[page.id], files[page.id] = page, name
    if not pages:
        raise DataError(
            folder.name,
            None,
            None,
            "the folder has no page (.md, .txt, .rst, .html, .pdf or .jsonl)",
        )
    return list(pages.values()), unread


def _read_page(path: Path, name: str, suffix: str) -> Page:
    text = path.read_text(encoding="utf-8-sig")  # universal newlines: CRLF becomes \n
    if "\0" in text:
        raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "binary")
    return _page(name[: -len(suffix)], suffix, text)


class _Unreadable(Exception):
    """Why a file cannot be read, as a phrase."""


def _read_pdf(path: Path, name: str) -> tuple[Page, int]:
    """The page `name` whose sections are the pages of a PDF, and how many of these have no text.
    Raises _Unreadable."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise _Unreadable(_NEEDS_PYPDF) from None
    try:
        reader = PdfReader(path)
        texts = [page.extract_text().strip() for page in reader.pages]
        title = str((reader.metadata and reader.metadata.title) or name)
    except (
        PyPdfError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:  # a damaged file
        raise _Unreadable(
            f"cannot be read: {' '.join(str(error).split()) or type(error).__name__}"
        ) from None
    sections = tuple((f"page {n}", text) for n, text in enumerate(texts, start=1) if text)
    return Page(name, title, sections), len(texts) - len(sections)


def joined_document(name: str, pages: Sequence[Page]) -> tuple[Document, dict[str, Support]]:
    """Put pages together as one document.

    Args:
        name: The document's id.
        pages: Its pages, in order.

    Returns:
        The document, whose passages are the sections, each with "page title: heading" on a line of
        its own before it, and the span of each page ("guide/setup") and of each section
        ("guide/setup#Warranty"; the first of a name).
    """
    pieces: list[str] = []
    passages: list[Passage] = []
    spans: dict[str, Support] = {}
    at = 0
    for page in pages:
        start = at
        for heading, text in page.sections:
            title = page.title if heading in ("", page.title) else f"{page.title}: {heading}"
            piece = "\n".join(part for part in (title, text) if part)
            passages.append(Passage(title, at, at + len(piece)))
            spans.setdefault(f"{page.id}#{heading}", Support(name, at, at + len(piece)))
            pieces.append(piece)
            at += len(piece) + len(SEPARATOR)
        spans[page.id] = Support(name, start, at - len(SEPARATOR))
    text = SEPARATOR.join(pieces)
    return Document(name, text, pages[0].title if len(pages) == 1 else "", tuple(passages)), spans


class _Questions:
    """Parses a row of the questions' file; documents that several questions name are put together
    once."""

    def __init__(self, pages: Sequence[Page], extensions: dict[str, str]) -> None:
        self._pages = {page.id: page for page in pages}
        self._ids = {**extensions, **{page.id: page.id for page in pages}}
        self._joined: dict[tuple[str, ...], tuple[Document, dict[str, Support]]] = {}

    def __call__(self, raw: dict[str, Any]) -> Group | Skip:
        """The question of a row with its document; Skip where it names a page that is not there.
        Raises RowError."""
        row = parse_question({key: value for key, value in raw.items() if value not in (None, "")})
        page_names = [*_page_names(raw, "document"), *_page_names(raw, "documents")]
        gold_pages = _page_names(raw, "gold_pages")
        if missing := [name for name in page_names if name not in self._ids]:
            return _skip_missing_page(missing[0])
        key = tuple(self._ids[name] for name in page_names)
        if key not in self._joined:
            chosen = [self._pages[name] for name in key] or list(self._pages.values())
            self._joined[key] = joined_document(" + ".join(key) or WHOLE_FOLDER, chosen)
        document, spans = self._joined[key]
        supporting = []
        for name in gold_pages:
            page, hash_sign, heading = name.partition("#")
            span = spans.get(f"{self._ids.get(page, page)}{hash_sign}{heading}")
            if span is None:
                return _skip_missing_page(name)
            supporting.append(span)
        question = Question(row.id, row.question, (document.id,))
        return Group(
            document, (Example(question, Gold(row.answers, tuple(supporting), row.extra)),)
        )


def _skip_missing_page(name: str) -> Skip:
    return Skip(f"page '{name}' is not in the folder")


def _page_names(raw: dict[str, Any], key: str) -> list[str]:
    """The page names under `key`: a list, or a text with ";" between several (tables). Raises
    RowError."""
    value = raw.get(key)
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return list(value)
    raise RowError(key, f"should be a page's name or a list of names, is {type_name(value)}")


def _question_rows(path: Path) -> Rows:
    """Yield the rows of the file of questions with their places. Raises DataError."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from (
                (RowPlace(path.name, row=n), dict(row))
                for n, row in enumerate(csv.DictReader(file), start=1)
            )
    elif suffix in (".yaml", ".yml"):
        try:
            listed = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
        except yaml.YAMLError as error:
            raise DataError(
                path.name, None, None, f"not YAML ({' '.join(str(error).split())})"
            ) from None
        if not isinstance(listed, list):
            raise DataError(
                path.name, None, None, f"should be a list of questions, is {type_name(listed)}"
            )
        yield from (
            (RowPlace(path.name, row=n), as_row(row)) for n, row in enumerate(listed, start=1)
        )
    else:
        yield from read_rows(path)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load questions about a folder of documents.

    Args:
        config: data is the file of questions, options["documents"] the folder.
        limit: Keep the first so many questions; None: all.

    Returns:
        The data set. Its fingerprint covers all questions and all pages. Its notes name the files
        that were not read.

    Raises:
        ConfigError: One of the two is missing.
        DataError: A file that cannot be read, or a bad row.
    """
    documents = config.options.get("documents")
    if not config.data or not documents:
        raise ConfigError(
            [
                (
                    "dataset folder: name both, the pages and the questions: --documents DIR "
                    "--questions FILE"
                )
            ]
        )
    folder, file = Path(str(documents)).expanduser(), Path(config.data)
    for path, exists, noun in (
        (folder, folder.is_dir(), "folder of documents"),
        (file, file.is_file(), "questions"),
    ):
        if not exists:
            raise ConfigError([f"{noun}: {path} is not there"])
    pages, unread = read_pages(folder)
    suffixes = (*_MARKDOWN, *_PLAIN, *_HTML, _PDF)
    checker = RowChecker(
        _Questions(pages, {page.id + suffix: page.id for page in pages for suffix in suffixes})
    )
    digest = hashlib.sha256()
    for page in pages:
        digest.update(canonical_line(page) + b"\n")
    checker.hash.update(digest.digest())
    examples, documents_by_id = checker.check_rows(_question_rows(file), limit)
    noun = "file was" if len(unread) == 1 else "files were"
    note = (
        f"{len(unread)} {noun} not read, or not in full, in {folder.name}: {', '.join(unread)}"
        if unread
        else ""
    )
    source = Source([file], file.name)
    return checker.dataset(
        config.name,
        source,
        f" with {folder.resolve().name}",
        examples,
        documents_by_id,
        (note,) if note else (),
    )
