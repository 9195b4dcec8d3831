"""The adapters that come with the embedded model fit its weights and the prompts of their method,
and help."""

import json

import pytest
from pocket.card import EMBEDDED, NAME

from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.engine.completed_method import make_method
from harness.llm import adapters
from harness.llm.model_info import hash_files

FOLDER = EMBEDDED.parent / "adapters"


@pytest.mark.parametrize("task", ["analysis", "structuring", "selection"])
def test_an_adapter_fits_and_its_task_is_done_better_with_it(task):
    card = json.loads((FOLDER / task / "card.json").read_text(encoding="utf-8"))
    base = adapters.Base(NAME, EMBEDDED, {"files": hash_files(EMBEDDED)})
    assert not list(adapters.check_adapter(task, FOLDER / task, base)), (
        "make adapters trains them again"
    )
    part = resolve_method(Choices(method=card["method"], profile="pocket"))
    method = make_method(part.value, part.origins)
    assert adapters.prompt_mismatch(task, FOLDER / task, task, method.prompts()) is None
    first = card["measures"]["rows"][0]
    assert first["after"]["mean"] > first["before"]["mean"] or first["before"]["mean"] == 1
    assert first["floor"] is None or first["after"]["low"] > first["floor"]


def test_they_are_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.safetensors")) <= 1024**2
