"""What is known of a model from its small files, before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ModelFacts:
    """name as in tables; identity: all that changes the output; problems: sentences that forbid the run.

    absent: what of it is not on this machine, "weights of owner/name", which a plan can do without, else "";
    refusals: capability -> why this model lacks it, a sentence without its full stop, where there is more to say.
    """

    name: str
    capabilities: frozenset[str] = frozenset()
    window: int = 0
    identity: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    absent: str = ""
