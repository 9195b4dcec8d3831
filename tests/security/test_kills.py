"""kill -9 at seeded moments: answers that were paid for are on disk, scored or not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.storage.files import read_lines
from harness.storage.run_folder import read_run
from tests.engine.fakes import comparable, make_plan

ROOT = Path(__file__).resolve().parents[2]
FOLDER = make_plan().folder
QUESTIONS, KILLS = 60, 4


def _start(out: Path, parallel: int, seconds: float) -> subprocess.Popen[bytes]:
    env = {**os.environ, "HARNESS_CACHE": str(out / "cache"), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [str(out), str(out / "log"), str(QUESTIONS), str(parallel), str(seconds)]
    return subprocess.Popen([sys.executable, "-m", "tests.security.paid_run", *words], env=env, cwd=ROOT)


def _paid(out: Path) -> list[str]:
    return (out / "log").read_text().split() if (out / "log").exists() else []


def _on_disk(out: Path) -> set[str]:
    files = [out / FOLDER / name for name in ("records.jsonl", "answered.jsonl")]
    return {row["question_id"] for file in files for row in read_lines(file, "question_id")}


def _records(out: Path) -> list[dict[str, Any]]:
    return [comparable(row) for row in read_run(out / FOLDER).records]


def lost(out: Path, draw: random.Random, parallel: int) -> list[int]:
    """Kill the run KILLS times; how many answers were paid for and not on disk, at each kill."""
    found = []
    for _ in range(KILLS):
        before = len(_paid(out))
        run = _start(out, parallel, 0.05)
        while len(_paid(out)) == before and run.poll() is None:
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.2))
        run.kill()
        run.wait()
        assert run.returncode == -9, "it ended before it was killed"
        found.append(len(set(_paid(out)) - _on_disk(out)))
    return found


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_kill_loses_only_an_answer_that_is_just_being_written(parallel: int, tmp_path: Path) -> None:
    found = lost(tmp_path, random.Random(parallel), parallel)
    assert sum(found) <= KILLS, f"answers lost by each kill: {found}"
    assert _start(tmp_path, parallel, 0).wait() == 0
    paid = _paid(tmp_path)
    assert len(paid) - len(set(paid)) <= sum(found), "an answer on disk was asked for again"
    whole = tmp_path / "whole"
    whole.mkdir()
    assert _start(whole, 1, 0).wait() == 0
    assert _records(tmp_path) == _records(whole)
    assert not (tmp_path / FOLDER / "answered.jsonl").exists()
