"""From a config to a checked data set: find the rows, check each, hash them all.

    load(config)             config.data (file, folder, "package:...") if given, else config.hub
    load(config, limit=20)   the first 20 questions; the fingerprint is still that of all rows

A format (formats.py) is a function of one raw row to a `Row`, `Group`, `Retrieved` or `Skip`, or a loader of its own.
"""

import hashlib
from collections import Counter
from dataclasses import replace
from typing import Any

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.datasets.base import Dataset
from harness.datasets.files import Broken, RowPlace, Rows, read_rows
from harness.datasets.find_files import Source, find_source
from harness.datasets.formats import RowParser, loader_of, option_names, parser_of
from harness.datasets.question_kinds import count_kinds
from harness.datasets.rows import Group, Retrieved, Row, RowError, Skip, assemble, canonical_line
from harness.errors import CannotRun, ConfigError, DataError
from harness.types import Document, Example, Passage


class Checker:
    """Checks the rows of a data set one by one: keeps counts, ids, a hash of all rows and the first bad row."""

    def __init__(self, parser: RowParser) -> None:
        self.parser = parser
        self.hash = hashlib.sha256(b"rows 1\n")
        self.places: dict[str, RowPlace] = {}  # id of a row or question -> where it stands
        self.skipped: Counter[str] = Counter()  # reason -> rows left out, up to the limit
        self.rows = self.bad = 0
        self.kinds: Counter[tuple[str, str]] = Counter()  # ("hops", "2") -> questions
        self.first_error: tuple[RowPlace, RowError] | None = None  # bad row
        self._documents: dict[str, bytes] = {}  # id -> sha256, of documents that rows share

    def check_rows(self, rows: Rows, limit: int | None) -> tuple[list[Example], dict[str, Document]]:
        """Check all rows; return the first `limit` questions (None: all), documents by id. Errors: `dataset`."""
        examples: list[Example] = []
        documents: dict[str, Document] = {}
        for place, raw in rows:
            self.rows += 1
            try:
                used = self._check(place, raw)
            except RowError as error:
                self.bad += 1
                self.first_error = self.first_error or (place, error)
                continue
            if isinstance(used, Skip):
                self.skipped[used.reason] += limit is None or len(examples) < limit
                continue
            self.kinds.update(count_kinds(used.examples))
            if (kept := used.examples[: None if limit is None else limit - len(examples)]) and not self.first_error:
                examples += kept
                for document in used.documents:
                    documents.setdefault(document.id, document)
        return examples, documents

    def _check(self, place: RowPlace, raw: dict[str, Any] | Broken) -> Group | Retrieved | Skip:
        """Parse and hash a row; return its questions and documents, or why it is left out. Raises RowError if bad."""
        if isinstance(raw, Broken):
            raise RowError(None, raw.problem)
        row = self.parser(raw)
        if isinstance(row, Skip):
            return row
        if isinstance(row, Row):
            example, document = assemble(row)
            self._add_to_hash(place, "id", row.id, canonical_line([example, document]))
            return Group(document, (example,))
        for document in row.documents:  # must be the same in all its rows; each adds it to the hash
            digest = hashlib.sha256(canonical_line(document)).digest()
            if self._documents.setdefault(document.id, digest) != digest:
                raise RowError(None, f"the document '{document.id}' has another text in an earlier row")
            self.hash.update(digest)
        for example in row.examples:
            self._add_to_hash(place, "question id", example.question.id, canonical_line(example))
        return row

    def _add_to_hash(self, place: RowPlace, field: str, key: str, line: bytes) -> None:
        """Hash a row's JSON `line`. key: its id, found in `field`. Raises RowError where an earlier row has that id."""
        earlier = self.places.get(key)
        if earlier is not None:
            raise RowError(field, f"'{key}' is also the id of the row at {earlier}; ids must differ")
        self.places[key] = place
        self.hash.update(line + b"\n")

    def dataset(
        self,
        name: str,
        source: Source,
        with_what: str,
        examples: list[Example],
        documents: dict[str, Document],
        notes: tuple[str, ...] = (),
    ) -> Dataset:
        """The data set of the checked questions. with_what: ends the source's name, such as " with pages.jsonl".

        Raises DataError for the first bad row, or where no row can be used.
        """
        self._raise_errors(source.name)
        return Dataset(
            name=name,
            examples=tuple(examples),
            documents=documents,
            fingerprint=self.hash.hexdigest(),
            source=source.name + with_what,
            revision=source.revision,
            skipped=dict(+self.skipped),
            rows=len(self.places),
            kinds=self.kinds,
            notes=notes,
        )

    def _raise_errors(self, name: str) -> None:
        """Raise DataError for the first bad row, or where no row can be used. name: the source, for the message."""
        if self.first_error is not None:
            more = self.bad - 1
            tail = f" (and {more} more bad row{'s' if more > 1 else ''})" if more else ""
            advice = "mend or remove the row"
            if more and self.bad == self.rows:
                advice = "no row can be used: see that --data is a file of that data set, and that its parser is right"
            place, error = self.first_error
            raise place.error(error.field, f"{error.problem}{tail}; {advice}")
        if not self.rows:
            raise DataError(name, None, None, "the file has no rows")
        if not self.places:
            reasons = ", ".join(f"{n} {reason}" for reason, n in self.skipped.items()) or "they ask no question"
            raise DataError(name, None, None, f"no row can be used: {reasons}")


