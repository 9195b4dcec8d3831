"""The README is true: its examples run as they are printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.storage.run_folder import read_run
from tests.test_smoke import harness as run_harness

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


def block(language: str, contains: str) -> str:
    (found,) = [text for kind, text in BLOCKS if kind == language and contains in text]
    return found


@pytest.fixture
def own(tmp_path):
    files = {
        "lead.py": block("python", "class Lead"),
        "mine.py": block("python", "def parse_row"),
        "methods/lead.yaml": block("yaml", "lead:Lead"),
        "datasets/mine.yaml": block("yaml", "mine:parse_row"),
        "rows.jsonl": json.dumps({"key": "k", "q": "Who?", "title": "T", "text": "Ann did it.", "a": "Ann"}),
        "model.yaml": 'replies: [{reply: "Ann"}]',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_own_method_data_set_and_scorer(own):
    (line,) = re.findall(r"HARNESS_CONFIGS=\. harness (run .*)", README)
    scripted = ["--model", "scripted", "--set", "model.script=model.yaml", "--mlflow", "off", "--json"]
    ran = run_harness(*line.split(), *scripted, cwd=own, HARNESS_CONFIGS=".")
    assert ran.returncode == 0, ran.stderr
    run = read_run(own / json.loads(ran.stdout)["run"])
    assert run.records[0]["prediction"] == "Ann"
    assert run.records[0]["scores"] == {"longbench.qa_f1_score": 1.0, "evidence_recall": 1.0, "mine:brevity": 1.0}
    assert re.fullmatch(r"1 \(file [0-9a-f]{8}\)", run.manifest["scorers"]["mine:brevity"])


@pytest.mark.parametrize(
    ("scorer", "message"),
    [("mine:brev", "Did you mean 'brevity'"), ("nowhere:f", "no module 'nowhere'"), ("mine:1x", "not of the form")],
)
def test_own_scorer_that_is_not_there(own, scorer, message):
    choices = ["--method", "lead", "--dataset", "mine", "--data", "rows.jsonl"]
    ran = run_harness("validate", *choices, "--set", f"dataset.scorers=[{scorer}]", cwd=own, HARNESS_CONFIGS=".")
    assert (ran.returncode, message in ran.stderr) == (2, True), ran.stderr


def test_python_examples(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    examples = [
        text for kind, text in BLOCKS if (kind == "python" and "import harness\n" in text) or "import pandas" in text
    ]
    assert len(examples) == 2
    exec("\n".join(examples), {})
    printed = capsys.readouterr().out
    assert "evidence_recall" in printed


@pytest.mark.parametrize(
    "line", [x.strip() for x in re.findall(r"^    (harness (?:list|show|validate)[^#\n]*)", README, re.M)]
)
def test_lines_that_need_no_model(line, tmp_path):
    ran = run_harness(*line.split()[1:], cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
