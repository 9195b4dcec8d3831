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
from harness.datasets.base import Dataset, import_loader
from harness.datasets.check_rows import CheckedQuestions, RowChecker
from harness.datasets.files import read_rows
from harness.datasets.find_files import Source, find_source
from harness.datasets.formats import find_row_format, option_fields
from harness.datasets.row_places import Rows
from harness.errors import CannotRun, ConfigError
from harness.types import Document, Example, Passage


def _first_ids_of_equal_texts(documents: Mapping[str, Document]) -> dict[str, str]:
    """Map the id of each document to the id of the first one with the same title, text and
    passages.

    Documents a, b, c where c has the content of a -> {"a": "a", "b": "b", "c": "a"}
    """
    first_id_by_content: dict[tuple[str, str, tuple[Passage, ...]], str] = {}
    first_id_by_id = {}
    for document_id, document in documents.items():
        content = (document.title, document.text, document.passages)
        first_id_by_id[document_id] = first_id_by_content.setdefault(content, document_id)
    return first_id_by_id


def _on_first_documents(example: Example, first_id_by_id: Mapping[str, str]) -> Example:
    """The example with each document id replaced by that of the first document with the same text.

    The ids of the question stay in order, each once; so do the supporting spans of the gold.

    Args:
        example: The question with its gold.
        first_id_by_id: Document id -> id of the first document with the same text.
    """
    document_ids: dict[str, None] = {}  # a set in order
    for document_id in example.question.document_ids:
        document_ids[first_id_by_id[document_id]] = None
    supporting = [
        replace(span, document_id=first_id_by_id[span.document_id])
        for span in example.gold.supporting
    ]
    return Example(
        replace(example.question, document_ids=tuple(document_ids)),
        replace(example.gold, supporting=tuple(supporting)),
    )


def merge_equal_texts(questions: CheckedQuestions) -> CheckedQuestions:
    """Let questions about equal texts share one document, the first with that text.

    So there is one index for it and, in statistics, one cluster. The document ids of the questions
    are changed to those of the first documents, and only these documents stay.
    """
    documents = questions.documents
    first_id_by_id = _first_ids_of_equal_texts(documents)
    first_ids = list(dict.fromkeys(first_id_by_id.values()))
    if len(first_ids) == len(documents):
        return questions
    examples = [_on_first_documents(example, first_id_by_id) for example in questions.examples]
    first_documents = {document_id: documents[document_id] for document_id in first_ids}
    return CheckedQuestions(examples, first_documents)


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
    loader = import_loader(config.format)
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
    swap_function_name = plugins.targets("harness.dataset_copies").get("entities")
    if swap_function_name is None:
        raise CannotRun(
            "dataset.swap needs the package longdoc-harness-audit; install packages/audit"
        )
    swap_entities = registry.import_target(swap_function_name)
    original = load(config.model_copy(update={"swap": None}), limit)
    copied: Dataset = swap_entities(original, swap, config.swap_seed)
    return copied


def _read_all_files(source: Source, row_keys: Collection[str]) -> Rows:
    """Yield (place, row) for each row of all files of a source, one file after the other.

    Args:
        source: The files.
        row_keys: The keys of a row: a file that starts with an object whose first key is none of
            them holds one object {id: row, ...}; () for a format without such files.
    """
    for file in source.files:
        yield from read_rows(file, row_keys)


def _load_rows(config: DatasetConfig, limit: int | None) -> Dataset:
    """Load and check a data set whose format is parsed row by row; merge documents of equal text.

    Args:
        config: Names the format, its options and the place of the rows.
        limit: Keep the first so many questions; None: all. All rows are checked and hashed.
    """
    known_options = list(option_fields(config.format))
    row_format = find_row_format(config)
    checker = RowChecker(row_format.parse)
    source = find_source(row_format.config, known_options)
    rows = _read_all_files(source, row_format.row_keys)
    questions = checker.check_rows(rows, limit)
    merged = merge_equal_texts(questions)
    n_documents = len(questions.documents)
    n_merged = n_documents - len(merged.documents)
    notes: tuple[str, ...] = ()
    if n_merged:
        note = (
            f"{n_merged} of {n_documents} documents have the same text as an earlier "
            "one and are merged with it"
        )
        notes = (note,)
    source_suffix = ""
    if row_format.placement is not None:
        source_suffix = f", {row_format.placement}"
    return checker.make_dataset(config.name, source, source_suffix, merged, notes)
