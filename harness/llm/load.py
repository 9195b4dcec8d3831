"""The back ends for weights in a folder or on the hub, run by transformers, and for servers."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from harness.config.schema import SAMPLING, ModelConfig, canonical_json
from harness.errors import import_error_as_cannot_run
from harness.llm.backend import Backend, ModelFacts
from harness.llm.endpoint import EndpointModel
from harness.llm.endpoint_info import endpoint_facts
from harness.llm.model_info import find_or_download, template_problem, transformers_facts
from harness.models import LanguageModel
from harness.parallel.phases import phase

if TYPE_CHECKING:
    from harness.llm.hf_session import HFModel

_MAX_LOADED = 2
"""The runs of a suite use one or two models; loading an 8B model again for every run takes
minutes."""
_loaded: OrderedDict[str, HFModel] = OrderedDict()
"""The settings of a model, without sampling -> the model, that of the latest run last."""


class Transformers(Backend):
    """Weights in a folder or on the hub, run by transformers; the last two models stay loaded."""

    def facts(self, config: ModelConfig) -> ModelFacts:
        """What config.json, the hashes of the weights and the tokenizer say of the model. Raises
        CannotRun where a file cannot be read."""
        return transformers_facts(config)

    def load(self, config: ModelConfig, facts: ModelFacts) -> LanguageModel:
        """Load the model, or return the loaded one without anything of an earlier run; the last two
        models stay loaded in the process. Files that are not here are downloaded. Raises CannotRun
        where it cannot be loaded.

        Settings that differ in sampling alone share a model: it has no sampling of its own, each
        question's `tools.model()` brings it (harness/engine/tools.py).
        """
        settings_without_sampling = config.model_dump_json(exclude={*SAMPLING})
        key = settings_without_sampling + canonical_json(facts.identity)
        if key not in _loaded:
            while len(_loaded) >= _MAX_LOADED:
                _loaded.popitem(last=False)  # that of the oldest run
            folder = find_or_download(config).folder
            with import_error_as_cannot_run():
                with phase("imports"):
                    # Late, as it loads torch.
                    from harness.llm.hf_session import HFModel

                _loaded[key] = HFModel(config, facts, str(folder))
        _loaded.move_to_end(key)
        model = _loaded[key]
        model.forget_run()
        return model

    def system_problem(self, config: ModelConfig) -> str | None:
        """A sentence where the model's chat template takes no system turn; None where it does, or
        only loading can tell."""
        return template_problem(config)


class Endpoint(Backend):
    """A server with OpenAI's chat API."""

    def facts(self, config: ModelConfig) -> ModelFacts:
        """What the settings and the tokenizer at hand say of the model; the server is not asked."""
        return endpoint_facts(config)

    def load(self, config: ModelConfig, facts: ModelFacts) -> LanguageModel:
        """Connect to the server and ask whether it answers, anew for each run. Raises CannotRun
        where it does not."""
        return EndpointModel(config, facts)


def unload() -> None:
    """Forget the models that are kept, so that their memory is free for others."""
    _loaded.clear()
