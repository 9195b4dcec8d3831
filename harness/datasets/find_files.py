"""Where the rows of a config are: a file, a folder, an archive, a package's data, the hub; and
which files are meant.

find_source(config) ─► Source(files, name="dev.jsonl", revision=None)   a file of the hub is fetched when its turn comes
choose_files(["dev.jsonl", "train.jsonl", "README.md"], split="validation") ─► ["dev.jsonl"]   never a guess between two
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field

from harness.config.schema import DatasetConfig
from harness.datasets.archives import ARCHIVES, Member, is_archive, members
from harness.datasets.files import SUFFIXES, file_kind
from harness.errors import CannotRun, ConfigError, DataError, close_matches
from harness.storage.hub_download import DATASETS, download, resolve
from harness.storage.paths import inside, package_folder

PACKAGE = "package:"
_SPLIT_WORDS = {  # how file names say a split; the same words Hugging Face `datasets` looks for
    "validation": ("validation", "valid", "dev", "val"),
    "train": ("train", "training"),
    "test": ("test", "testing"),
}
# Parts of one file: "-00001-of-00003" in a name (older: and a hash), or a name that is a number
# (converted by the hub).
_SHARD = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?|(?<=/)\d{4}(?=\.)")
_NO_HTML = ".htmlstripped"  # QuALITY's release has each split with HTML, and with its tags taken out by the authors
_BY_LENGTH = sorted(SUFFIXES, key=len, reverse=True)
_NOT_DATA = ("dataset_infos.json", "dataset_info.json", "config.json", "package.json")


class FileOptions(BaseModel):
    """Options of every data set that is read from files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: tuple[str, ...] | str = Field(
        default=(),
        description="names or patterns of the files to read, in a folder, an archive or on the hub",
    )


