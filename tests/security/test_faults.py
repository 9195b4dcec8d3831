"""A disk that fails, or a kill, at every file operation of a short run: the same command then ends
with equal records.

Kills at every third operation of one process, and at every twelfth of two shards with their merge
(HARNESS_EVERY_OPERATION=1: at all).
"""

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import scorers
from harness.engine.progress import Silent
from harness.errors import SaveError
from harness.llm import backend
from harness.scale.merge import merge
from harness.scale.shard import ShardNumber, run_shard
from harness.storage.json_lines import read_lines
from harness.storage.run_folder import read_run
from tests.engine import fakes
from tests.engine.fakes import Quiet, World, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = ("open", "write", "fsync", "replace", "ftruncate", "rename", "mkdir", "unlink")


def _plan(out):
    """Three questions, each of which leaves a byte in OUT.paid as it is answered."""

    def pay():
        with out.with_suffix(".paid").open("a") as file:
            file.write("x")

    data = World(questions=3, documents=2, words=("a", "bug", "b"), filler=" more" * 100).dataset()
    return make_plan(data, Quiet(Quiet.Config(), pause=pay))


def _run(out):
    return go(_plan(out), out).folder


def _shards(out):
    """Both shards, the last of which merges; what a killed merge left is merged."""
    for number in (1, 2):
        folder = run_shard(
            _plan(out),
            out,
            ShardNumber(number, 2),
            progress=Silent(),
            command=["harness", "run"],
        ).result.folder
    merge(folder, lambda _: None)
    return folder


RUNS = {"one process": (_run, 3), "shards": (_shards, 12)}
if os.environ.get("HARNESS_EVERY_OPERATION"):
    RUNS = {how: (run, 1) for how, (run, _) in RUNS.items()}


def _patched(patch, root, fault):
    """Call fault(n, name) before the n-th file operation; operations on files outside of `root` are
    not counted."""
    count = [0]

    def wrapped(name):
        real = getattr(os, name)

        def operation(*given, **more):
            if name == "open" and not given[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return real(*given, **more)  # a file that is read
            place = (
                given[0]
                if isinstance(given[0], (str, bytes, os.PathLike))
                else f"/proc/self/fd/{given[0]}"
            )
            if Path(os.path.realpath(os.fsdecode(place))).is_relative_to(root):
                count[0] += 1
                fault(count[0], name)
            return real(*given, **more)

        return operation

    for name in OPERATIONS:
        patch.setattr(os, name, wrapped(name))
    return count


def _operations(tmp_path, run=_run):
    """How many operations a run takes, and its records and indexes."""
    with pytest.MonkeyPatch.context() as patch:
        count = _patched(patch, tmp_path.resolve(), lambda *_: None)
        patch.setenv("HARNESS_CACHE", str(tmp_path / "first"))
        folder = run(tmp_path / "whole")
    return count[0], _records(folder)


def _records(folder):
    stored = read_run(folder)
    assert {key for row in stored.records for p in row.shown for key in p} >= {"text_sha256"}
    indexes = [(line.document_id, line.status) for line in stored.index_lines]
    return [
        *({**comparable(row), "texts": stored.texts([row])} for row in stored.records),
        *indexes,
    ]


def test_after_a_disk_error_at_any_operation_the_same_command_ends_alike(tmp_path):
    total, whole = _operations(tmp_path)
    assert total > 40
    for n in range(1, total + 1):
        out = tmp_path / str(n)

        def fail(at, _, n=n):
            if at == n:
                code = (errno.ENOSPC, errno.EIO)[n % 2]
                raise OSError(code, os.strerror(code))

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HARNESS_CACHE", str(out / "cache"))
            _patched(patch, tmp_path.resolve(), fail)
            with contextlib.suppress(SaveError):  # any other error fails the test
                _run(out)
            folder = _run(out)
        _check(folder, out, whole, f"operation {n} of {total}")


def _check(folder, out, whole, where):
    assert _records(folder) == whole, where
    assert not [*folder.glob(".*"), *folder.glob("answered.jsonl"), *folder.glob("parts")], where
    assert len(out.with_suffix(".paid").read_text()) <= 4, (
        f"{where}: more than the answer being written was lost"
    )


def killed(root, total, how):
    """Kill a run at each of its operations, in the folders root/1, root/2, ... Raises
    AssertionError if one goes on."""
    run, step = RUNS[how]
    os.fsync = lambda fd: None  # as in the tests
    backend.load_model = fakes.FakeModel
    os.environ["HARNESS_CACHE"] = str(root / "before")
    run(root / "imports")  # once, not in each child
    for n in range(1, total + 1, step):
        out = root / str(n)

        def kill(at, _, n=n):
            if at == n:
                os._exit(9)

        child = os.fork()
        if child == 0:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HARNESS_CACHE", str(out / "cache"))
                _patched(patch, root.resolve(), kill)
                run(out)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, (
            f"operation {n} was not reached"
        )


@pytest.mark.parametrize("how", RUNS)
def test_after_a_kill_at_any_operation_the_same_command_ends_alike(how, tmp_path):
    run, step = RUNS[how]
    total, whole = _operations(tmp_path, run)
    # Forking a process of all tests takes 0.1 s.
    code = f"from pathlib import Path; from tests.security.test_faults import killed; killed(Path({str(tmp_path)!r}), {total}, {how!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    for n in range(1, total + 1, step):
        out = tmp_path / str(n)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HARNESS_CACHE", str(out / "cache"))
            folder = run(out)
        _check(folder, out, whole, f"operation {n} of {total}")


def test_an_answer_is_on_disk_before_it_is_scored(tmp_path, monkeypatch):
    """So a kill while a scorer takes its time loses none."""
    judge, lost = scorers.score_answer, list[int]()

    def looking(*given):
        paid = len((tmp_path / "out.paid").read_text())
        kept = [
            path
            for name in ("records.jsonl", "answered.jsonl")
            for path in (tmp_path / "out").rglob(name)
        ]
        lost.append(
            paid
            - len({row["question_id"] for path in kept for row in read_lines(path, "question_id")})
        )
        return judge(*given)

    monkeypatch.setattr(scorers, "score_answer", looking)
    _run(tmp_path / "out")
    assert set(lost) == {0}
