"""Every preset answers through the command line: on one made-up data set, and some on the twin of
each that is fetched.

The list is read from the program: a preset that is added is run, and one that cannot answer fails
here.
"""

import json
import re
from pathlib import Path

import pytest

from harness import models
from harness.config import presets

# No reranker's weights come with a package.
RERANKED = {"bce-reranker", "bge-reranker", "llmlingua-2", "llmlingua-2-longbench"}
# They run a model's code, which has to be allowed (tests/cli/test_rlm.py).
CODE = {"rlm", "rlm-depth-2"}
# They read reports that a model writes, and ask nothing where it wrote none that can be read.
WRITTEN = {"graphrag-global", "graphrag-global-c0"}
# Their package is not a dependency (packages/memory/tests).
NOT_INSTALLED = {"mem0"}
# One has all presets; on every data set stand those that between them use every kind of view and
# reading.
ONE = "pocket/musique"
EVERYWHERE = {"pecan", "full-context", "bm25", "closed-book", "oracle-evidence"}
TWINS = [
    twin
    for name in presets.names("datasets")
    if (twin := presets.synthetic_counterpart(name)) is not None
]


def parts(size: int = 24) -> list[tuple[str, list[str]]]:
    """(data set, presets): at most `size` presets a command, so that the workers share them."""
    found = []
    for dataset in TWINS:
        methods = [
            name
            for name in presets.names("methods")
            if (dataset == ONE or name in EVERYWHERE)
            and not source(name)
            and name not in CODE | NOT_INSTALLED
        ]
        found += [(dataset, methods[i : i + size]) for i in range(0, len(methods), size)]
    return found


def preset_of(run: str) -> str:
    """The preset of a run folder."""
    return Path(run).name.partition("--")[0]


def source(method: str) -> str:
    """The preset that a preset takes a number from on every data set, "" for none."""
    params = {}
    for _, layer in presets.read("methods", method):  # what is extended comes last
        if "by_dataset" not in layer:
            params = (layer.get("params") or {}) | params
    for value in params.values():
        if str(value).startswith("from:"):
            return str(value).removeprefix("from:")
    return ""


@pytest.mark.parametrize(
    ("dataset", "methods"),
    parts(),
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_every_preset_answers(dataset, methods, command, tmp_path, monkeypatch):
    """In one process, which loads torch and the model once; tests/test_wheel.py runs the installed
    command in its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    questions = (
        1 if dataset == ONE else 2
    )  # Qasper's first marks no evidence, which one preset shows
    decoding = models.Decoding  # replies of full length take half of the time
    monkeypatch.setattr(
        models,
        "Decoding",
        lambda max_tokens, *args, **named: decoding(min(max_tokens, 4), *args, **named),
    )
    code, out, err = command(
        "run", "--method", ",".join(methods), "--dataset", dataset, "--profile", "pocket",
        "--limit", str(questions), "--parallel", "2", "--mlflow", "off", "--json", "--set", "dataset.tokens=200",
    )  # fmt: skip
    # A row whose weights are not on this machine says so and costs the exit code 3; all others run.
    missing = set(re.findall(r"^(?:error:)? +(\S+) on \S+: not run: weights: ", err, re.MULTILINE))
    assert missing <= RERANKED, err
    assert code == (3 if missing else 0), err
    methods = [method for method in methods if method not in missing]
    assert err.count("pocket-llama answers, which is trained on pocket/* only") == 1
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == len(methods)
    for line in lines:
        summary = line["summary"]
        assert (summary["n_total"], summary["n_scored"], summary["n_failed"]) == (
            questions,
            questions,
            0,
        )
        records = [
            json.loads(r)
            for r in (tmp_path / line["run"] / "records.jsonl").read_text().splitlines()
        ]
        for record in records:
            assert record["error"] is None
            counted = sum(phase["flops"]["full"] for phase in record["usage"].values())
            assert counted > 0 or preset_of(line["run"]) in WRITTEN
            assert set(record["scores"]) >= {"longbench.qa_f1_score", "flashrag.acc"}
    # A run that asked its reader nothing is compared with --force alone.
    asked = [line["run"] for line in lines if preset_of(line["run"]) not in WRITTEN]
    code, table, err = command("compare", *asked)
    assert code == 0, err
    assert all(method in table for method in methods if method not in WRITTEN)
    if not {"pecan", "garlic"} & {*methods}:
        return
    searched = next(
        line["run"] for line in lines if "/pecan--" in line["run"] or "/garlic--" in line["run"]
    )
    code, steps, err = command("trace", searched, records[0]["question_id"])
    assert code == 0, err
    assert "start" in steps


@pytest.mark.parametrize("method", [name for name in presets.names("methods") if source(name)])
def test_a_preset_that_takes_a_number_from_a_run_answers(method, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    words = ["--dataset", ONE, "--profile", "pocket", "--limit", "1", "--mlflow", "off", "--json"]
    words += ["--set", "dataset.tokens=200"]
    code, out, err = command("run", "--method", source(method), *words)
    assert code == 0, err
    folder = json.loads(out)["run"]
    code, out, err = command("run", "--method", method, *words, f"method.max_nodes=from:{folder}")
    assert code == 0, err
    assert json.loads(out)["summary"]["n_scored"] == 1
