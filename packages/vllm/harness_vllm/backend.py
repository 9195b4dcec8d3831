"""The back end `vllm`: what is known of a model before loading, and one engine for each model."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from harness.config.schema import SAMPLING, ModelConfig, canonical_json
from harness.config.yaml_tree import mapping_at
from harness.errors import import_error_as_cannot_run
from harness.llm.backend import Backend, ModelFacts
from harness.llm.model_info import find_or_download, template_problem, transformers_facts
from harness.llm.tokenizer_files import tokenizer_folder
from harness_vllm.engine import Engine

if TYPE_CHECKING:
    from harness_vllm.session import VLLMModel

ENGINE = "engine"
"""The setting under model.extra that holds arguments of vLLM's engine."""
_CAPABILITIES = frozenset({"probe", "score", "sampling"})
_NOT_GIVEN = "vLLM does not give it; use model.backend=hf"
_SETTINGS_OF_TRANSFORMERS = (
    "adapter",
    "adapters",
    "deterministic",
    "device",
    "device_map",
    "prefill_chunk",
)
# Arguments of the engine that say where and how fast it runs, not what it writes.
_PLACEMENT_ARGUMENTS = frozenset(
    {
        "cpu_offload_gb",
        "data_parallel_size",
        "disable_log_stats",
        "distributed_executor_backend",
        "enable_prefix_caching",
        "enforce_eager",
        "max_num_batched_tokens",
        "max_num_seqs",
        "pipeline_parallel_size",
        "tensor_parallel_size",
    }
)
# By settings and identity. The model of the last run stays; those that a run uses stay as long as
# it does.
_models: WeakValueDictionary[str, VLLMModel] = WeakValueDictionary()
_model_of_last_run: list[VLLMModel] = []  # one at most


class VLLM(Backend):
    """Weights in a folder or on the hub, run by vLLM in this process."""

    runs_many_at_once = True

    def facts(self, config: ModelConfig) -> ModelFacts:
        """What identifies the model and what it can do: that of transformers, without what vLLM
        lacks.

        vLLM gives no attention and no plain model. Arguments of the engine that change what it
        writes are part of the identity. Raises CannotRun.
        """
        problems = _problems(config)
        if problems:
            return ModelFacts(config.name, problems=problems)
        facts = transformers_facts(_without_engine(config))
        if facts.problems:
            return facts
        identity = {name: value for name, value in facts.identity.items() if name != "attention"}
        arguments = _engine_arguments(config)
        names_that_change_replies = sorted(arguments.keys() - _PLACEMENT_ARGUMENTS)
        identity["vllm"] = {name: arguments[name] for name in names_that_change_replies}
        return replace(
            facts,
            capabilities=_CAPABILITIES,
            refusals={"attention": _NOT_GIVEN, "plain_model": _NOT_GIVEN},
            identity=identity,
        )

    def load(self, config: ModelConfig, facts: ModelFacts) -> VLLMModel:
        """Start an engine with the model, or return the one that runs already.

        Models that differ in sampling alone are one. Where the model of the last run is another, it
        is let go first, so that its memory is free. Also empties the engine's prefix cache.

        Args:
            config: The model's settings.
            facts: What `facts` returned for them.

        Raises:
            CannotRun: It does not start.
        """
        key = config.model_dump_json(exclude={*SAMPLING}) + canonical_json(facts.identity)
        model = _models.get(key)  # a dictionary that keeps no model alive
        if model is None:
            _model_of_last_run.clear()
            gc.collect()  # the engine of an earlier run ends, and its memory is free
            model = _models[key] = _load_model(config, facts)
        _model_of_last_run[:] = [model]  # keeps this one alive
        model.first_prompts = {}
        model.engine.empty_prefix_cache()
        return model

    def system_problem(self, config: ModelConfig) -> str | None:
        """Why the model's chat template cannot take a system prompt; None where it can."""
        return template_problem(_without_engine(config))


def _problems(config: ModelConfig) -> list[str]:
    """Sentences on what keeps a model from running on vLLM; [] for nothing.

    vLLM is not installed, a setting is only for transformers, or model.extra.engine has an argument
    that the harness sets.
    """
    problems = []
    if importlib.util.find_spec("vllm") is None:
        problems.append(
            f"'{config.name}' needs vLLM, which is not installed; install it with: "
            "pip install 'vllm>=0.33'"
        )
    fields = ModelConfig.model_fields
    for name in _SETTINGS_OF_TRANSFORMERS:
        default = fields[name].get_default(call_default_factory=True)
        if getattr(config, name) != default:
            problems.append(f"model.{name} is for model.backend=hf; leave it out")
    names_set_by_harness = _own_arguments(config, {}).keys()  # {}: only the names are used
    names_set_by_both = _engine_arguments(config).keys() & names_set_by_harness
    problems += [
        f"model.extra.engine.{name} is set by the harness; leave it out (docs/scaling.md#vllm)"
        for name in sorted(names_set_by_both)
    ]
    return problems


def _engine_arguments(config: ModelConfig) -> Mapping[str, object]:
    """The arguments of vLLM's engine that the user gave under model.extra.engine."""
    return mapping_at(config.extra, ENGINE)


def _without_engine(config: ModelConfig) -> ModelConfig:
    """The settings without model.extra.engine: `extra` then holds variables of the chat
    template only.
    """
    extra = {name: value for name, value in config.extra.items() if name != ENGINE}
    return config.model_copy(update={"extra": extra})


def _own_arguments(config: ModelConfig, identity: Mapping[str, object]) -> dict[str, object]:
    """The arguments of vLLM's engine that the harness sets. The folders of model and tokenizer are
    None here; they are filled in when the model is loaded.

    Args:
        config: The model's settings.
        identity: The identity of the model's facts, which has its window and dtype.
    """
    return {
        "dtype": identity.get("dtype"),
        "gpu_memory_utilization": config.memory_fraction,
        "max_model_len": identity.get("window"),  # which has room for a thinking
        "model": None,
        "seed": 0,
        "tokenizer": None,
        "trust_remote_code": config.trust_remote_code,
    }


def _load_model(config: ModelConfig, facts: ModelFacts) -> VLLMModel:
    """Start an engine with the model, which takes a minute or more.

    Args:
        config: The model's settings.
        facts: What is known of the model.

    Raises:
        CannotRun: It does not start.
    """
    folder = find_or_download(config).folder
    own_arguments = _own_arguments(config, facts.identity)
    own_arguments["model"] = str(folder)
    own_arguments["tokenizer"] = str(tokenizer_folder(config, folder))
    with import_error_as_cannot_run():
        from harness_vllm.session import VLLMModel  # imports transformers

        # The settings without model.extra.engine, which are the engine's alone.
        config_of_model = _without_engine(config)
        engine = Engine(config.name, {**own_arguments, **_engine_arguments(config)})
        return VLLMModel(config_of_model, facts, folder, engine)
