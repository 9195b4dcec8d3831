"""From a config to a checked data set: find the rows, check each, hash them all.

    load(config)             config.data (file, folder, "package:...") if given, else config.hub
    load(config, limit=20)   the first 20 questions; the fingerprint is still that of all rows

A format (formats.py) is a function of one raw row to a `Row`, `Group`, `Retrieved` or `Skip`, or a
loader of its own.
"""

from dataclasses import replace

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset, loader_of
from harness.errors import CannotRun, ConfigError
from harness.types import Document, Example, Passage


def merge_equal_texts(
    examples: list[Example], documents: dict[str, Document]
) -> tuple[list[Example], dict[str, Document]]:
    """Let questions about equal texts share one document, the first: one index and, in statistics,
    one cluster."""
    first_ids: dict[tuple[str, str, tuple[Passage, ...]], str] = {}
    kept_ids = {
        name: first_ids.setdefault((d.title, d.text, d.passages), name)
        for name, d in documents.items()
    }
    if len(first_ids) == len(documents):
        return examples, documents

    def moved(example: Example) -> Example:
        """The question with the documents that are kept in place of equal ones."""
        question, gold = example.question, example.gold
        ids = tuple(dict.fromkeys(kept_ids[name] for name in question.document_ids))
        supporting = tuple(
            replace(mark, document_id=kept_ids[mark.document_id]) for mark in gold.supporting
        )
        return Example(replace(question, document_ids=ids), replace(gold, supporting=supporting))

    return [moved(example) for example in examples], {
        name: documents[name] for name in first_ids.values()
    }


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
        if (target := registry.plugins("harness.dataset_copies").get("entities")) is None:
            raise CannotRun(
                "dataset.swap needs the package longdoc-harness-audit; install packages/audit"
            )
        original = load(config.model_copy(update={"swap": None}), limit)
        copied: Dataset = registry.import_target(target)(original, config.swap, config.swap_seed)
        return copied
    if limit is not None and limit < 1:
        raise ConfigError([f"limit: should be at least 1, is {limit}"])
    if (loader := loader_of(config.format)) is not None:
        made: Dataset = loader.load(config, limit)
        return made
    from harness.datasets.check_rows import RowChecker
    from harness.datasets.files import read_rows
    from harness.datasets.find_files import find_source
    from harness.datasets.formats import option_fields, parser_of

    known = [*option_fields(config.format)]
    config, parser, row_keys, placement = parser_of(config)
    checker = RowChecker(parser)
    source = find_source(config, known)
    rows = (row for file in source.files for row in read_rows(file, row_keys))
    examples, documents = checker.check_rows(rows, limit)
    before = len(documents)
    examples, documents = merge_equal_texts(examples, documents)
    merged_note = (
        f"{before - len(documents)} of {before} documents have the same text as an earlier one "
        "and are merged with it"
    )
    notes = (merged_note,) if len(documents) < before else ()
    suffix = "" if placement is None else f", {placement}"
    return checker.dataset(config.name, source, suffix, examples, documents, notes)
