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
# Split -> the words by which file names say it; those that Hugging Face `datasets` looks for.
_WORDS_OF_SPLIT = {
    "validation": ("validation", "valid", "dev", "val"),
    "train": ("train", "training"),
    "test": ("test", "testing"),
}
_WORDS_OF_ALL_SPLITS = frozenset(itertools.chain.from_iterable(_WORDS_OF_SPLIT.values()))
# Parts of one file: "-00001-of-00003" in a name (older: and a hash), or a name that is a number
# (converted by the hub).
_SHARD_NUMBER = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?|(?<=/)\d{4}(?=\.)")
# QuALITY's release has each split with HTML, and with its tags taken out by the authors.
_NO_HTML = ".htmlstripped"
_SUFFIXES_LONGEST_FIRST = sorted(SUFFIXES, key=len, reverse=True)
_MAX_LISTED = 8  # paths in a message
_NOT_DATA = ("dataset_infos.json", "dataset_info.json", "config.json", "package.json")


class FileOptions(BaseModel):
    """Options of every data set that is read from files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    files: tuple[str, ...] | str = Field(
        default=(),
        description="names or patterns of the files to read, in a folder, an archive or on the hub",
    )


FILE_OPTIONS = tuple(FileOptions.model_fields)
"""The names of the options of every data set that is read from files."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of rows.

    Attributes:
        files: The files in order; iterate once, as files of the hub are downloaded on the way. The
            iteration raises CannotRun and DataError.
        name: Their name in the manifest.
        revision: Their commit on the hub; None for local files.
    """

    files: Iterable[Path | Member]
    name: str
    revision: str | None = None


def file_patterns(
    config: DatasetConfig, known_options: Sequence[str] = FILE_OPTIONS
) -> tuple[str, ...]:
    """The file names or patterns in dataset.options.files: "a.json" -> ("a.json",); () for none.

    Args:
        config: Has the options.
        known_options: The options that the data set's format has.

    Raises:
        ConfigError: The patterns are malformed, or there is another option that is not known.
    """
    unknown_options = [option for option in config.options if option not in known_options]
    problems = [_unknown_option_problem(option, known_options) for option in unknown_options]
    files = config.options.get("files", ())
    if isinstance(files, str):
        files = (files,)
    patterns: tuple[str, ...] = ()
    if isinstance(files, list | tuple) and all(map(_is_filled_text, files)):
        patterns = tuple(files)
    else:
        problems.append(
            "dataset.options.files: should be a file name or pattern, or a list of them"
        )
    if problems:
        raise ConfigError(problems)
    return patterns


def _unknown_option_problem(option: str, known_options: Sequence[str]) -> str:
    """A sentence that names an unknown option, with the closest known one."""
    problem = f"dataset.options: unknown key '{option}'"
    similar = close_matches(option, known_options)
    if similar:
        problem += f"; did you mean '{similar[0]}'?"
    return problem


def _is_filled_text(value: object) -> bool:
    """Whether a value is a string that is not empty."""
    return isinstance(value, str) and value != ""


def find_source(config: DatasetConfig, known_options: Sequence[str] = FILE_OPTIONS) -> Source:
    """The files that hold the rows of a data set: of a package, a local place or the hub.

    Asks the hub which files it has; they are downloaded when the source is iterated.

    Args:
        config: Says where the rows are, and of which split and subset.
        known_options: The options that the data set's format has.

    Raises:
        ConfigError: The config names no place, or a revision of a local one.
        DataError: The local place does not hold them.
        CannotRun: The package or the data set on the hub does not hold them.
    """
    patterns = file_patterns(config, known_options)
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

    Raises CannotRun if there is no such package or file, UserError if the name leads out of the
    package's folder.
    """
    package, _, path_in_package = data.removeprefix(PACKAGE).partition("/")
    folder = package_folder(package)
    if folder is None:
        raise CannotRun(f"dataset.data '{data}': there is no package '{package}'")
    path = path_inside(folder, path_in_package)
    if not path_in_package or not path.is_file():
        raise CannotRun(f"dataset.data '{data}': the package '{package}' has no such file")
    return Source((path,), data)


