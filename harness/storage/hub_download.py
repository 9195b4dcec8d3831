"""Repositories on the Hugging Face hub, pinned: a branch is looked up once, then the lock file
decides.

    pin_repo(DATASETS, "hotpotqa/hotpot_qa", None)       -> ("<40 hex>", ["distractor/validation-0.parquet", ...])
    download(DATASETS, "hotpotqa/hotpot_qa", commit, name) -> a local path

"owner/name@branch" means another branch than the default one. The first look-up asks the hub what
commit the branch is at and writes it to the kind's lock file (in HARNESS_HOME, else `.harness/`);
every later one uses that commit, from the cache where it can, so it also works offline. A revision
that the config names is used instead; it is looked up again each time unless it is the locked
commit. No code of a repository is run. HF_ENDPOINT and HF_HUB_OFFLINE are honoured.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import CannotRun, Missing, SaveError, printable, unwrapped
from harness.storage.files import harness_home, read_json_or_empty, write_json

_COMMIT_HASH = re.compile(r"[0-9a-f]{40}")
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of repository on the hub.

    Attributes:
        noun: Its name in messages.
        repo_type: Its name in the hub's API.
        lock_file: Name of its lock file.
        setting: The setting that names a repository.
        other_way: What a message advises where the hub cannot be used: "name a folder with ...".
    """

    noun: str
    repo_type: str
    lock_file: str
    setting: str
    other_way: str

    @property
    def lock_path(self) -> Path:
        """The file that remembers, for each repository of this kind, which commit is used."""
        return harness_home() / self.lock_file

    def missing_item(self, repo: str) -> str:
        """How a list of what is missing names a repository: "weights of owner/name" or "data set
        owner/name".
        """
        if self.noun == "model":
            return f"weights of {repo}"
        return f"{self.noun} {repo}"


DATASETS = Kind(
    noun="data set",
    repo_type="dataset",
    lock_file="data-lock.json",
    setting="dataset.hub",
    other_way="give the rows with `--data FILE`",
)
MODELS = Kind(
    noun="model",
    repo_type="model",
    lock_file="model-lock.json",
    setting="model.source",
    other_way="name a folder with `--model FOLDER`",
)


def weights_of(setting: str, more_advice: str = "", noun: str = "model") -> Kind:
    """The kind of repository that holds a model's weights, with other words in its messages.

    Args:
        setting: The setting that names the model: "encoder.source".
        more_advice: Further advice where the hub cannot be used.
        noun: What messages call the model: "encoder".
    """
    return replace(
        MODELS,
        noun=noun,
        setting=setting,
        other_way=f"name a folder with `--set {setting}=FOLDER`{more_advice}",
    )


