"""Open-domain questions with the documents that were retrieved for them: NQ, TriviaQA, PopQA, ASQA,
ELI5.

    rows of questions ──┐                     options.documents: a file or folder of documents, where rows bring none
    retrieved documents ┴──► question + its documents, best first     options.top: only the first so many

The documents come from the rows or, where `documents` names a place, from there
(harness.datasets.row_documents). A question for which there is none is asked all the same, without
a text. The fingerprint covers questions and documents.
"""

import dataclasses
from itertools import islice
from pathlib import Path

from pydantic import Field, StrictInt

from harness.config.schema import DatasetConfig
from harness.datasets.archives import Member
from harness.datasets.base import Dataset, parse_options
from harness.datasets.check_rows import RowChecker
from harness.datasets.files import (
    as_row,
    name_for_messages,
    parse_each,
    read_first_key,
    read_json_object,
    read_rows,
)
from harness.datasets.find_files import FileOptions, Source, find_source
from harness.datasets.open_rows import OpenRow, parse_question
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_documents import DocumentStore, Entry, documents_in_row, open_store
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import NO_DOCUMENTS, Retrieved
from harness.errors import CannotRun, ConfigError, DataError
from harness.types import Example, Gold, Question, Support

_DOCUMENTS_HINT = (
    "make a file of them with harness retrieve --dataset DATASET --corpus FILE, and give it: --set "
    "dataset.documents=FILE; or rows that bring their own (harness show DATASET names the forms)"
)
_PAGES_HINT = "name what was retrieved too: --set dataset.documents=[RETRIEVED,PAGES], or rows with lists of page ids"
_SPLIT_NAMES = {
    "validation": ("validation", "dev", "valid"),
    "test": ("test",),
    "train": ("train",),
}
_QUESTIONS_KEY = "Data"  # the key of the questions in TriviaQA's files
_KEYS_OF_TRIVIA_FILE = (_QUESTIONS_KEY, "Domain", "Split", "Version", "VerifiedEval")


class Options(FileOptions):
    """Those of every data set that is read from files, and what is taken of the retrieved
    documents."""

    documents: str | tuple[str, ...] | None = Field(
        default=None,
        description="file or folder with the retrieved documents, or several; null: those in the rows; []: none",
    )
    top: StrictInt | None = Field(
        default=None, ge=1, description="keep the best so many of each question; null: all"
    )


HELP_ON_DOCUMENTS = """\
From a corpus: harness retrieve --dataset NAME --corpus FILE --top 8 writes a file for dataset.documents.
In the rows: ctxs, docs, paragraphs, documents or retrieval_result, a list of {title, text} or {title, contents}, best
  first.
In a file, dataset.documents=FILE: an object {question: [documents]} (LongRefiner), or a row a question with its id or
  text and such a list.
TriviaQA's evidence: nothing where --data is qa/wikipedia-dev.json beside evidence/wikipedia, as they are published;
  else dataset.documents=evidence/wikipedia, a folder of texts that EntityPages names.
KILT's Wikipedia: dataset.documents=[RETRIEVED,PAGES]. PAGES is kilt_knowledgesource.json (35 GiB,
  http://dl.fbaipublicfiles.com/KILT/kilt_knowledgesource.json) or lines of it; RETRIEVED has rows
  {id, docs: [{wikipedia_id}]} or is what a retriever of KILT writes. The provenance in KILT's own questions is gold and
  is not read."""
"""How retrieved documents are given, for `harness show`."""