def _hub_source(config: DatasetConfig, patterns: tuple[str, ...]) -> Source:
    """The source for the split's files on the hub; each is downloaded when the iteration reaches
    it, but an archive is downloaded at once.

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
    commit, all_names = pin_repo(DATASETS, config.hub, config.revision)
    try:
        names = choose_files(
            all_names,
            split=config.split,
            subset=config.subset,
            patterns=patterns,
            shards_only=True,
        )
    except UnclearFiles as error:
        data_set = f"the data set '{config.hub.partition('@')[0]}' at {commit[:12]}"
        raise CannotRun(
            f"{data_set} {error} (dataset.options.files takes file names or patterns)"
        ) from None
    downloaded_paths = (download(DATASETS, config.hub, commit, name) for name in names)
    source_name = f"{config.hub} ({', '.join(names)})"
    if not is_archive(names[0]):
        return Source(downloaded_paths, source_name, commit)
    archive = next(downloaded_paths)  # downloads it
    return Source(_members_of_split(archive, config, patterns), source_name, commit)


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
        members = _members_of_split(path, config, patterns)
        listed = ", ".join(member.name for member in members)
        return Source(members, f"{path.name} ({listed})")
    if patterns:
        raise ConfigError(
            ["dataset.options.files: chooses among files of a folder or the hub; this is one file"]
        )
    if not path.exists():
        way_out = "check --data, a path from the current folder, or dataset.data in the preset"
        raise DataError.of_file(data, f"no such file or folder; {way_out}")
    if file_kind(path) is None:
        endings = ", ".join((*SUFFIXES, *ARCHIVES))
        raise DataError.of_file(data, f"not a data file by its name; known are {endings}")
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
    are_in_subfolders = False
    if not _data_files(names):
        names_in_subfolders = _data_files_in_subfolders(folder)
        if names_in_subfolders:
            names = names_in_subfolders
            are_in_subfolders = True
    chosen = _choose_local_files(names, config, patterns, data, shards_only=are_in_subfolders)
    first = chosen[0]
    if is_archive(first):
        return Source(_members_of_split(folder / first, config, patterns), first)
    return Source(tuple(folder / name for name in chosen), ", ".join(chosen))


def _data_files_in_subfolders(folder: Path) -> list[str]:
    """The data files in a folder and its subfolders, as paths relative to it:
    ["qasper/dev.jsonl"].
    """
    paths = []
    for subfolder, _, file_names in os.walk(folder):
        relative_folder = Path(subfolder).relative_to(folder)
        data_files = [file_name for file_name in file_names if _data_files([file_name])]
        paths += [(relative_folder / file_name).as_posix() for file_name in data_files]
    return paths


def _choose_local_files(
    paths: Sequence[str],
    config: DatasetConfig,
    patterns: tuple[str, ...],
    folder_or_archive: str,
    *,
    shards_only: bool,
) -> list[str]:
    """Choose the files of the split and subset from a folder or archive.

    Unlike for files on the hub, a subset that no file name contains is ignored.

    Args:
        paths: Paths in the folder or archive.
        config: The split and the subset.
        patterns: Shell patterns of the paths that are meant, instead of subset and split; () for
            none.
        folder_or_archive: Its path, named in a DataError.
        shards_only: Several files must be numbered parts of one table.

    Raises:
        DataError: No file is meant, or several that do not belong together.
    """
    subset = config.subset
    if not subset or not _files_named_as_subset(paths, subset):
        subset = None
    try:
        return choose_files(
            paths, split=config.split, subset=subset, patterns=patterns, shards_only=shards_only
        )
    except UnclearFiles as error:
        noun = "folder"
        if is_archive(folder_or_archive):
            noun = "archive"
        problem = f"the {noun} {error}"
        if "name one of them" in str(error):
            problem += " (--set dataset.files=NAME)"
        raise DataError.of_file(folder_or_archive, problem) from None


def _is_of_subset(path: str, subset: str) -> bool:
    """Whether a folder in the path, or the file without endings and number, is called as a subset.

    Both "qasper/a.jsonl" and "x/qasper-00000-of-00002.parquet" are of "qasper".
    """
    folders = PurePosixPath(path).parts[:-1]
    return subset in folders or _name_without_endings(path) == subset


def _name_without_endings(path: str) -> str:
    """A file's name without the number of a part and what follows a full stop.

    "qasper/dev-00000-of-00002.parquet" -> "dev"
    """
    return _SHARD_NUMBER.sub("", PurePosixPath(path).name).split(".")[0]


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
    paths = [path for path in member_names(archive) if not is_archive(path)]
    chosen_paths = _choose_local_files(paths, config, patterns, archive.name, shards_only=True)
    return [Member(archive, path) for path in chosen_paths]


class UnclearFiles(Exception):
    """`choose_files` finds no file, or several that are not parts of one. The message follows the
    name of the folder, archive or data set: "has several archives (..); name one of them"."""


def _words_in_path(path: str) -> set[str]:
    """The set of words of a path in small letters: "A_E/dev.jsonl" -> {"a", "e", "dev",
    "jsonl"}.
    """
    return set(re.split(r"[^a-z0-9]+", path.lower()))


def _files_named_as_subset(paths: Iterable[str], subset: str) -> list[str]:
    """The paths whose folder or file is called as a subset; if there are none, those with its name
    as a word in them.

    So "qasper" means qasper.jsonl or qasper/test.parquet, and neither qasper_e.jsonl nor
    qasper_e/test.parquet.
    """
    paths = list(paths)
    exactly_named = [path for path in paths if _is_of_subset(path, subset)]
    if exactly_named:
        return exactly_named
    return [path for path in paths if subset.lower() in _words_in_path(path)]


def _can_hold_rows(path: str) -> bool:
    """Whether a file's name says that it can hold rows: "dev.jsonl" -> True; "config.json" ->
    False.
    """
    return path.lower().endswith(SUFFIXES) and PurePosixPath(path).name.lower() not in _NOT_DATA


def _data_files(paths: Iterable[str]) -> list[str]:
    """Those of the paths that can hold rows: files with a known ending.

    The archives where there is no such file; copies that macOS adds (__MACOSX) are left out.
    """
    paths = [path for path in paths if "__MACOSX" not in PurePosixPath(path).parts]
    files_of_rows = list(filter(_can_hold_rows, paths))
    if files_of_rows:
        return files_of_rows
    return list(filter(is_archive, paths))


def _is_named_as_split(path: str, split: str) -> bool | None:
    """Whether the path names `split`, by one of its usual names; None if it names no split at
    all.

    For "validation": "dev.jsonl" -> True, "train.jsonl" -> False, "rows.jsonl" -> None
    """
    words_in_path = _words_in_path(path)
    split = split.lower()
    words_of_split = _WORDS_OF_SPLIT.get(split, (split,))
    if words_in_path.intersection(words_of_split):
        return True
    if words_in_path & _WORDS_OF_ALL_SPLITS:
        return False
    return None


def _list_for_message(paths: Iterable[str]) -> str:
    """The first eight paths in sorted order: "a.json, b.json and 3 more"."""
    paths = sorted(paths)
    listed = ", ".join(paths[:_MAX_LISTED])
    if len(paths) > _MAX_LISTED:
        listed += f" and {len(paths) - _MAX_LISTED} more"
    return listed


def _split_files(paths: list[str], split: str) -> list[str]:
    """The paths that name `split`, or all paths if none names any split.

    A file with HTML is left out where its copy without HTML (".htmlstripped") is there.

    Args:
        paths: Paths of data files.
        split: The split that is meant, "validation".

    Raises:
        UnclearFiles: The paths name other splits only.
    """
    is_named_as_split = {path: _is_named_as_split(path, split) for path in paths}
    some_path_names_a_split = any(named is not None for named in is_named_as_split.values())
    chosen = paths
    if some_path_names_a_split:
        chosen = [path for path, named in is_named_as_split.items() if named]
        if not chosen:
            hint = "name a file, or set dataset.split"
            listed = _list_for_message(paths)
            raise UnclearFiles(f"has no file for split '{split}' among {listed}; {hint}")
    paths_with_html = {path.replace(_NO_HTML, "") for path in chosen if _NO_HTML in path}
    return [path for path in chosen if path not in paths_with_html]


def choose_files(
    paths: Iterable[str],
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
        paths: "/"-separated paths.
        split: The split that is meant.
        subset: Keep the files in a folder, or with a file name, of that name.
        patterns: Shell patterns of paths or names that say which files are meant, instead of subset
            and split.
        shards_only: Without patterns, several files must be numbered parts of one.

    Raises:
        UnclearFiles: No file is meant, or several that do not belong together.
    """
    visible = [path for path in paths if not _is_hidden(path)]
    data_files = _data_files(visible)
    if not data_files:
        among = ""
        if visible:
            among = f" among {_list_for_message(visible)}"
        raise UnclearFiles(f"has no data file ({', '.join(SUFFIXES)} are looked for){among}")
    if all(map(is_archive, data_files)):
        # Which of its members are meant is another choice.
        return [_only_archive(data_files, subset)]
    if patterns:
        chosen = _matching_files(data_files, patterns)
    else:
        chosen = _files_of_subset_and_split(data_files, subset, split)
    listed = _list_for_message(chosen)
    suffixes = {_longest_suffix(path) for path in chosen}
    if len(suffixes) > 1:
        raise UnclearFiles(f"has files of several formats ({listed}); name one of them")
    paths_without_shard = {_SHARD_NUMBER.sub("", path) for path in chosen}
    must_be_one_file = shards_only and not patterns
    if must_be_one_file and len(paths_without_shard) > 1:
        raise UnclearFiles(f"has several files for split '{split}' ({listed}); name one of them")
    return sorted(chosen)


