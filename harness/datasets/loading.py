"""From a config to a checked data set: find the rows, check each, hash them all.

    load(config)             config.data (file, folder, "package:...") if given, else config.hub
    load(config, limit=20)   the first 20 questions; the fingerprint is still that of all rows

A format is a function that turns one raw row into a `Row` or a `Skip`: "musique", "hotpotqa", or "module:function".
The format "pocket" has no rows to find: it makes them up, as config.options says.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from harness.config import DatasetConfig, canonical
from harness.datasets.base import Dataset
from harness.datasets.choose import Ambiguous, choose
from harness.datasets.files import SUFFIXES, Broken, Place, kind_of, read_rows
from harness.datasets.rows import Row, RowError, Skip, assemble
from harness.errors import CannotRun, ConfigError, DataError, UnknownName, close_matches
from harness.types import Document, Example

__all__ = ["PACKAGE", "RowParser", "formats", "load", "option_names"]

RowParser = Callable[[dict[str, Any]], Row | Skip]

PACKAGE = "package:"
_FORMATS = {
    "2wikimultihopqa": "harness.datasets.twowiki:parse_row",
    "hotpotqa": "harness.datasets.hotpotqa:parse_row",
    "musique": "harness.datasets.musique:parse_row",
}
_MADE = {"pocket": "harness.datasets.pocket"}  # formats whose rows are made up, by a `load` with an `Options` model
_OPTIONS = ("files",)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where rows are read: local files in order, how the manifest names them, and the commit they are at."""

    paths: tuple[Path, ...]
    name: str
    revision: str | None = None


def formats() -> list[str]:
    """Names of the built-in formats, sorted."""
    return sorted([*_FORMATS, *_MADE])


def option_names(name: str) -> list[str]:
    """What `dataset.options` may hold for a format."""
    if name not in _MADE:
        return list(_OPTIONS)
    return list(importlib.import_module(_MADE[name]).Options.model_fields)


def _parser(name: str) -> RowParser:
    module, _, function = _FORMATS.get(name, name).partition(":")
    if not function:
        raise UnknownName("data set format", name, formats(), see="or 'module:function' for a format of your own")
    try:
        parser = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError([f"dataset.format: '{name}' cannot be imported ({error})"]) from None
    if not callable(parser):
        raise ConfigError([f"dataset.format: '{name}' is not a function"])
    return parser  # type: ignore[no-any-return]


def _patterns(config: DatasetConfig) -> tuple[str, ...]:
    problems = []
    for key in config.options:
        if key not in _OPTIONS:
            near = close_matches(key, _OPTIONS)
            problems.append(f"dataset.options: unknown key '{key}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    patterns = config.options.get("files", ())
    patterns = (patterns,) if isinstance(patterns, str) else patterns
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(p, str) and p for p in patterns):
        problems.append("dataset.options.files: should be a file name or pattern, or a list of them")
    if problems:
        raise ConfigError(problems)
    return tuple(patterns)


def _packaged(reference: str) -> _Source:
    package, _, inner = reference.removeprefix(PACKAGE).partition("/")
    try:
        path = Path(str(resources.files(package) / inner))
    except (ImportError, ValueError):
        raise CannotRun(f"dataset.data '{reference}': there is no package '{package}'") from None
    if not inner or not path.is_file():
        raise CannotRun(f"dataset.data '{reference}': the package '{package}' has no such file")
    return _Source((path,), reference)


def _local(data: str, config: DatasetConfig, patterns: tuple[str, ...]) -> _Source:
    path = Path(data).expanduser()
    if patterns and not path.is_dir():
        raise ConfigError(["dataset.options.files: chooses among files of a folder or the hub; this is one file"])
    if path.is_dir():
        inside = [entry.name for entry in path.iterdir() if entry.is_file()]
        try:
            names = choose(inside, split=config.split, patterns=patterns)
        except Ambiguous as error:
            raise DataError(data, None, None, f"the folder {error}") from None
        return _Source(tuple(path / name for name in names), ", ".join(names))
    if not path.exists():
        raise DataError(data, None, None, "no such file or folder")
    if kind_of(path) is None:
        raise DataError(data, None, None, f"not a data file by its name; known are {', '.join(SUFFIXES)}")
    return _Source((path,), path.name)


