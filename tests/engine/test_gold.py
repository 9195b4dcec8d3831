"""Gold never reaches a method: poisoned answers, and poisoned supporting marks, change no implementation's predictions."""

from dataclasses import replace

import pytest

from harness.config import presets
from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import HarnessError
from harness.models import Session
from harness.storage.run_folder import read_run
from harness.types import Gold, Support
from tests.families import cells

VIEWS = {"full-context", "oracle-evidence"}
MADE_UP = [name for name in presets.names("datasets") if name.startswith("pocket/")]


def poisoned(gold, document_id, support):
    marks = (Support(document_id, 0, 40),) if support else gold.supporting
    return Gold(("POISON",), marks, dict.fromkeys(gold.extra, "POISON"))


@pytest.fixture(autouse=True)
def _short_replies(monkeypatch):
    """The random model never ends: noise of a few tokens says as much as noise of hundreds."""
    write = Session.write
    monkeypatch.setattr(Session, "write", lambda s, most, *more, **how: write(s, min(most, 12), *more, **how))


def predictions(plan, out, monkeypatch):
    # A cache of its own for each run, or an index built with clean gold would hide a leak into the index.
    monkeypatch.setenv("HARNESS_CACHE", str(out / "cache"))
    result = run(plan, out, command=["harness"], progress=Silent())
    return {r["question_id"]: (r["prediction"], r["shown"], r["stop_reason"]) for r in read_run(result.folder).records}


# A data set's rows and views are alike for every method: the two views meet each of them, the other methods one in turn.
@pytest.mark.parametrize(("method", "dataset"), cells(MADE_UP, every=False, everywhere=VIEWS))
def test_poisoned_gold_changes_no_prediction(method, dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    questions = 2 if method in VIEWS else 1
    said = {"profile": "pocket", "limit": questions, "sets": {"dataset.tokens": 200}, "model": "random"}
    method = {"longrefiner": "longrefiner-no-adapters"}.get(method, method)  # the random model has no adapters
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    try:
        plan = plan_choices(Choices(method=method, dataset=dataset, **said))
    except HarnessError as e:
        if not str(e).startswith("not run: weights: "):
            raise
        pytest.skip(str(e))
    marks_too = plan.config.method.view != "evidence"
    asked = [(e, poisoned(e.gold, e.question.document_ids[0], marks_too)) for e in plan.dataset.examples]
    examples = tuple(replace(example, gold=gold) for example, gold in asked)
    scorers = plan.config.dataset.model_copy(update={"scorers": ("longbench.qa_f1_score",)})
    plan = replace(plan, config=plan.config.model_copy(update={"dataset": scorers}))
    clean = predictions(plan, tmp_path / "clean", monkeypatch)
    poison = replace(plan, dataset=replace(plan.dataset, examples=examples))
    assert predictions(poison, tmp_path / "poisoned", monkeypatch) == clean
    assert len(clean) == questions
