"""Which files are meant: a folder's or a repository's files for one split, and never a guess between two.

choose(["dev.jsonl", "train.jsonl", "README.md"], split="validation") ─► ["dev.jsonl"]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath

from harness.datasets.archives import is_archive
from harness.datasets.files import SUFFIXES

# How file names say a split; the same words Hugging Face `datasets` looks for.
_WORDS = {
    "validation": ("validation", "valid", "dev", "val"),
    "train": ("train", "training"),
    "test": ("test", "testing"),
}
# Parts of one file: "-00001-of-00003" in a name (with a hash in older uploads), or a name that is a number (what the
# hub itself converts).
_SHARD = re.compile(r"-\d{5}-of-\d{5}(-[0-9a-f]{16})?|(?<=/)\d{4}(?=\.)")
# QuALITY's release has each split twice: with HTML, and with its tags taken out by the authors.
_STRIPPED = ".htmlstripped"
_BY_LENGTH = sorted(SUFFIXES, key=len, reverse=True)
_NOT_DATA = ("dataset_infos.json", "dataset_info.json", "config.json", "package.json")


class Ambiguous(Exception):
    """No file, or several that are not parts of one: the message goes into a sentence after the place's name."""


def _words(path: str) -> set[str]:
    return set(re.split(r"[^a-z0-9]+", path.lower()))


def _of_subset(names: Iterable[str], subset: str) -> list[str]:
    """Files in a folder or with a stem of that name; only where there is none, those with the word in their path.

    So "qasper" means qasper.jsonl or qasper/test.parquet, and neither qasper_e.jsonl nor qasper_e/test.parquet.
    """
    names = list(names)
    exact = [n for n in names if subset in PurePosixPath(n).parts[:-1] or PurePosixPath(n).name.split(".")[0] == subset]
    return exact or [n for n in names if subset.lower() in _words(n)]


def names_subset(names: Iterable[str], subset: str) -> bool:
    """Whether any of the files belongs to `subset` by its path."""
    return bool(_of_subset(names, subset))


def _data(names: Iterable[str]) -> list[str]:
    """The files that can hold rows: those with a known ending; an archive only if there is no such file."""
    names = [n for n in names if "__MACOSX" not in PurePosixPath(n).parts]
    data = [n for n in names if n.lower().endswith(SUFFIXES) and PurePosixPath(n).name.lower() not in _NOT_DATA]
    return data or [n for n in names if is_archive(n)]


def has_data(names: Iterable[str]) -> bool:
    """Whether any of the files can hold rows, by its name."""
    return bool(_data(names))


def _names_split(path: str, split: str) -> bool | None:
    """Does the path name this split? None: it names no split at all."""
    words = _words(path)
    synonyms = _WORDS.get(split.lower(), (split.lower(),))
    if words.intersection(synonyms):
        return True
    return False if words.intersection(w for group in _WORDS.values() for w in group) else None


def _listed(paths: Iterable[str], most: int = 8) -> str:
    paths = sorted(paths)
    return ", ".join(paths[:most]) + (f" and {len(paths) - most} more" if len(paths) > most else "")


def _of_split(paths: list[str], split: str) -> list[str]:
    """The paths that name the split, or all where none names any; without those that are there without HTML too."""
    named = {path: _names_split(path, split) for path in paths}
    if any(answer is not None for answer in named.values()):
        paths = [path for path, answer in named.items() if answer]
        if not paths:
            hint = "name a file, or set dataset.split"
            raise Ambiguous(f"has no file for split '{split}' among {_listed(named)}; {hint}")
    twins = {path.replace(_STRIPPED, "") for path in paths if _STRIPPED in path}
    return [path for path in paths if path not in twins]


def choose(
    names: Iterable[str],
    *,
    split: str,
    subset: str | None = None,
    patterns: Sequence[str] = (),
    shards_only: bool = False,
) -> list[str]:
    """The data files of one split, sorted.

    names: "/"-separated paths. subset: keep those in a folder, or with a file name, of that name. patterns: shell
    patterns of paths or names that say which files are meant, instead of subset and split. shards_only: several files
    must be numbered parts of one. Where no file names a split, all are taken; where there is nothing but one archive,
    that; where a file is there with HTML and as ".htmlstripped", the latter. Raises Ambiguous.
    """
    names = [n for n in names if not any(part.startswith(".") for part in PurePosixPath(n).parts)]
    data = _data(names)
    if not data:
        among = f" among {_listed(names)}" if names else ""
        raise Ambiguous(f"has no data file ({', '.join(SUFFIXES)} are looked for){among}")
    if all(is_archive(n) for n in data):
        if len(data) > 1:
            raise Ambiguous(f"has several archives ({_listed(data)}); name one of them")
        return data  # which of its members are meant is another choice
    if patterns:
        chosen = [
            n
            for n in data
            if any(fnmatch(name, pattern) for pattern in patterns for name in (n, PurePosixPath(n).name))
        ]
        if not chosen:
            raise Ambiguous(f"has no file that matches {' or '.join(patterns)} among {_listed(data)}")
    else:
        chosen = data
        if subset is not None:
            chosen = _of_subset(data, subset)
            if not chosen:
                hint = "set dataset.subset, or null where there is only one"
                raise Ambiguous(f"has no file of subset '{subset}' among {_listed(data)}; {hint}")
        chosen = _of_split(chosen, split)
    if len({next(s for s in _BY_LENGTH if n.lower().endswith(s)) for n in chosen}) > 1:
        raise Ambiguous(f"has files of several formats ({_listed(chosen)}); name one of them")
    if shards_only and len({_SHARD.sub("", n) for n in chosen}) > 1:
        raise Ambiguous(f"has several files for split '{split}' ({_listed(chosen)}); name one of them")
    return sorted(chosen)
