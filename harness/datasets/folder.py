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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

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
_MAX_LISTED = 8  # pages that a note names
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


class JoinedPages(NamedTuple):
    """Pages that were put together as one document.

    Attributes:
        document: The document, whose passages are the sections, each with "page title: heading" on
            a line of its own before it.
        span_by_name: Name of a page ("guide/setup") or of a section ("guide/setup#Warranty", the
            first of a name) -> its span in the document.
    """

    document: Document
    span_by_name: dict[str, Support]


def join_pages(document_id: str, pages: Sequence[Page]) -> JoinedPages:
    """Put pages together as one document: a passage for each section, with its title on a line
    before it, "page title: heading", or the page's title alone where the heading says no more. The
    document's title is that of the page where it is only one.

    Also gives the span of each page and, as "setup#Cost", of each section, the first of a name.

    Args:
        document_id: The document's id.
        pages: Its pages, in order.
    """
    passage_texts: list[str] = []
    passages: list[Section] = []
    span_by_name: dict[str, Support] = {}
    start = 0
    for page in pages:
        page_start = start
        for heading, text in page.sections:
            title = page.title
            if heading not in ("", page.title):
                title = f"{page.title}: {heading}"
            passage_text = "\n".join(filter(None, (title, text)))
            end = start + len(passage_text)
            passage_texts.append(passage_text)
            passages.append(Section(title, start, end))
            span_by_name.setdefault(f"{page.id}#{heading}", Support(document_id, start, end))
            start = end + len(SEPARATOR)
        page_end = start - len(SEPARATOR)
        span_by_name[page.id] = Support(document_id, page_start, page_end)
    document_title = ""
    if len(pages) == 1:
        document_title = pages[0].title
    text = SEPARATOR.join(passage_texts)
    return JoinedPages(Document(document_id, text, document_title, tuple(passages)), span_by_name)


