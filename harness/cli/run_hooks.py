"""What the options of `harness run` attach to its runs:

recorded stops · forecasts (plan_table.py) · MLflow · checks (gate.py) · limits of
cost
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.cli.output import say
from harness.config.layers import Choices
from harness.engine.runs_in_turn import Hook
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.cli.options import Selection
    from harness.cli.run_options import CheckOptions, Execution, WorkerOptions
    from harness.engine.plan import PlannedRun


def with_option_settings(runs: list[Choices], options: Execution) -> list[Choices]:
    """The runs with the settings that options of this command add. Raises UserError."""
    settings = options.settings
    for run in runs:
        if repeated := sorted(settings.keys() & run.sets.keys()):
            raise UserError(
                f"'{repeated[0]}' is given twice: by --set and by the flag of that name; keep one"
            )
    runs = [replace(run, sets={**run.sets, **settings}) for run in runs]
    if options.record_stops is None and options.record_t_p is None:
        return runs
    from harness.engine.recorded_stops import with_stops

    return with_stops(
        runs, {"record_stops": options.record_stops, "record_t_p": options.record_t_p}, say
    )


def trackers_and_checks(
    selection: Selection, options: Execution, checks: CheckOptions, scaling: WorkerOptions
) -> tuple[list[Hook], list[str]]:
    """The hooks of trackers and declared checks, and sentences on why the default tracker cannot be
    used.

    They are made before runs are planned. Raises ConfigError for a chosen tracker that cannot be
    used, UnknownName.
    """
    hooks: list[Hook] = []
    unlogged: list[str] = []
    suite = selection.suite
    if options.mlflow != "off" or options.track is not None:
        from harness.tracking.background import BackgroundTracking
        from harness.tracking.wandb_run import address

        common: dict[str, Any] = {"note": say, "shared": scaling.shard is not None}
        mlflow = BackgroundTracking(options.folder, options.mlflow, suite, options.traces, **common)
        unlogged = [f"not logged to MLflow: {problem}" for problem in mlflow.unusable]
        hooks.append(mlflow)
        if options.track is not None:
            hooks.append(
                BackgroundTracking(options.folder, address(options.track), suite, 0, **common)
            )
    if checks.given:
        from harness.cli.gate import Gate

        hooks.append(Gate(checks, selection.allow_left_out))
    elif selection.allow_left_out and not selection.documents:
        raise UserError(
            "--allow-left-out is for --documents and --questions, or for checks; leave it out, or "
            "add --fail-under SCORE=X or --fail-below-baseline RUN"
        )
    return hooks, unlogged


def hooks_of_plans(
    plans: Sequence[PlannedRun],
    options: Execution,
    scaling: WorkerOptions,
    suite: str | None,
    command: Sequence[str],
) -> list[Hook]:
    """The hooks that need the plans; prints the forecast of a suite. command: its words, for one
    that resumes."""
    hooks: list[Hook] = []
    if scaling.budget.limits:
        from harness.engine.command_limits import LimitHook

        hooks.append(LimitHook(scaling.budget, plans, options.folder, command, say))
    if suite is not None:
        from harness.cli.plan_table import run_forecasts, suite_line

        say(suite_line(suite, run_forecasts(plans, options)))
    return hooks
