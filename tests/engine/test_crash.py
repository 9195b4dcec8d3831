"""Faults driven for real, in processes of their own: kill -9, two writers, a disk that fills, a folder that refuses."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import RunLocked, SaveError
from harness.storage.lock import FolderLock, process_start
from harness.storage.run_folder import read_run
from tests.engine.fakes import World, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = make_plan().folder


def start(
    out: Path, questions: int = 30, seconds: float = 0.02, setup: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    """Start tests/engine/slow_run.py with a cache of its own."""
    env = {**os.environ, "HARNESS_CACHE": str(out / "cache"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "tests.engine.slow_run", str(out), str(questions), str(seconds)]
    return subprocess.Popen(words, env=env, cwd=ROOT, preexec_fn=setup, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def lines(out: Path, name: str = "records.jsonl") -> int:
    path = out / FOLDER / name
    return path.read_bytes().count(b"\n") if path.exists() else 0


def locked_by(out: Path) -> str:
    path = out / FOLDER / "lock"
    return path.read_text() if path.exists() else ""


def rows(out: Path) -> list[dict[str, Any]]:
    return [comparable(json.loads(line)) for line in (out / FOLDER / "records.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("undisturbed")
    assert start(out, seconds=0).wait() == 0
    return rows(out)


@pytest.mark.parametrize("seed", [1, 2])
def test_after_five_kills_the_records_equal_an_undisturbed_run(
    seed: int, tmp_path: Path, undisturbed: list[dict[str, Any]]
) -> None:
    draw = random.Random(seed)
    killed = 0
    while killed < 5:
        before = lines(tmp_path), lines(tmp_path, "documents.jsonl")
        run = start(tmp_path, seconds=0.04)
        # From the moment it holds the lock: a kill while Python still starts would test nothing.
        wait_for(lambda sign=f'"pid": {run.pid},': sign in locked_by(tmp_path))
        time.sleep(draw.uniform(0, 0.25))
        run.kill()
        run.communicate()
        assert run.returncode == -9
        killed += 1
        assert (lines(tmp_path), lines(tmp_path, "documents.jsonl")) >= before, "something on disk was lost"
    last = start(tmp_path, seconds=0)
    assert last.wait() == 0
    assert rows(tmp_path) == undisturbed
    stored = read_run(tmp_path / FOLDER)
    assert (stored.summary["n_total"], stored.summary["n_failed"]) == (30, 4)
    assert len({d["document_id"] for d in stored.documents}) == len(stored.documents) == 5
    assert not list((tmp_path / FOLDER).glob(".*"))


def test_two_writers_are_refused_and_a_dead_one_is_not_waited_for(tmp_path: Path) -> None:
    first = start(tmp_path, seconds=0.05)
    wait_for(lambda: lines(tmp_path) > 0)
    with pytest.raises(RunLocked, match=f"process {first.pid} on .* is writing the run folder"):
        go(make_plan(), tmp_path)
    first.kill()
    first.communicate()
    assert (tmp_path / FOLDER / "lock").exists(), "a killed run leaves its lock file"
    assert start(tmp_path, seconds=0).wait() == 0
    assert lines(tmp_path) == 30


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
def test_without_kernel_locks_a_lock_file_counts_while_its_process_lives(
    holder: Any, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> None:
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


def test_a_disk_that_fills_loses_nothing(tmp_path: Path) -> None:
    """A limit on file sizes is a full disk to the writer: the write stops half-way through a line."""

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))

    run = start(tmp_path, questions=110, seconds=0, setup=small_disk)
    _, said = run.communicate()
    assert run.returncode == 3, said
    assert said.startswith("SaveError: cannot write ")
    assert "run the same command again" in said
    before = (tmp_path / FOLDER / "records.jsonl").read_bytes()
    assert before.endswith(b"\n")
    assert len(before) > 60_000
    assert not (tmp_path / FOLDER / "lock").exists()
    assert start(tmp_path, questions=110, seconds=0).wait() == 0
    after = (tmp_path / FOLDER / "records.jsonl").read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == 110


def test_a_folder_that_cannot_be_written_is_said_before_any_question(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    plan = make_plan(World(questions=1).dataset())
    with pytest.raises(SaveError, match=r"cannot write .*--out"):
        go(plan, tmp_path / "file")
    assert plan.method.seen == []  # type: ignore[attr-defined]


def test_a_read_only_folder() -> None:
    out = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    try:
        out.chmod(0o555)
        if root:  # root may write anywhere: be nobody for a moment
            os.seteuid(65534)
        with pytest.raises(SaveError, match=r"Permission denied; choose a folder you may write to with --out"):
            go(make_plan(), out)
    finally:
        if root:
            os.seteuid(0)
        out.chmod(0o755)
        shutil.rmtree(out)