OPTIONS = tuple(FileOptions.model_fields)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of rows: files in order, their name in the manifest, and their commit.

    files: iterate once; files of the hub are downloaded on the way. The iteration raises CannotRun
    and DataError.
    """

    files: Iterable[Path | Member]
    name: str
    revision: str | None = None


def file_patterns(config: DatasetConfig, known: Sequence[str] = OPTIONS) -> tuple[str, ...]:
    """The file names or patterns in options.files. Raises ConfigError for malformed ones and
    options not `known`."""
    problems = []
    for key in config.options:
        if key not in known:
            near = close_matches(key, known)
            problems.append(
                f"dataset.options: unknown key '{key}'"
                + (f"; did you mean '{near[0]}'?" if near else "")
            )
    patterns = config.options.get("files", ())
    patterns = (patterns,) if isinstance(patterns, str) else patterns
    if not isinstance(patterns, (list, tuple)) or not all(
        isinstance(p, str) and p for p in patterns
    ):
        problems.append(
            "dataset.options.files: should be a file name or pattern, or a list of them"
        )
    if problems:
        raise ConfigError(problems)
    return tuple(patterns)


def find_source(config: DatasetConfig, known: Sequence[str] = OPTIONS) -> Source:
    """The files that hold the rows of `config`; known: the options that its format has.

    Raises ConfigError for a config without a place, or with a revision of a local one; DataError
    for a local place that does not hold them, CannotRun for a package or the hub.
    """
    patterns = file_patterns(config, known)
    if config.data is not None:
        if config.revision is not None:
            raise ConfigError(
                ["dataset.revision: only rows from the hub have one; leave it out with --data"]
            )
        if config.data.startswith(PACKAGE):
            package, _, inner = config.data.removeprefix(PACKAGE).partition("/")
            if (root := package_folder(package)) is None:
                raise CannotRun(f"dataset.data '{config.data}': there is no package '{package}'")
            path = inside(root, inner)
            if not inner or not path.is_file():
                raise CannotRun(
                    f"dataset.data '{config.data}': the package '{package}' has no such file"
                )
            return Source((path,), config.data)
        return _local_source(config.data, config, patterns)
    if config.hub is None:
        raise ConfigError(
            [
                (
                    f"dataset '{config.name}' does not say where its rows are; name their file with "
                    "--data"
                )
            ]
        )
    commit, listed = resolve(DATASETS, config.hub, config.revision)
    try:
        names = choose_files(
            listed, split=config.split, subset=config.subset, patterns=patterns, shards_only=True
        )
    except Ambiguous as error:
        place = f"the data set '{config.hub.partition('@')[0]}' at {commit[:12]}"
        raise CannotRun(
            f"{place} {error} (dataset.options.files takes file names or patterns)"
        ) from None
    paths = (download(DATASETS, config.hub, commit, name) for name in names)
    source = f"{config.hub} ({', '.join(names)})"
    if not is_archive(names[0]):
        return Source(paths, source, commit)
    return Source(_members_of_split(next(paths), config, patterns), source, commit)


def _local_source(data: str, config: DatasetConfig, patterns: tuple[str, ...]) -> Source:
    """A file, or the split's files in an archive or folder. data: its path. Raises DataError, and
    ConfigError."""
    path = Path(data).expanduser()
    if path.is_file() and is_archive(path.name):
        inside = _members_of_split(path, config, patterns)
        return Source(inside, f"{path.name} ({', '.join(member.name for member in inside)})")
    if patterns and not path.is_dir():
        raise ConfigError(
            ["dataset.options.files: chooses among files of a folder or the hub; this is one file"]
        )
    if path.is_dir():
        names = [entry.name for entry in path.iterdir() if entry.is_file()]
        nested_names: list[str] = []
        if not _data_files(names):
            walked = (
                Path(root, name)
                for root, _, files in os.walk(path)
                for name in files
                if _data_files([name])
            )
            nested_names = [file.relative_to(path).as_posix() for file in walked]
        chosen = _choose_local_files(
            nested_names or names, config, patterns, data, shards_only=bool(nested_names)
        )
        if is_archive(chosen[0]):
            return Source(_members_of_split(path / chosen[0], config, patterns), chosen[0])
        return Source(tuple(path / name for name in chosen), ", ".join(chosen))
    if not path.exists():
        way_out = "check --data, a path from the current folder, or dataset.data in the preset"
        raise DataError(data, None, None, f"no such file or folder; {way_out}")
    if file_kind(path) is None:
        endings = ", ".join((*SUFFIXES, *ARCHIVES))
        raise DataError(data, None, None, f"not a data file by its name; known are {endings}")
    return Source((path,), path.name)


def _choose_local_files(
    names: Sequence[str],
    config: DatasetConfig,
    patterns: tuple[str, ...],
    place: str,
    *,
    shards_only: bool,
) -> list[str]:
    """As `choose_files`; a subset that no name has does not count. place: of the files, named in a
    DataError."""
    subset = config.subset if config.subset and _subset_files(names, config.subset) else None
    try:
        return choose_files(
            names, split=config.split, subset=subset, patterns=patterns, shards_only=shards_only
        )
    except Ambiguous as error:
        noun = "archive" if is_archive(place) else "folder"
        hint = " (--set dataset.files=NAME)" if "name one of them" in str(error) else ""
        raise DataError(place, None, None, f"the {noun} {error}{hint}") from None


def _members_of_split(
    archive: Path, config: DatasetConfig, patterns: tuple[str, ...]
) -> list[Member]:
    """The files of an archive that hold the split's rows, by `choose_files`. Raises DataError."""
    names = [name for name in members(archive) if not is_archive(name)]
    chosen = _choose_local_files(names, config, patterns, archive.name, shards_only=True)
    return [Member(archive, name) for name in chosen]


class Ambiguous(Exception):
    """`choose_files` finds no file, or several that are not parts of one. The message follows the
    place's name."""


