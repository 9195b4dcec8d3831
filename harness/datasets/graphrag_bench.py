"""GraphRAG-Bench (Xiang et al., 2025): questions of four kinds on twenty novels, and on one text of
medicine.

    Datas/Corpus/novel.json               [{"corpus_name": "Novel-1", "context": ".."}, ..]
    Datas/Questions/novel_questions.json  [{"id": "Novel-7a", "source": "Novel-1", "question": "..",
                                            "answer": "..", "question_type": "Fact Retrieval"}, ..]

The layout of GraphRAG-Bench/GraphRAG-Benchmark; so are medical.json and medical_questions.json. A
corpus is a document, which its questions share.
"""

import hashlib
from pathlib import Path
from typing import TypeVar

from harness.config.schema import DatasetConfig, canonical_json
from harness.config.yaml_tree import Tree, validate_tree
from harness.datasets.base import Dataset
from harness.datasets.files import read_json_value
from harness.datasets.find_files import FileOptions
from harness.datasets.row_places import RowPlace
from harness.datasets.rows import RowError, StrictRow, clean_answers, refuse_blank
from harness.errors import ConfigError, DataError
from harness.types import Document, Example, Gold, Question

Options = FileOptions
R = TypeVar("R", bound=StrictRow)


class _Corpus(StrictRow):
    corpus_name: str
    context: str


class _Asked(StrictRow):
    id: str
    source: str
    question: str
    answer: str
    question_type: str


def _read(path: Path, kind: type[R]) -> list[tuple[RowPlace, R]]:
    """Read the rows of a JSON list, each with its place.

    Args:
        path: The file.
        kind: The class of a row, which checks it.

    Raises:
        DataError: The file is no list, or a row is malformed.
    """
    values = read_json_value(path)
    if not isinstance(values, list):
        raise DataError(path.name, None, None, "should be a list")
    rows = []
    for number, raw in enumerate(values, start=1):
        place = RowPlace(path.name, row=number)
        try:
            rows.append((place, kind.read(raw)))
        except RowError as error:
            raise place.error(error.field, error.problem) from None
    return rows


def _example(asked: _Asked, documents: dict[str, Document]) -> Example:
    """Make a question on its corpus.

    Args:
        asked: The question as the file has it.
        documents: Name of each corpus -> its document.

    Raises:
        RowError: A field is blank, or there is no such corpus.
    """
    if asked.source not in documents:
        raise RowError("source", f"'{asked.source}' is no corpus_name of the corpus file")
    refuse_blank({"id": asked.id, "question": asked.question})
    gold = Gold(clean_answers([asked.answer], "answer"), extra={"type": asked.question_type})
    return Example(Question(asked.id, asked.question, (asked.source,)), gold)


def _folder(config: DatasetConfig) -> Path:
    """The folder with Questions and Corpus: "Datas" in the folder that is named, or this itself.

    Raises ConfigError where no folder is named, DataError for one that has them not.
    """
    if config.data is None:
        raise ConfigError([f"dataset '{config.name}': name the repository's folder with --data"])
    folder = Path(config.data).expanduser()
    for place in (folder / "Datas", folder):
        if (place / "Questions").is_dir() and (place / "Corpus").is_dir():
            return place
    problem = "should hold Datas/Questions and Datas/Corpus, as the authors' repository"
    raise DataError(str(config.data), None, None, problem)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the first `limit` questions (None: all) of `config.subset`, "novel" or "medical".

    With the corpora of these questions. The fingerprint is that of all rows of both files.

    Raises:
        ConfigError: No folder is named.
        DataError: A file cannot be used.
    """
    validate_tree(Options, Tree([("", config.options)]), "dataset")
    folder = _folder(config)
    hashed = hashlib.sha256(b"graphrag-bench 1\n")
    documents: dict[str, Document] = {}
    for place, corpus in _read(folder / "Corpus" / f"{config.subset}.json", _Corpus):
        if not corpus.context.strip():
            raise place.error("context", "is empty")
        documents[corpus.corpus_name] = Document(corpus.corpus_name, corpus.context)
        hashed.update(canonical_json([corpus.corpus_name, corpus.context]).encode())
    examples: list[Example] = []
    name = f"{config.subset}_questions.json"
    for place, asked in _read(folder / "Questions" / name, _Asked):
        try:
            example = _example(asked, documents)
        except RowError as error:
            raise place.error(error.field, error.problem) from None
        hashed.update(canonical_json(example).encode())
        examples.append(example)
    first = examples[:limit]
    needed = {example.question.document_ids[0] for example in first}
    return Dataset(
        config.name,
        tuple(first),
        {key: document for key, document in documents.items() if key in needed},
        hashed.hexdigest(),
        name,
        rows=len(examples),
    )
