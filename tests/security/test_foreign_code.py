"""A run folder or a configuration file from a stranger names code: nothing of it is imported."""

import shutil
import sys
from pathlib import Path

import pytest
import yaml

import harness
from harness.cli.main import main
from harness.config import registry
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.errors import UserError, call_noting_problem
from tests.made_up import musique_rows, write_rows


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run folder as `harness run` leaves it."""
    folder = tmp_path_factory.mktemp("stored")
    rows = write_rows(folder / "rows.jsonl", musique_rows(2))
    out = folder / "results"
    return Path(
        harness.run(
            "closed-book", "musique", data=str(rows), model="random", mlflow="off", out=out
        ).folder
    )


def test_a_format_that_nobody_chose_is_not_loaded(tmp_path):
    rows = write_rows(tmp_path / "rows.jsonl", musique_rows(1))
    fields = {
        "name": "x",
        "instruction": "Answer.",
        "max_answer_tokens": 4,
        "scorers": ("evidence_recall",),
    }
    config = DatasetConfig(format="os.path:join", data=str(rows), **fields)
    with pytest.raises(UserError, match="'os.path:join' is code that nobody chose"):
        load(config)


def test_a_stored_configuration_cannot_choose_code_but_the_user_can(tmp_path):
    def problems(text, target, sets=None):
        (tmp_path / "f.yaml").write_text(text)
        choices = Choices(method="bm25", files=(str(tmp_path / "f.yaml"),), sets=sets or {})
        mistakes = []
        call_noting_problem(mistakes, resolve, choices)
        found = [sentence for mistake in mistakes for sentence in mistake.sentences]
        try:
            registry.load(target)
        except UserError as error:
            found.append(str(error))
        return [
            sentence
            for sentence in found
            if "is code that" in sentence or "could run code" in sentence
        ]

    file = "{dataset: {name: musique, format: 'statistics:%s'}, model: {name: random, trust_remote_code: true}}"
    stored = f"config: {file}\norigins: {{}}\n"
    assert len(problems(stored % "mean", "statistics:mean")) == 2
    sets = {"dataset.format": "statistics:mode", "model.trust_remote_code": True}
    assert problems(stored % "mode", "statistics:mode", sets) == []
    assert problems(file % "median", "statistics:median") == []


KEYS = {"model.api_key_env": "SOME_SECRET", "model.base_url": "https://theirs.example/v1"}
BOTH = "model: {name: m, backend: endpoint, base_url: 'https://theirs.example/v1', api_key_env: SOME_SECRET}\n"


@pytest.mark.parametrize(
    ("content", "sets", "refused"),
    [
        (BOTH, {}, True),
        (BOTH, {"model.base_url": "https://mine.example/v1"}, True),
        (BOTH, KEYS, False),
        ("model: {base_url: 'https://theirs.example/v1'}\n", {}, True),
        (
            "model: {base_url: 'https://theirs.example/v1'}\n",
            {"model.base_url": "https://theirs.example/v1"},
            False,
        ),
        (
            "roles: {builder: {api_key_env: SOME_SECRET}}\n",
            {"model.api_key_env": "SOME_SECRET"},
            True,
        ),
    ],
)
def test_a_stored_configuration_cannot_send_a_variable_to_a_server(
    tmp_path, content, sets, refused
):
    file = tmp_path / "run.yaml"
    file.write_text("config: {" + content.strip() + "}\norigins: {}\n")
    choices = Choices(
        method="bm25", dataset="musique", model="endpoint", files=(str(file),), sets=sets
    )
    mistakes = []
    call_noting_problem(mistakes, resolve, choices)
    problems = " ".join(map(str, mistakes))
    assert ("could run code of others or send them a key of yours" in problems) == refused
    assert "SOME_SECRET" not in problems


def test_a_module_of_the_folder_of_ones_own_presets_is_the_users(tmp_path, monkeypatch):
    """Its presets name it, so stored runs may; a module of a run folder below it is not."""
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "theirs.py").write_text("")
    with pytest.raises(UserError, match="is code that"):
        registry.check_trusted("mine:rows")
    monkeypatch.setenv(registry.CONFIGS_VARIABLE, str(tmp_path))
    registry.check_trusted("mine:rows")
    with pytest.raises(UserError, match="is code that"):
        registry.check_trusted("results.theirs:rows")


def test_score_imports_only_scorers_that_the_command_names(stored, tmp_path, monkeypatch, capsys):
    (tmp_path / "brief.py").write_text("def brevity(prediction, references):\n    return 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    run = shutil.copytree(stored, tmp_path / "results" / stored.parent.name / stored.name)
    content = yaml.safe_load((run / "run.yaml").read_text())
    content["config"]["dataset"]["scorers"] = ["brief:brevity"]
    (run / "run.yaml").write_text(yaml.safe_dump(content))
    for more, code in (([], 2), (["--scorers", "brief:brevity"], 0)):
        with pytest.raises(SystemExit) as ended:
            main(["score", str(run), *more])
        assert (ended.value.code, "brief" in sys.modules) == (code, code == 0)
    assert "'brief:brevity' is code that" in capsys.readouterr().err
    sys.modules.pop("brief")


HELD = {"name": "m", "backend": "hf", "package": "sentinel.inner", "package_path": "m"}


@pytest.mark.parametrize(
    "theirs",
    [
        {"dataset": {"data": "package:sentinel.inner/rows.jsonl"}},
        {"model": HELD, "roles": {"builder": HELD}},
    ],
)
@pytest.mark.parametrize(
    "verb",
    [
        "report {root}",
        "score {run}",
        "validate --config {run}/run.yaml",
        "run --config {run}/run.yaml --mlflow off",
    ],
)
def test_no_verb_imports_a_package_that_a_received_run_names(
    verb, theirs, stored, tmp_path, monkeypatch, capsys
):
    (tmp_path / "sentinel" / "inner").mkdir(parents=True)
    for package in ("sentinel", "sentinel/inner"):
        (tmp_path / package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(stored, tmp_path / "results" / stored.parent.name / stored.name)
    content = yaml.safe_load((run / "run.yaml").read_text())
    for part, named in theirs.items():
        content["config"][part] = {**content["config"].get(part, {}), **named}
    (run / "run.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(SystemExit) as ended:
        main(verb.format(root=tmp_path / "results", run=run).split())
    assert ended.value.code in (0, 2, 3)
    assert sys.modules.pop("sentinel", None) is None