def _words_in_path(path: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", path.lower()))


def _subset_files(names: Iterable[str], subset: str) -> list[str]:
    """Files whose folder or stem is `subset`; if there are none, those with the word in their path.

    So "qasper" means qasper.jsonl or qasper/test.parquet, and neither qasper_e.jsonl nor
    qasper_e/test.parquet.
    """
    names = list(names)
    exact = [
        n
        for n in names
        if subset in PurePosixPath(n).parts[:-1] or PurePosixPath(n).name.split(".")[0] == subset
    ]
    return exact or [n for n in names if subset.lower() in _words_in_path(n)]


def _data_files(names: Iterable[str]) -> list[str]:
    """The files that can hold rows: those with a known ending; an archive only if there is no such
    file."""
    names = [n for n in names if "__MACOSX" not in PurePosixPath(n).parts]
    data = [
        n
        for n in names
        if n.lower().endswith(SUFFIXES) and PurePosixPath(n).name.lower() not in _NOT_DATA
    ]
    return data or [n for n in names if is_archive(n)]


def _names_split(path: str, split: str) -> bool | None:
    """Whether the path names `split`, by one of its usual names; None if it names no split at
    all."""
    words = _words_in_path(path)
    synonyms = _SPLIT_WORDS.get(split.lower(), (split.lower(),))
    if words.intersection(synonyms):
        return True
    return (
        False if words.intersection(w for group in _SPLIT_WORDS.values() for w in group) else None
    )


def _names_text(paths: Iterable[str], limit: int = 8) -> str:
    """The first paths in sorted order, for messages: "a.json, b.json and 3 more"."""
    paths = sorted(paths)
    return ", ".join(paths[:limit]) + (
        f" and {len(paths) - limit} more" if len(paths) > limit else ""
    )


def _split_files(paths: list[str], split: str) -> list[str]:
    """Paths that name `split`, all if none names any; HTML ones with a stripped copy left out.
    Raises Ambiguous."""
    named = {path: _names_split(path, split) for path in paths}
    if any(answer is not None for answer in named.values()):
        paths = [path for path, answer in named.items() if answer]
        if not paths:
            hint = "name a file, or set dataset.split"
            raise Ambiguous(f"has no file for split '{split}' among {_names_text(named)}; {hint}")
    unstripped = {path.replace(_NO_HTML, "") for path in paths if _NO_HTML in path}
    return [path for path in paths if path not in unstripped]


def choose_files(
    names: Iterable[str],
    *,
    split: str,
    subset: str | None = None,
    patterns: Sequence[str] = (),
    shards_only: bool = False,
) -> list[str]:
    """The data files of one split, sorted.

    names: "/"-separated paths. subset: keep those in a folder, or with a file name, of that name.
    patterns: shell patterns of paths or names that say which files are meant, instead of subset and
    split. shards_only: without patterns, several files must be numbered parts of one. Where no file
    names a split, all are taken; where there is nothing but one archive, that; where a file is
    there with HTML and as ".htmlstripped", the latter. Raises Ambiguous.
    """
    names = [n for n in names if not any(part.startswith(".") for part in PurePosixPath(n).parts)]
    data = _data_files(names)
    if not data:
        among = f" among {_names_text(names)}" if names else ""
        raise Ambiguous(f"has no data file ({', '.join(SUFFIXES)} are looked for){among}")
    if all(is_archive(n) for n in data):
        if len(data) > 1:
            raise Ambiguous(f"has several archives ({_names_text(data)}); name one of them")
        return data  # which of its members are meant is another choice
    if patterns:
        chosen = [
            n
            for n in data
            if any(fnmatch(n, p) or fnmatch(PurePosixPath(n).name, p) for p in patterns)
        ]
        if not chosen:
            raise Ambiguous(
                f"has no file that matches {' or '.join(patterns)} among {_names_text(data)}"
            )
    else:
        chosen = data
        if subset is not None:
            chosen = _subset_files(data, subset)
            if not chosen:
                hint = "set dataset.subset, or null where there is only one"
                raise Ambiguous(
                    f"has no file of subset '{subset}' among {_names_text(data)}; {hint}"
                )
        chosen = _split_files(chosen, split)
    if len({next(s for s in _BY_LENGTH if n.lower().endswith(s)) for n in chosen}) > 1:
        raise Ambiguous(f"has files of several formats ({_names_text(chosen)}); name one of them")
    if shards_only and not patterns and len({_SHARD.sub("", n) for n in chosen}) > 1:
        raise Ambiguous(
            f"has several files for split '{split}' ({_names_text(chosen)}); name one of them"
        )
    return sorted(chosen)
