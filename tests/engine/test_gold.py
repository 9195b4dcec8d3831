"""Gold never reaches a method: poisoned answers, and poisoned supporting marks, change no
implementation's predictions."""

from dataclasses import replace

import pytest

from harness.config import presets
from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import HarnessError
from harness.models import Session
from harness.storage.json_lines import read_lines
from harness.storage.run_files import REQUESTS
from harness.storage.run_folder import read_run
from harness.types import Gold, Support
from methods.rlm.repl import confinement_problem
from tests import random_model
from tests.families import first_presets

MADE_UP = [name for name in presets.names("datasets") if name.startswith("pocket/")]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where the random model is built once, of one layer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(random_model.SIZES, "num_hidden_layers", 1)
        yield tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _short_replies(home, monkeypatch):
    """The random model never ends: noise of a few tokens says as much as noise of hundreds."""
    write = Session.write
    monkeypatch.setattr(
        Session, "write", lambda s, most, *more, **how: write(s, min(most, 5), *more, **how)
    )
    monkeypatch.setenv("HARNESS_HOME", str(home))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def poisoned(example, evidence):
    """Other answers, and other supporting marks unless they are what the method is shown."""
    gold = example.gold
    marks = gold.supporting if evidence else (Support(example.question.document_ids[0], 0, 40),)
    return replace(example, gold=Gold(("POISON",), marks, dict.fromkeys(gold.extra, "POISON")))


def outcome(plan, out, monkeypatch):
    """What was answered, and all that was sent to models."""
    # A cache of its own for each run, or an index built with clean gold would hide a leak into the
    # index.
    monkeypatch.setenv("HARNESS_CACHE", str(out / "cache"))
    folder = run(plan, out, command=["harness"], progress=Silent()).folder
    answers = [(r.prediction, r.shown, r.stop_reason, r.error) for r in read_run(folder).records]
    return answers, list(read_lines(folder / REQUESTS, "kind"))


@pytest.mark.parametrize(("method", "dataset"), first_presets(MADE_UP))
def test_poisoned_gold_changes_no_prediction(method, dataset, tmp_path, monkeypatch):
    method = {"longrefiner": "longrefiner-no-adapters"}.get(
        method, method
    )  # the random model has no adapters
    if method == "oracle-evidence":
        dataset = "pocket/hotpotqa"  # the first question of others marks no evidence
    sets: dict[str, object] = {"dataset.tokens": 200}
    if method == "rlm":
        if problem := confinement_problem():
            pytest.skip(problem)
        sets["method.allow_code"] = True
    choices = Choices(method, dataset, model="random", profile="pocket", limit=1, sets=sets)
    try:
        plan = plan_choices(choices)
    except HarnessError as e:
        if not str(e).startswith("not run: weights: "):
            raise
        pytest.skip(str(e))
    scorers = plan.config.dataset.model_copy(update={"scorers": ("longbench.qa_f1_score",)})
    plan = replace(
        plan, config=plan.config.model_copy(update={"dataset": scorers, "keep_prompts": True})
    )
    examples = tuple(
        poisoned(example, plan.config.method.view == "evidence")
        for example in plan.dataset.examples
    )
    clean = outcome(plan, tmp_path / "clean", monkeypatch)
    assert [error for *_, error in clean[0]] == [None]
    assert clean[1], "prompts are compared, too"
    poison = replace(plan, dataset=replace(plan.dataset, examples=examples))
    assert outcome(poison, tmp_path / "poisoned", monkeypatch) == clean
