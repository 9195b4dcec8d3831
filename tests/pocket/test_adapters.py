"""The adapters that come with the package are those of the weights that come with it, and do more than the base."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.config import presets
from harness.config.schema import ModelConfig
from harness.llm.adapters import furnished
from harness.llm.model_info import model_facts
from pocket.cli.check import preset_digests

TASKS = ("analysis", "structuring", "selection")


def model() -> ModelConfig:
    (_, values), *_ = presets.read("models", "pocket-llama")
    return furnished(ModelConfig(**values), TASKS)


def card(task: str) -> dict[str, Any]:
    folder = model().adapters.get(task)
    if folder is None:
        pytest.skip("no adapters come with this package; make adapters trains them")
    found: dict[str, Any] = json.loads((Path(folder) / "card.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("task", TASKS)
def test_the_shipped_adapter_is_of_the_shipped_weights_and_prompts(task: str) -> None:
    told = card(task)
    assert told["prompts"] == {task: preset_digests("longrefiner")[task]}, "prompts changed: make adapters"
    facts = model_facts(model())
    assert (facts.problems, facts.warnings) == ([], []), "make adapters trains them again"
    assert set(facts.identity["adapters"]) == {*TASKS}


def test_the_shipped_adapters_are_small() -> None:
    card("analysis")
    size = sum(p.stat().st_size for f in model().adapters.values() for p in Path(f).glob("*.safetensors"))
    assert size <= 1024**2


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_done_better_with_its_adapter(task: str) -> None:
    first = card(task)["measures"]["rows"][0]
    assert first["after"]["mean"] > first["before"]["mean"] or first["before"]["mean"] == 1
    assert first["floor"] is None or first["after"]["low"] > first["floor"]
