"""Adapters: one base, switched per session; what is named wrongly is refused."""

import json
import shutil

import pytest

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm.load import load_model
from harness.llm.model_info import model_facts


def first_logprobs(model, adapter=None):
    with model.session(Meter(), adapter=adapter) as s:
        s.user("Where is the school of Mira Tal?")
        return s.score(" north of the old bridge")


def test_adapters_are_switched_per_session(tiny, tiny_folder, adapter_folder):
    plain = first_logprobs(tiny)
    model = load_model(ModelConfig(name="tiny", source=str(tiny_folder), adapters={"one": str(adapter_folder)}))
    assert "adapters" in model.capabilities
    with_one = first_logprobs(model, "one")
    assert max(abs(a - b) for a, b in zip(plain, with_one, strict=True)) > 1e-3
    assert first_logprobs(model) == pytest.approx(plain, abs=1e-5)
    assert first_logprobs(model, "one") == pytest.approx(with_one, abs=1e-5)
    with pytest.raises(CannotRun, match=r"has no adapter 'two' \(it has \['one'\]\)"):
        first_logprobs(model, "two")
    with pytest.raises(CannotRun, match="has no adapter 'one'"):
        first_logprobs(tiny, "one")


@pytest.mark.parametrize(
    ("trained", "told"),
    [
        ({"rows": 400, "methods": {"gist": 7, "pecan": 174}}, "the last course pecan 44 %, gist 2 % of the rows"),
        ({"rows": 400, "methods": {}}, None),
        ({"rows": 400, "methods": {"pecan": "174"}}, None),
        ({"rows": 0, "methods": {"pecan": 174}}, None),
        ([], None),
        (None, None),
    ],
)
def test_whose_prompts_an_adapter_was_trained_on_is_told(tiny_folder, adapter_folder, tmp_path, trained, told):
    folder = shutil.copytree(adapter_folder, tmp_path / "one")
    if trained is not None:
        (folder / "card.json").write_text(json.dumps({"trained": trained}))
    facts = model_facts(ModelConfig(name="tiny", source=str(tiny_folder), adapters={"one": str(folder)}))
    own = "the adapter 'one' of 'tiny' was trained on methods' own prompts, in "
    assert facts.warnings == ([own + told] if told else [])


def test_an_adapter_in_the_weights_without_a_card_is_told(tiny_folder, adapter_folder):
    (told,) = model_facts(ModelConfig(name="tiny", source=str(tiny_folder), adapter=str(adapter_folder))).warnings
    assert told == f"no card says what the adapter 'model.adapter' in '{adapter_folder}' was trained on"


def test_an_adapter_is_part_of_the_identity(tiny_folder, adapter_folder):
    config = ModelConfig(name="tiny", source=str(tiny_folder))
    assert model_facts(config).identity["adapters"] == {}
    more = config.model_copy(update={"adapters": {"one": str(adapter_folder)}})
    assert len(model_facts(more).identity["adapters"]["one"]) == 64
