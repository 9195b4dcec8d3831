"""Back ends: what runs a language model, found by the name in `model.backend`.

    backend_of(config).facts(config)          what is known of the model before it is loaded
    backend_of(config).load(config, facts)    the model, whose sessions methods use (harness/models.py)

The names stand in configs/registry.yaml; a package adds one by the entry point `harness.backends`,
and "module:name" is a class of one's own (docs/extending.md). A class is imported when a run with
it is planned.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.config import registry
from harness.config.schema import ModelConfig
from harness.errors import CannotRun, Missing, UnknownName, UserError
from harness.models import LanguageModel

_SETTINGS_OF_LOADING = """
deterministic package package_path device_map trust_remote_code adapters script embedded dtype device attention
template template_date prefill_chunk memory_fraction
"""
_SETTINGS_OF_SERVERS = (
    "base_url",
    "api_key_env",
    "timeout",
    "retries",
    "logprobs",
    "price",
    "batch",
)
# Fields of a request: those that it may go without, and those that only we set.
_REMOVABLE_FIELDS = ("max_tokens", "temperature", "top_p", "seed", "stop")
_FIXED_FIELDS = (
    "model",
    "messages",
    "n",
    "stream",
    "logprobs",
    "top_logprobs",
    "max_completion_tokens",
)


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

    def folder(self, config: ModelConfig) -> tuple[Path, object] | None:
        """The folder of a model that is made on this machine, and what identifies its weights; None
        for any other model."""
        return None

    def system_problem(self, config: ModelConfig) -> str | None:
        """A sentence where the model takes no system turn; None where it takes one, or only loading
        can show it."""
        return None


def backend_of(config: ModelConfig) -> Backend:
    """The back end that `config` names.

    Args:
        config: The settings of a model.

    Returns:
        A new object of its class.

    Raises:
        UserError: `config.backend` is neither the name of an installed back end nor "module:Class"
            of code that the user chose to run, or what it names is no subclass of Backend.
    """
    backends = registry.targets("backends")
    if config.backend not in backends and ":" not in config.backend:
        raise UnknownName("back end", config.backend, backends, "model.backend")
    backend: Backend = registry.load(config.backend, Backend, "backends")()
    return backend


def model_facts(config: ModelConfig) -> ModelFacts:
    """What is known of the model before it is loaded; what is wrong with a model that cannot be
    used stands in the facts' `problems`, and is not raised."""
    try:
        return backend_of(config).facts(config)
    except UserError as e:
        return ModelFacts(config.name, problems=[str(e)])


def load_model(config: ModelConfig) -> LanguageModel:
    """Load the model by its back end, in seconds to minutes. Raises CannotRun with one sentence
    where it cannot be used."""
    facts = model_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    return backend_of(config).load(config, facts)


def misplaced_settings(config: ModelConfig) -> list[str]:
    """A sentence for every setting that the model's back end would ignore, and for each field of a
    server's requests that model.extra sets although other settings do."""
    if config.backend == "endpoint":
        return [*_ignored_by_servers(config), *_fields_set_twice(config)]
    return [*_ignored_when_loaded(config), *_ignored_by_templates(config)]


def _ignored_by_servers(config: ModelConfig) -> Iterator[str]:
    """Yield a sentence for each setting of loading (model.dtype) that is given, which a server
    would ignore."""
    for name in _settings_not_at_default(config, _SETTINGS_OF_LOADING.split()):
        yield (
            f"model.{name} says how a model is loaded here, but '{config.name}' runs behind a "
            "server; leave it out"
        )


def _fields_set_twice(config: ModelConfig) -> Iterator[str]:
    """Yield a sentence for each field of a request that model.extra sets although other settings
    do: any of _FIXED_FIELDS, and one of _REMOVABLE_FIELDS that has a value there or is set by
    `config.sampling`. A removable field may be null there: requests then go without it."""
    for name, value in config.extra.items():
        is_removable = name in _REMOVABLE_FIELDS
        is_set_twice = value is not None or name in config.sampling
        if name in _FIXED_FIELDS or (is_removable and is_set_twice):
            other_way_out = ""
            if is_removable:
                other_way_out = ", or set it to null for requests without the field"
            yield (
                f"model.extra.{name}: this field of a request is set by others; leave the setting "
                f"out{other_way_out}"
            )


def _ignored_when_loaded(config: ModelConfig) -> Iterator[str]:
    """Yield a sentence for each setting of servers (model.price) that is given, which a model that
    is loaded here would ignore."""
    for name in _settings_not_at_default(config, _SETTINGS_OF_SERVERS):
        yield (
            f"model.{name} is for a model behind a server; leave it out, or set "
            "model.backend=endpoint"
        )


def _ignored_by_templates(config: ModelConfig) -> Iterator[str]:
    """Yield a sentence for each variable of a chat template that model.extra sets, where no
    template is in use."""
    has_template = config.backend != "scripted" and config.template != "none"
    if has_template:
        return
    for name in config.extra:
        yield f"model.extra.{name} is for a chat template, and none is in use; leave it out"


def _settings_not_at_default(config: ModelConfig, names: Iterable[str]) -> list[str]:
    """Those of the named settings that are not at their defaults; the dtype float32 counts as a
    default, as in older runs."""
    changed: list[str] = []
    for name in names:
        default = ModelConfig.model_fields[name].get_default(call_default_factory=True)
        # float32 was the default before "auto", and stands in the run.yaml of every older run.
        defaults = [default, "float32"] if name == "dtype" else [default]
        if getattr(config, name) not in defaults:
            changed.append(name)
    return changed


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model before it is loaded.

    Attributes:
        name: The name that tables show.
        capabilities: A subset of CAPABILITIES.
        window: The most tokens of a context, output included; 0 where unknown.
        identity: All that changes the output: {"weights": HASH, "dtype": "bfloat16", ...}.
        problems: Sentences that forbid the run.
        warnings: Sentences for the user.
        refusals: Capability -> why this model lacks it, a sentence without its full stop, where
            there is more to say.
        absent: A sentence of `problems` -> what to get ("weights of owner/name"), for the problems
            that a plan can do without.
        sizes: The sizes that its config.json says, by their names there.
    """

    name: str
    capabilities: frozenset[str] = frozenset()
    window: int = 0
    identity: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def without_weights(
        cls, name: str, error: CannotRun, identity: Mapping[str, object] | None = None
    ) -> ModelFacts:
        """Facts of a model whose weights are missing.

        Args:
            name: The name that tables show.
            error: Says what is missing.
            identity: What is known of its identity nevertheless.
        """
        problem = f"not run: weights: {error}"
        absent = {}
        if isinstance(error, Missing):  # a plan can do without: it names what to get
            absent = {problem: error.thing}
        return cls(name, identity=dict(identity or {}), problems=[problem], absent=absent)


def check_greedy(config: ModelConfig, asker: str) -> ModelConfig:
    """Check that the settings of a model ask for neither sampling nor batches, and return them.
    Raises UserError where they do.

    Args:
        config: The settings.
        asker: Who asks ("a judge"), for messages.
    """
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