@dataclasses.dataclass
class _RowParser:
    """Parses a question and its documents.

    Attributes:
        store: Has the documents; None: they are in the rows.
        max_documents: How many documents of a question stay; None: all.
        leaves_out_documents: Whether all documents are left out.
        n_without: Questions for which nothing was retrieved; they are asked all the same.
    """

    store: DocumentStore | None
    max_documents: int | None
    leaves_out_documents: bool = False
    n_without: int = 0

    def __call__(self, raw: RawRow) -> Retrieved:
        """Parse a row to its question with its best documents; none where nothing was retrieved.

        Also counts, in `n_without`, the questions for which nothing was retrieved. Raises RowError.
        """
        row = parse_question(raw)
        best_entries = self._best_entries(raw, row)
        documents = tuple(entry.document for entry in best_entries)
        evidence = [entry.document for entry in best_entries if entry.is_evidence]
        supporting = tuple(Support(document.id, 0, len(document.text)) for document in evidence)
        question = Question(row.id, row.question, tuple(document.id for document in documents))
        gold = Gold(row.answers, supporting, row.gold_extra())
        return Retrieved(documents, Example(question, gold))

    def _best_entries(self, raw: RawRow, row: OpenRow) -> list[Entry]:
        """The best documents of a question, each once; counts a question without any in
        `n_without`.

        Args:
            raw: The row as the file has it.
            row: The question parsed from it.

        Raises:
            RowError: A document is malformed.
        """
        entries = self._find_entries(raw, row)
        if self.leaves_out_documents:
            return []
        if not entries:
            self.n_without += 1
            return []
        entry_by_document_id: dict[str, Entry] = {}
        for entry in entries:  # one that comes twice keeps its better rank
            entry_by_document_id.setdefault(entry.document.id, entry)
        return list(entry_by_document_id.values())[: self.max_documents]

    def _find_entries(self, raw: RawRow, row: OpenRow) -> list[Entry] | None:
        """All documents that the row or the store has for a question, best first; None where it
        has none.

        Args:
            raw: The row as the file has it.
            row: The question parsed from it.

        Raises:
            RowError: A document is malformed.
        """
        if self.store is None:
            return documents_in_row(raw)
        return self.store.find(raw, row.id, row.question)


def _read_files(source: Source, split: str) -> Rows:
    """Yield (place, row) for each row of all files of a source.

    Args:
        source: The files.
        split: The split to take of a file that holds several.
    """
    for file in source.files:
        yield from _read_file(file, split)


def _read_file(file: Path | Member, split: str) -> Rows:
    """Yield (place, row) for each row of a file.

    Also from TriviaQA's {"Data": [..]} and ASQA's {"dev": {id: row}}.

    Args:
        file: The file.
        split: The split to take of a file that holds several.

    Raises:
        DataError: The file has another form, or not this split.
    """
    key = read_first_key(file)
    file_name = name_for_messages(file)
    is_trivia_file = key in _KEYS_OF_TRIVIA_FILE
    has_splits = any(key in names for names in _SPLIT_NAMES.values())
    if is_trivia_file:
        questions = read_json_object(file).get(_QUESTIONS_KEY)
        if not isinstance(questions, list):
            raise DataError(
                file_name,
                line=None,
                field=_QUESTIONS_KEY,
                problem="should be the list of questions",
            )
        for number, row in enumerate(questions, start=1):
            yield RowPlace(file_name, row=number), as_row(row)
    elif has_splits:
        yield from _rows_of_split(read_json_object(file), file_name, split)
    else:
        yield from read_rows(file)


def _rows_of_split(rows_by_split: RawRow, file_name: str, split: str) -> Rows:
    """Yield (place, row) for each row of one split of a file {"dev": {id: row}}, with its key as
    "id".

    Args:
        rows_by_split: The parsed file.
        file_name: The file's name, for messages.
        split: The data set's split, "validation".

    Raises:
        DataError: There is no such split.
    """
    names_of_split = _SPLIT_NAMES.get(split.lower(), (split,))
    names_in_file = [name for name in names_of_split if name in rows_by_split]
    if not names_in_file:
        problem = f"has no split '{split}' among {', '.join(rows_by_split)}; set dataset.split"
        raise DataError.of_file(file_name, problem)
    name_in_file = names_in_file[0]
    rows_by_id = rows_by_split[name_in_file]
    if not isinstance(rows_by_id, dict):
        raise DataError(
            file_name, line=None, field=name_in_file, problem="should be an object {id: row}"
        )
    for number, (row_id, value) in enumerate(rows_by_id.items(), start=1):
        row = as_row(value)
        if not isinstance(row, BrokenRow):
            row = {"id": row_id, **row}
        yield RowPlace(file_name, row=number), row