class _QuestionParser:
    """Parses a row of the questions' file; documents that several questions name are put together
    once.

    Attributes:
        unread_pages: Id of a question -> the pages it names that were not read.
    """

    def __init__(self, folder: FolderPages, leave_out_unread: bool) -> None:
        """Keep the pages that questions may name.

        Args:
            folder: The pages.
            leave_out_unread: Whether questions about pages that were not read are left out.
        """
        self._page_by_id = {page.id: page for page in folder.pages}
        # A row may name a page by its id or by the name of its file.
        self._page_id_by_name = {page_id: page_id for page_id in self._page_by_id}
        for page_id, file in folder.file_by_page_id.items():
            if _is_its_page(page_id, file):
                self._page_id_by_name.setdefault(file, page_id)
        self._files_of_same_name = folder.files_of_same_name
        self._leave_out_unread = leave_out_unread
        self._joined_by_page_ids: dict[tuple[str, ...], JoinedPages] = {}
        self.unread_pages: dict[str, list[str]] = {}

    def __call__(self, raw: RawRow) -> Group | Retrieved | Skip:
        """Turn a row into the question with its document: the pages that it names, or the whole
        folder where it names none. Its gold pages become the supporting spans.

        Also notes in `unread_pages` the pages that it names and that were not read.

        Returns:
            The question with its document, or without one where all pages that it names were not
            read; Skip where one was not read and such questions are to be left out.

        Raises:
            RowError: A field is malformed, or a name may be that of several files.
        """
        page_names = [*_page_names(raw, "document"), *_page_names(raw, "documents")]
        gold_names = _page_names(raw, "gold_pages")
        row = parse_folder_row(raw, gold_names)
        for name in (*page_names, *gold_names):
            self._refuse_ambiguous(name)
        known_names = [name for name in page_names if name in self._page_id_by_name]
        joined: JoinedPages | None = None
        is_about_whole_folder = not page_names
        if known_names or is_about_whole_folder:
            joined = self._join_once(tuple(self._page_id_by_name[name] for name in known_names))
        span_by_gold_name: dict[str, Support] = {}
        if joined is not None:
            span_by_gold_name = self._find_spans(gold_names, joined)
        unread_names = [name for name in page_names if name not in self._page_id_by_name]
        unread_names += [name for name in gold_names if name not in span_by_gold_name]
        if unread_names and self._leave_out_unread:
            return Skip(f"page '{unread_names[0]}' is not in the folder")
        supporting: list[Support] = []
        if unread_names:
            # No support at all: with a part of it the recall would be too high.
            self.unread_pages[row.id] = unread_names
        else:
            supporting = [span_by_gold_name[name] for name in gold_names]
        gold = Gold(row.answers, tuple(supporting), row.gold_extra())
        if joined is None:
            return Retrieved((), Example(Question(row.id, row.question, ()), gold))
        question = Question(row.id, row.question, (joined.document.id,))
        return Group(joined.document, (Example(question, gold),))

    def _find_spans(self, names: Sequence[str], joined: JoinedPages) -> dict[str, Support]:
        """Map the names of pages and sections to their spans; a name that is not there is left out.

        Args:
            names: As a row has them, "setup.md#Cost".
            joined: The pages that were put together.
        """
        span_by_name: dict[str, Support] = {}
        for name in names:
            span = joined.span_by_name.get(self._with_page_id(name))
            if span is not None:
                span_by_name[name] = span
        return span_by_name

    def _join_once(self, page_ids: tuple[str, ...]) -> JoinedPages:
        """Put pages together as one document; later calls return the same one.

        Args:
            page_ids: The ids of the pages; () for all pages.
        """
        if page_ids not in self._joined_by_page_ids:
            pages = [self._page_by_id[page_id] for page_id in page_ids]
            document_id = " + ".join(page_ids)
            if not page_ids:
                pages = list(self._page_by_id.values())
                document_id = WHOLE_FOLDER
            self._joined_by_page_ids[page_ids] = join_pages(document_id, pages)
        return self._joined_by_page_ids[page_ids]

    def named_pages(self) -> dict[str, dict[str, Support]]:
        """The spans of pages and sections in each document that was put together so far.

        Returns:
            Id of a document -> name of a page or section in it -> its span. A page has the names
            that a row may use: its id and the name of its file. A section is "setup#Cost".
        """
        spans_by_document_id: dict[str, dict[str, Support]] = {}
        for document, span_by_name in self._joined_by_page_ids.values():
            span_by_any_name = dict(span_by_name)
            for name, page_id in self._page_id_by_name.items():
                if page_id in span_by_name:
                    span_by_any_name[name] = span_by_name[page_id]
            spans_by_document_id[document.id] = span_by_any_name
        return spans_by_document_id

    def _with_page_id(self, name: str) -> str:
        """The name of a page, or of a page and a heading, with the page's id: "setup.md#Cost"
        -> "setup#Cost".
        """
        page_name, hash_sign, heading = name.partition("#")
        page_id = self._page_id_by_name.get(page_name, page_name)
        return f"{page_id}{hash_sign}{heading}"

    def _refuse_ambiguous(self, name: str) -> None:
        """Raise RowError for the name of a page without its ending that several files have.

        Args:
            name: "setup", or with a heading "setup#Cost".
        """
        page_name = name.partition("#")[0]
        if page_name in self._page_id_by_name:
            return
        files = [file for file in self._files_of_same_name if _is_its_page(page_name, file)]
        if files:
            problem = f"page '{page_name}' may be {' or '.join(files)}; give its ending"
            raise RowError(None, problem)


def _is_its_page(page_name: str, file: str) -> bool:
    """Whether a page is the whole of a file: its name is the file's name, with or without suffix.

    ("guide/setup", "guide/setup.md") -> True
    """
    name_without_suffix = file.rpartition(".")[0]
    return page_name in (file, name_without_suffix)