def _find(config: DatasetConfig) -> _Source:
    patterns = _patterns(config)
    if config.data is not None:
        if config.revision is not None:
            raise ConfigError(["dataset.revision: only rows from the hub have one; leave it out with --data"])
        if config.data.startswith(PACKAGE):
            return _packaged(config.data)
        return _local(config.data, config, patterns)
    if config.hub is None:
        raise ConfigError([f"dataset '{config.name}': neither dataset.hub nor dataset.data says where the rows are"])
    from harness.datasets.hub import HubFiles, fetch

    wanted = HubFiles(config.hub, config.split, config.subset, config.revision, patterns)
    fetched = fetch(wanted)
    return _Source(fetched.paths, f"{config.hub} ({', '.join(fetched.names)})", fetched.revision)


class _Checker:
    """Counts, ids and the hash of the rows seen so far; the first bad row is kept, the others are counted."""

    def __init__(self, parser: RowParser) -> None:
        self.parser = parser
        self.hash = hashlib.sha256(b"rows 1\n")
        self.places: dict[str, Place] = {}
        self.skipped: Counter[str] = Counter()
        self.rows = self.bad = 0
        self.first: tuple[Place, RowError] | None = None

    def check(self, place: Place, raw: dict[str, Any] | Broken) -> tuple[Example, Document] | None:
        """The row as example and document; None when it is left out or bad."""
        self.rows += 1
        try:
            return self._check(place, raw)
        except RowError as error:
            self.bad += 1
            if self.first is None:
                self.first = place, error
            return None

    def _check(self, place: Place, raw: dict[str, Any] | Broken) -> tuple[Example, Document] | None:
        if isinstance(raw, Broken):
            raise RowError(None, raw.problem)
        row = self.parser(raw)
        if isinstance(row, Skip):
            self.skipped[row.reason] += 1
            return None
        example, document = assemble(row)
        try:
            line = canonical([dataclasses.asdict(example), dataclasses.asdict(document)]).encode()
        except UnicodeEncodeError as error:
            # JSON can spell half of a surrogate pair; such text can be neither hashed, stored nor shown to a model.
            code = f"\\u{ord(error.object[error.start]):04x}"
            raise RowError(None, f"holds half a character ({code}), which is not valid text") from None
        earlier = self.places.setdefault(row.id, place)
        if earlier is not place:
            raise RowError("id", f"'{row.id}' is also the id of the row at {earlier}; ids must differ")
        self.hash.update(line + b"\n")
        return example, document

    def finish(self, name: str) -> None:
        """Raise what stands in the way of using the rows."""
        if self.first is not None:
            more = self.bad - 1
            tail = f" (and {more} more bad row{'s' if more > 1 else ''})" if more else ""
            place, error = self.first
            raise place.error(error.field, f"{error.problem}{tail}; mend or remove the row")
        if not self.rows:
            raise DataError(name, None, None, "the file has no rows")
        if not self.places:
            reasons = ", ".join(f"{n} {reason}" for reason, n in self.skipped.items())
            raise DataError(name, None, None, f"no row can be used: {reasons}")


def _rows(paths: Iterable[Path]) -> Iterator[tuple[Place, dict[str, Any] | Broken]]:
    for path in paths:
        yield from read_rows(path)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load and check every row; keep the first `limit` questions in file order (None: all).

    The fingerprint is the sha256 of the canonical JSON of all rows as used, so the same rows in another file format
    have the same one, and `limit` does not change it. Raises DataError (file, line or row, field) for rows and files,
    CannotRun for the hub, ConfigError and UnknownName for the config.
    """
    if limit is not None and limit < 1:
        raise ConfigError([f"limit: should be at least 1, is {limit}"])
    if config.format in _MADE:
        made: Dataset = importlib.import_module(_MADE[config.format]).load(config, limit)
        return made
    checker = _Checker(_parser(config.format))
    source = _find(config)
    examples: list[Example] = []
    documents: dict[str, Document] = {}
    for place, raw in _rows(source.paths):
        used = checker.check(place, raw)
        if used is not None and checker.first is None and (limit is None or len(examples) < limit):
            examples.append(used[0])
            documents[used[1].id] = used[1]
    checker.finish(source.name)
    return Dataset(
        name=config.name,
        examples=tuple(examples),
        documents=documents,
        fingerprint=checker.hash.hexdigest(),
        source=source.name,
        revision=source.revision,
        skipped=dict(checker.skipped),
    )
