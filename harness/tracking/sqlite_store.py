"""A sqlite store of MLflow's that is whole: its tables are there, or the file is not.

MLflow makes 60 tables one after the other, for seconds. A process that is killed meanwhile, or a
disk that is full, leaves a file that MLflow can neither use nor complete. So a new store is made
under another name, and one that was left half made and holds nothing is made anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.storage.files import delete_drafts, draft_path
from harness.tracking.store import sqlite_path, sqlite_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient


@contextlib.contextmanager
def sqlite_lock(uri: str) -> Iterator[None]:
    """Hold a lock on the folder of a sqlite store in the block; for another store nothing is locked.

    Its tables are created inside: two processes at once would break it. The folder of a path with
    a quoted "%" or "?", which MLflow makes beside the right one, is removed after the block.
    """
    path = sqlite_path(uri)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    folder_handle = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder_handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder_handle)
    folder_as_quoted = Path(uri.partition(":///")[2]).parent
    if folder_as_quoted != path.parent:
        with contextlib.suppress(OSError):
            os.removedirs(folder_as_quoted)


def open_store(uri: str) -> MlflowClient:
    """Open a store and return MLflow's client of it; called inside `sqlite_lock`.

    A sqlite file that is missing is made; one that is half made and holds nothing is made anew.
    Temporary files of killed processes are deleted. Raises OSError, sqlite3.Error and what MLflow
    raises.
    """
    path = sqlite_path(uri)
    if path is None:
        return _open_client(uri)
    delete_drafts(path.parent, path.name)
    if not path.exists():
        with _new_store(path) as new_file:
            os.replace(new_file, path)
        return _open_client(uri)
    try:
        return _open_client(uri)
    except Exception:
        if not _holds_nothing(path):
            raise
    with _new_store(path) as new_file:
        _copy_content(new_file, path)
    return _open_client(uri)


def _open_client(uri: str) -> MlflowClient:
    """Make a client of MLflow that has reached its store once, which also makes missing tables."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    client.search_experiments(max_results=1)
    return client


@contextlib.contextmanager
def _new_store(path: Path) -> Iterator[Path]:
    """Make a whole, empty store beside `path` and yield its file; deleted after
    the block unless it was moved.
    """
    draft = draft_path(path)
    try:
        make_store(draft)
        yield draft
    finally:
        for file in path.parent.glob(f"{draft.name}*"):  # sqlite's journal too
            file.unlink(missing_ok=True)


def make_store(path: Path) -> None:
    """Let MLflow make its tables in a new sqlite file."""
    _open_client(sqlite_uri(path))


def _holds_nothing(path: Path) -> bool:
    """Whether a sqlite file has no run, and no experiment but the one that MLflow makes itself.

    False for a file that sqlite cannot read.
    """
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
            queries = [query for table, query in _CONTENT_QUERIES if table in tables]
            return all(database.execute(query).fetchone() is None for query in queries)
    except sqlite3.Error:
        return False


_CONTENT_QUERIES = (
    ("runs", "SELECT run_uuid FROM runs LIMIT 1"),
    ("experiments", "SELECT name FROM experiments WHERE name != 'Default' LIMIT 1"),
)


def _copy_content(source: Path, target: Path) -> None:
    """Replace all that a sqlite file (`target`) holds in one
    transaction; who has it open sees the new.
    """
    with (
        contextlib.closing(sqlite3.connect(source)) as source_database,
        contextlib.closing(sqlite3.connect(target)) as target_database,
    ):
        source_database.backup(target_database)
