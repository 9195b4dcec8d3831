"""What is known of a model from its small files, before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.config.schema import ModelConfig
from harness.errors import CannotRun, Missing, UserError


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model before it is loaded. name: as in tables; identity: all that changes the output.

    problems: sentences that forbid the run; absent: problem -> what to get ("weights of owner/name"), of those that a
    plan can do without; sizes: those of its config.json that are known, by their names there; refusals: capability ->
    why this model lacks it, a sentence without its full stop, where there is more to say.
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
    def without_weights(cls, name: str, error: CannotRun, identity: Mapping[str, Any] | None = None) -> ModelFacts:
        """Facts of a model whose weights are missing, as `error` says; identity: what is known of it nevertheless."""
        problem = f"not run: weights: {error}"
        absent = {problem: error.thing} if isinstance(error, Missing) else {}
        return cls(name, identity=dict(identity or {}), problems=[problem], absent=absent)


def check_greedy(config: ModelConfig, who: str) -> ModelConfig:
    """Return `config`. Raises UserError for sampling or batches. who: is asked greedily ("a judge"), for messages."""
    for name in config.sampling:
        raise UserError(f"model.{name} is for the reader of harness run; {who} is asked greedily, so leave it out")
    if config.batch:
        raise UserError(f"model.batch is for the reader of harness run; {who} sends each request at once")
    return config
