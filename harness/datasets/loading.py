"""From a config to a checked data set: find the rows, check each, hash them all.

    load(config)             config.data (file, folder, "package:...") if given, else config.hub
    load(config, limit=20)   the first 20 questions; the fingerprint is still that of all rows

A format is a function that turns one raw row into a `Row`, a `Group` or a `Skip`: "musique", "qasper", or
"module:function". The format "pocket" has no rows to find: it makes them up, as config.options says; "narrativeqa"
keeps its stories apart from its questions and reads only those it needs; "retrieved" puts questions and the documents
that were retrieved for them together.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.config.validation import explain
from harness.datasets.base import Dataset
from harness.datasets.files import Broken, Place, read_rows
from harness.datasets.kinds import counted
from harness.datasets.placing import LOOKED_UP, PLACED, LookUpOptions, Placement, PlaceOptions, arranged, placed
from harness.datasets.rows import Group, Retrieved, Row, RowError, Skip, assemble, line_of
from harness.datasets.sources import FileOptions, find
from harness.errors import ConfigError, DataError, UnknownName, UserError
from harness.storage.failures import failure, summary_of
from harness.types import Document, Example

RowParser = Callable[[dict[str, Any]], Row | Skip | Group | Retrieved]


def formats() -> list[str]:
    """Names of the built-in formats, sorted."""
    return sorted([*registry.shipped("row_formats"), *registry.shipped("loaders")])


def option_fields(name: str) -> dict[str, FieldInfo]:
    """The fields of `dataset.options` for a format, with types, defaults and descriptions."""
    if (loader := _loader(name)) is not None:
        return dict(loader.Options.model_fields)
    placing = PlaceOptions.model_fields if name in PLACED else LookUpOptions.model_fields if name == LOOKED_UP else {}
    return {**FileOptions.model_fields, **placing}


def option_names(name: str) -> list[str]:
    """Names of what `dataset.options` may hold for a format."""
    return list(option_fields(name))


def documents_given(name: str) -> str:
    """How a format is given the retrieved documents of its questions; "" where rows have their own document."""
    return str(getattr(_loader(name), "GIVEN", ""))


def _loader(name: str) -> Any | None:
    """The module with `load` and `Options` of a format that has its own; None for a format of rows."""
    target = registry.shipped("loaders").get(name)
    return None if target is None else importlib.import_module(target.partition(":")[0])


def _parser(config: DatasetConfig) -> tuple[RowParser, tuple[str, ...]]:
    """The parser of the format's rows, and the keys of a row if a file may be one object {id: row, ...}."""
    name = config.format
    known = registry.shipped("row_formats")
    module, _, function = known.get(name, name).partition(":")
    if not function:
        raise UnknownName("data set format", name, formats(), see="or 'module:function' for a format of your own")
    if name not in known and not registry.trusted(name):
        raise ConfigError([registry.refusal(name, "dataset.format")])
    parser = registry.imported(known.get(name, name))
    if not callable(parser):
        raise ConfigError([f"dataset.format: '{name}' is not a function"])
    if name not in known:
        parser = partial(_own_row, parser, name)
    if name == "longbench":
        parser = partial(parser, subset=config.subset, question=config.options.get("question"))
    return parser, tuple(getattr(importlib.import_module(module), "ROW_KEYS", ())) if name in known else ()


def _own_row(parser: RowParser, name: str, raw: dict[str, Any]) -> Row | Skip | Group | Retrieved:
    """A row by the user's own parser. Raises RowError, with the parser's line, for whatever the parser raises."""
    try:
        row = parser(raw)
        if isinstance(row, Row):
            line_of([dataclasses.asdict(part) for part in assemble(row)])  # values of other types show here
    except (RowError, UserError):
        raise
    except Exception as error:
        field = str(error.args[0]) if isinstance(error, KeyError) and error.args else None
        raise RowError(field, f"the parser '{name}' failed: {summary_of(failure(error))}") from error
    if not isinstance(row, Row | Skip | Group | Retrieved):
        raise RowError(None, f"the parser '{name}' returned {type(row).__name__}; return a Row, a Group or a Skip")
    return row


def _placed(config: DatasetConfig) -> tuple[DatasetConfig, Placement | None]:
    """The config without the options that say where supporting paragraphs stand, and where that is."""
    if config.format not in (*PLACED, LOOKED_UP):
        return config, None
    try:
        where, rest = placed(config.options)
    except ValidationError as error:
        raise ConfigError(explain(error, PlaceOptions, "dataset", {})) from None
    return config.model_copy(update={"options": rest}), where


def _put(parser: RowParser, where: Placement, raw: dict[str, Any]) -> Row | Skip | Group | Retrieved:
    row = parser(raw)
    return arranged(row, where) if isinstance(row, Row) else row


