"""GraphRAG-Bench (Xiang et al., 2025): questions of four kinds on twenty novels, and on one text of
medicine.

    Datas/Corpus/novel.json               [{"corpus_name": "Novel-1", "context": ".."}, ..]
    Datas/Questions/novel_questions.json  [{"id": "Novel-7a", "source": "Novel-1", "question": "..",
                                            "answer": "..", "question_type": "Fact Retrieval"}, ..]

The layout of GraphRAG-Bench/GraphRAG-Benchmark; so are medical.json and medical_questions.json. A
corpus is a document, which its questions share.
"""

import hashlib
from collections.abc import Container
from pathlib import Path
from typing import TypeVar

from harness.config.schema import DatasetConfig, canonical_json
from harness.datasets.base import Dataset, parse_options
from harness.datasets.files import read_json_value
from harness.datasets.find_files import FileOptions
from harness.datasets.row_places import RowPlace
from harness.datasets.rows import RowError, StrictRow, clean_answers, refuse_blank
from harness.errors import ConfigError, DataError
from harness.types import Document, Example, Gold, Question

Options = FileOptions
R = TypeVar("R", bound=StrictRow)


class _CorpusRow(StrictRow):
    corpus_name: str
    context: str


class _QuestionRow(StrictRow):
    id: str
    source: str
    question: str
    answer: str
    question_type: str


def _read_json_list(path: Path, row_class: type[R]) -> list[tuple[RowPlace, R]]:
    """Read the rows of a JSON list, each with its place.

    Args:
        path: The file.
        row_class: The class of a row, which checks it.

    Raises:
        DataError: The file is no list, or a row is malformed.
    """
    values = read_json_value(path)
    if not isinstance(values, list):
        raise DataError.of_file(path.name, "should be a list")
    rows = []
    for number, raw in enumerate(values, start=1):
        place = RowPlace(path.name, row=number)
        try:
            rows.append((place, row_class.read(raw)))
        except RowError as error:
            raise place.error(error.field, error.problem) from None
    return rows


def _example(row: _QuestionRow, corpus_names: Container[str]) -> Example:
    """Make a question on its corpus.

    Args:
        row: The question as the file has it.
        corpus_names: The names of all corpora, which are the ids of their documents.

    Raises:
        RowError: A field is blank, or there is no such corpus.
    """
    if row.source not in corpus_names:
        raise RowError("source", f"'{row.source}' is no corpus_name of the corpus file")
    refuse_blank({"id": row.id, "question": row.question})
    gold = Gold(clean_answers([row.answer], "answer"), extra={"type": row.question_type})
    return Example(Question(row.id, row.question, (row.source,)), gold)


def _folder_with_data(config: DatasetConfig) -> Path:
    """The folder with Questions and Corpus: "Datas" in the folder that is named, or this itself.

    Raises ConfigError where no folder is named, DataError for one that has them not.
    """
    if config.data is None:
        raise ConfigError([f"dataset '{config.name}': name the repository's folder with --data"])
    named_folder = Path(config.data).expanduser()
    for folder in (named_folder / "Datas", named_folder):
        if (folder / "Questions").is_dir() and (folder / "Corpus").is_dir():
            return folder
    problem = "should hold Datas/Questions and Datas/Corpus, as the authors' repository"
    raise DataError.of_file(str(config.data), problem)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the first `limit` questions (None: all) of `config.subset`, "novel" or "medical".

    With the corpora of these questions. The fingerprint is that of all rows of both files.

    Raises:
        ConfigError: No folder is named.
        DataError: A file cannot be used.
    """
    parse_options(Options, config.options)
    folder = _folder_with_data(config)
    fingerprint = hashlib.sha256(b"graphrag-bench 1\n")
    document_by_id: dict[str, Document] = {}
    corpus_file = folder / "Corpus" / f"{config.subset}.json"
    for place, corpus in _read_json_list(corpus_file, _CorpusRow):
        if not corpus.context.strip():
            raise place.error("context", "is empty")
        document_by_id[corpus.corpus_name] = Document(corpus.corpus_name, corpus.context)
        fingerprint.update(canonical_json([corpus.corpus_name, corpus.context]).encode())
    examples: list[Example] = []
    questions_file = folder / "Questions" / f"{config.subset}_questions.json"
    for place, row in _read_json_list(questions_file, _QuestionRow):
        try:
            example = _example(row, document_by_id)
        except RowError as error:
            raise place.error(error.field, error.problem) from None
        fingerprint.update(canonical_json(example).encode())
        examples.append(example)
    first_examples = examples[:limit]
    needed_ids = {example.question.document_ids[0] for example in first_examples}
    ids_in_order = [document_id for document_id in document_by_id if document_id in needed_ids]
    return Dataset(
        name=config.name,
        examples=tuple(first_examples),
        documents={document_id: document_by_id[document_id] for document_id in ids_in_order},
        fingerprint=fingerprint.hexdigest(),
        source=questions_file.name,
        n_all_questions=len(examples),
    )
