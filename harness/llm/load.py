"""One function from a config to a model."""

from __future__ import annotations

from harness.config import ModelConfig
from harness.errors import CannotRun
from harness.llm.base import LanguageModel
from harness.llm.facts import local_folder, model_facts

__all__ = ["load_model"]


def load_model(config: ModelConfig) -> LanguageModel:
    """Load the model that `config` names; seconds to minutes. Raises CannotRun with one sentence."""
    facts = model_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    if config.backend == "scripted":
        from harness.llm.scripted import ScriptedModel

        return ScriptedModel.from_config(config)
    from harness.llm.hf import HFModel

    folder, _ = local_folder(config)
    return HFModel(config, facts, str(folder))
