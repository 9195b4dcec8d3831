"""What stands in for a data set that cannot be had: when, drawn with what was set, and what is an error instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness.datasets
from harness.config.layers import Choices
from harness.config.schema import DatasetConfig
from harness.config.yaml_tree import Raw
from harness.datasets.base import Dataset
from harness.engine.plan import Plan, plan_choices
from harness.errors import CannotRun, ConfigError, UserError
from tests.made_up import musique_rows, write_rows

FILES = {
    "methods/echo.yaml": (
        "implementation: tests.cli.fakes:Echo\nby_dataset: {musique: {k: 9}, pocket/hotpotqa: {k: 8}, hotpotqa: {k: 7}}\n"
    ),
    "train.yaml": "dataset: {name: musique, split: train}\n",
    "long.yaml": "dataset: {tokens: 900}\n",
}
TOLD = "no hub here; give the rows with --data"
REAL = harness.datasets.load


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped data sets, a method without a model, and no hub."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("HARNESS_CONFIGS", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    reach(monkeypatch, lambda config: "no hub here")


def reach(monkeypatch: pytest.MonkeyPatch, why: Callable[[DatasetConfig], str]) -> None:
    """From now on rows of the hub cannot be had, for the reason given, or are those of the twin ("")."""

    def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
        if config.hub is None or config.options or config.data is not None:
            return REAL(config, limit)
        if why(config):
            raise CannotRun(f"{why(config)}; give the rows with --data")
        options = {"kind": config.name, "tokens": 300}
        return REAL(config.model_copy(update={"format": "pocket", "hub": None, "subset": None, "options": options}))

    monkeypatch.setattr("harness.datasets.fallback._loaded", {})
    monkeypatch.setattr(harness.datasets, "load", load)


def plan(dataset: str | None = "musique", *files: str, **sets: str) -> Plan:
    typed = {f"dataset.{key.replace('__', '.')}": Raw(value) for key, value in sets.items()}
    return plan_choices(Choices(method="echo", dataset=dataset, sets=typed, files=files, limit=3))


def problems(dataset: str | None = "musique", *files: str, **sets: str) -> list[str]:
    with pytest.raises(UserError) as raised:
        plan(dataset, *files, **sets)
    return raised.value.problems if isinstance(raised.value, ConfigError) else [str(raised.value)]


@pytest.mark.parametrize(("name", "k"), [("musique", 9), ("MuSiQue", 9), ("hotpotqa", 8)])
def test_the_run_is_that_of_the_twin(name: str, k: int) -> None:
    stood_in, asked = plan(name), plan(f"pocket/{name}")
    assert stood_in.config == asked.config
    assert (stood_in.hash8, stood_in.folder) == (asked.hash8, asked.folder)
    assert stood_in.folder.startswith(f"pocket~{name.lower()}/echo--")
    assert stood_in.config.method.params["k"] == k
    assert len(stood_in.dataset) == 3
    assert {key for key in stood_in.origins if stood_in.origins[key] != asked.origins[key]} == {"dataset.name"}
    assert stood_in.origins["dataset.name"] == f"stand-in for {name.lower()}"
    (warning,) = stood_in.warnings
    assert warning.startswith(
        f"'{name.lower()}' cannot be had ({TOLD}); using the bundled sample 'pocket/{name.lower()}'"
    )
    assert asked.warnings == ()


@pytest.mark.parametrize(
    ("sets", "key", "value"),
    [
        ({"tokens": "400"}, "options.tokens", 400),
        ({"options__tokens": "400"}, "options.tokens", 400),
        ({"seed": "7"}, "options.seed", 7),
        ({"hops": "[2]"}, "options.hops", [2]),
        ({"questions": "2"}, "options.questions", 2),
        ({"instruction": "Say it."}, "instruction", "Say it."),
        ({"max_answer_tokens": "5"}, "max_answer_tokens", 5),
        ({"split": "train", "seed": "1000000"}, "split", "train"),
    ],
    ids=str,
)
def test_what_is_set_for_the_data_set_is_set_for_its_twin(sets: dict[str, str], key: str, value: Any) -> None:
    made = plan(**sets)
    assert made.config == plan("pocket/musique", **sets).config
    found: Any = made.config.dataset.model_dump()
    for part in key.split("."):
        found = found[part]
    assert found == value
    assert made.origins[f"dataset.{key}"] == "--set"


@pytest.mark.parametrize(
    ("sets", "reason"),
    [
        ({"split": "train"}, "dataset.seed: training has the seeds from 1,000,000 on"),
        ({"tokens": "3"}, "dataset.tokens: should be at least 200, is 3"),
        ({"subset": "full"}, "dataset.subset: 'pocket/musique' is made up, not read; leave it out"),
        ({"hub": "me/mine"}, "dataset.hub: 'pocket/musique' is made up"),
    ],
    ids=str,
)
def test_what_the_twin_cannot_do_is_an_error(sets: dict[str, str], reason: str) -> None:
    (problem,) = problems(**sets)
    assert problem.startswith(
        f"'musique' cannot be had ({TOLD}), and 'pocket/musique' cannot stand in for it as asked:"
    )
    assert reason in problem


def test_several_things_the_twin_cannot_do_are_told_together() -> None:
    assert len(problems(subset="full", revision="main")) == 2


def test_a_key_that_neither_has_is_told_as_without_a_twin() -> None:
    (problem,) = problems(tokns="400")
    assert problem.startswith("unknown key 'dataset.tokns' (--set)")


def test_options_of_the_twin_are_unknown_where_the_data_set_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    reach(monkeypatch, lambda config: "")
    assert plan().config.dataset.name == "musique"
    (problem,) = problems(tokens="400")
    assert problem.startswith("unknown key 'dataset.tokens' (--set)")
    (problem,) = problems(options__tokens="400")
    assert problem == "dataset.options: unknown key 'tokens'"


def test_what_a_file_says_of_the_data_set_by_name_is_not_said_of_its_twin() -> None:
    made = plan(None, "train.yaml")
    assert made.config.dataset.name == "pocket/musique"
    assert made.config.dataset.split == "validation"
    assert "train.yaml sets split of dataset 'musique'; not used, as 'pocket/musique' was chosen" in made.warnings


def test_what_a_file_says_of_any_data_set_holds() -> None:
    assert plan("pocket/musique", "long.yaml").config.dataset.options["tokens"] == 900
    (problem,) = problems("musique", "long.yaml")  # a file's options are checked against the data set that was named
    assert problem.startswith("unknown key 'dataset.tokens' (long.yaml)")


def test_rows_that_are_given_have_no_stand_in() -> None:
    (problem,) = problems(data="package:nowhere/rows.jsonl")
    assert problem == "dataset.data 'package:nowhere/rows.jsonl': there is no package 'nowhere'"


def test_a_data_set_that_is_made_up_has_no_stand_in() -> None:
    (problem,) = problems("pocket/musique", tokens="1000000000000")
    assert "would take about" in problem


def test_rows_that_have_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words in another folder, and a file that was mended, are other rows."""
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for number in (1, 2):
            rows = musique_rows(number)
            rows[0]["question"] = f"Who lives in {name}?"
            write_rows(Path("rows.jsonl"), rows)
            loaded = plan_choices(Choices(method="bm25", dataset="musique", data="rows.jsonl", model="random")).dataset
            found.append((loaded.examples[0].question.text, len(loaded.examples)))
    assert found == [(f"Who lives in {name}?", number) for name in "ab" for number in (1, 2)]
