"""Options of `harness run` that spread rows over processes and machines (docs/scaling.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harness.cli.command import execution


@dataclass(frozen=True)
class Scaling:
    """How the work is divided."""

    shard: Annotated[
        str | None,
        execution("--shard K/N", "Answer the Kth of N parts of the questions; the last part to end merges all."),
    ] = None

    def parsed(self) -> tuple[int, int] | None:
        """K and N of --shard. Raises UserError."""
        from harness.scale.shard import parsed

        return None if self.shard is None else parsed(self.shard)
