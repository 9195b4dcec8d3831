"""The files of a run folder: their names, the parts of a run, and the lock of the one who writes.

results/<dataset>/<preset>--<model>--<hash8>/
    run.yaml          {config: the RunConfig, origins: where each value came from}, the home folder as ~
    manifest.json     what it ran on (harness/engine/manifest.py)
    records.jsonl     one StoredRecord a line, on disk before the next question starts
    answered.jsonl    answers that are not scored yet, as records without scores; deleted when the run ends
    documents.jsonl   one index a line: document_id, key, status, usage
    requests.jsonl    what was sent to models, and their replies (harness/storage/kept_requests.py)
    texts.jsonl       the long ones of the texts that readers were shown (harness/storage/record_texts.py)
    summary.json      the numbers (harness/storage/run_summary.py)
    lock              names the last writer; the kernel's lock on it dies with its process
    parts/3-of-16/    the same files, written by one of several processes, until harness merge

The one writer is run_store.py, the readers have run_folder.py.
"""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from filelock import FileLock, Timeout

from harness.errors import DataError, RunLocked, UserError
from harness.storage.files import check_writable, delete_drafts, read_json_or_empty, save_error
from harness.storage.json_values import JsonValues
from harness.storage.manifest_file import RunManifest, Shard
from harness.storage.summary_file import RunSummary

RECORDS, DOCUMENTS, UNSCORED = "records.jsonl", "documents.jsonl", "answered.jsonl"
TEXTS, REQUESTS = "texts.jsonl", "requests.jsonl"
RUN, MANIFEST, SUMMARY, LOCK = "run.yaml", "manifest.json", "summary.json", "lock"
BATCHES, PARTS = "batches.json", "parts"


@dataclass(frozen=True)
class Part:
    """One of several parts of a run, each asked by a process of its own.

    Attributes:
        number: Its number, from 1.
        n_parts: How many parts there are.
        n_questions: How many questions all parts ask together.
        question_ids: The questions of this part.
    """

    number: int
    n_parts: int
    n_questions: int
    question_ids: frozenset[str]

    def folder(self, run_folder: Path) -> Path:
        """Where the part's files are in the folder of the run: RUN/parts/3-of-16."""
        return run_folder / PARTS / f"{self.number}-of-{self.n_parts}"

    @property
    def shard(self) -> Shard:
        """The part as its manifest.json writes it."""
        return Shard(number=self.number, of=self.n_parts, asked=self.n_questions)