def hub_address() -> str:
    """The hub's address, without a slash at its end: HF_ENDPOINT, else Hugging Face's."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


_weights_from_cache_alone: ContextVar[bool] = ContextVar("no_weights", default=False)


@contextmanager
def without_weights() -> Iterator[None]:
    """Inside the block, models are taken from the cache alone, as if the hub could not be reached:
    planning a run is no reason to download 16 GB.
    """
    reset_token = _weights_from_cache_alone.set(True)
    try:
        yield
    finally:
        _weights_from_cache_alone.reset(reset_token)


def is_offline(kind: Kind = DATASETS) -> bool:
    """Whether requests to the hub are forbidden for this kind of repository.

    By HF_HUB_OFFLINE or HF_DATASETS_OFFLINE, and for models also inside `without_weights`.
    """
    if _weights_from_cache_alone.get() and kind.repo_type == MODELS.repo_type:
        return True
    for variable in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        if os.environ.get(variable, "").upper() in {"1", "ON", "YES", "TRUE"}:
            return True
    return False


class PinnedRepo(NamedTuple):
    """A commit of a repository, and the names of its files."""

    commit: str
    files: list[str]


def _read_lock_file(kind: Kind, repo: str) -> PinnedRepo | None:
    """Look a repository up in the lock file of its kind; None where it is not listed.

    Raises CannotRun for a damaged lock file.
    """
    path = kind.lock_path
    try:
        entry = read_json_or_empty(path).get(repo)
    except (ValueError, TypeError, OSError) as error:
        sentence = f"the lock file {path} cannot be read ({error})"
        raise CannotRun(f"{sentence}: repair it, or delete it to look everything up anew") from None
    if entry is None:
        return None
    lists_files = isinstance(entry, dict) and isinstance(entry.get("files"), list)
    if not lists_files or not _COMMIT_HASH.fullmatch(str(entry.get("revision"))):
        raise CannotRun(
            f"the lock file {path} has no usable entry for '{repo}': delete that entry to look it "
            "up anew"
        )
    return PinnedRepo(str(entry["revision"]), entry["files"])


def _write_lock_file(kind: Kind, repo: str, pinned: PinnedRepo) -> None:
    """Put a repository's commit into the lock file of its kind, beside those of other repositories.

    Args:
        kind: The kind of the repository.
        repo: "owner/name", with "@branch" where the user gave one.
        pinned: Its commit and the names of its files.

    Raises:
        CannotRun: The file cannot be written.
    """
    path = kind.lock_path
    entry = {
        "revision": pinned.commit,
        "files": sorted(pinned.files),
        "endpoint": hub_address(),
        "looked_up": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        write_json(path, {**read_json_or_empty(path), repo: entry})
    except SaveError as error:
        why = getattr(error.__cause__, "strerror", None)
        sentence = f"the lock file {path} cannot be written ({why})"
        raise CannotRun(
            f"{sentence}: set HARNESS_HOME to a folder that can be written, or {kind.other_way}"
        ) from None


def _import_huggingface_hub() -> Any:
    """The package huggingface_hub, imported at the first call, which takes long."""
    import huggingface_hub.errors

    return huggingface_hub


@contextmanager
def _short_hub_errors(kind: Kind, repo: str, revision: str | None) -> Iterator[None]:
    """Turn errors of huggingface_hub in the block, which are pages long, into one sentence.

    Args:
        kind: The kind of the repository.
        repo: Its name.
        revision: The one that was asked for, None for the default branch.

    Raises:
        Missing: The user must accept terms first, or nothing came from the hub.
        CannotRun: There is no such repository or revision.
    """
    errors = _import_huggingface_hub().errors
    try:
        yield
    except errors.RevisionNotFoundError:
        raise CannotRun(
            f"the {kind.noun} '{repo}' on {hub_address()} has no revision '{revision}'"
        ) from None
    except errors.GatedRepoError:
        sentence = f"the {kind.noun} '{repo}' on {hub_address()} asks for consent first"
        sentence = f"{sentence}: accept its terms there and set HF_TOKEN, or {kind.other_way}"
        raise Missing(sentence, kind.missing_item(repo)) from None
    except errors.RepositoryNotFoundError:
        sentence = f"there is no {kind.noun} '{repo}' on {hub_address()} (or it is private)"
        raise CannotRun(f"{sentence}: check {kind.setting}, or {kind.other_way}") from None
    except errors.HFValidationError as error:
        raise CannotRun(f"'{repo}' is not the id of a {kind.noun} on the hub ({error})") from None
    except errors.LocalEntryNotFoundError as error:
        why = _first_line(error.__cause__ or error)
        if is_offline(kind):
            why = "HF_HUB_OFFLINE is set and the file is not in the cache"
        raise _unreachable_error(kind, repo, why) from error
    except Exception as error:
        # The client has changed its HTTP library twice, a proxy may answer anything: whatever is
        # raised, nothing came.
        raise _unreachable_error(kind, repo, _first_line(error)) from error


def _first_line(error: BaseException) -> str:
    """The type of an error with the first line of its message, up to 160 characters."""
    name = type(error).__name__
    lines = str(error).strip().splitlines()
    if not lines:
        return name
    return f"{name}: {lines[0]}"[:160]


def _unreachable_error(kind: Kind, repo: str, why: str) -> Missing:
    """Make the error for a repository that the hub did not give.

    Args:
        kind: The kind of the repository.
        repo: Its name.
        why: The reason in a few words.
    """
    sentence = f"the {kind.noun} '{repo}' could not be fetched from {hub_address()} ({why})"
    return Missing(
        f"{sentence}: check the connection, or {kind.other_way}", kind.missing_item(repo)
    )


def _ask_hub(kind: Kind, repo: str, revision: str | None) -> PinnedRepo:
    """Ask the hub for the commit of a revision, and the names of its files.

    Args:
        kind: The kind of the repository.
        repo: "owner/name", or "owner/name@branch".
        revision: A commit or branch; None for the branch in `repo`, else the default one.

    Raises:
        CannotRun: There is no connection, repository or revision.
    """
    repo, _, branch = repo.partition("@")  # "" where no branch is named
    if is_offline(kind):
        raise _unreachable_error(
            kind, repo, "HF_HUB_OFFLINE is set and its revision is not locked yet"
        )
    revision = revision or branch or None
    with _short_hub_errors(kind, repo, revision):
        hub = _import_huggingface_hub().HfApi(endpoint=hub_address())
        info = hub.repo_info(
            repo, repo_type=kind.repo_type, revision=revision, timeout=_TIMEOUT_SECONDS
        )
    commit = info.sha or ""
    if not _COMMIT_HASH.fullmatch(commit):
        raise CannotRun(
            f"{hub_address()} names no commit for the {kind.noun} '{repo}', so it cannot be pinned"
        )
    names = [entry.rfilename for entry in info.siblings or ()]
    return PinnedRepo(commit, names)


def pin_repo(kind: Kind, repo: str, revision: str | None) -> PinnedRepo:
    """Find the commit that a repository is pinned to, from its lock file or else from the hub.

    Also writes what the hub says to the lock file, unless `revision` is given.

    Args:
        kind: The kind of the repository.
        repo: "owner/name" or "owner/name@branch".
        revision: A commit that the settings name, None for none.

    Raises:
        CannotRun: No connection or repository, a damaged lock file.
    """
    locked = _read_lock_file(kind, repo)
    if locked is not None and revision in (None, locked.commit):
        return locked
    pinned = _ask_hub(kind, repo, revision)
    if revision is None:
        _write_lock_file(kind, repo, pinned)
    return pinned


def download(kind: Kind, repo: str, commit: str, name: str) -> Path:
    """Return the local copy of a file, downloaded unless it is cached.

    Args:
        kind: The kind of the repository.
        repo: "owner/name" or "owner/name@branch".
        commit: The commit of the repository.
        name: The file's name in it.

    Raises:
        CannotRun: It cannot be had.
    """
    repo = repo.partition("@")[0]  # the commit says more than the branch
    if printable(name) != name:  # a progress bar shows it
        raise CannotRun(
            f"the {kind.noun} '{repo}' has a file with control characters in its name: {name!r}"
        )
    with _short_hub_errors(kind, repo, commit), _unescaped_stderr():
        path = _import_huggingface_hub().hf_hub_download(
            repo,
            name,
            repo_type=kind.repo_type,
            revision=commit,
            endpoint=hub_address(),
            etag_timeout=_TIMEOUT_SECONDS,
            local_files_only=is_offline(kind),
        )
        return Path(path)


@contextmanager
def _unescaped_stderr() -> Iterator[None]:
    """In the block, let sys.stderr pass control characters, for a library's progress bar.

    The caller checks that what the bar shows is harmless.
    """
    escaped_stderr = sys.stderr
    sys.stderr = unwrapped(escaped_stderr)
    try:
        yield
    finally:
        sys.stderr = escaped_stderr
