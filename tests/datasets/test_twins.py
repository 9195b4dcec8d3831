"""Open-domain questions come without documents: one made-up data set stands in for all of them."""

import pytest

from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.errors import UserError
from tests.datasets.support import write_lines


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A method without a model, and no hub."""
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "echo.yaml").write_text("implementation: tests.cli.fakes:Echo\n")
    for name, value in {"HARNESS_CONFIGS": tmp_path, "HARNESS_HOME": tmp_path, "HF_HUB_OFFLINE": 1}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("harness.datasets.load_once._loaded", {})


def plan(dataset, *, data=None):
    return plan_choices(Choices(method="echo", dataset=dataset, data=data, limit=2))


@pytest.mark.parametrize(
    ("name", "twin"), [("musique", "pocket/musique"), ("nq", "pocket/retrieved"), ("ELI5", "pocket/retrieved")]
)
def test_made_up_questions_are_offered_where_the_hub_cannot_be_reached(name, twin):
    with pytest.raises(UserError, match=rf"made-up questions of its kind: --dataset {twin}$"):
        plan(name)


def test_none_are_offered_where_rows_are_given_or_there_are_none(tmp_path):
    rows = write_lines(tmp_path / "r.jsonl", [{"question": "Who?", "answer": ["Ada"]}])
    with pytest.raises(UserError, match="without retrieved documents"):
        plan("nq", data=str(rows))
    with pytest.raises(UserError, match="could not be fetched") as refused:
        plan("longbench/triviaqa")
    assert "made-up" not in str(refused.value)
