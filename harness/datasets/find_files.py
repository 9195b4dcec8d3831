"""Where the rows of a config are: a file, a folder, an archive, a package's data, the hub; and
which files are meant.

find_source(config) ─► Source(files, name="dev.jsonl", revision=None)   a file of the hub is fetched when its turn comes
choose_files(["dev.jsonl", "train.jsonl", "README.md"], split="validation") ─► ["dev.jsonl"]   never a guess between two
"""

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field

from harness.config.schema import DatasetConfig
from harness.datasets.archives import ARCHIVES, Member, is_archive, member_names
from harness.datasets.files import SUFFIXES, file_kind
from harness.errors import CannotRun, ConfigError, DataError, close_matches
from harness.storage.hub_download import DATASETS, download, pin_repo
from harness.storage.paths import package_folder, path_inside

PACKAGE = "package:"
_SPLIT_WORDS = {  # how file names say a split; the same words Hugging Face `datasets` looks for
    "validation": ("validation", "valid", "dev", "val"),
    "train": ("train", "training"),
    "test": ("test", "testing"),
}
_ALL_SPLIT_WORDS = frozenset(itertools.chain.from_iterable(_SPLIT_WORDS.values()))
# Parts of one file: "-00001-of-00003" in a name (older: and a hash), or a name that is a number
# (converted by the hub).
_SHARD = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?|(?<=/)\d{4}(?=\.)")
# QuALITY's release has each split with HTML, and with its tags taken out by the authors.
_NO_HTML = ".htmlstripped"
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
    """The file names or patterns in dataset.options.files: "a.json" -> ("a.json",); () for none.

    Args:
        config: Has the options.
        known: The options that the data set's format has.

    Raises:
        ConfigError: The patterns are malformed, or there is another option that is not known.
    """
    problems = [_unknown_option(key, known) for key in config.options if key not in known]
    patterns = config.options.get("files", ())
    if isinstance(patterns, str):
        patterns = (patterns,)
    names: tuple[str, ...] = ()
    if isinstance(patterns, list | tuple) and all(map(_is_name, patterns)):
        names = tuple(patterns)
    else:
        problems.append(
            "dataset.options.files: should be a file name or pattern, or a list of them"
        )
    if problems:
        raise ConfigError(problems)
    return names


def _unknown_option(key: str, known: Sequence[str]) -> str:
    """A sentence that names an unknown option, with the closest known one."""
    problem = f"dataset.options: unknown key '{key}'"
    near = close_matches(key, known)
    if near:
        problem += f"; did you mean '{near[0]}'?"
    return problem


def _is_name(value: object) -> bool:
    """Whether a value can name a file: a string that is not empty."""
    return isinstance(value, str) and value != ""


def find_source(config: DatasetConfig, known: Sequence[str] = OPTIONS) -> Source:
    """The files that hold the rows of a data set: of a package, a local place or the hub.

    Args:
        config: Says where the rows are, and of which split and subset.
        known: The options that the data set's format has.

    Raises:
        ConfigError: The config names no place, or a revision of a local one.
        DataError: The local place does not hold them.
        CannotRun: The package or the data set on the hub does not hold them.
    """
    patterns = file_patterns(config, known)
    if config.data is None:
        return _hub_source(config, patterns)
    if config.revision is not None:
        raise ConfigError(
            ["dataset.revision: only rows from the hub have one; leave it out with --data"]
        )
    if config.data.startswith(PACKAGE):
        return _package_source(config.data)
    return _local_source(config.data, config, patterns)


def _package_source(data: str) -> Source:
    """The source for one file of an installed package, named as "package:NAME/FILE".

    Raises CannotRun if there is no such package or file.
    """
    package, _, inner = data.removeprefix(PACKAGE).partition("/")
    root = package_folder(package)
    if root is None:
        raise CannotRun(f"dataset.data '{data}': there is no package '{package}'")
    path = path_inside(root, inner)
    if not inner or not path.is_file():
        raise CannotRun(f"dataset.data '{data}': the package '{package}' has no such file")
    return Source((path,), data)