def _evidence_folder(config: DatasetConfig) -> str | None:
    """TriviaQA's folder evidence/wikipedia, where config.data is a file in qa/ beside it; else
    None.
    """
    path = Path(config.data or "").expanduser()
    is_wikipedia_file = "wikipedia" in path.name and path.suffix == ".json"
    if path.parent.name != "qa" or not is_wikipedia_file:
        return None
    evidence_folder = path.parent.with_name("evidence") / "wikipedia"
    if not evidence_folder.is_dir():
        return None
    return str(evidence_folder)


def load_questions(config: DatasetConfig, limit: int | None = None) -> list[OpenRow]:
    """Load the first `limit` questions (None: all) without documents, for a retriever.

    Raises what harness.datasets.load raises, and ConfigError for options about documents.
    """
    options = parse_options(Options, config.options)
    if options.documents or options.top:
        raise ConfigError(
            ["dataset.documents and dataset.top: leave them out to retrieve documents"]
        )
    source = find_source(config, tuple(Options.model_fields))
    rows = _read_files(source, config.split)
    questions = list(islice(parse_each(rows, parse_question), limit))
    if not questions:
        raise DataError.of_file(source.name, "the file has no rows")
    return questions


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the first `limit` questions (None: all) with their documents; every row is checked. Where
    some have none, a note says how many.

    Raises what harness.datasets.load raises, and CannotRun where the hub's rows bring no documents
    and none are named.
    """
    options = parse_options(Options, config.options)
    source = find_source(config, tuple(Options.model_fields))
    store = _open_store_of(config, options)
    leaves_out_documents = options.documents == ()  # None: the rows bring them
    parser = _RowParser(store, options.top, leaves_out_documents)
    checker = RowChecker(parser)
    rows = _read_files(source, config.split)
    if store is not None and store.kilt_files:
        all_rows = list(rows)  # they name the pages that are read from KILT's large file
        store.read_kilt_pages(row for _, row in all_rows)
        rows = iter(all_rows)
    questions = checker.check_rows(rows, limit)
    n_without = parser.n_without
    no_question_has_documents = n_without > 0 and n_without == checker.n_rows
    if no_question_has_documents and checker.first_bad_row is None:
        _refuse_no_documents(config, source.name, store, checker.n_rows)
    notes: tuple[str, ...] = ()
    if n_without:
        counted = f"{n_without} of {checker.n_rows} questions"
        notes = (f"{counted} are {NO_DOCUMENTS}: they are answered from no text",)
    source_suffix = ""
    if store is not None:
        source_suffix = f" with {store.name}"
    return checker.make_dataset(config.name, source, source_suffix, questions, notes)


def _open_store_of(config: DatasetConfig, options: Options) -> DocumentStore | None:
    """Open the files of retrieved documents; None where the rows bring the documents.

    The files are those of the setting `documents`; without it, the evidence folder beside the rows
    of TriviaQA.

    Raises DataError for a place that cannot be used.
    """
    paths = options.documents or _evidence_folder(config)
    if not paths:
        return None
    return open_store(paths)


def _refuse_no_documents(
    config: DatasetConfig, source_name: str, store: DocumentStore | None, n_questions: int
) -> None:
    """Raise DataError, or CannotRun for rows of the hub, as no question has documents.

    Args:
        config: The data set's config.
        source_name: The name of the source of the questions.
        store: Where documents were looked for; None: in the rows.
        n_questions: The number of questions.
    """
    if store is None:
        problem = f"the {n_questions} questions come without retrieved documents"
        sentence = f"{problem}; {_DOCUMENTS_HINT}"
        if config.data is None:
            raise CannotRun(f"{source_name}: {sentence}")
        raise DataError.of_file(source_name, sentence)
    if store.kilt_files and not store.documents_by_question:
        problem = f"none of the {n_questions} questions names retrieved pages of {store.name}"
        raise DataError.of_file(source_name, f"{problem}; {_PAGES_HINT}")
    problem = f"none of the {n_questions} questions is in {store.name} by its id or its text"
    raise DataError.of_file(source_name, f"{problem}; name the documents of this data set")
