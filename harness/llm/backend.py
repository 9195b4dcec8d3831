"""Back ends: what runs a language model, found by the name in `model.backend`.

    backend_of(config).facts(config)          what is known of the model before it is loaded
    backend_of(config).load(config, facts)    the model, whose sessions methods use (harness/models.py)

The names stand in configs/registry.yaml; a package adds one by the entry point `harness.backends`,
and "module:name" is a class of one's own (docs/extending.md). A class is imported when a run with
it is planned.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import registry
from harness.config.schema import ModelConfig
from harness.errors import CannotRun, Missing, UnknownName, UserError
from harness.models import LanguageModel

_LOADED_ONLY = """
deterministic package package_path device_map trust_remote_code adapters script embedded dtype device attention
template template_date prefill_chunk memory_fraction
"""
_ENDPOINT_ONLY = ("base_url", "api_key_env", "timeout", "retries", "logprobs", "price", "batch")
_REMOVABLE = (
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "stop",
)  # fields that a request may go without
_FIXED = ("model", "messages", "n", "stream", "logprobs", "top_logprobs", "max_completion_tokens")


class Backend(abc.ABC):
    """A way to run language models. Stateless: an instance is created, without arguments, at each
    use."""

    runs_many_at_once = False
    """Whether it computes the requests of many questions together, so that a run has many in flight
    where nothing says how many."""

    @abc.abstractmethod
    def facts(self, config: ModelConfig) -> ModelFacts:
        """What is known of the model before it is loaded: window, capabilities, identity, and what
        forbids a run.

        Args:
            config: The settings under `model` or `roles.ROLE`; `config.extra` may hold settings of
                your own.

        Returns:
            The facts. Their identity holds all that changes an answer: it is part of run hashes and
            cache keys.
        """

    @abc.abstractmethod
    def load(self, config: ModelConfig, facts: ModelFacts) -> LanguageModel:
        """Load the model, or connect to it; called once a run.

        Args:
            config: The settings.
            facts: What the method `facts` returned, without problems.

        Returns:
            The model.

        Raises:
            CannotRun: It cannot be loaded; one sentence with what to do.
        """

    def folder(self, config: ModelConfig) -> tuple[Path, Any] | None:
        """The folder of a model that is made on this machine, and what identifies it; None for any
        other model."""
        return None

    def system_problem(self, config: ModelConfig) -> str | None:
        """A sentence where the model takes no system turn, None where it does or only loading can
        show it."""
        return None


def backend_of(config: ModelConfig) -> Backend:
    """The back end that `config` names.

    Args:
        config: Of a model.

    Returns:
        A new object of its class.

    Raises:
        UserError: No such name, code that nobody chose, or no subclass of Backend.
    """
    backends = registry.shipped("backends")
    if config.backend not in backends and ":" not in config.backend:
        raise UnknownName("back end", config.backend, backends, "model.backend")
    backend: Backend = registry.load(config.backend, Backend, "backends")()
    return backend


def model_facts(config: ModelConfig) -> ModelFacts:
    """Facts of the model that `config` names; never raises for a model that is merely unusable."""
    try:
        return backend_of(config).facts(config)
    except UserError as e:
        return ModelFacts(config.name, problems=[str(e)])


def load_model(config: ModelConfig) -> LanguageModel:
    """Load the model of `config` by its back end, in seconds to minutes. Raises CannotRun with one
    sentence."""
    facts = model_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    return backend_of(config).load(config, facts)


def misplaced_settings(config: ModelConfig) -> list[str]:
    """A sentence for every setting that the model's back end would ignore."""
    if config.backend == "endpoint":
        return [
            *(
                f"model.{name} says how a model is loaded here, but '{config.name}' runs behind a "
                "server; leave it out"
                for name in _settings_given(config, _LOADED_ONLY.split())
            ),
            *(
                f"model.extra.{name}: this field of a request is set by others; leave the setting "
                "out"
                + (
                    ", or set it to null for requests without the field"
                    if name in _REMOVABLE
                    else ""
                )
                for name, value in config.extra.items()
                if name in _FIXED
                or (name in _REMOVABLE and (value is not None or name in config.sampling))
            ),
        ]
    unread: Iterable[str] = ()
    if config.backend == "scripted" or config.template == "none":
        unread = config.extra
    return [
        *(
            f"model.{name} is for a model behind a server; leave it out, or set "
            "model.backend=endpoint"
            for name in _settings_given(config, _ENDPOINT_ONLY)
        ),
        *(
            f"model.extra.{name} is for a chat template, and none is in use; leave it out"
            for name in unread
        ),
    ]


def _settings_given(config: ModelConfig, names: Iterable[str]) -> list[str]:
    """The names of settings that are not at their defaults; the dtype float32 counts as a default,
    as in older runs."""
    fields = ModelConfig.model_fields
    names_set = [
        n for n in names if getattr(config, n) != fields[n].get_default(call_default_factory=True)
    ]
    # float32 was the default before "auto", and stands in the run.yaml of every older run.
    return [name for name in names_set if name != "dtype" or config.dtype != "float32"]


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model before it is loaded. name: as in tables; identity: all that changes
    the output.

    problems: sentences that forbid the run; absent: problem -> what to get ("weights of
    owner/name"), of those that a plan can do without; sizes: those of its config.json that are
    known, by their names there; refusals: capability -> why this model lacks it, a sentence without
    its full stop, where there is more to say.
    """

    name: str
    capabilities: frozenset[str] = frozenset()
    window: int = 0
    identity: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def without_weights(
        cls, name: str, error: CannotRun, identity: Mapping[str, Any] | None = None
    ) -> ModelFacts:
        """Facts of a model whose weights are missing, as `error` says; identity: what is known of
        it nevertheless."""
        problem = f"not run: weights: {error}"
        absent = {}
        if isinstance(error, Missing):
            absent = {problem: error.thing}
        return cls(name, identity=dict(identity or {}), problems=[problem], absent=absent)


def check_greedy(config: ModelConfig, asker: str) -> ModelConfig:
    """Return `config`. Raises UserError for sampling or batches. asker: is asked greedily ("a
    judge"), for messages."""
    for name in config.sampling:
        raise UserError(
            f"model.{name} is for the reader of harness run; {asker} is asked greedily, so leave "
            "it out"
        )
    if config.batch:
        raise UserError(
            f"model.batch is for the reader of harness run; {asker} sends each request at once"
        )
    return config
