"""Two writers, a disk that fills, a folder that refuses. Kills: tests/security/test_faults.py."""

import errno
import fcntl
import json
import os
import resource
import socket

import pytest

from harness.errors import RunLocked, SaveError
from harness.storage.lock import FolderLock, process_start
from tests.engine.fakes import World, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

FOLDER = make_plan().folder


def test_two_writers_are_refused_and_a_dead_one_is_not_waited_for(tmp_path):
    (tmp_path / FOLDER).mkdir(parents=True)
    with FolderLock(tmp_path / FOLDER):
        left = (tmp_path / FOLDER / "lock").read_bytes()
        with pytest.raises(RunLocked, match=f"process {os.getpid()} on .* is writing the run folder"):
            go(make_plan(), tmp_path)
    (tmp_path / FOLDER / "lock").write_bytes(left)
    assert go(make_plan(), tmp_path).summary["n_total"] == 6


@pytest.mark.parametrize(
    ("holder", "refused"),
    [
        ({"pid": 2**22 + 5, "start": "1", "host": None}, False),  # no such process
        ({"pid": os.getppid(), "start": "1", "host": None}, False),  # its number was given to a later process
        ({"pid": os.getppid(), "start": process_start(os.getppid()), "host": None}, True),
        ({"pid": 1, "start": "1", "host": "elsewhere"}, True),
        ('{"pid', False),
    ],
)
def test_without_kernel_locks_a_lock_file_counts_while_its_process_lives(holder, refused, tmp_path, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    if isinstance(holder, dict):
        holder = json.dumps({**holder, "host": holder["host"] or socket.gethostname()})
    (tmp_path / "lock").write_text(holder)
    if refused:
        with pytest.raises(RunLocked), FolderLock(tmp_path):
            pass
        assert (tmp_path / "lock").read_text() == holder
        return
    with FolderLock(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    assert not (tmp_path / "lock").exists()


def test_a_disk_that_fills_loses_nothing(tmp_path):
    """A limit on file sizes is a full disk to the writer: the write stops half-way through a line."""
    plan = make_plan(World(questions=110, documents=5).dataset())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, limits[1]))
    try:
        with pytest.raises(SaveError, match=r"cannot write .*run the same command again"):
            go(plan, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    records = tmp_path / FOLDER / "records.jsonl"
    before = records.read_bytes()
    assert (before[-1:], len(before) > 60_000) == (b"\n", True)
    assert not (tmp_path / FOLDER / "lock").exists()
    go(plan, tmp_path)
    assert records.read_bytes().startswith(before)
    assert records.read_bytes().count(b"\n") == 110
