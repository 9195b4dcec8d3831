"""One function from a config to a model."""

from __future__ import annotations

from collections import OrderedDict

from harness.config.schema import ModelConfig, canonical
from harness.errors import CannotRun
from harness.llm.model_facts import ModelFacts
from harness.llm.model_info import local_folder, model_facts
from harness.models import LanguageModel

# The rows of a suite use one or two models; loading an 8B model again for every row takes minutes.
_KEPT = 2
_loaded: OrderedDict[str, LanguageModel] = OrderedDict()


def load_model(config: ModelConfig) -> LanguageModel:
    """Load the model that `config` names; seconds to minutes, nothing when it is one of the last two loaded.

    Raises CannotRun with one sentence.
    """
    facts = model_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    if config.backend in ("scripted", "endpoint"):
        return _load(config, facts)  # a run uses up a table; each run checks that its server answers
    key = config.model_dump_json() + canonical(facts.identity)
    if key not in _loaded:
        while len(_loaded) >= _KEPT:
            _loaded.popitem(last=False)
        _loaded[key] = _load(config, facts)
    _loaded.move_to_end(key)
    model = _loaded[key]
    model.first_prompts = {}
    return model


def unload() -> None:
    """Forget the models that are kept, so that their memory is free for others."""
    _loaded.clear()


def _load(config: ModelConfig, facts: ModelFacts) -> LanguageModel:
    if config.backend == "scripted":
        from harness.llm.scripted import ScriptedModel

        return ScriptedModel.from_config(config)
    if config.backend == "endpoint":
        from harness.llm.endpoint import EndpointModel

        return EndpointModel(config, facts)
    from harness.llm.hf import HFModel

    folder, _ = local_folder(config)
    return HFModel(config, facts, str(folder))