def _page_names(raw: RawRow, key: str) -> list[str]:
    """The names of pages under a key of a row: "setup; faq" -> ["setup", "faq"]; a list as it is.

    [] for a missing or empty value. Raises RowError for any other.
    """
    value = raw.get(key)
    if value is None or value == "":
        return []
    if isinstance(value, str):
        names = [name.strip() for name in value.split(";")]
        return [name for name in names if name]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return list(value)
    raise RowError(key, f"should be a page's name or a list of names, is {type_name(value)}")


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load questions about a folder of documents.

    Args:
        config: data is the file of questions, options["documents"] the folder.
        limit: Keep the first so many questions; None: all.

    Returns:
        The data set, with the spans of pages and sections in its documents. Its fingerprint covers
        all questions and all pages. Its notes name the files that were not read, the questions
        about them, keys of rows that are not read, and how many questions have no accepted answer.

    Raises:
        ConfigError: One of the two is missing.
        DataError: A file that cannot be read, or a bad row.
    """
    folder, questions_file = _find_paths(config)
    options = Options.model_validate(config.options)
    folder_pages = read_pages(folder, questions_file)
    parser = _QuestionParser(folder_pages, options.allow_left_out)
    checker = RowChecker(parser)
    checker.fingerprint.update(_hash_of_pages(folder_pages.pages))
    columns = parse_columns(options.columns or "")
    questions = read_questions(questions_file, columns)
    checked = checker.check_rows(questions.rows, limit)
    notes = list(folder_pages.notes(folder.name))
    if questions.guessed_encoding:
        encoding = questions.guessed_encoding
        notes.append(f"{questions_file.name} is not UTF-8 and was read as {encoding}")
    notes += questions.unread_keys.notes()
    notes += _notes_on_unread_pages(checked.examples, parser.unread_pages)
    notes += _notes_on_unanswered(checked.examples)
    source = Source([questions_file], questions_file.name)
    dataset = checker.make_dataset(
        name_in_tables(folder),
        source,
        source_suffix=f" with {folder.resolve().name}",
        questions=checked,
        notes=tuple(notes),
    )
    return replace(
        dataset, page_spans=parser.named_pages(), n_folder_documents=len(folder_pages.pages)
    )


def _hash_of_pages(pages: Sequence[Page]) -> bytes:
    """The sha256 of the pages as JSON, one a line."""
    sha256 = hashlib.sha256()
    for page in pages:
        sha256.update(canonical_line(page) + b"\n")
    return sha256.digest()


def name_in_tables(folder: Path) -> str:
    """The name of a folder in tables: its own without a leading full stop, or "NAME-folder" where a
    data set is called so. A folder without a name ("/") is called as the preset of all folders,
    "folder"."""
    name = folder.resolve().name.lstrip(".") or PRESET
    taken_names = set(map(presets.comparable_name, presets.names("datasets")))
    taken_names.discard(presets.comparable_name(PRESET))
    if presets.comparable_name(name) in taken_names:
        return f"{name}-folder"
    return name


class _Paths(NamedTuple):
    """The folder of documents and the file of questions."""

    folder: Path
    questions_file: Path


def _find_paths(config: DatasetConfig) -> _Paths:
    """The folder of documents and the file of questions that a config names.

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
    return _Paths(folder, file)


def _notes_on_unanswered(examples: Sequence[Example]) -> list[str]:
    """[a sentence on how many questions have no accepted answer]; [] where all have one.

    Questions that are to be declined are not counted.
    """
    n_unanswered = 0
    for example in examples:
        is_declined = bool(example.gold.extra.get("declined"))
        if not example.gold.answers and not is_declined:
            n_unanswered += 1
    if not n_unanswered:
        return []
    n_questions = len(examples)
    if n_unanswered == n_questions:
        return ["no question has an accepted answer, so that no answer is scored by one"]
    verb = "have"
    if n_unanswered == 1:
        verb = "has"
    counted = f"scores of answers are over the other {n_questions - n_unanswered}"
    return [f"{n_unanswered} of {n_questions} questions {verb} no accepted answer; {counted}"]


def _notes_on_unread_pages(
    examples: Sequence[Example], unread_pages: Mapping[str, Sequence[str]]
) -> list[str]:
    """[a sentence on the questions that name pages which were not read]; [] where there are none.

    Args:
        examples: The questions.
        unread_pages: Id of a question -> the pages it names that were not read.
    """
    n_questions = 0
    pages: dict[str, None] = {}  # a set in order
    for example in examples:
        if example.question.id in unread_pages:
            n_questions += 1
            pages.update(dict.fromkeys(unread_pages[example.question.id]))
    if not n_questions:
        return []
    listed = ", ".join(list(pages)[:_MAX_LISTED])
    if len(pages) > _MAX_LISTED:
        listed += f" and {len(pages) - _MAX_LISTED} more"
    noun = "questions name"
    if n_questions == 1:
        noun = "question names"
    pages_text = f"pages that are not in the folder or were not read ({listed})"
    consequence = "asked without them, they count (--allow-left-out leaves them out)"
    return [f"{n_questions} {noun} {pages_text}; {consequence}"]
