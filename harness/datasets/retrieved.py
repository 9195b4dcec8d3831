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
from typing import Any

from pydantic import Field, StrictInt

from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import Tree, build
from harness.datasets.archives import Member
from harness.datasets.base import Dataset
from harness.datasets.check_rows import RowChecker
from harness.datasets.files import (
    as_row,
    first_key,
    json_value,
    parse_each,
    read_rows,
)
from harness.datasets.find_files import FileOptions, find_source
from harness.datasets.open_rows import OpenRow, parse_question
from harness.datasets.row_documents import DocumentStore, documents_in_row, open_store
from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.datasets.rows import NO_DOCUMENTS, Retrieved
from harness.errors import CannotRun, ConfigError, DataError
from harness.types import Document, Example, Gold, Question, Support

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
    """Parses a question and its documents. top: documents to keep (None: all); bare: leave the
    documents out."""

    store: DocumentStore | None  # None: the documents are in the rows
    top: int | None
    bare: bool = False
    n_without: int = 0  # questions for which nothing was retrieved; they are asked all the same

    def __call__(self, raw: dict[str, Any]) -> Retrieved:
        """The question of a row with its best documents, none where nothing was retrieved. Raises
        RowError."""
        row = parse_question(raw)
        entries = (
            documents_in_row(raw)
            if self.store is None
            else self.store.find(raw, row.id, row.question)
        )
        self.n_without += not entries and not self.bare
        unique: dict[str, tuple[Document, bool]] = {}
        for document, marked in (
            () if self.bare else entries or ()
        ):  # one that comes twice keeps its better rank
            unique.setdefault(document.id, (document, marked))
        best = list(unique.values())[: self.top]
        documents = tuple(document for document, _ in best)
        supporting = tuple(
            Support(document.id, 0, len(document.text)) for document, marked in best if marked
        )
        question = Question(row.id, row.question, tuple(document.id for document in documents))
        return Retrieved(documents, Example(question, Gold(row.answers, supporting, row.extra)))


def _read_file(file: Path | Member, split: str) -> Rows:
    """Yield the rows of a file with their places, also from TriviaQA's {"Data": [..]} and ASQA's
    {"dev": {id: row}}."""
    split_names = {name for names in _SPLITS.values() for name in names}
    key, name = first_key(file), str(file) if isinstance(file, Member) else file.name
    if key == _QUESTIONS_KEY or key in ("Domain", "Split", "Version", "VerifiedEval"):
        listed = json_value(file).get(_QUESTIONS_KEY)
        if not isinstance(listed, list):
            raise DataError(name, None, _QUESTIONS_KEY, "should be the list of questions")
        yield from ((RowPlace(name, row=n), as_row(row)) for n, row in enumerate(listed, start=1))
    elif key in split_names:
        yield from _read_split(json_value(file), name, split)
    else:
        yield from read_rows(file)


def _read_split(value: dict[str, Any], name: str, split: str) -> Rows:
    """Yield the rows of one split of {"dev": {id: row}}, with their ids. name: the file. Raises
    DataError."""
    key_of_split = next((n for n in _SPLITS.get(split.lower(), (split,)) if n in value), None)
    if key_of_split is None:
        raise DataError(
            name, None, None, f"has no split '{split}' among {', '.join(value)}; set dataset.split"
        )
    if not isinstance(value[key_of_split], dict):
        raise DataError(name, None, key_of_split, "should be an object {id: row}")
    for number, (key, row) in enumerate(value[key_of_split].items(), start=1):
        values = as_row(row)
        yield (
            RowPlace(name, row=number),
            values if isinstance(values, BrokenRow) else {"id": key, **values},
        )


def _evidence_folder(config: DatasetConfig) -> str | None:
    """TriviaQA's folder evidence/wikipedia if config.data is its qa/wikipedia-dev.json beside it;
    else None."""
    path = Path(config.data or "").expanduser()
    if path.parent.name != "qa" or "wikipedia" not in path.name or path.suffix != ".json":
        return None
    pages = path.parent.with_name("evidence") / "wikipedia"
    return str(pages) if pages.is_dir() else None


def load_questions(config: DatasetConfig, limit: int | None = None) -> list[OpenRow]:
    """Load the first `limit` questions (None: all) without documents, for a retriever. Raises as
    datasets.load."""
    options = build(Options, Tree([("", config.options)]), "dataset")
    if options.documents or options.top:
        raise ConfigError(
            ["dataset.documents and dataset.top: leave them out to retrieve documents"]
        )
    source = find_source(config, tuple(Options.model_fields))
    rows = (row for file in source.files for row in _read_file(file, config.split))
    questions = list(islice(parse_each(rows, parse_question), limit))
    if not questions:
        raise DataError(source.name, None, None, "the file has no rows")
    return questions


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the first `limit` questions (None: all) with their documents; every row is checked.

    Raises as harness.datasets.load; CannotRun where the hub's rows bring no documents and none are
    named.
    """
    options = build(Options, Tree([("", config.options)]), "dataset")
    source = find_source(config, tuple(Options.model_fields))
    documents_at = options.documents or _evidence_folder(config)
    store = open_store(documents_at) if documents_at else None
    parser = _RowParser(store, options.top, options.documents == ())
    checker = RowChecker(parser)
    rows: Rows = (row for file in source.files for row in _read_file(file, config.split))
    if store is not None and store.sources:
        all_rows = list(rows)
        store.read_pages(row for _, row in all_rows)
        rows = iter(all_rows)
    examples, documents = checker.check_rows(rows, limit)
    if checker.first_error is None and parser.n_without and parser.n_without == checker.rows:
        if store is not None and store.sources and not store.by_question:
            sentence = f"none of the {checker.rows} questions names retrieved pages of {store.name}; {_PAGES_HINT}"
            raise DataError(source.name, None, None, sentence)
        if store is not None:
            sentence = (
                f"none of the {checker.rows} questions is in {store.name} by its id or its text"
            )
            raise DataError(
                source.name, None, None, f"{sentence}; name the documents of this data set"
            )
        sentence = (
            f"the {checker.rows} questions come without retrieved documents; {_DOCUMENTS_HINT}"
        )
        if config.data is None:
            raise CannotRun(f"{source.name}: {sentence}")
        raise DataError(source.name, None, None, sentence)
    note = f"{parser.n_without} of {checker.rows} questions are {NO_DOCUMENTS}: they are answered from no text"
    suffix = f" with {store.name}" if store else ""
    return checker.dataset(
        config.name, source, suffix, examples, documents, (note,) if parser.n_without else ()
    )
