"""Options of `harness run`: how runs are executed, and what is recorded and printed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from harness.api.run_request import RunRequest
from harness.cli.command import execution, output, setting
from harness.cli.options import Convention, Out, Quiet, RetryFailed, Traces
from harness.cost.flops import CONVENTIONS
from harness.engine import runner
from harness.engine.plan import PlannedRun
from harness.engine.progress import Progress
from harness.engine.runner import RunResult
from harness.engine.spending_limits import Budget
from harness.errors import UnknownName, UserError
from harness.scale.shard import parse_shard, run_shard
from harness.tracking import MOST_TRACES


@dataclass(frozen=True)
class Execution:
    """How runs are executed, and what is recorded and printed."""

    record_stops: Annotated[
        int | None,
        setting(
            "--record-stops N",
            "Continue past the stop, up to N positive probes (QRMeM: N updates), and record the "
            "answer at each.",
            min=1,
        ),
    ] = None
    record_t_p: Annotated[
        float | None,
        setting(
            "--record-t-p X",
            "Also record stops for every threshold t_p up to X.",
            "the run's t_p",
            min=0,
            max=1,
        ),
    ] = None
    parallel: Annotated[
        int | None,
        execution(
            "--parallel N",
            "Questions to run at a time: by default 1, on a GPU as many as fit, up to 64. Rounding "
            "can then change an "
            "answer, in bfloat16 and float16 above all.",
            min=1,
            max=4096,
        ),
    ] = None
    deterministic: Annotated[
        bool,
        execution(
            "--deterministic",
            "Give bit-identical answers at any --parallel and load of the machine.",
        ),
    ] = False
    retry_failed: RetryFailed = False
    fail_fast: Annotated[
        bool, execution("--fail-fast", "Stop at the first question that fails.")
    ] = False
    debug: Annotated[
        bool, execution("--debug -v", "Print the traceback of the first question that fails.")
    ] = False
    quiet: Quiet = False
    plan: Annotated[
        bool, execution("--plan", "Run nothing; print what would be run and its expected cost.")
    ] = False
    cache: Annotated[
        str | None,
        execution(
            "--cache replies", "Reuse stored replies to identical requests to the same model."
        ),
    ] = None
    out: Out = "results"
    keep_texts: Annotated[
        str | None,
        output(
            "--keep-texts yes|no",
            "Store questions, gold answers and the texts that were shown; no for data whose "
            "licence forbids it.",
            "yes",
        ),
    ] = None
    keep_prompts: Annotated[
        bool,
        output("--keep-prompts", "Store every request to a model as it was sent, with its reply."),
    ] = False
    mlflow: Annotated[
        str | None,
        output(
            "--mlflow URI|off",
            "MLflow server or database to log to.",
            "$MLFLOW_TRACKING_URI, else mlflow.db in the results folder",
        ),
    ] = None
    track: Annotated[
        str | None,
        output("--track wandb[:PROJECT]", "Log to Weights & Biases too; WANDB_MODE=offline works."),
    ] = None
    traces: Traces = MOST_TRACES
    json: Annotated[
        bool, output("--json", 'End with a line {"run": folder, "summary": {...}}.')
    ] = False
    convention: Convention = None

    def check(self) -> None:
        """Raise UserError for --convention without --plan or unknown."""
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
class CheckOptions:
    """Checks of `harness run` that end a CI job (harness/cli/gate.py)."""

    fail_under: Annotated[
        list[str],
        execution(
            "--fail-under SCORE=X,...", "Exit code 4 where a run's mean score is below X points."
        ),
    ] = field(default_factory=list)
    margin: Annotated[
        float | None,
        execution("--margin POINTS", "Points that a mean may lie below --fail-under."),
    ] = None
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

    @property
    def given(self) -> bool:
        """Whether any of them is used."""
        return self != NO_CHECKS


NO_CHECKS = CheckOptions()


@dataclass(frozen=True)
class WorkerOptions:
    """How the work is divided among processes and machines, and the limits of its cost."""

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

    price_per_gpu_hour: Annotated[
        float | None,
        execution("--price-per-gpu-hour P", "With --max-money: count hours as money too.", min=0),
    ] = None
    max_tokens: Annotated[
        int | None,
        execution(
            "--max-tokens N", "Begin no question once all runs together took N tokens.", min=1
        ),
    ] = None
    max_tflops: Annotated[
        float | None, execution("--max-tflops X", "The same for TFLOPs.", min=0)
    ] = None
    max_hours: Annotated[
        float | None,
        execution(
            "--max-hours H",
            "The same for the time of this command and of earlier ones, unless killed.",
            min=0,
        ),
    ] = None
    max_money: Annotated[
        float | None,
        execution(
            "--max-money M",
            "The same for requests at model.price and hours at --price-per-gpu-hour.",
            min=0,
        ),
    ] = None

    def check(self, plan: bool = False) -> None:
        """Raise UserError for options that do not fit together; plan: for a forecast, which may
        name workers anyway."""
        if self.price_per_gpu_hour is not None and not self.max_money:
            raise UserError(
                "--price-per-gpu-hour is for --max-money M; give that limit too, or leave the "
                "price out"
            )
        if self.engine not in _ENGINES:
            raise UnknownName("engine", self.engine, _ENGINES)
        if self.shard is not None and self.engine != "local":
            raise UserError(
                f"--engine {self.engine} divides the questions by itself; leave --shard out"
            )
        for name in ("workers", "gpus_per_worker", "ray_address"):
            if getattr(self, name) and self.engine != "ray" and not plan:
                flag = "--" + name.replace("_", "-")
                raise UserError(f"{flag} is for --engine ray; leave it out, or choose that engine")
        if self.shard is not None:
            parse_shard(self.shard)
            limits = ("max_tokens", "max_tflops", "max_hours", "max_money")
            if limited := next((name for name in limits if getattr(self, name) is not None), None):
                flag = "--" + limited.replace("_", "-")
                raise UserError(
                    f"{flag} counts one process; leave it out, or --shard: --engine ray counts all "
                    "workers"
                )
        elif self.engine != "local" and self.price_per_gpu_hour is not None:
            raise UserError(
                "--price-per-gpu-hour counts the time of one process; leave it out, or --engine"
            )

    @contextlib.contextmanager
    def executor(
        self, request: RunRequest, budget: Budget, command: list[str], progress: MakeProgress
    ) -> Iterator[Callable[[PlannedRun], RunResult]]:
        """Yield the function that runs a plan: in this process, one shard of it, or by Ray's
        workers.

        Args:
            request: What the command runs.
            budget: Its limits.
            command: Its words, for the manifest.
            progress: Makes what shows the progress of a run.
        """
        arguments: dict[str, Any] = {
            "command": command,
            "budget": budget,
            "parallel": request.parallel,
            "retry_failed": request.retry_failed,
            "fail_fast": request.fail_fast,
        }

        def execute(plan: PlannedRun) -> RunResult:
            arguments["progress"] = progress(plan)
            if self.shard is None:
                return runner.run(plan, request.folder, **arguments)
            result, _ = run_shard(plan, request.folder, *parse_shard(self.shard), **arguments)
            return result

        if self.engine == "local":
            yield execute
            return
        from harness.scale.ray_engine import connect

        with connect(
            workers=self.workers,
            gpus=self.gpus_per_worker,
            address=self.ray_address,
            parallel=request.parallel,
        ) as workers:
            arguments["executor"] = workers
            yield execute
