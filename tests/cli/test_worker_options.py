"""`harness run --shard`, `--engine` and `harness merge` on the command line: mistakes in one sentence, and one Ray run."""

import json
import sys
from pathlib import Path

import pytest

from harness.storage.json_lines import read_lines
from harness.storage.shard_files import parts_in

# A scripted model needs no torch, which each of the processes here would import.
ROW = ["run", "-m", "bm25", "-d", "pocket/musique", "--model", "scripted", "--mlflow", "off"]
ROW += ["--set", "dataset.tokens=300", "model.script=replies.yaml"]


@pytest.fixture
def called(tmp_path, monkeypatch, command):
    """Run a command in an empty folder; returns its exit code and all that it printed."""
    monkeypatch.chdir(tmp_path)
    Path("replies.yaml").write_text("replies: [{reply: 'an answer'}]\n")
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))

    def call(*words):
        code, out, err = command(*words)
        return code, out + err

    return call


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--shard", "5/4"], "--shard 5/4: should be K/N"),
        (["--engine", "rai"], "unknown engine 'rai'. Did you mean 'ray'?"),
        (["--engine", "ray", "--shard", "1/2"], "leave --shard out"),
        (["--workers", "2"], "--workers is for --engine ray"),
    ],
)
def test_mistakes(called, words, sentence):
    code, printed = called(*ROW, *words)
    assert code == 2, printed
    assert sentence in printed
    assert not list(Path().rglob("records.jsonl"))


def test_without_ray(called, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, printed = called(*ROW, "--engine", "ray")
    assert code == 2
    assert "needs Ray, which is not installed; pip install" in printed


def test_a_merge_by_hand(called):
    code, printed = called(*ROW, "--limit", "4", "--shard", "1/2")
    assert (code, ", shard 1\n" in printed) == (0, True)
    code, printed = called(*ROW, "--limit", "4")
    assert (code, "first run: harness merge" in printed) == (2, True)
    code, printed = called("merge", "results", "--json")
    assert code == 0
    assert json.loads(printed.splitlines()[0])["summary"]["state"] == "interrupted"
    assert called(*ROW, "--limit", "4")[0] == 0


def same_answers(alone, other):
    (path,) = Path(alone).rglob("records.jsonl")
    copy = Path(other) / path.relative_to(alone)
    kept = ("question_id", "prediction", "scores", "shown", "steps", "error")
    ours, theirs = ([[r[k] for k in kept] for r in read_lines(p, "question_id")] for p in (copy, path))
    assert ours == theirs
    assert not parts_in(copy.parent)


def test_a_row_over_ray_equals_that_of_one_process(called, monkeypatch):
    """The one test with a real cluster; faults are in tests/scale/test_schedule_shards.py."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")  # a socket's path has 107 bytes at most
    code, printed = called(*ROW, "--limit", "2", "--engine", "ray", "--workers", "1", "--out", "ray")
    assert code == 0, printed
    assert called(*ROW, "--limit", "2", "--out", "alone")[0] == 0
    same_answers("alone", "ray")
    assert (Path("ray") / "workers" / "worker-1.log").read_text().count(" answered") == 2
