"""Two writers, a disk that fills, a folder that refuses. Kills: tests/security/test_faults.py."""

import os
import resource

import pytest

from harness.errors import RunLocked, SaveError
from harness.storage.lock import FolderLock
from tests.engine.fakes import World, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

FOLDER = make_plan().folder


def test_two_writers_are_refused_and_a_dead_one_is_not_waited_for(tmp_path):
    (tmp_path / FOLDER).mkdir(parents=True)
    refused = pytest.raises(RunLocked, match=f"process {os.getpid()} on .* is writing the run folder")
    with FolderLock(tmp_path / FOLDER), refused:
        go(make_plan(), tmp_path)
    assert go(make_plan(), tmp_path).summary["n_total"] == 6


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
    with FolderLock(tmp_path / FOLDER):
        pass
    go(plan, tmp_path)
    assert records.read_bytes().startswith(before)
    assert records.read_bytes().count(b"\n") == 110
