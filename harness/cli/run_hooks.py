"""What the options of `harness run` attach to its runs: trackers, checks, limits of cost, and the
forecast of a suite."""

from __future__ import annotations

from collections.abc import Sequence

from harness.api.run_request import RunRequest
from harness.cli.gate import Gate
from harness.cli.output import say
from harness.cli.plan_table import run_forecasts, suite_line
from harness.cli.run_options import CheckOptions, Printing, WorkerOptions
from harness.engine.command_limits import LimitHook
from harness.engine.plan import PlannedRun
from harness.engine.runs_in_turn import Hook
from harness.engine.spending_limits import Budget
from harness.errors import UserError


def trackers_and_checks(
    request: RunRequest, checks: CheckOptions, scaling: WorkerOptions
) -> tuple[list[Hook], list[str]]:
    """Make the hooks of trackers and declared checks, before runs are planned.

    Args:
        request: What the command runs and where it is tracked.
        checks: The checks.
        scaling: Whether this is one of several processes, which share a tracker.

    Returns:
        (hooks, sentences on why the default tracker cannot be used)

    Raises:
        ConfigError: A chosen tracker cannot be used.
        UnknownName: There is no such tracker.
        UserError: An option of a check without the check.
    """
    trackers = request.trackers(say, shared=scaling.shard is not None)
    reasons_not_logged: list[str] = []
    if trackers:
        mlflow_tracker = trackers[0]  # a second one is what --track names
        reasons_not_logged = [f"not logged to MLflow: {why}" for why in mlflow_tracker.unusable]
    return [*trackers, *declared_checks(request, checks)], reasons_not_logged


def declared_checks(request: RunRequest, checks: CheckOptions) -> list[Hook]:
    """A list with the hook that makes the declared checks, or [] without any.

    Raises UserError, also for --allow-left-out without a check or a folder of documents.
    """
    if checks.any_is_given:
        return [Gate(checks, request.allow_left_out)]
    if request.allow_left_out and not request.documents:
        raise UserError(
            "--allow-left-out is for --documents and --questions, or for checks; leave it out, or "
            "add --fail-under SCORE=X or --fail-below-baseline RUN"
        )
    return []


def limit_hooks(
    request: RunRequest,
    plans: Sequence[PlannedRun],
    budget: Budget,
    command_words: Sequence[str],
) -> list[Hook]:
    """A list with the hook that keeps the limits of the command, or [] without any.

    Args:
        request: What the command runs.
        plans: Its runs.
        budget: Its limits.
        command_words: The command as typed, for one that resumes.
    """
    if not budget.limits:
        return []
    return [LimitHook(budget, plans, request.folder, command_words, say)]


def print_expected_suite_cost(
    request: RunRequest, plans: Sequence[PlannedRun], printing: Printing
) -> None:
    """Print what the runs of a suite will cost, in one line; nothing where no suite is run.

    Args:
        request: What the command runs.
        plans: Its runs.
        printing: The convention by which FLOPs are counted.
    """
    if request.suite is not None:
        say(suite_line(request.suite, run_forecasts(plans, request.folder, printing)))