def _hub_source(config: DatasetConfig, patterns: tuple[str, ...]) -> Source:
    """The source for the split's files on the hub; each is downloaded when the iteration reaches
    it.

    Args:
        config: The data set on the hub, the split and the subset.
        patterns: Shell patterns of file names that say which files are meant; () for none.

    Raises:
        ConfigError: The config names no data set on the hub.
        CannotRun: That data set cannot be read, or it is not clear which files are meant.
    """
    if config.hub is None:
        sentence = "does not say where its rows are; name their file with --data"
        raise ConfigError([f"dataset '{config.name}' {sentence}"])
    commit, listed = pin_repo(DATASETS, config.hub, config.revision)
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
    """The source for a local path: one file, or the split's files in an archive or folder.

    Args:
        data: The path.
        config: The split and the subset.
        patterns: Shell patterns of file names, for an archive or folder; () for none.

    Raises:
        ConfigError: There are patterns, but the path is one file of rows.
        DataError: There is no such path, or no file of rows in it.
    """
    path = Path(data).expanduser()
    if path.is_dir():
        return _folder_source(data, config, patterns)
    if path.is_file() and is_archive(path.name):
        chosen = _members_of_split(path, config, patterns)
        return Source(chosen, f"{path.name} ({', '.join(member.name for member in chosen)})")
    if patterns:
        raise ConfigError(
            ["dataset.options.files: chooses among files of a folder or the hub; this is one file"]
        )
    if not path.exists():
        way_out = "check --data, a path from the current folder, or dataset.data in the preset"
        raise DataError(data, None, None, f"no such file or folder; {way_out}")
    if file_kind(path) is None:
        endings = ", ".join((*SUFFIXES, *ARCHIVES))
        raise DataError(data, None, None, f"not a data file by its name; known are {endings}")
    return Source((path,), path.name)


def _folder_source(data: str, config: DatasetConfig, patterns: tuple[str, ...]) -> Source:
    """The source for the split's files in a folder or, where it holds no data file, in its
    subfolders.

    Args:
        data: The path of the folder.
        config: The split and the subset.
        patterns: Shell patterns of file names; () for none.

    Raises:
        DataError: There are no such files, or it is not clear which are meant.
    """
    folder = Path(data).expanduser()
    names = [entry.name for entry in folder.iterdir() if entry.is_file()]
    shards_only = False
    if not _data_files(names):
        nested = _nested_data_files(folder)
        if nested:
            names = nested
            shards_only = True
    chosen = _choose_local_files(names, config, patterns, data, shards_only=shards_only)
    if is_archive(chosen[0]):
        return Source(_members_of_split(folder / chosen[0], config, patterns), chosen[0])
    return Source(tuple(folder / name for name in chosen), ", ".join(chosen))


def _nested_data_files(folder: Path) -> list[str]:
    """The data files in a folder and its subfolders, as paths relative to it:
    ["qasper/dev.jsonl"].
    """
    names = []
    for root, _, files in os.walk(folder):
        place = Path(root).relative_to(folder)
        names += [(place / name).as_posix() for name in files if _data_files([name])]
    return names


def _choose_local_files(
    names: Sequence[str],
    config: DatasetConfig,
    patterns: tuple[str, ...],
    place: str,
    *,
    shards_only: bool,
) -> list[str]:
    """Choose the files of the split and subset from a folder or archive.

    Unlike in `choose_files`, a subset that no file name contains is ignored.

    Args:
        names: Paths in the folder or archive.
        config: The split and the subset.
        patterns: Patterns that the paths must match, as in `choose_files`.
        place: The folder or archive, named in a DataError.
        shards_only: Choose files only where they are the shards of one table, as in `choose_files`.

    Raises:
        DataError: No file is meant, or several that do not belong together.
    """
    subset = config.subset
    if not subset or not _subset_files(names, subset):
        subset = None
    try:
        return choose_files(
            names, split=config.split, subset=subset, patterns=patterns, shards_only=shards_only
        )
    except Ambiguous as error:
        noun = "folder"
        if is_archive(place):
            noun = "archive"
        problem = f"the {noun} {error}"
        if "name one of them" in str(error):
            problem += " (--set dataset.files=NAME)"
        raise DataError(place, None, None, problem) from None


