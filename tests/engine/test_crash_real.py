"""kill -9 in the middle of a real run: PECAN with a small transformers model, killed while indexing and while answering.

After the same command has ended, every record equals that of a run nobody disturbed, seconds apart.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.storage.run_folder import read_run
from pocket.random_model import save
from tests.forked import Forked, start

# How many questions are on disk when the run is killed; the first kill falls into the building of the first index.
KILLS = (0, 2)
QUESTIONS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("killed")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    save(found / "small-random", num_key_value_heads=1, max_position_embeddings=2048, **sizes)
    return found


def finish(run: Runs) -> str:
    """Run the command to its end; returns its messages."""
    code, _, messages = run.start().end()
    assert code == 0, messages
    return messages


class Runs:
    """The same command again and again, with a cache and results of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.out, self.home, self.starts = folder, folder / name, folder / f"home-{name}", 0
        self.words = ["run", "--method", "pecan", "--dataset", "pocket/musique", "--limit", str(QUESTIONS)]
        self.words += ["--model", "small-random", "--profile", "pocket", "--mlflow", "off", "--out", str(self.out)]
        # Documents of a sixth of the default: most of the time went into long ones.
        self.words += ["--set", "model.window=2048", "method.reserve=48", "method.max_levels=2", "dataset.tokens=250"]

    def start(self) -> Forked:
        """Run it in a process of its own, which may be killed."""
        self.starts += 1
        env = {**os.environ, "HARNESS_HOME": str(self.home)}
        return start("harness.cli.main", self.words, self.folder, self.home.with_suffix(f".{self.starts}"), env)

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
        run.signal(signal.SIGKILL)
        assert run.end()[0] == -signal.SIGKILL
        yield done


def test_killed_runs_end_with_the_records_of_an_undisturbed_one(folder: Path) -> None:
    killed, whole = Runs(folder, "killed"), Runs(folder, "whole")
    counts = []
    for done in moments(killed):
        counts.append(killed.lines())
        if done == KILLS[-1]:  # what a power cut leaves: half a line, in both files
            for name in ("records.jsonl", "documents.jsonl"):
                path = killed.file(name)
                path.write_bytes(path.read_bytes()[:-30])
    assert counts[0] == 0
    assert max(counts) < QUESTIONS
    said = finish(killed)
    finish(whole)
    assert "records.jsonl: line" in said
    assert "was torn; repaired" in said
    records = whole.rows("records.jsonl")
    assert len(records) == QUESTIONS
    assert all(r["error"] is None and r["steps"] and r["usage"]["search"]["tokens_in"] for r in records)
    assert killed.rows("records.jsonl") == records
    # Built or found in the cache: the cost of an index is known either way, and counted once.
    documents = [[{**d, "status": ""} for d in runs.rows("documents.jsonl")] for runs in (killed, whole)]
    assert sorted(documents[0], key=lambda d: d["document_id"]) == sorted(documents[1], key=lambda d: d["document_id"])
    path = killed.file("records.jsonl")
    assert not list(path.parent.glob(".*"))
    states = [start["state"] for start in read_run(path.parent).manifest["starts"]]
    assert states == ["running"] * len(KILLS) + ["finished"]
