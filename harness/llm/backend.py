"""Back ends: what runs a language model, found by the name in `model.backend`.

    backend_of(config).facts(config)          what is known of the model before it is loaded
    backend_of(config).load(config, facts)    the model, whose sessions methods use (harness/models.py)

The names stand in configs/registry.yaml; a package adds one by the entry point `harness.backends`, and "module:name" is
a class of one's own (docs/extending.md). A class is imported when a run with it is planned.
"""

import abc
from pathlib import Path
from typing import Any

from harness.config import registry
from harness.config.schema import ModelConfig
from harness.errors import UnknownName, UserError
from harness.llm.model_facts import ModelFacts
from harness.models import LanguageModel


class Backend(abc.ABC):
    """A way to run language models; made without arguments, for each question that is asked of it."""

    @abc.abstractmethod
    def facts(self, config: ModelConfig) -> ModelFacts:
        """What is known of the model before it is loaded: window, capabilities, identity, and what forbids a run.

        Args:
            config: The settings under `model` or `roles.ROLE`; `config.extra` may hold settings of your own.

        Returns:
            The facts. Their identity holds all that changes an answer: it is part of run hashes and cache keys.
        """

    @abc.abstractmethod
    def load(self, config: ModelConfig, facts: ModelFacts) -> LanguageModel:
        """Load the model, or connect to it.

        Args:
            config: The settings.
            facts: Those of the method `facts`, without problems.

        Returns:
            The model; it is loaded once a run.

        Raises:
            CannotRun: It cannot be loaded; one sentence with what to do.
        """

    def folder(self, config: ModelConfig) -> tuple[Path, Any] | None:
        """The folder of a model that is made on this machine, and what identifies it; None for any other model."""
        return None

    def system_problem(self, config: ModelConfig) -> str | None:
        """A sentence where the model takes no system turn, None where it does or only loading can tell."""
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
    known = registry.shipped("backends")
    if config.backend not in known and ":" not in config.backend:
        raise UnknownName("back end", config.backend, known, "model.backend")
    target = known.get(config.backend, config.backend)
    cls = registry.load(target, Backend) if config.backend not in known else registry.import_target(target)
    if not (isinstance(cls, type) and issubclass(cls, Backend)):
        raise UserError(f"the back end '{config.backend}' ({target}) is not a subclass of {__name__}.Backend")
    made: Backend = cls()
    return made