class Checker:
    """Counts, ids and the hash of the rows seen so far; the first bad row is kept, the others are counted."""

    def __init__(self, parser: RowParser) -> None:
        self.parser = parser
        self.hash = hashlib.sha256(b"rows 1\n")
        self.places: dict[str, Place] = {}
        self.skipped: Counter[str] = Counter()
        self.rows = self.bad = 0
        self.kinds: Counter[tuple[str, str]] = Counter()
        self.first: tuple[Place, RowError] | None = None
        self._documents: dict[str, bytes] = {}

    def check(self, place: Place, raw: dict[str, Any] | Broken) -> Group | Retrieved | None:
        """The row as questions with their documents; None when it is left out or bad."""
        self.rows += 1
        try:
            return self._check(place, raw)
        except RowError as error:
            self.bad += 1
            if self.first is None:
                self.first = place, error
            return None

    def _check(self, place: Place, raw: dict[str, Any] | Broken) -> Group | Retrieved | None:
        if isinstance(raw, Broken):
            raise RowError(None, raw.problem)
        row = self.parser(raw)
        if isinstance(row, Skip):
            self.skipped[row.reason] += 1
            return None
        if isinstance(row, Row):
            example, document = assemble(row)
            self._take(place, "id", row.id, line_of([dataclasses.asdict(example), dataclasses.asdict(document)]))
            return Group(document, (example,))
        for document in row.documents:  # one that several rows hold counts once, and must be the same in all of them
            digest = hashlib.sha256(line_of(dataclasses.asdict(document))).digest()
            if self._documents.setdefault(document.id, digest) != digest:
                raise RowError(None, f"the document '{document.id}' has another text in an earlier row")
            self.hash.update(digest)
        for example in row.examples:
            self._take(place, "question id", example.question.id, line_of(dataclasses.asdict(example)))
        return row

    def _take(self, place: Place, field: str, key: str, line: bytes) -> None:
        earlier = self.places.get(key)
        if earlier is not None:
            raise RowError(field, f"'{key}' is also the id of the row at {earlier}; ids must differ")
        self.places[key] = place
        self.hash.update(line + b"\n")

    def finish(self, name: str) -> None:
        """Raise the errors that prevent using the rows."""
        if self.first is not None:
            more = self.bad - 1
            tail = f" (and {more} more bad row{'s' if more > 1 else ''})" if more else ""
            advice = "mend or remove the row"
            if more and self.bad == self.rows:
                advice = "no row can be used: see that --data is a file of the data set that --dataset names"
            place, error = self.first
            raise place.error(error.field, f"{error.problem}{tail}; {advice}")
        if not self.rows:
            raise DataError(name, None, None, "the file has no rows")
        if not self.places:
            reasons = ", ".join(f"{n} {reason}" for reason, n in self.skipped.items()) or "they ask no question"
            raise DataError(name, None, None, f"no row can be used: {reasons}")


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load and check every row; keep the first `limit` questions in file order (None: all) with their documents.

    The fingerprint is the sha256 of the canonical JSON of all rows as used, so the same rows in another file format
    have the same one, and `limit` does not change it. (Formats with a loader of their own say what theirs is.) Raises
    DataError (file, line or row, field) for rows and files, CannotRun for the hub, ConfigError and UnknownName for the
    config. With `config.swap` they are the twin's.
    """
    if config.swap is not None:
        from harness.datasets.twins import twin

        return twin(load(config.model_copy(update={"swap": None}), limit), config.swap, config.swap_seed)
    if limit is not None and limit < 1:
        raise ConfigError([f"limit: should be at least 1, is {limit}"])
    if (loader := _loader(config.format)) is not None:
        made: Dataset = loader.load(config, limit)
        return made
    parser, row_keys = _parser(config)
    known = option_names(config.format)
    config, where = _placed(config)
    if config.format == LOOKED_UP:
        support = config.options.get("support")
        rest = {k: v for k, v in config.options.items() if k not in ("support", "question")}
        config = config.model_copy(update={"options": rest})
        if where is not None:
            from harness.datasets.longbench import marked_parser

            parser = marked_parser(config, support, where)
    elif where is not None:
        parser = partial(_put, parser, where)
    checker = Checker(parser)
    source = find(config, known)
    examples, documents = collect(checker, (row for file in source.files for row in read_rows(file, row_keys)), limit)
    checker.finish(source.name)
    return Dataset(
        name=config.name,
        examples=tuple(examples),
        documents=documents,
        fingerprint=checker.hash.hexdigest(),
        source=source.name if where is None else f"{source.name}, {where}",
        revision=source.revision,
        skipped=dict(checker.skipped),
        rows=len(checker.places),
        kinds=checker.kinds,
    )


def collect(
    checker: Checker, rows: Iterable[tuple[Place, dict[str, Any] | Broken]], limit: int | None
) -> tuple[list[Example], dict[str, Document]]:
    """Check all rows; the first `limit` questions (None: all) and their documents by id."""
    examples: list[Example] = []
    documents: dict[str, Document] = {}
    for place, raw in rows:
        used = checker.check(place, raw)
        checker.kinds.update(counted(used.examples if used is not None else ()))
        room = None if limit is None else limit - len(examples)
        if used is not None and checker.first is None and used.examples[:room]:
            examples += used.examples[:room]
            for document in used.documents:
                documents.setdefault(document.id, document)
    return examples, documents
