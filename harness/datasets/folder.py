"""A folder of documents and a file of questions about it.

    --documents wiki      guide/setup.md, faq.txt, page.html, manual.pdf, pages.jsonl ({"id", "title", "text"})
    --questions q.jsonl   {"question": "How long is the warranty?", "answer": "two years", "document": "guide/setup",
                            "gold_pages": ["guide/setup#Warranty"]}; also .json, .csv, .tsv and .yaml

Only "question" is needed; what else a row may say of the right answer is in folder_gold.py. A
question that names no "document" (or "documents") is asked about the whole folder: its document is
all pages, one after another. The sections of a page are the document's passages, so "gold_pages", a
page or a page and a heading, mark what supports an answer.

A question about a page that was not read is asked all the same, so that it counts: from its other
pages, or from no text.
"""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset
from harness.datasets.check_rows import RowChecker
from harness.datasets.find_files import FileOptions, Source
from harness.datasets.folder_gold import parse_folder_row
from harness.datasets.folder_pages import FolderPages, Page, read_pages
from harness.datasets.folder_questions import parse_columns, read_questions
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Group, Retrieved, RowError, Skip, canonical_line, type_name
from harness.errors import ConfigError
from harness.stats.question_clusters import WHOLE_FOLDER
from harness.types import Document, Example, Gold, Question, Section, Support

SEPARATOR = "\n\n"
PRESET = "folder"
"""The preset of all folders, whose name only a folder without one of its own has."""


class Options(FileOptions):
    """Those of every data set that is read from files, and the folder."""

    documents: str | None = Field(
        default=None,
        description="the folder of pages: .md, .txt, .rst, .html, .pdf, .jsonl; with the extra "
        "'documents' also .docx, .pptx, .xlsx and .epub",
    )
    columns: str | None = Field(
        default=None, description="the file's names: question=user_input,answer=reference"
    )
    allow_left_out: bool = Field(
        default=False,
        description="leave out questions about pages that were not read, instead of counting them",
    )


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
    passages: list[Section] = []
    spans: dict[str, Support] = {}
    at = 0
    for page in pages:
        start = at
        for heading, text in page.sections:
            title = page.title
            if heading not in ("", page.title):
                title = f"{page.title}: {heading}"
            piece = "\n".join(filter(None, (title, text)))
            passages.append(Section(title, at, at + len(piece)))
            spans.setdefault(f"{page.id}#{heading}", Support(name, at, at + len(piece)))
            pieces.append(piece)
            at += len(piece) + len(SEPARATOR)
        spans[page.id] = Support(name, start, at - len(SEPARATOR))
    title = ""
    if len(pages) == 1:
        title = pages[0].title
    return Document(name, SEPARATOR.join(pieces), title, tuple(passages)), spans


