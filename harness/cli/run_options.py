"""Options of `harness run`: how rows are run, and what is recorded and printed."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from harness.cli.command import execution, output, setting
from harness.cli.options import Convention, Out, Quiet, RetryFailed, Traces
from harness.errors import UserError
from harness.storage.paths import local_folder
from harness.tracking import MOST_TRACES


@dataclass(frozen=True)
class Execution:
    """How rows are run, and what is recorded and printed."""

    record_stops: Annotated[
        int | None,
        setting(
            "--record-stops N",
            "Continue past the stop, up to N positive probes (QRMeM: N updates), and record the answer at each.",
            min=1,
        ),
    ] = None
    record_t_p: Annotated[
        float | None,
        setting("--record-t-p X", "Also record stops for every threshold t_p up to X.", "the run's t_p", min=0, max=1),
    ] = None
    parallel: Annotated[
        int | None,
        execution(
            "--parallel N",
            "Questions to run at a time: by default 1, on a GPU as many as fit, up to 64. Rounding can then change an "
            "answer, in bfloat16 and float16 above all.",
            min=1,
        ),
    ] = None
    deterministic: Annotated[
        bool,
        execution("--deterministic", "Give the same answers to the bit whatever --parallel and the machine's load."),
    ] = False
    retry_failed: RetryFailed = False
    fail_fast: Annotated[bool, execution("--fail-fast", "Stop at the first question that fails.")] = False
    debug: Annotated[bool, execution("--debug -v", "Print the traceback of the first question that fails.")] = False
    quiet: Quiet = False
    plan: Annotated[bool, execution("--plan", "Run nothing; print what would be run and its expected cost.")] = False
    cache: Annotated[
        str | None,
        execution("--cache replies", "Send no request that a run with this option has sent to the same model."),
    ] = None
    out: Out = "results"
    keep_texts: Annotated[
        str | None,
        output(
            "--keep-texts yes|no",
            "Store questions, gold answers and the texts that were shown; no for data whose licence forbids it.",
            "yes",
        ),
    ] = None
    keep_prompts: Annotated[
        bool, output("--keep-prompts", "Store every request to a model as it was sent, with its reply.")
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
        str | None, output("--track wandb[:PROJECT]", "Log to Weights & Biases too; WANDB_MODE=offline works.")
    ] = None
    traces: Traces = MOST_TRACES
    json: Annotated[bool, output("--json", 'End with a line {"run": folder, "summary": {...}}.')] = False
    convention: Convention = None
    fail_under: Annotated[
        list[str], execution("--fail-under SCORE=X,...", "Exit code 4 where a run's mean score is below X points.")
    ] = field(default_factory=list)
    fail_below_baseline: Annotated[
        str | None,
        execution("--fail-below-baseline RUN", "Exit code 4 where a run is really worse than this one (paired)."),
    ] = None
    fail_drop: Annotated[
        float | None,
        execution(
            "--fail-drop X", "With --fail-below-baseline: a measured drop of more than X points fails, too.", min=0
        ),
    ] = None
    junit: Annotated[str | None, output("--junit FILE", "Write these checks as JUnit XML.")] = None
    job_summary: Annotated[
        str | None, output("--job-summary FILE", "Add these checks to a file as a Markdown table.")
    ] = None

    @cached_property
    def folder(self) -> Path:
        """The results folder, --out. Raises UserError."""
        return local_folder(self.out)

    @property
    def asking(self) -> dict[str, Any]:
        """The options that are fields of harness.engine.runner.AskOptions, by name: {"parallel": 4, ...}."""
        return {"retry_failed": self.retry_failed, "parallel": self.parallel, "fail_fast": self.fail_fast}

    @property
    def record(self) -> dict[str, float | None]:
        """The options that set a field of the method, {"record_stops": 8}; see harness.engine.recorded_stops."""
        return {"record_stops": self.record_stops, "record_t_p": self.record_t_p}

    @property
    def settings(self) -> dict[str, Any]:
        """Options that are settings of every row, {"keep_prompts": True}. Raises UserError."""
        if self.keep_texts not in (None, "yes", "no"):
            raise UserError(f"--keep-texts {self.keep_texts}: should be yes or no")
        if self.cache not in (None, "replies"):
            raise UserError(f"--cache {self.cache}: should be replies; indexes are always cached")
        flags = {"keep_prompts": self.keep_prompts, "cache": self.cache, "model.deterministic": self.deterministic}
        texts = {"dataset.keep_texts": self.keep_texts == "yes"} if self.keep_texts is not None else {}
        return texts | {key: value for key, value in flags.items() if value}