def _is_of_subset(name: str, subset: str) -> bool:
    """Whether a folder in the path, or the file without endings and number, is called `subset`.

    Both "qasper/a.jsonl" and "x/qasper-00000-of-00002.parquet" are of "qasper".
    """
    return subset in PurePosixPath(name).parts[:-1] or _stem(name) == subset


def _stem(name: str) -> str:
    """A file's name without the number of a part and what follows a full stop.

    "qasper/dev-00000-of-00002.parquet" -> "dev"
    """
    return _SHARD.sub("", PurePosixPath(name).name).split(".")[0]


def _members_of_split(
    archive: Path, config: DatasetConfig, patterns: tuple[str, ...]
) -> list[Member]:
    """The files of an archive that hold the split's rows, chosen as by `choose_files`.

    Args:
        archive: The path of the archive.
        config: The split and the subset.
        patterns: Shell patterns of the paths in it; () for none.

    Raises:
        DataError: No file is meant, or several that do not belong together.
    """
    names = [name for name in member_names(archive) if not is_archive(name)]
    chosen = _choose_local_files(names, config, patterns, archive.name, shards_only=True)
    return [Member(archive, name) for name in chosen]


class Ambiguous(Exception):
    """`choose_files` finds no file, or several that are not parts of one. The message follows the
    place's name."""


def _words_in_path(path: str) -> set[str]:
    """The set of words of a path in small letters: "A_E/dev.jsonl" -> {"a", "e", "dev",
    "jsonl"}.
    """
    return set(re.split(r"[^a-z0-9]+", path.lower()))


def _subset_files(names: Iterable[str], subset: str) -> list[str]:
    """Files whose folder or stem is `subset`; if there are none, those with the word in their path.

    So "qasper" means qasper.jsonl or qasper/test.parquet, and neither qasper_e.jsonl nor
    qasper_e/test.parquet.
    """
    names = list(names)
    exact = [name for name in names if _is_of_subset(name, subset)]
    if exact:
        return exact
    return [name for name in names if subset.lower() in _words_in_path(name)]


def _holds_rows(name: str) -> bool:
    """Whether a file's name says that it can hold rows: "dev.jsonl" -> True; "config.json" ->
    False.
    """
    return name.lower().endswith(SUFFIXES) and PurePosixPath(name).name.lower() not in _NOT_DATA


def _data_files(names: Iterable[str]) -> list[str]:
    """Those of the paths that can hold rows: files with a known ending.

    The archives where there is no such file; copies that macOS adds (__MACOSX) are left out.
    """
    names = [name for name in names if "__MACOSX" not in PurePosixPath(name).parts]
    data = list(filter(_holds_rows, names))
    if data:
        return data
    return list(filter(is_archive, names))


def _names_split(path: str, split: str) -> bool | None:
    """Whether the path names `split`, by one of its usual names; None if it names no split at
    all.

    For "validation": "dev.jsonl" -> True, "train.jsonl" -> False, "rows.jsonl" -> None
    """
    words = _words_in_path(path)
    split = split.lower()
    split_words = _SPLIT_WORDS.get(split, (split,))
    if words.intersection(split_words):
        return True
    if words & _ALL_SPLIT_WORDS:
        return False
    return None


def _names_text(paths: Iterable[str], limit: int = 8) -> str:
    """The first paths in sorted order, for messages: "a.json, b.json and 3 more"."""
    paths = sorted(paths)
    listed = ", ".join(paths[:limit])
    if len(paths) > limit:
        listed += f" and {len(paths) - limit} more"
    return listed


def _split_files(paths: list[str], split: str) -> list[str]:
    """The paths that name `split`, or all paths if none names any split.

    A file with HTML is left out where its copy without HTML (".htmlstripped") is there.

    Args:
        paths: Paths of data files.
        split: The split that is meant, "validation".

    Raises:
        Ambiguous: The paths name other splits only.
    """
    named = {path: _names_split(path, split) for path in paths}
    chosen = paths
    if any(answer is not None for answer in named.values()):
        chosen = [path for path, answer in named.items() if answer]
        if not chosen:
            hint = "name a file, or set dataset.split"
            raise Ambiguous(f"has no file for split '{split}' among {_names_text(named)}; {hint}")
    unstripped = {path.replace(_NO_HTML, "") for path in chosen if _NO_HTML in path}
    return [path for path in chosen if path not in unstripped]


