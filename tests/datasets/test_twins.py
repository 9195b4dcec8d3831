"""Open-domain questions come without documents: one made-up data set stands in for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.config.layers import Choices
from harness.config.yaml_tree import Raw
from harness.engine.plan import Plan, plan_choices
from harness.errors import HarnessError, UserError
from tests.datasets.support import write_lines


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method without a model, and no hub."""
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "echo.yaml").write_text("implementation: tests.cli.fakes:Echo\n")
    for name, value in {"HARNESS_CONFIGS": tmp_path, "HARNESS_HOME": tmp_path, "HF_HUB_OFFLINE": 1}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("harness.datasets.fallback._loaded", {})


def plan(dataset: str, *, data: str | None = None, require_full: bool = False, **sets: str) -> Plan:
    typed = {f"dataset.{key}": Raw(value) for key, value in sets.items()}
    said = Choices(method="echo", dataset=dataset, data=data, sets=typed, require_full=require_full, limit=2)
    return plan_choices(said)


@pytest.mark.parametrize("name", ["nq", "triviaqa", "popqa", "asqa", "ELI5"])
def test_the_twin_in_common(name: str) -> None:
    made = plan(name)
    assert (made.config.dataset.name, made.origins["dataset.name"]) == (
        "pocket/retrieved",
        f"stand-in for {name.lower()}",
    )
    assert all(len(example.question.document_ids) == 8 for example in made.dataset.examples)
    assert any("cannot be had" in warning and "pocket/retrieved" in warning for warning in made.warnings)


def test_what_is_set_for_it_is_set_for_its_twin() -> None:
    assert plan("nq", tokens="900").config.dataset.options["tokens"] == 900


def test_it_is_refused_where_it_must_not_stand_in(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="nq|FlashRAG"):
        plan("nq", require_full=True)
    rows = write_lines(tmp_path / "r.jsonl", [{"question": "Who?", "answer": ["Ada"]}])
    with pytest.raises(UserError, match="without retrieved documents"):
        plan("nq", data=str(rows))
    with pytest.raises(HarnessError):
        plan("longbench/triviaqa")