def _files_of_subset_and_split(paths: list[str], subset: str | None, split: str) -> list[str]:
    """Those of the data files that belong to the subset and hold the split.

    Where all files of the subset have its own name ("qasper.jsonl"), they are taken whatever the
    split: they hold the only one.

    Args:
        paths: The paths of the data files.
        subset: The subset that is meant; None: any.
        split: The split that is meant.

    Raises:
        UnclearFiles: None belongs to the subset, or all name other splits.
    """
    files_of_subset = _files_of_subset(paths, subset)
    have_the_subsets_name = {_name_without_endings(path) for path in files_of_subset} == {subset}
    if have_the_subsets_name:
        return files_of_subset
    return _split_files(files_of_subset, split)


def _only_archive(archives: list[str], subset: str | None) -> str:
    """The archive that is named as the subset; without such the only one.

    Args:
        archives: Their paths; at least one.
        subset: The subset that is meant; None: any.

    Raises:
        UnclearFiles: Several archives are left.
    """
    candidates = archives
    if len(archives) > 1 and subset:
        candidates = _files_named_as_subset(archives, subset) or archives
    if len(candidates) > 1:
        listed = _list_for_message(candidates)
        raise UnclearFiles(f"has several archives ({listed}); name one of them")
    return candidates[0]


def _is_hidden(path: str) -> bool:
    """Whether a folder in the path, or the file itself, has a name that starts with a full
    stop.
    """
    return any(part.startswith(".") for part in PurePosixPath(path).parts)


