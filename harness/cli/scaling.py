"""Options of `harness run` that spread rows over processes and machines (docs/scaling.md)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from harness.cli.command import execution
from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    from pathlib import Path

    from harness.engine.progress import Progress
    from harness.scale.driver import Driver

_ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Scaling:
    """How the work is divided."""

    shard: Annotated[
        str | None,
        execution("--shard K/N", "Answer the Kth of N parts of the questions; the last part to end merges all."),
    ] = None
    engine: Annotated[
        str, execution("--engine local|ray", "Where the questions are answered: in this process, or by Ray's workers.")
    ] = "local"
    workers: Annotated[
        int | None, execution("--workers N", "Worker processes.", "one for each GPU or CPU of the cluster", min=1)
    ] = None
    gpus_per_worker: Annotated[
        float, execution("--gpus-per-worker G", "GPUs of a worker, also a part of one.", min=0)
    ] = 0
    ray_address: Annotated[
        str | None, execution("--ray-address ADDRESS", "Ray cluster to use.", "$RAY_ADDRESS, else one on this machine")
    ] = None

    def parsed(self) -> tuple[int, int] | None:
        """K and N of --shard, after a check of the options. Raises UserError."""
        from harness.scale.shard import parsed

        if self.engine not in _ENGINES:
            raise UnknownName("engine", self.engine, _ENGINES)
        if self.shard is not None and self.engine != "local":
            raise UserError(f"--engine {self.engine} divides the questions by itself; leave --shard out")
        given = {
            "--workers": self.workers,
            "--gpus-per-worker": self.gpus_per_worker,
            "--ray-address": self.ray_address,
        }
        if self.engine == "local" and (unused := [name for name, value in given.items() if value]):
            raise UserError(f"{unused[0]} is for --engine ray; leave it out, or choose that engine")
        return None if self.shard is None else parsed(self.shard)

    @contextlib.contextmanager
    def driver(self, out: Path, progress: Progress, command: list[str], how: dict[str, Any]) -> Iterator[Driver | None]:
        """The engine's driver inside the block, None for the local engine; how: options of runner.run."""
        if self.engine == "local":
            yield None
            return
        from harness.scale.driver import Driver
        from harness.scale.ray_engine import connect

        options = {"command": command, **how}
        hands = connect(out, workers=self.workers, gpus=self.gpus_per_worker, address=self.ray_address, options=options)
        driver = Driver(
            hands, out, progress, command=command, retry_failed=how["retry_failed"], parallel=how["parallel"]
        )
        try:
            yield driver
        finally:
            driver.close()
