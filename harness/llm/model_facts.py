"""What is known of a model from its small files, before it is loaded."""

from dataclasses import dataclass, field
from typing import Any

from harness.config.schema import ModelConfig
from harness.errors import UserError


@dataclass(frozen=True)
class ModelFacts:
    """name as in tables; identity: all that changes the output; problems: sentences that forbid the run.

    absent: problem -> what to get, "weights of owner/name", of those that a plan can do without;
    sizes: those of its config.json that are known, by their names there;
    refusals: capability -> why this model lacks it, a sentence without its full stop, where there is more to say.
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


def check_greedy(config: ModelConfig, who: str) -> ModelConfig:
    """Return `config`. Raises UserError where it is set to sample, which `who` (for the message) does not."""
    for name in config.sampling:
        raise UserError(f"model.{name} is for the reader of harness run; {who} is asked greedily, so leave it out")
    return config
