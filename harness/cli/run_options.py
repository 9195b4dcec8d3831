"""Options of `harness run` alone: what it prints and checks, and how processes share the work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

from harness.api.run_request import RunRequest
from harness.cli.command import execution, output
from harness.cli.options import Convention, Quiet
from harness.cost.flops import CONVENTIONS
from harness.engine import runner
from harness.engine.plan import PlannedRun
from harness.engine.progress import Progress
from harness.engine.runner import AskOptions, RunResult
from harness.engine.spending_limits import Budget
from harness.errors import UnknownName, UserError
from harness.scale.shard import parse_shard, run_shard


@dataclass(frozen=True)
class Printing:
    """What `harness run` prints, and whether it runs anything at all."""

    debug: Annotated[
        bool,
        execution(
            "--debug -v",
            "Print the traceback of the first question that fails, and what took how long.",
        ),
    ] = False
    plan: Annotated[
        bool, execution("--plan", "Run nothing; print what would be run and its expected cost.")
    ] = False
    quiet: Quiet = False
    json: Annotated[
        bool, output("--json", 'End with a line {"run": folder, "summary": {...}}.')
    ] = False
    convention: Convention = None

    def check(self) -> None:
        """Raise UserError where --convention is unknown, or given without --plan."""
        if not self.plan and self.convention is not None:
            raise UserError(
                "--convention is for a forecast (--plan); a run keeps the FLOPs under every "
                "convention"
            )
        if self.convention not in {None, *CONVENTIONS}:
            raise UnknownName("FLOPs convention", str(self.convention), CONVENTIONS)


MakeProgress = Callable[[PlannedRun], Progress]
_ENGINES = ("local", "ray")


@dataclass(frozen=True)
class SharedCheckOptions:
    """Checks of `harness run` and `harness reproduce` that end a CI job (harness/cli/gate.py)."""

    fail_under: Annotated[
        list[str],
        execution(
            "--fail-under SCORE=X,...", "Exit code 4 where a run's mean score is below X points."
        ),
    ] = field(default_factory=list)
    fail_below_baseline: Annotated[
        str | None,
        execution(
            "--fail-below-baseline RUN",
            "Exit code 4 where the interval of run minus RUN lies below 0 (or below --max-drop).",
        ),
    ] = None
    max_drop: Annotated[
        list[str],
        execution(
            "--max-drop SCORE=X,...",
            "Compare this score with the baseline's, and tolerate a drop of X points.",
        ),
    ] = field(default_factory=list)
    junit: Annotated[str | None, output("--junit FILE", "Write these checks as JUnit XML.")] = None
    job_summary: Annotated[
        str | None, output("--job-summary FILE", "Add these checks to a file as a Markdown table.")
    ] = None


@dataclass(frozen=True)
class CheckOptions(SharedCheckOptions):
    """The checks of `harness run`; `harness reproduce` has another --margin and these without it."""

    margin: Annotated[
        float | None,
        execution("--margin POINTS", "Points that a mean may lie below --fail-under."),
    ] = None

    @property
    def any_is_given(self) -> bool:
        """Whether any of these options is used."""
        return self != NO_CHECKS


NO_CHECKS = CheckOptions()


@dataclass(frozen=True)
class WorkerOptions:
    """How the work is divided among processes and machines."""

    shard: Annotated[
        str | None,
        execution(
            "--shard K/N",
            "Answer the Kth of N parts of the questions; the last part to end merges all.",
        ),
    ] = None
    engine: Annotated[
        str,
        execution("--engine local|ray", "Answer in this process, or by Ray's workers."),
    ] = "local"
    workers: Annotated[
        int | None,
        execution(
            "--workers N",
            "Worker processes.",
            "one for each GPU or CPU of the cluster",
            min=1,
            max=4096,
        ),
    ] = None
    gpus_per_worker: Annotated[
        float, execution("--gpus-per-worker G", "GPUs of a worker, also a part of one.", min=0)
    ] = 0
    ray_address: Annotated[
        str | None,
        execution(
            "--ray-address ADDRESS", "Ray cluster to use.", "$RAY_ADDRESS, else one on this machine"
        ),
    ] = None

    def check(self, request: RunRequest, *, only_plans: bool = False) -> None:
        """Raise UserError where options on worker processes do not fit each other or the request.

        Args:
            request: What the command runs, with its limits.
            only_plans: Whether nothing is run (--plan); then workers may be named anyway.
        """
        if request.price_per_gpu_hour is not None and not request.max_money:
            raise UserError(
                "--price-per-gpu-hour is for --max-money M; give that limit too, or leave the "
                "price out"
            )
        if self.engine not in _ENGINES:
            raise UnknownName("engine", self.engine, _ENGINES)
        if self.engine != "ray" and not only_plans:
            self._check_no_workers()
        if self.shard is not None:
            self._check_shard(self.shard, request)
        elif self.engine != "local" and request.price_per_gpu_hour is not None:
            raise UserError(
                "--price-per-gpu-hour counts the time of one process; leave it out, or --engine"
            )

    def _check_no_workers(self) -> None:
        """Raise UserError where an option of Ray's workers is given."""
        for name in ("workers", "gpus_per_worker", "ray_address"):
            if getattr(self, name):
                flag = "--" + name.replace("_", "-")
                raise UserError(f"{flag} is for --engine ray; leave it out, or choose that engine")

    def _check_shard(self, shard: str, request: RunRequest) -> None:
        """Raise UserError where a shard ("3/16") cannot be, or does not fit other options."""
        if self.engine != "local":
            raise UserError(
                f"--engine {self.engine} divides the questions by itself; leave --shard out"
            )
        parse_shard(shard)
        limit_by_name = request.limits
        if limit_by_name:
            raise UserError(
                f"--max-{next(iter(limit_by_name))} counts one process; leave it out, or --shard: "
                "--engine ray counts all workers"
            )

    @contextlib.contextmanager
    def executor(
        self,
        request: RunRequest,
        budget: Budget,
        command_words: list[str],
        make_progress: MakeProgress,
    ) -> Iterator[Callable[[PlannedRun], RunResult]]:
        """Yield the function that runs a plan: in this process, one shard of it, or by Ray's
        workers.

        Ray's workers live as long as the `with` block.

        Args:
            request: What the command runs.
            budget: The command's limits, which all its runs share.
            command_words: The words that were typed, for the manifest.
            make_progress: Makes what shows the progress of a run.
        """
        ask_options = AskOptions(
            retry_failed=request.retry_failed,
            parallel=request.parallel,
            fail_fast=request.fail_fast,
            budget=budget,
        )

        if self.engine == "local":
            yield partial(self._execute, request, command_words, make_progress, ask_options)
            return
        from harness.scale.ray_engine import connect

        with connect(
            workers=self.workers,
            gpus=self.gpus_per_worker,
            address=self.ray_address,
            parallel=request.parallel,
        ) as workers:
            ask_options = replace(ask_options, executor=workers)
            yield partial(self._execute, request, command_words, make_progress, ask_options)

    def _execute(
        self,
        request: RunRequest,
        command_words: list[str],
        make_progress: MakeProgress,
        ask_options: AskOptions,
        plan: PlannedRun,
    ) -> RunResult:
        """Run a plan, or one shard of it, with a progress of its own.

        Args:
            request: What the command runs.
            command_words: The words that were typed, for the manifest.
            make_progress: Makes what shows the progress of a run.
            ask_options: How questions are asked.
            plan: The run.
        """
        if self.shard is None:
            return runner.run(
                plan,
                request.folder,
                command=command_words,
                progress=make_progress(plan),
                options=ask_options,
            )
        shard_run = run_shard(
            plan,
            request.folder,
            parse_shard(self.shard),
            command=command_words,
            progress=make_progress(plan),
            options=ask_options,
        )
        return shard_run.result
