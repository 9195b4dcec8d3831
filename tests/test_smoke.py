"""Every preset on the made-up twin of every data set that is fetched, through the command line, in a fresh process.

The list is read from the program: a preset that is added is run, and one that cannot answer two questions fails here.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.config import presets
from tests.families import cells

# No reranker's weights come with a package.
RERANKED = {"bce-reranker", "bge-reranker", "llmlingua-2", "llmlingua-2-longbench"}
ROOT = Path(__file__).resolve().parent.parent
TWINS = [twin for name in presets.names("datasets") if (twin := presets.twin(name)) is not None]


def harness(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    whole = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **env}
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, cwd=cwd, env=whole, capture_output=True, text=True, timeout=900, check=False)


def listed_methods(cwd: Path) -> list[str]:
    found = harness("list", "methods", "--json", cwd=cwd)
    assert found.returncode == 0, found.stderr
    return sorted(json.loads(found.stdout))


def parts(size: int = 24) -> list[tuple[str, list[str]]]:
    """(data set, presets): at most `size` presets a command, so that the workers share them."""
    found = []
    for dataset in TWINS:
        methods = [method for method, on in cells(TWINS) if on == dataset]
        for i in range(0, len(methods), size):
            some = methods[i : i + size]
            # A row that takes a number from another one runs with it.
            found.append((dataset, list(dict.fromkeys([*some, *(s for m in some for s in sources(m))]))))
    return found


def sources(method: str) -> list[str]:
    """The presets that a preset takes numbers from on every data set."""
    layers = [layer for _, layer in presets.read("methods", method) if "by_dataset" not in layer]
    params = {key: value for layer in layers for key, value in (layer.get("params") or {}).items()}
    return [value.removeprefix("from:") for value in params.values() if str(value).startswith("from:")]


def test_the_program_lists_every_preset(tmp_path):
    assert listed_methods(tmp_path) == presets.names("methods")


@pytest.mark.parametrize(
    ("dataset", "methods"), parts(), ids=lambda value: value if isinstance(value, str) else value[0]
)
def test_every_preset_answers_two_questions(dataset, methods, tmp_path):
    ran = harness(
        "run", "--method", ",".join(methods), "--dataset", dataset, "--profile", "pocket",
        "--limit", "2", "--mlflow", "off", "--json", "--set", "dataset.tokens=500",
        cwd=tmp_path,
    )  # fmt: skip
    # A row whose weights are not on this machine says so and costs the exit code 3; all others run.
    missing = set(re.findall(r"^error: (\S+) on \S+: not run: weights: ", ran.stderr, re.MULTILINE))
    assert missing <= RERANKED, ran.stderr
    assert ran.returncode == (3 if missing else 0), ran.stderr
    methods = [method for method in methods if method not in missing]
    assert ran.stderr.count("pocket-llama answers, the embedded default") == 1
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(lines) == len(methods)
    for line in lines:
        summary = line["summary"]
        assert (summary["n_total"], summary["n_scored"], summary["n_failed"]) == (2, 2, 0), line["run"]
        records = [json.loads(r) for r in (tmp_path / line["run"] / "records.jsonl").read_text().splitlines()]
        for record in records:
            assert record["error"] is None
            assert sum(phase["flops"]["full"] for phase in record["usage"].values()) > 0
            assert set(record["scores"]) >= {"longbench.qa_f1_score", "flashrag.acc"}
    table = harness("compare", *(line["run"] for line in lines), cwd=tmp_path)
    assert table.returncode == 0, table.stderr
    assert all(method in table.stdout for method in methods)
    if not {"pecan", "garlic"} & {*methods}:
        return
    searched = next(line["run"] for line in lines if "/pecan--" in line["run"] or "/garlic--" in line["run"])
    trace = harness("trace", searched, records[0]["question_id"], cwd=tmp_path)
    assert trace.returncode == 0, trace.stderr
    assert "start" in trace.stdout


def test_a_search_is_among_the_rows_of_every_data_set():
    assert {dataset for dataset, methods in parts() if {"pecan", "garlic"} & {*methods}} == {*TWINS}
