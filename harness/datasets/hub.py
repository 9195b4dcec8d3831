"""Files of a data set on the Hugging Face hub, pinned: a branch is looked up once, then the lock file decides.

    fetch("hotpotqa/hotpot_qa", request) ─► Fetched(revision="<40 hex>", paths=(...), names=(...))

The first load asks the hub what commit the default branch is at and writes it to `data-lock.json` (in HARNESS_HOME,
else `.harness/`); every later load uses that commit, from the cache where it can, so it also works offline. A revision
that the config names is used instead; it is looked up again each time unless it is a commit. Files are parquet or JSON;
no code of a repository is run. HF_ENDPOINT and HF_HUB_OFFLINE are honoured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.datasets.choose import Ambiguous, choose
from harness.errors import CannotRun
from harness.home import home, read_lock, write_json

__all__ = ["Fetched", "HubFiles", "fetch", "lock_path"]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_TIMEOUT = 10.0
_DEFAULT_ENDPOINT = "https://huggingface.co"


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
    return home() / "data-lock.json"


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or _DEFAULT_ENDPOINT).rstrip("/")


def _offline() -> bool:
    values = (os.environ.get("HF_HUB_OFFLINE"), os.environ.get("HF_DATASETS_OFFLINE"))
    return any((value or "").upper() in {"1", "ON", "YES", "TRUE"} for value in values)


def _locked(repo: str) -> dict[str, Any] | None:
    path = lock_path()
    try:
        entry = read_lock(path).get(repo)
    except (ValueError, TypeError, OSError) as error:
        told = f"the lock file {path} cannot be read ({error})"
        raise CannotRun(f"{told}: repair it, or delete it to look everything up anew") from None
    if entry is None:
        return None
    known = isinstance(entry, dict) and isinstance(entry.get("files"), list)
    if not known or not _COMMIT.fullmatch(str(entry.get("revision"))):
        raise CannotRun(f"the lock file {path} has no usable entry for '{repo}': delete that entry to look it up anew")
    return dict(entry)


def _remember(repo: str, revision: str, files: list[str]) -> None:
    path = lock_path()
    entry = {
        "revision": revision,
        "files": sorted(files),
        "endpoint": _endpoint(),
        "looked_up": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        write_json(path, {**read_lock(path), repo: entry})
    except OSError as error:
        told = f"the lock file {path} cannot be written ({error.strerror})"
        raise CannotRun(f"{told}: set HARNESS_HOME to a folder that can be written, or use `--data FILE`") from None


@contextmanager
def _sentences(repo: str, revision: str | None) -> Iterator[None]:
    """Errors of huggingface_hub, which are pages long, as one sentence each."""
    from huggingface_hub import errors

    try:
        yield
    except errors.RevisionNotFoundError:
        raise CannotRun(f"the data set '{repo}' on {_endpoint()} has no revision '{revision}'") from None
    except errors.GatedRepoError:
        told = f"the data set '{repo}' on {_endpoint()} asks for consent first"
        raise CannotRun(f"{told}: accept its terms there and set HF_TOKEN, or use `--data FILE`") from None
    except errors.RepositoryNotFoundError:
        told = f"there is no data set '{repo}' on {_endpoint()} (or it is private)"
        raise CannotRun(f"{told}: check dataset.hub, or use `--data FILE`") from None
    except errors.HFValidationError as error:
        raise CannotRun(f"'{repo}' is not the id of a data set on the hub ({error})") from None
    except errors.LocalEntryNotFoundError as error:
        offline = "HF_HUB_OFFLINE is set and the file is not in the cache"
        raise _unreachable(repo, offline if _offline() else _brief(error.__cause__ or error)) from error
    except Exception as error:
        # The hub's client has changed its HTTP library twice, and a proxy may answer anything; whatever is raised
        # here means that nothing was fetched, and the cause stays attached.
        raise _unreachable(repo, _brief(error)) from error


def _brief(error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}"[:160] if first else type(error).__name__


def _unreachable(repo: str, why: str) -> CannotRun:
    told = f"the data set '{repo}' could not be fetched from {_endpoint()} ({why})"
    return CannotRun(f"{told}: check the connection, or give the rows with `--data FILE`")


def _look_up(repo: str, revision: str | None) -> tuple[str, list[str]]:
    """Ask the hub for the commit and the file names of a revision."""
    if _offline():
        raise _unreachable(repo, "HF_HUB_OFFLINE is set and its revision is not locked yet")
    from huggingface_hub import HfApi

    with _sentences(repo, revision):
        info = HfApi(endpoint=_endpoint()).dataset_info(repo, revision=revision, timeout=_TIMEOUT)
    commit = info.sha or ""
    if not _COMMIT.fullmatch(commit):
        raise CannotRun(f"{_endpoint()} names no commit for the data set '{repo}', so it cannot be pinned")
    return commit, [entry.rfilename for entry in info.siblings or ()]


def _resolve(wanted: HubFiles) -> tuple[str, list[str]]:
    locked = _locked(wanted.repo)
    if locked is not None and wanted.revision in (None, locked["revision"]):
        return locked["revision"], locked["files"]
    commit, files = _look_up(wanted.repo, wanted.revision)
    if wanted.revision is None:
        _remember(wanted.repo, commit, files)
    return commit, files


def _download(repo: str, commit: str, name: str) -> Path:
    from huggingface_hub import hf_hub_download

    offline = _offline()
    with _sentences(repo, commit):
        path = hf_hub_download(
            repo,
            name,
            repo_type="dataset",
            revision=commit,
            endpoint=_endpoint(),
            etag_timeout=_TIMEOUT,
            local_files_only=offline,
        )
    return Path(path)


def fetch(wanted: HubFiles) -> Fetched:
    """Download (or find in the cache) the files of one split at the pinned commit.

    Raises CannotRun: no connection, no such repository, revision or split, or a lock file that is not one.
    """
    try:
        import huggingface_hub  # noqa: F401
    except ImportError:
        told = "fetching a data set needs the package 'huggingface_hub'"
        raise CannotRun(f"{told}: pip install datasets, or use `--data FILE`") from None
    commit, files = _resolve(wanted)
    try:
        names = choose(
            files, split=wanted.split, subset=wanted.subset, patterns=wanted.patterns, shards_only=not wanted.patterns
        )
    except Ambiguous as error:
        hint = "dataset.options.files takes file names or patterns"
        raise CannotRun(f"the data set '{wanted.repo}' at {commit[:12]} {error} ({hint})") from None
    paths = tuple(_download(wanted.repo, commit, name) for name in names)
    return Fetched(commit, paths, tuple(names))
