"""Load the model that a config names, and keep the last two that were loaded."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from harness.config.schema import SAMPLING, ModelConfig, canonical
from harness.errors import CannotRun, import_error_as_cannot_run
from harness.llm.model_info import local_folder, model_facts
from harness.models import LanguageModel

if TYPE_CHECKING:
    from harness.llm.hf_session import HFModel

_MAX_KEPT = 2  # the rows of a suite use one or two models; loading an 8B model again for every row takes minutes
_loaded: OrderedDict[str, HFModel] = OrderedDict()


def load_model(config: ModelConfig) -> LanguageModel:
    """Load the model of `config`, in seconds to minutes; the last two are kept. Raises CannotRun with one sentence."""
    facts = model_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    if config.backend == "scripted":  # not kept: a run uses up a table, and each run checks that its server answers
        from harness.llm.scripted import ScriptedModel

        return ScriptedModel.from_config(config)
    if config.backend == "endpoint":
        from harness.llm.endpoint import EndpointModel

        return EndpointModel(config, facts)
    key = config.model_dump_json(exclude={*SAMPLING}) + canonical(facts.identity)
    if key not in _loaded:
        while len(_loaded) >= _MAX_KEPT:
            _loaded.popitem(last=False)
        folder, _ = local_folder(config)
        with import_error_as_cannot_run():
            from harness.llm.hf_session import HFModel

            _loaded[key] = HFModel(config, facts, str(folder))
    _loaded.move_to_end(key)
    _loaded[key].forget()
    return _loaded[key]


def unload() -> None:
    """Forget the models that are kept, so that their memory is free for others."""
    _loaded.clear()
