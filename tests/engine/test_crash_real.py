"""kill -9 in the middle of a real run: PECAN with a small transformers model, killed while indexing and while answering.

After the same command has ended, every record equals that of a run nobody disturbed, seconds apart.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.storage.run_folder import read_run
from pocket.random_model import save

ROOT = Path(__file__).resolve().parents[2]
# How many questions are on disk when the run is killed; the first kill falls into the building of the first index.
KILLS = (0, 2)
QUESTIONS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("killed")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    save(found / "small-random", num_key_value_heads=1, max_position_embeddings=2048, **sizes)
    return found


class Runs:
    """The same command again and again, with a cache and results of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.out = folder, folder / name
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self.env["HARNESS_HOME"] = str(folder / f"home-{name}")

    def start(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "harness", "run", "--method", "pecan", "--dataset", "pocket/musique"]
        words += ["--model", "small-random", "--limit", str(QUESTIONS), "--profile", "pocket", "--mlflow", "off"]
        words += ["--out", str(self.out), "--set", "model.window=2048", "method.reserve=48", "method.max_levels=2"]
        return subprocess.Popen(
            words, cwd=self.folder, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def finish(self, run: subprocess.Popen[str] | None = None) -> str:
        run = run or self.start()
        said = run.communicate(timeout=120)[1]
        assert run.returncode == 0, said
        return said

    def file(self, name: str) -> Path | None:
        return next(self.out.glob(f"*/*/{name}"), None)

    def lines(self) -> int:
        path = self.file("records.jsonl")
        return path.read_bytes().count(b"\n") if path else 0

    def parts(self) -> list[Path]:
        return [*(self.folder / f"home-{self.out.name}").rglob("*.parts/*/data.json")]

    def rows(self, name: str) -> list[dict[str, Any]]:
        path = self.file(name)
        assert path is not None
        return [timeless(json.loads(line)) for line in path.read_text().splitlines()]


def timeless(value: Any) -> Any:
    """The value without its seconds, wherever they are."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k != "seconds"}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def moments(runs: Runs) -> Iterator[int]:
    """Kill the run once at each moment of KILLS."""
    draw = random.Random(3)
    for done in KILLS:
        run = runs.start()
        end = time.monotonic() + 60
        while runs.lines() < done or (not done and not runs.parts()):
            assert run.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.1))
        run.kill()
        run.communicate()
        yield done


def test_killed_runs_end_with_the_records_of_an_undisturbed_one(folder: Path) -> None:
    killed, whole = Runs(folder, "killed"), Runs(folder, "whole")
    undisturbed = whole.start()
    counts = []
    for done in moments(killed):
        counts.append(killed.lines())
        if done == KILLS[-1]:  # what a power cut leaves: half a line, in both files
            for name in ("records.jsonl", "documents.jsonl"):
                path = killed.file(name)
                assert path is not None
                path.write_bytes(path.read_bytes()[:-30])
    assert counts[0] == 0
    assert max(counts) < QUESTIONS
    said = killed.finish()
    assert "records.jsonl: line" in said
    assert "was torn; repaired" in said
    whole.finish(undisturbed)
    records = whole.rows("records.jsonl")
    assert len(records) == QUESTIONS
    assert all(r["error"] is None and r["steps"] and r["usage"]["search"]["tokens_in"] for r in records)
    assert killed.rows("records.jsonl") == records
    # Built or found in the cache: the cost of an index is known either way, and counted once.
    documents = [[{**d, "status": ""} for d in runs.rows("documents.jsonl")] for runs in (killed, whole)]
    assert sorted(documents[0], key=lambda d: d["document_id"]) == sorted(documents[1], key=lambda d: d["document_id"])
    path = killed.file("records.jsonl")
    assert path is not None
    assert not list(path.parent.glob(".*"))
    states = [start["state"] for start in read_run(path.parent).manifest["starts"]]
    assert states == ["running"] * len(KILLS) + ["finished"]