class _Questions:
    """Parses a row of the questions' file; documents that several questions name are put together
    once.

    unread: id of a question -> the pages it names that were not read.
    """

    def __init__(self, folder: FolderPages, allow_left_out: bool) -> None:
        """Keep the pages that questions may name.

        `_pages` maps a page's id to the page; `_ids` maps each name that a row may use, the page's
        id or the name of its file, to the id. `_joined` keeps the documents that were put together,
        with the spans of their parts, by the ids of their pages.

        Args:
            folder: The pages.
            allow_left_out: Whether questions about pages that were not read are left out.
        """
        self._pages = {page.id: page for page in folder.pages}
        self._ids = {page: page for page in self._pages}  # page id, or name of its file -> page id
        for page_id, file in folder.files.items():
            if _is_its_page(page_id, file):
                self._ids.setdefault(file, page_id)
        self._alike = folder.alike
        self._allow_left_out = allow_left_out
        self._joined: dict[tuple[str, ...], tuple[Document, dict[str, Support]]] = {}
        self.unread: dict[str, list[str]] = {}

    def __call__(self, raw: RawRow) -> Group | Retrieved | Skip:
        """Turn a row into the question with its document.

        Also notes in `unread` the pages that it names and that were not read.

        Returns:
            The question with its document, or without one where all pages that it names were not
            read; Skip where one was not read and such questions are to be left out.

        Raises:
            RowError: A field is malformed, or a name may be that of several files.
        """
        names = [*_page_names(raw, "document"), *_page_names(raw, "documents")]
        gold_pages = _page_names(raw, "gold_pages")
        row = parse_folder_row(raw, gold_pages)
        for name in (*names, *gold_pages):
            self._refuse_ambiguous(name)
        named = [self._ids[name] for name in names if name in self._ids]
        unread = [name for name in names if name not in self._ids]
        spans: dict[str, Support] = {}
        document = None
        if named or not names:
            document, spans = self._document(tuple(named))
        supporting: list[Support] = []
        for name in gold_pages:
            span = spans.get(self._section(name))
            if span is None:
                unread.append(name)
            else:
                supporting.append(span)
        if unread and self._allow_left_out:
            return Skip(f"page '{unread[0]}' is not in the folder")
        if unread:
            self.unread[row.id] = unread
            supporting = []  # what is left would make the recall too high
        gold = Gold(row.answers, tuple(supporting), row.gold_extra())
        if document is None:
            return Retrieved((), Example(Question(row.id, row.question, ()), gold))
        question = Question(row.id, row.question, (document.id,))
        return Group(document, (Example(question, gold),))

    def _document(self, names: tuple[str, ...]) -> tuple[Document, dict[str, Support]]:
        """Put pages together as one document, at its first use.

        Args:
            names: The ids of the pages; () for all pages.

        Returns:
            The document, and the span of each page and section in it by name.
        """
        if names not in self._joined:
            chosen = [self._pages[name] for name in names] or list(self._pages.values())
            self._joined[names] = joined_document(" + ".join(names) or WHOLE_FOLDER, chosen)
        return self._joined[names]

    def named_pages(self) -> dict[str, dict[str, Support]]:
        """The places of pages and sections in each document that was put together so far.

        Returns:
            Id of a document -> name of a page or section in it -> its span. A page has the names
            that a row may use: its id and the name of its file. A section is "setup#Cost".
        """
        pages: dict[str, dict[str, Support]] = {}
        for document, spans in self._joined.values():
            named = dict(spans)
            for name, page_id in self._ids.items():
                if page_id in spans:
                    named[name] = spans[page_id]
            pages[document.id] = named
        return pages

    def _section(self, name: str) -> str:
        """The name of a page, or of a page and a heading, with the page's id: "setup.md#Cost"
        -> "setup#Cost".
        """
        page, hash_sign, heading = name.partition("#")
        return f"{self._ids.get(page, page)}{hash_sign}{heading}"

    def _refuse_ambiguous(self, name: str) -> None:
        """Raise RowError for the name of a page without its ending that several files have.

        Args:
            name: "setup", or with a heading "setup#Cost".
        """
        page = name.partition("#")[0]
        if page in self._ids:
            return
        several = [file for file in self._alike if _is_its_page(page, file)]
        if several:
            raise RowError(None, f"page '{page}' may be {' or '.join(several)}; give its ending")


def _is_its_page(page: str, file: str) -> bool:
    """Whether a page is the whole of a file, as its id is the file's name, with or without suffix.

    ("guide/setup", "guide/setup.md") -> True
    """
    return page in (file, file.rpartition(".")[0])


