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
from harness.config.yaml_tree import Tree, validate_tree
from harness.datasets.archives import Member
from harness.datasets.base import Dataset
from harness.datasets.check_rows import RowChecker
from harness.datasets.files import (
    as_row,
    first_key,
    json_object,
    parse_each,
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
_SPLITS = {"validation": ("validation", "dev", "valid"), "test": ("test",), "train": ("train",)}
_QUESTIONS_KEY = "Data"  # the key of the questions in TriviaQA's files


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


GIVEN = """\
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
        top: How many documents of a question stay; None: all.
        bare: Whether the documents are left out.
        n_without: Questions for which nothing was retrieved; they are asked all the same.
    """

    store: DocumentStore | None
    top: int | None
    bare: bool = False
    n_without: int = 0

    def __call__(self, raw: RawRow) -> Retrieved:
        """Parse a row to its question with its best documents; none where nothing was retrieved.

        Also counts, in `n_without`, the questions for which nothing was retrieved. Raises RowError.
        """
        row = parse_question(raw)
        best = self._best_entries(raw, row)
        documents = tuple(entry.document for entry in best)
        evidence = [entry.document for entry in best if entry.is_evidence]
        supporting = tuple(Support(document.id, 0, len(document.text)) for document in evidence)
        question = Question(row.id, row.question, tuple(document.id for document in documents))
        return Retrieved(
            documents, Example(question, Gold(row.answers, supporting, row.gold_extra()))
        )

    def _best_entries(self, raw: RawRow, row: OpenRow) -> list[Entry]:
        """The best documents of a question, each once; counts a question without any in
        `n_without`.

        Args:
            raw: The row as the file has it.
            row: The question parsed from it.

        Raises:
            RowError: A document is malformed.
        """
        entries = self._entries(raw, row)
        if self.bare:
            return []
        if not entries:
            self.n_without += 1
            return []
        unique: dict[str, Entry] = {}
        for entry in entries:  # one that comes twice keeps its better rank
            unique.setdefault(entry.document.id, entry)
        return list(unique.values())[: self.top]

    def _entries(self, raw: RawRow, row: OpenRow) -> list[Entry] | None:
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


def _file_name(file: Path | Member) -> str:
    """The name of a file in messages: "dev.jsonl", or for a file in an archive
    "a.zip/dev.jsonl".
    """
    if isinstance(file, Member):
        return str(file)
    return file.name


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
    key = first_key(file)
    name = _file_name(file)
    if key == _QUESTIONS_KEY or key in ("Domain", "Split", "Version", "VerifiedEval"):
        listed = json_object(file).get(_QUESTIONS_KEY)
        if not isinstance(listed, list):
            raise DataError(name, None, _QUESTIONS_KEY, "should be the list of questions")
        for number, row in enumerate(listed, start=1):
            yield RowPlace(name, row=number), as_row(row)
    elif any(key in names for names in _SPLITS.values()):
        yield from _read_split(json_object(file), name, split)
    else:
        yield from read_rows(file)


def _read_split(value: RawRow, name: str, split: str) -> Rows:
    """Yield (place, row) for each row of one split of a file {"dev": {id: row}}, with its key as
    "id".

    Args:
        value: The parsed file.
        name: The file's name, for messages.
        split: The data set's split, "validation".

    Raises:
        DataError: There is no such split.
    """
    names_of_split = _SPLITS.get(split.lower(), (split,))
    keys = [key for key in names_of_split if key in value]
    if not keys:
        raise DataError(
            name, None, None, f"has no split '{split}' among {', '.join(value)}; set dataset.split"
        )
    rows = value[keys[0]]
    if not isinstance(rows, dict):
        raise DataError(name, None, keys[0], "should be an object {id: row}")
    for number, (row_id, value_of_row) in enumerate(rows.items(), start=1):
        row = as_row(value_of_row)
        if not isinstance(row, BrokenRow):
            row = {"id": row_id, **row}
        yield RowPlace(name, row=number), row


def _evidence_folder(config: DatasetConfig) -> str | None:
    """TriviaQA's folder evidence/wikipedia, where config.data is a file in qa/ beside it; else
    None.
    """
    path = Path(config.data or "").expanduser()
    if path.parent.name != "qa" or "wikipedia" not in path.name or path.suffix != ".json":
        return None
    pages = path.parent.with_name("evidence") / "wikipedia"
    if not pages.is_dir():
        return None
    return str(pages)


def load_questions(config: DatasetConfig, limit: int | None = None) -> list[OpenRow]:
    """Load the first `limit` questions (None: all) without documents, for a retriever.

    Raises what harness.datasets.load raises, and ConfigError for options about documents.
    """
    options = validate_tree(Options, Tree([("", config.options)]), "dataset")
    if options.documents or options.top:
        raise ConfigError(
            ["dataset.documents and dataset.top: leave them out to retrieve documents"]
        )
    source = find_source(config, tuple(Options.model_fields))
    rows = _read_files(source, config.split)
    questions = list(islice(parse_each(rows, parse_question), limit))
    if not questions:
        raise DataError(source.name, None, None, "the file has no rows")
    return questions


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the first `limit` questions (None: all) with their documents; every row is checked.

    Raises what harness.datasets.load raises, and CannotRun where the hub's rows bring no documents
    and none are named.
    """
    options = validate_tree(Options, Tree([("", config.options)]), "dataset")
    source = find_source(config, tuple(Options.model_fields))
    store = _store_of(config, options)
    parser = _RowParser(store, options.top, options.documents == ())
    checker = RowChecker(parser)
    rows = _read_files(source, config.split)
    if store is not None and store.sources:
        all_rows = list(rows)
        store.read_pages(row for _, row in all_rows)
        rows = iter(all_rows)
    examples, documents = checker.check_rows(rows, limit)
    if checker.first_error is None and parser.n_without and parser.n_without == checker.rows:
        _refuse_no_documents(config, source.name, store, checker.rows)
    notes: tuple[str, ...] = ()
    if parser.n_without:
        of_all = f"{parser.n_without} of {checker.rows} questions"
        notes = (f"{of_all} are {NO_DOCUMENTS}: they are answered from no text",)
    suffix = ""
    if store is not None:
        suffix = f" with {store.name}"
    return checker.dataset(config.name, source, suffix, examples, documents, notes)


def _store_of(config: DatasetConfig, options: Options) -> DocumentStore | None:
    """Open the files of retrieved documents; None where the rows bring the documents.

    The files are those of the setting `documents`; without it, the evidence folder beside the rows
    of TriviaQA.

    Raises DataError for a place that cannot be used.
    """
    places = options.documents or _evidence_folder(config)
    if not places:
        return None
    return open_store(places)


def _refuse_no_documents(
    config: DatasetConfig, source: str, store: DocumentStore | None, count: int
) -> None:
    """Raise DataError, or CannotRun for rows of the hub, as no question has documents.

    Args:
        config: The data set's config.
        source: The name of the source of the questions.
        store: Where documents were looked for; None: in the rows.
        count: The number of questions.
    """
    if store is None:
        sentence = f"the {count} questions come without retrieved documents; {_DOCUMENTS_HINT}"
        if config.data is None:
            raise CannotRun(f"{source}: {sentence}")
        raise DataError(source, None, None, sentence)
    if store.sources and not store.by_question:
        sentence = f"none of the {count} questions names retrieved pages of {store.name}"
        raise DataError(source, None, None, f"{sentence}; {_PAGES_HINT}")
    sentence = f"none of the {count} questions is in {store.name} by its id or its text"
    raise DataError(source, None, None, f"{sentence}; name the documents of this data set")