def merge_equal_texts(
    examples: list[Example], documents: dict[str, Document]
) -> tuple[list[Example], dict[str, Document]]:
    """Let questions about equal texts share one document, the first: one index and, in statistics, one cluster."""
    first: dict[tuple[str, str, tuple[Passage, ...]], str] = {}
    same = {name: first.setdefault((d.title, d.text, d.passages), name) for name, d in documents.items()}
    if len(first) == len(documents):
        return examples, documents

    def moved(example: Example) -> Example:
        question, gold = example.question, example.gold
        ids = tuple(dict.fromkeys(same[name] for name in question.document_ids))
        supporting = tuple(replace(mark, document_id=same[mark.document_id]) for mark in gold.supporting)
        return Example(replace(question, document_ids=ids), replace(gold, supporting=supporting))

    return [moved(example) for example in examples], {name: documents[name] for name in first.values()}


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load and check every row; keep the first `limit` questions in file order (None: all) with their documents.

    The fingerprint is the sha256 of the canonical JSON of all rows as used, so the same rows in another file format
    have the same one, and `limit` does not change it. (Formats with a loader of their own say what theirs is.) Raises
    DataError (file, line or row, field) for rows and files, CannotRun for the hub, ConfigError and UnknownName for the
    config. With `config.swap` rows and fingerprint are those of an entity-swapped copy, which the package audit makes.
    """
    if config.swap is not None:
        if (target := registry.plugins("harness.dataset_copies").get("entities")) is None:
            raise CannotRun("dataset.swap needs the package longdoc-harness-audit; install packages/audit")
        original = load(config.model_copy(update={"swap": None}), limit)
        copied: Dataset = registry.import_target(target)(original, config.swap, config.swap_seed)
        return copied
    if limit is not None and limit < 1:
        raise ConfigError([f"limit: should be at least 1, is {limit}"])
    if (loader := loader_of(config.format)) is not None:
        made: Dataset = loader.load(config, limit)
        return made
    known = option_names(config.format)
    config, parser, row_keys, where = parser_of(config)
    checker = Checker(parser)
    source = find_source(config, known)
    rows = (row for file in source.files for row in read_rows(file, row_keys))
    examples, documents = checker.check_rows(rows, limit)
    before = len(documents)
    examples, documents = merge_equal_texts(examples, documents)
    same = f"{before - len(documents)} of {before} documents have the text of an earlier one and are that one"
    notes = (same,) if len(documents) < before else ()
    return checker.dataset(config.name, source, "" if where is None else f", {where}", examples, documents, notes)
