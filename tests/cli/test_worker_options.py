"""`harness run --shard`, `--engine` and `harness merge` on the command line; Ray itself is in
tests/scale."""

import json
import sys
from pathlib import Path

import pytest

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
    assert (code, "/parts/1-of-2\n" in printed) == (0, True)
    code, printed = called(*ROW, "--limit", "4")
    assert (code, "first run: harness merge" in printed) == (2, True)
    code, printed = called("merge", "results", "--json")
    assert code == 0
    assert json.loads(printed.splitlines()[0])["summary"]["state"] == "interrupted"
    assert called(*ROW, "--limit", "4")[0] == 0
