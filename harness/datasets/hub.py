"""Files of a data set on the Hugging Face hub, at the commit that harness.hub pins.

    fetch(HubFiles("hotpotqa/hotpot_qa", split="validation")) -> Fetched(revision="<40 hex>", paths=(...), names=(...))

Files are parquet or JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.datasets.choose import Ambiguous, choose
from harness.errors import CannotRun
from harness.hub import DATASETS, download, resolve

__all__ = ["Fetched", "HubFiles", "fetch", "lock_path"]


@dataclass(frozen=True, slots=True)
class HubFiles:
    """What is wanted of a repository; `revision` None: the locked commit, else the default branch's."""

    repo: str
    split: str
    subset: str | None = None
    revision: str | None = None
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """Local copies of files at one commit; `names` are their paths in the repository."""

    revision: str
    paths: tuple[Path, ...]
    names: tuple[str, ...]


def lock_path() -> Path:
    """The file that remembers which commit of each data set is used."""
    return DATASETS.lock_path


def fetch(wanted: HubFiles) -> Fetched:
    """Download (or find in the cache) the files of one split at the pinned commit.

    Raises CannotRun: no connection, no such repository, revision or split, or a lock file that is not one.
    """
    commit, files = resolve(DATASETS, wanted.repo, wanted.revision)
    try:
        names = choose(
            files, split=wanted.split, subset=wanted.subset, patterns=wanted.patterns, shards_only=not wanted.patterns
        )
    except Ambiguous as error:
        hint = "dataset.options.files takes file names or patterns"
        raise CannotRun(f"the data set '{wanted.repo}' at {commit[:12]} {error} ({hint})") from None
    paths = tuple(download(DATASETS, wanted.repo, commit, name) for name in names)
    return Fetched(commit, paths, tuple(names))