def part_folders(run_folder: Path) -> list[Path]:
    """The folders of a run's parts that are not merged yet, in the order of their numbers."""

    def part_number(folder: Path) -> int:
        """The number of the part in a folder: "3-of-16" -> 3."""
        return int(folder.name.partition("-")[0])

    return sorted((run_folder / PARTS).glob("*-of-*"), key=part_number)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the writer's lock of a run folder, or of a part, inside the block.

    The lock file names this process until another one holds the lock.

    Raises:
        RunLocked: Another process holds it.
        SaveError: The lock file cannot be written.
    """
    path = folder / LOCK
    with contextlib.ExitStack() as stack:
        with _lock_errors(folder):
            stack.enter_context(FileLock(path, thread_local=False).acquire(timeout=0))
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield


@contextlib.contextmanager
def _lock_errors(folder: Path) -> Iterator[None]:
    """Turn the errors of taking the lock of a run folder into RunLocked and SaveError."""
    path = folder / LOCK
    try:
        yield
    except Timeout:
        writer = path.read_text(encoding="utf-8") or "another process"
        raise RunLocked(
            f"{writer} is writing the run folder {folder}; wait for it or stop it."
        ) from None
    except OSError as error:
        raise save_error(path, error) from error


@contextlib.contextmanager
def locked_folder(run_folder: Path, part: Part | None) -> Iterator[Path]:
    """Hold the writer's lock of a run, or of a part of it, and yield the folder of its files.

    The folder is made if need be, and temporary files of a killed writer are deleted.

    Args:
        run_folder: The folder of the run.
        part: The part that is written; None for the whole run.

    Raises:
        RunLocked: Another process writes it, or the whole run while a part is to be written.
        SaveError: It cannot be written.
        UserError: The whole run is to be written and has parts that are not merged, whose
            questions would be asked again.
    """
    if part is None:
        check_writable(run_folder)
        with folder_lock(run_folder):
            _check_parts_are_merged(run_folder)
            delete_drafts(run_folder)
            yield run_folder
        return
    folder = part.folder(run_folder)
    _check_not_being_written(run_folder)  # a writer of the whole run would ask the same questions
    check_writable(folder)
    with folder_lock(folder):
        _check_not_being_written(run_folder)  # one may have come before this part's lock was held
        delete_drafts(folder)
        yield folder


def _check_parts_are_merged(run_folder: Path) -> None:
    """Raise UserError where a run has parts that are not merged."""
    names = [part.name for part in part_folders(run_folder)]
    if not names:
        return
    listed = ", ".join(names[:5])
    if len(names) > 5:
        listed += " ..."
    raise UserError(
        f"{run_folder} holds shards that are not merged ({listed}); first run: harness merge {run_folder}"
    )


def _check_not_being_written(run_folder: Path) -> None:
    """Raise RunLocked where another process is writing the run folder.

    The lock is taken for a moment; it is waited for a second, as others that check hold it for a
    moment, too.
    """
    path = run_folder / LOCK
    if not path.exists():
        return
    with _lock_errors(run_folder), FileLock(path, thread_local=False).acquire(timeout=1):
        pass


T = TypeVar("T", bound=JsonValues)


def read_summary(folder: Path) -> RunSummary:
    """Read the summary.json of a run folder; a summary without values where there is none yet.

    Raises DataError for a damaged file.
    """
    return _read_values(folder / SUMMARY, RunSummary)


def read_manifest(folder: Path) -> RunManifest:
    """Read the manifest.json of a run folder or a part; a manifest without values where there is
    none yet. Raises DataError for a damaged file.
    """
    return _read_values(folder / MANIFEST, RunManifest)


def _read_values(path: Path, form: type[T]) -> T:
    """Read the JSON object in a file as a value of type `form`; one without values where there is
    no file. Raises DataError for a damaged file.
    """
    with _value_error_as_data_error(path), os_error_as_data_error(path):
        return form.from_json(read_json_or_empty(path))


@contextlib.contextmanager
def _value_error_as_data_error(path: Path) -> Iterator[None]:
    """Turn a ValueError in the block into a DataError about the file `path`."""
    try:
        yield
    except ValueError as error:
        key = getattr(error, "key", None)
        problem = "a wrong value"
        if key is None:
            problem = "not valid JSON"
        raise DataError(
            path,
            line=None,
            field=key,
            problem=f"{problem} ({error}); delete it and run the same command again",
        ) from None


@contextlib.contextmanager
def os_error_as_data_error(path: Path) -> Iterator[None]:
    """Turn an OSError in the block into a DataError about the file that the error names, or else
    `path`.
    """
    try:
        yield
    except OSError as error:
        why = f"cannot be read ({error.strerror or error})"
        raise DataError.of_file(Path(error.filename or path), why) from None


class UsedSettings(NamedTuple):
    """Settings of a run, and what set each: path of a value ("method.params.k") -> "--set"."""

    values: dict[str, object]
    origins: dict[str, str]


def used_settings(
    config: Mapping[str, object], origins: Mapping[str, str], path: str = ""
) -> UsedSettings:
    """Leave out the settings that are null or empty because nothing set them.

    {"seed": 1, "limit": None}, {"seed": "--set", "limit": "default"}
        -> UsedSettings({"seed": 1}, {"seed": "--set"})

    Args:
        config: Settings by name; a value may be a mapping of further settings.
        origins: Path of a value ("method.params.k") -> what set it.
        path: The path of `config` in the whole configuration; "" for all of it.
    """
    set_settings = UsedSettings({}, {})
    for key, value in config.items():
        setting_path = key
        if path:
            setting_path = f"{path}.{key}"
        own_origins: dict[str, str] = {}
        if setting_path in origins:
            own_origins[setting_path] = origins[setting_path]
        if isinstance(value, dict):
            inner = used_settings(value, origins, setting_path)
            value = inner.values
            own_origins |= inner.origins
        is_set = origins.get(setting_path, "default") != "default"
        if is_set or value not in (None, {}):
            set_settings.values[key] = value
            set_settings.origins.update(own_origins)
    return set_settings