def _longest_suffix(path: str) -> str:
    """The longest known ending of a file's name, which must have one: "a.jsonl.gz" ->
    ".jsonl.gz".
    """
    return next(suffix for suffix in _SUFFIXES_LONGEST_FIRST if path.lower().endswith(suffix))


def _matches_any(path: str, patterns: Sequence[str]) -> bool:
    """Whether the path or its last part matches one of the shell patterns."""
    file_name = PurePosixPath(path).name
    return any(fnmatch(path, pattern) or fnmatch(file_name, pattern) for pattern in patterns)


def _matching_files(paths: list[str], patterns: Sequence[str]) -> list[str]:
    """The paths that match one of the shell patterns. Raises UnclearFiles where none matches."""
    matching = [path for path in paths if _matches_any(path, patterns)]
    if not matching:
        listed = _list_for_message(paths)
        raise UnclearFiles(f"has no file that matches {' or '.join(patterns)} among {listed}")
    return matching


def _files_of_subset(paths: list[str], subset: str | None) -> list[str]:
    """The paths that belong to the subset; all paths for None. Raises UnclearFiles where none
    belongs.
    """
    if subset is None:
        return paths
    files = _files_named_as_subset(paths, subset)
    if not files:
        hint = "set dataset.subset, or null where there is only one"
        listed = _list_for_message(paths)
        raise UnclearFiles(f"has no file of subset '{subset}' among {listed}; {hint}")
    return files