def choose_files(
    names: Iterable[str],
    *,
    split: str,
    subset: str | None = None,
    patterns: Sequence[str] = (),
    shards_only: bool = False,
) -> list[str]:
    """The data files of one split, sorted.

    Where no file names a split, all are taken; where there is nothing but one archive, that; where
    a file is there with HTML and as ".htmlstripped", the latter.

    Args:
        names: "/"-separated paths.
        split: The split that is meant.
        subset: Keep the files in a folder, or with a file name, of that name.
        patterns: Shell patterns of paths or names that say which files are meant, instead of subset
            and split.
        shards_only: Without patterns, several files must be numbered parts of one.

    Raises:
        Ambiguous: No file is meant, or several that do not belong together.
    """
    visible = [name for name in names if not _is_hidden(name)]
    data = _data_files(visible)
    if not data:
        among = ""
        if visible:
            among = f" among {_names_text(visible)}"
        raise Ambiguous(f"has no data file ({', '.join(SUFFIXES)} are looked for){among}")
    if all(map(is_archive, data)):
        return [_one_archive(data, subset)]  # which of its members are meant is another choice
    chosen = _matching_files(data, patterns)
    if not patterns:
        chosen = _files_of_subset(data, subset)
        stems = {_stem(name) for name in chosen}
        if stems != {subset}:  # a file of the subset's own name holds one split
            chosen = _split_files(chosen, split)
    endings = {_ending(name) for name in chosen}
    if len(endings) > 1:
        raise Ambiguous(f"has files of several formats ({_names_text(chosen)}); name one of them")
    whole_files = {_SHARD.sub("", name) for name in chosen}
    if shards_only and not patterns and len(whole_files) > 1:
        raise Ambiguous(
            f"has several files for split '{split}' ({_names_text(chosen)}); name one of them"
        )
    return sorted(chosen)


def _one_archive(archives: list[str], subset: str | None) -> str:
    """The archive that is named as the subset; without such the only one.

    Args:
        archives: Their paths; at least one.
        subset: The subset that is meant; None: any.

    Raises:
        Ambiguous: Several archives are left.
    """
    meant = archives
    if len(archives) > 1 and subset:
        meant = _subset_files(archives, subset) or archives
    if len(meant) > 1:
        raise Ambiguous(f"has several archives ({_names_text(meant)}); name one of them")
    return meant[0]


def _is_hidden(name: str) -> bool:
    """Whether a folder in the path, or the file itself, has a name that starts with a full
    stop.
    """
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _ending(name: str) -> str:
    """The longest known ending of a file's name, which must have one: "a.jsonl.gz" ->
    ".jsonl.gz".
    """
    return next(suffix for suffix in _BY_LENGTH if name.lower().endswith(suffix))


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    """Whether the path or its last part matches one of the shell patterns."""
    file_name = PurePosixPath(name).name
    return any(fnmatch(name, pattern) or fnmatch(file_name, pattern) for pattern in patterns)


def _matching_files(data: list[str], patterns: Sequence[str]) -> list[str]:
    """The paths that match one of the shell patterns; all paths where there are no patterns.

    Raises Ambiguous where none matches.
    """
    if not patterns:
        return data
    chosen = [name for name in data if _matches_any(name, patterns)]
    if not chosen:
        raise Ambiguous(
            f"has no file that matches {' or '.join(patterns)} among {_names_text(data)}"
        )
    return chosen


def _files_of_subset(data: list[str], subset: str | None) -> list[str]:
    """The paths that belong to the subset; all paths for None. Raises Ambiguous where none
    belongs.
    """
    if subset is None:
        return data
    chosen = _subset_files(data, subset)
    if not chosen:
        hint = "set dataset.subset, or null where there is only one"
        raise Ambiguous(f"has no file of subset '{subset}' among {_names_text(data)}; {hint}")
    return chosen