def _page_names(raw: RawRow, key: str) -> list[str]:
    """The names of pages under a key of a row: "setup; faq" -> ["setup", "faq"]; a list as it is.

    [] for a missing or empty value. Raises RowError for any other.
    """
    value = raw.get(key)
    if value is None or value == "":
        return []
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return list(value)
    raise RowError(key, f"should be a page's name or a list of names, is {type_name(value)}")


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load questions about a folder of documents.

    Args:
        config: data is the file of questions, options["documents"] the folder.
        limit: Keep the first so many questions; None: all.

    Returns:
        The data set. Its fingerprint covers all questions and all pages. Its notes name the files
        that were not read, and the questions about them.

    Raises:
        ConfigError: One of the two is missing.
        DataError: A file that cannot be read, or a bad row.
    """
    folder, file = _places(config)
    options = Options.model_validate(config.options)
    read = read_pages(folder, file)
    parser = _Questions(read, options.allow_left_out)
    checker = RowChecker(parser)
    digest = hashlib.sha256()
    for page in read.pages:
        digest.update(canonical_line(page) + b"\n")
    checker.hash.update(digest.digest())
    questions = read_questions(file, parse_columns(options.columns or ""))
    examples, documents = checker.check_rows(questions.rows, limit)
    notes = list(read.notes(folder.name))
    if questions.assumed:
        notes.append(f"{file.name} is not UTF-8 and was read as {questions.assumed}")
    notes += questions.unread.notes()
    question_ids = [example.question.id for example in examples]
    notes += _unread_note([parser.unread[name] for name in question_ids if name in parser.unread])
    notes += _unanswered_note(examples)
    source = Source([file], file.name)
    suffix = f" with {folder.resolve().name}"
    name = name_of_folder(folder)
    dataset = checker.dataset(name, source, suffix, examples, documents, tuple(notes))
    return replace(dataset, pages=parser.named_pages(), folder_documents=len(read.pages))


def name_of_folder(folder: Path) -> str:
    """The name of a folder in tables: its own, or "NAME-folder" where a data set is called so."""
    name = folder.resolve().name.lstrip(".") or PRESET
    taken = {presets.comparable_name(known) for known in presets.names("datasets")} - {
        presets.comparable_name(PRESET)
    }
    if presets.comparable_name(name) in taken:
        return f"{name}-folder"
    return name


def _places(config: DatasetConfig) -> tuple[Path, Path]:
    """The folder of documents and the file of questions, in this order, that a config names.

    Raises ConfigError where one is not named, or not there.
    """
    documents = config.options.get("documents")
    if not config.data or not documents:
        sentence = (
            "dataset folder: name both, the pages and the questions: --documents DIR "
            "--questions FILE"
        )
        raise ConfigError([sentence])
    folder = Path(str(documents)).expanduser()
    file = Path(config.data).expanduser()
    if not folder.is_dir():
        raise ConfigError([f"folder of documents: {folder} is not there"])
    if not file.is_file():
        raise ConfigError([f"questions: {file} is not there"])
    return folder, file


def _unanswered_note(examples: Sequence[Example]) -> list[str]:
    """[a sentence on how many questions have no accepted answer]; [] where all have one.

    Questions that are to be declined are not counted.
    """
    unknown = 0
    for example in examples:
        if not example.gold.answers and not example.gold.extra.get("declined"):
            unknown += 1
    if not unknown:
        return []
    total = len(examples)
    verb = "have"
    if unknown == 1:
        verb = "has"
    if unknown == total:
        return ["no question has an accepted answer, so that no answer is scored by one"]
    counted = f"scores of answers are over the other {total - unknown}"
    return [f"{unknown} of {total} questions {verb} no accepted answer; {counted}"]


def _unread_note(unread: Sequence[Sequence[str]]) -> list[str]:
    """[a sentence on the questions that name pages which were not read]; [] where there are none.

    Args:
        unread: For each such question the pages that were not read.
    """
    if not unread:
        return []
    pages = list(dict.fromkeys(itertools.chain.from_iterable(unread)))
    listed = ", ".join(pages[:8])
    if len(pages) > 8:
        listed += f" and {len(pages) - 8} more"
    noun = "questions name"
    if len(unread) == 1:
        noun = "question names"
    pages_text = f"pages that are not in the folder or were not read ({listed})"
    consequence = "asked without them, they count (--allow-left-out leaves them out)"
    return [f"{len(unread)} {noun} {pages_text}; {consequence}"]
