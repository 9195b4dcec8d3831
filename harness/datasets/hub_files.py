"""Files of a data set on the Hugging Face hub, at the commit that harness.storage.hub pins.

    fetched = fetch(HubFiles("hotpotqa/hotpot_qa", split="validation"))
    fetched.names, fetched.revision         ("distractor/validation-00000-of-00001.parquet",), "<40 hex>"
    for path in fetched.paths(): ...        each file is downloaded, or read from the cache, when its turn comes

"owner/name@branch" means another branch than the default one; it is pinned like that. Files are parquet, JSON, or one
zip archive with JSON in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.datasets.choose import Ambiguous, choose
from harness.errors import CannotRun
from harness.storage.home import read_lock, write_json
from harness.storage.hub import DATASETS, download, resolve


@dataclass(frozen=True, slots=True)
class HubFiles:
    """The files to fetch of a repository; `revision` None: the locked commit, else the branch's."""

    repo: str
    split: str
    subset: str | None = None
    revision: str | None = None
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """Files of a repository at one commit; `names` are their paths in it."""

    repo: str
    revision: str
    names: tuple[str, ...]

    def paths(self) -> Iterator[Path]:
        """Local copies, in order. Raises CannotRun for one that cannot be fetched."""
        for name in self.names:
            yield download(DATASETS, self.repo, self.revision, name)


def lock_path() -> Path:
    """The file that remembers which commit of each data set is used."""
    return DATASETS.lock_path


def listing(repo: str, revision: str | None) -> tuple[str, str, list[str]]:
    """Id without its branch, commit and file names of "owner/name" or "owner/name@branch". Raises CannotRun."""
    plain, _, branch = repo.partition("@")
    if not branch or revision is not None:
        return plain, *resolve(DATASETS, plain, revision)
    locked = _locked(repo)
    if locked is not None:
        return plain, *locked
    commit, files = resolve(DATASETS, plain, branch)
    try:
        write_json(lock_path(), {**read_lock(lock_path()), repo: {"revision": commit, "files": sorted(files)}})
    except OSError as error:
        sentence = f"the lock file {lock_path()} cannot be written ({error.strerror})"
        raise CannotRun(f"{sentence}: set HARNESS_HOME to a folder that can be written") from None
    return plain, commit, files


def _locked(repo: str) -> tuple[str, list[str]] | None:
    """Commit and files that were locked for "owner/name@branch"."""
    try:
        entry = read_lock(lock_path()).get(repo)
        return None if entry is None else (str(entry["revision"]), list(entry["files"]))
    except (ValueError, TypeError, KeyError, OSError) as error:
        sentence = f"the lock file {lock_path()} has no usable entry for '{repo}' ({error})"
        raise CannotRun(f"{sentence}: repair it, or delete it to look everything up anew") from None


def fetch(request: HubFiles) -> Fetched:
    """Choose the files of one split at the pinned commit; nothing but the list of files is fetched yet.

    Raises CannotRun: no connection, no such repository, revision or split, or a lock file that is not one.
    """
    repo, commit, files = listing(request.repo, request.revision)
    try:
        names = choose(
            files,
            split=request.split,
            subset=request.subset,
            patterns=request.patterns,
            shards_only=not request.patterns,
        )
    except Ambiguous as error:
        hint = "dataset.options.files takes file names or patterns"
        raise CannotRun(f"the data set '{request.repo}' at {commit[:12]} {error} ({hint})") from None
    return Fetched(repo, commit, tuple(names))
