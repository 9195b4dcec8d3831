"""Where the rows of a config are: a file, a folder, an archive, a package's data, the hub.

find(config) ─► Source(files, name="dev.jsonl", revision=None)     a file of the hub is fetched when its turn comes
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from harness.config.schema import DatasetConfig
from harness.datasets.archives import ARCHIVES, Member, is_archive, members
from harness.datasets.choose import Ambiguous, choose, has_data, names_subset
from harness.datasets.files import SUFFIXES, kind_of
from harness.errors import CannotRun, ConfigError, DataError, close_matches
from harness.storage.hub import DATASETS, download, resolve
from harness.storage.paths import inside
from harness.storage.received import package_folder

PACKAGE = "package:"


class FileOptions(BaseModel):
    """Options of every data set that is read from files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: tuple[str, ...] | str = Field(
        default=(), description="names or patterns of the files to read, in a folder, an archive or on the hub"
    )


OPTIONS = tuple(FileOptions.model_fields)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of rows: files in order, their name in the manifest, and their commit.

    files: iterate once; files of the hub are downloaded on the way. The iteration raises CannotRun and DataError.
    """

    files: Iterable[Path | Member]
    name: str
    revision: str | None = None


def patterns_of(config: DatasetConfig, known: Sequence[str] = OPTIONS) -> tuple[str, ...]:
    """options.files as patterns. Raises ConfigError for that and for options that are not `known`."""
    problems = []
    for key in config.options:
        if key not in known:
            near = close_matches(key, known)
            problems.append(f"dataset.options: unknown key '{key}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    patterns = config.options.get("files", ())
    patterns = (patterns,) if isinstance(patterns, str) else patterns
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(p, str) and p for p in patterns):
        problems.append("dataset.options.files: should be a file name or pattern, or a list of them")
    if problems:
        raise ConfigError(problems)
    return tuple(patterns)


def find(config: DatasetConfig, known: Sequence[str] = OPTIONS) -> Source:
    """The files that hold the rows of `config`; known: the options that its format has.

    Raises ConfigError for a config that says nothing or two things, DataError for a local place, CannotRun for others.
    """
    patterns = patterns_of(config, known)
    if config.data is not None:
        if config.revision is not None:
            raise ConfigError(["dataset.revision: only rows from the hub have one; leave it out with --data"])
        if config.data.startswith(PACKAGE):
            return _packaged(config.data)
        return _local(config.data, config, patterns)
    if config.hub is None:
        raise ConfigError([f"dataset '{config.name}': neither dataset.hub nor dataset.data says where the rows are"])
    commit, listed = resolve(DATASETS, config.hub, config.revision)
    try:
        names = choose(listed, split=config.split, subset=config.subset, patterns=patterns, shards_only=not patterns)
    except Ambiguous as error:
        place, hint = (
            f"{config.hub.partition('@')[0]}' at {commit[:12]}",
            "dataset.options.files takes file names or patterns",
        )
        raise CannotRun(f"the data set '{place} {error} ({hint})") from None
    paths = (download(DATASETS, config.hub, commit, name) for name in names)
    source = f"{config.hub} ({', '.join(names)})"
    if not is_archive(names[0]):
        return Source(paths, source, commit)
    return Source(_inside(next(paths), config, patterns), source, commit)


def _packaged(reference: str) -> Source:
    package, _, inner = reference.removeprefix(PACKAGE).partition("/")
    root = package_folder(package)
    if root is None:
        raise CannotRun(f"dataset.data '{reference}': there is no package '{package}'")
    path = inside(root, inner)
    if not inner or not path.is_file():
        raise CannotRun(f"dataset.data '{reference}': the package '{package}' has no such file")
    return Source((path,), reference)


def _local(data: str, config: DatasetConfig, patterns: tuple[str, ...]) -> Source:
    path = Path(data).expanduser()
    if path.is_file() and is_archive(path.name):
        inside = _inside(path, config, patterns)
        return Source(inside, f"{path.name} ({', '.join(member.name for member in inside)})")
    if patterns and not path.is_dir():
        raise ConfigError(["dataset.options.files: chooses among files of a folder or the hub; this is one file"])
    if path.is_dir():
        return _in_folder(path, data, config, patterns)
    if not path.exists():
        raise DataError(data, None, None, "no such file or folder; check --data, or dataset.data in the preset")
    if kind_of(path) is None:
        known = ", ".join((*SUFFIXES, *ARCHIVES))
        raise DataError(data, None, None, f"not a data file by its name; known are {known}")
    return Source((path,), path.name)


def _in_folder(folder: Path, data: str, config: DatasetConfig, patterns: tuple[str, ...]) -> Source:
    """The files of the split in a folder or, where none there can hold rows, in its subfolders: "data/dev.jsonl"."""
    names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    below: list[str] = []
    if not has_data(names):
        walked = (Path(root, name) for root, _, files in os.walk(folder) for name in files if has_data([name]))
        below = [path.relative_to(folder).as_posix() for path in walked]
    chosen = _chosen(below or names, config, patterns, data, "folder", shards_only=bool(below))
    if is_archive(chosen[0]):
        return Source(_inside(folder / chosen[0], config, patterns), chosen[0])
    return Source(tuple(folder / name for name in chosen), ", ".join(chosen))


def _chosen(
    names: Sequence[str],
    config: DatasetConfig,
    patterns: tuple[str, ...],
    place: str,
    noun: str,
    *,
    shards_only: bool = False,
) -> list[str]:
    """The files of one split among `names`; a folder or archive of one subset need not name it."""
    subset = config.subset if config.subset and names_subset(names, config.subset) else None
    shards_only = shards_only and not patterns
    try:
        return choose(names, split=config.split, subset=subset, patterns=patterns, shards_only=shards_only)
    except Ambiguous as error:
        hint = " (--set dataset.files=NAME)" if "name one of them" in str(error) else ""
        raise DataError(place, None, None, f"the {noun} {error}{hint}") from None


def _inside(archive: Path, config: DatasetConfig, patterns: tuple[str, ...]) -> list[Member]:
    names = [name for name in members(archive) if not is_archive(name)]
    chosen = _chosen(names, config, patterns, archive.name, "archive", shards_only=True)
    return [Member(archive, name) for name in chosen]
