"""From a config to a checked data set: find the rows, check each, hash them all.

    load(config)             config.data (file, folder, "package:...") if given, else config.hub
    load(config, limit=20)   the first 20 questions; the fingerprint is still that of all rows

A format (formats.py) is a function of one raw row to a `Row`, `Group`, `Retrieved` or `Skip`, or a
loader of its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from harness.config import plugins, registry
from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset, loader_of
from harness.datasets.check_rows import RowChecker
from harness.datasets.files import read_rows
from harness.datasets.find_files import Source, find_source
from harness.datasets.formats import option_fields, row_format
from harness.datasets.row_places import Rows
from harness.errors import CannotRun, ConfigError
from harness.types import Document, Example, Passage


def _first_of_equal_texts(documents: Mapping[str, Document]) -> dict[str, str]:
    """Map the id of each document to the id of the first one with the same title, text and
    passages.

    Documents a, b, c where c has the content of a -> {"a": "a", "b": "b", "c": "a"}
    """
    first_ids: dict[tuple[str, str, tuple[Passage, ...]], str] = {}
    first_of = {}
    for name, document in documents.items():
        content = (document.title, document.text, document.passages)
        first_of[name] = first_ids.setdefault(content, name)
    return first_of


def _on_first_documents(example: Example, first_of: Mapping[str, str]) -> Example:
    """The example with each document id replaced by that of the first document with the same text.

    The ids of the question stay in order, each once; the supporting spans of the gold move along.

    Args:
        example: The question with its gold.
        first_of: Document id -> id of the first document with the same text.
    """
    ids: dict[str, None] = {}  # a set in order
    for document_id in example.question.document_ids:
        ids[first_of[document_id]] = None
    supporting = [
        replace(mark, document_id=first_of[mark.document_id]) for mark in example.gold.supporting
    ]
    return Example(
        replace(example.question, document_ids=tuple(ids)),
        replace(example.gold, supporting=tuple(supporting)),
    )


def merge_equal_texts(
    examples: list[Example], documents: dict[str, Document]
) -> tuple[list[Example], dict[str, Document]]:
    """Let questions about equal texts share one document, the first with that text.

    So there is one index for it and, in statistics, one cluster.

    Args:
        examples: The questions, each with the ids of its documents.
        documents: Id -> document.

    Returns:
        The questions with their ids changed to those of the first documents, and these documents.
    """
    first_of = _first_of_equal_texts(documents)
    first_ids = list(dict.fromkeys(first_of.values()))
    if len(first_ids) == len(documents):
        return examples, documents
    moved = [_on_first_documents(example, first_of) for example in examples]
    return moved, {name: documents[name] for name in first_ids}


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load and check every row; keep the first `limit` questions in file order (None: all) with
    their documents.

    The fingerprint is the sha256 of the canonical JSON of all rows as used, so the same rows in
    another file format have the same one, and `limit` does not change it. (Formats with a loader of
    their own say what theirs is.) Raises DataError (file, line or row, field) for rows and files,
    CannotRun for the hub, ConfigError and UnknownName for the config. With `config.swap` rows and
    fingerprint are those of an entity-swapped copy, which the package audit makes.
    """
    if config.swap is not None:
        return _load_swapped(config, config.swap, limit)
    if limit is not None and limit < 1:
        raise ConfigError([f"limit: should be at least 1, is {limit}"])
    loader = loader_of(config.format)
    if loader is not None:
        return loader.load(config, limit)
    return _load_rows(config, limit)


def _load_swapped(config: DatasetConfig, swap: str, limit: int | None) -> Dataset:
    """Load a data set and return its entity-swapped copy, which the package audit makes.

    Args:
        config: The data set's config; its `swap_seed` draws the new names.
        swap: How names are replaced, "entities".
        limit: Load the first so many questions; None: all.

    Raises:
        CannotRun: The package audit is not installed.
    """
    target = plugins.targets("harness.dataset_copies").get("entities")
    if target is None:
        raise CannotRun(
            "dataset.swap needs the package longdoc-harness-audit; install packages/audit"
        )
    original = load(config.model_copy(update={"swap": None}), limit)
    copied: Dataset = registry.import_target(target)(original, swap, config.swap_seed)
    return copied


def _rows_of(source: Source, row_keys: Collection[str]) -> Rows:
    """Yield (place, row) for each row of all files of a source, one file after the other.

    Args:
        source: The files.
        row_keys: The keys of a row; see `read_rows`.
    """
    for file in source.files:
        yield from read_rows(file, row_keys)


def _load_rows(config: DatasetConfig, limit: int | None) -> Dataset:
    """Load and check a data set whose format is parsed row by row; merge documents of equal text.

    Args:
        config: Names the format, its options and the place of the rows.
        limit: Keep the first so many questions; None: all. All rows are checked and hashed.
    """
    known = list(option_fields(config.format))
    rows = row_format(config)
    checker = RowChecker(rows.parse)
    source = find_source(rows.config, known)
    examples, documents = checker.check_rows(_rows_of(source, rows.row_keys), limit)
    before = len(documents)
    examples, documents = merge_equal_texts(examples, documents)
    notes: tuple[str, ...] = ()
    if len(documents) < before:
        merged = (
            f"{before - len(documents)} of {before} documents have the same text as an earlier "
            "one and are merged with it"
        )
        notes = (merged,)
    suffix = ""
    if rows.placement is not None:
        suffix = f", {rows.placement}"
    return checker.dataset(
        config.name,
        source,
        source_suffix=suffix,
        examples=examples,
        documents=documents,
        notes=notes,
    )
