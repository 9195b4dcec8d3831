"""A run folder or a configuration file from a stranger names code: nothing of it is imported."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import harness
from harness.config import registry
from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import UserError
from tests.made_up import musique_rows, write_rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run folder as `harness run` leaves it."""
    folder = tmp_path_factory.mktemp("stored")
    rows = write_rows(folder / "rows.jsonl", musique_rows(2))
    out = folder / "results"
    return Path(harness.run("closed-book", "musique", data=str(rows), model="random", mlflow="off", out=out).folder)


def hostile(stored, place, values):
    """A copy of the run whose run.yaml has other values."""
    folder = place / "results" / stored.parent.name / stored.name
    shutil.copytree(stored, folder)
    content = yaml.safe_load((folder / "run.yaml").read_text())
    for key, value in values.items():
        part, _, name = key.partition(".")
        content["config"].setdefault(part, {})[name] = value
    (folder / "run.yaml").write_text(yaml.safe_dump(content))
    return folder


def test_a_format_that_nobody_chose_is_not_loaded(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", musique_rows(1))
    fields = {"name": "x", "instruction": "Answer.", "max_answer_tokens": 4, "scorers": ("evidence_recall",)}
    config = DatasetConfig(format="os.path:join", data=str(rows), **fields)
    with pytest.raises(UserError, match=r"dataset.format names code \('os.path:join'\)"):
        load(config)


def test_the_loader_itself_refuses_too():
    with pytest.raises(UserError, match="code that nobody chose"):
        registry.load("subprocess:run")


def test_a_config_file_cannot_choose_code_but_the_command_line_can(tmp_path):
    from harness.config.layers import Choices
    from harness.config.resolve import resolve

    file = tmp_path / "received.yaml"
    file.write_text(
        "dataset: {name: musique, format: 'statistics:mean'}\nmodel: {name: random, trust_remote_code: true}\n"
    )
    problems = [str(p) for p in resolve(Choices(method="bm25", files=(str(file),))).problems]
    assert any("dataset.format names code ('statistics:mean')" in p for p in problems)
    assert any("model.trust_remote_code would execute code" in p for p in problems)
    sets = {"dataset.format": "statistics:mean", "model.trust_remote_code": True}
    agreed = [str(p) for p in resolve(Choices(method="bm25", files=(str(file),), sets=sets)).problems]
    assert not [p for p in agreed if "names code" in p or "would execute" in p]


KEYS = {"model.api_key_env": "SOME_SECRET", "model.base_url": "https://theirs.example/v1"}
BOTH = "model: {name: m, backend: endpoint, base_url: 'https://theirs.example/v1', api_key_env: SOME_SECRET}\n"


@pytest.mark.parametrize(
    ("content", "sets", "refused"),
    [
        (BOTH, {}, "model"),
        (BOTH, {"model.base_url": "https://mine.example/v1"}, "model"),
        (BOTH, {"model.api_key_env": "OTHER"}, "model"),
        (BOTH, KEYS, None),
        ("config: {" + BOTH.strip() + "}\norigins: {}\n", {}, "model"),
        ("model: {base_url: 'https://theirs.example/v1'}\n", {}, "model"),
        ("model: {api_key_env: SOME_SECRET}\n", {}, "model"),
        ("roles: {builder: {base_url: 'https://theirs.example/v1'}}\n", {}, "roles.builder"),
        ("roles: {builder: {name: endpoint, base_url: 'https://theirs.example/v1', api_key_env: SOME_SECRET}}\n", {},
         "roles.builder"),
        ("model: {timeout: 5}\n", {}, None),
    ],
)  # fmt: skip
def test_a_config_file_cannot_choose_which_variable_goes_to_which_server(tmp_path, monkeypatch, content, sets, refused):
    from harness.config.layers import Choices
    from harness.config.resolve import resolve

    (tmp_path / "models").mkdir()
    mine = "backend: endpoint\nbase_url: https://mine.example/v1\napi_key_env: MY_KEY\n"
    (tmp_path / "models" / "mine.yaml").write_text(mine)
    monkeypatch.setenv(registry.ENV, str(tmp_path))
    file = tmp_path / "received.yaml"
    file.write_text(content)
    choices = Choices(method="bm25", dataset="musique", files=(str(file),), sets=sets)
    if "name" not in content.partition("roles")[0]:
        choices = replace(choices, model="mine")
    problems = [str(p) for p in resolve(choices).problems if "environment variable" in str(p)]
    if refused is None:
        assert problems == []
    else:
        (problem,) = problems
        assert f"--set {refused}.api_key_env=NAME {refused}.base_url=URL" in problem
        assert "SOME_SECRET" not in problem


def test_a_preset_of_the_user_is_trusted_in_stored_runs(tmp_path, monkeypatch):
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "mine.yaml").write_text("format: mine:rows\nscorers: [mine:brevity]\n")
    assert not registry.is_trusted("mine:rows")
    monkeypatch.setenv(registry.ENV, str(tmp_path))
    assert registry.is_trusted("mine:rows")
    assert registry.is_trusted("mine:brevity")
    assert not registry.is_trusted("mine:other")


@pytest.mark.parametrize("place", ["", "results/run", "datasets/received"])
def test_a_run_folder_below_the_folder_of_ones_own_presets_names_nothing(tmp_path, monkeypatch, place):
    monkeypatch.setenv(registry.ENV, str(tmp_path))
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / "run.yaml").write_text(f"dataset: {{scorers: [theirs:brevity_{len(place)}]}}\n")
    (tmp_path / "mine.yaml").write_text("dataset: {scorers: [mine:short]}\n")
    assert registry.is_trusted("mine:short")
    assert not registry.is_trusted(f"theirs:brevity_{len(place)}")


@pytest.mark.parametrize(("reply", "code"), [("n\n", 2), ("", 2), ("y\n", 0)])
def test_score_trust_shows_the_code_and_asks(stored, tmp_path, monkeypatch, reply, code):
    name = f"brief_{code}{len(reply)}"
    (tmp_path / f"{name}.py").write_text("def brevity(prediction, references):\n    return 1.0\n")
    run = hostile(stored, tmp_path, {"dataset.scorers": [f"{name}:brevity"]})
    call = [sys.executable, "-m", "harness", "score", "--trust", str(run)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        call, input=reply, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == code, done.stderr
    assert f"dataset.scorers is the function {name}:brevity" in done.stderr
