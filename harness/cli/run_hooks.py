"""What the options of `harness run` attach to its rows, apart from running them.

numbers from other rows · recorded stops · MLflow · forecasts (forecast_table.py) · shards, workers (run_options.py)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.cli.output import say
from harness.config.layers import Choices
from harness.cost.flops import CONVENTIONS
from harness.engine.rows_in_turn import Hook
from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    from harness.cli.run_options import Execution, WorkerOptions
    from harness.engine.plan import Plan
    from harness.engine.runner import RunResult


class Attachments:
    """What the options of one command attach to its rows; its methods are called in their order.

    suite: its name; scaling: workers and limits; command: its words, for the command that resumes; hooks: what follows
    the rows (engine/rows_in_turn.py), complete after `begin`. Raises UserError for options that do not fit together.
    """

    def __init__(self, suite: str | None, options: Execution, scaling: WorkerOptions, command: list[str]) -> None:
        scaling.check(options.plan)
        _check_forecast(options, scaling)
        self._suite, self._options, self._scaling, self._command = suite, options, scaling, command
        self._plans: Sequence[Plan] = ()
        self._unlogged: list[str] = []
        self.hooks: list[Hook] = []

    def with_option_settings(self, rows: Sequence[Choices]) -> list[Choices]:
        """The rows with the settings that options of this command add. Raises UserError."""
        kept = self._options.settings
        for row in rows:
            if twice := sorted(kept.keys() & row.sets.keys()):
                raise UserError(f"'{twice[0]}' is given twice: by --set and by the flag of that name; keep one")
        rows = [replace(row, sets={**row.sets, **kept}) for row in rows]
        if all(value is None for value in self._options.record.values()):
            return rows
        from harness.engine.recorded_stops import with_stops

        return with_stops(rows, self._options.record, say)

    def only_plan(self, wanted: Sequence[Choices]) -> int:
        """Print what the rows would cost; returns the exit code."""
        from harness.cli.forecast_table import only_plan

        return only_plan(wanted, self._options, self._scaling, self._suite)

    def track(self) -> None:
        """Set up the trackers, before rows are planned. Raises ConfigError for one that cannot be used, UnknownName."""
        options = self._options
        if options.mlflow != "off" or options.track is not None:
            from harness.tracking.background import BackgroundTracking
            from harness.tracking.wandb_run import address

            alike: dict[str, Any] = {"note": say, "shared": self._scaling.shard is not None}
            trackers = BackgroundTracking(options.folder, options.mlflow, self._suite, options.traces, **alike)
            self._unlogged = [f"not logged to MLflow: {problem}" for problem in trackers.unusable]
            self.hooks.append(trackers)
            if options.track is not None:
                self.hooks.append(BackgroundTracking(options.folder, address(options.track), self._suite, 0, **alike))
        limits = [part for text in options.fail_under for part in text.split(",")]
        checks = (options.fail_below_baseline, options.fail_drop, options.junit, options.job_summary)
        if limits or any(value is not None for value in checks):
            from harness.cli.gate import Gate

            self.hooks.append(Gate(limits, *checks))

    def begin(self, plans: Sequence[Plan]) -> None:
        """The rows are planned: print their warnings, the forecast of a suite, and each row's name before it runs."""
        self._plans = plans
        if any(plan.awaits for plan in plans):
            from harness.engine.parameters_from_rows import NumbersFromRows

            self.hooks.insert(0, NumbersFromRows(self._options.folder, say))
        print_warnings(plans, self._unlogged)
        if len(plans) > 1 and not sys.stderr.isatty():  # a live line begins with the row's name
            self.hooks.insert(0, _Heading())
        if self._suite is not None or self._scaling.budget.limits:
            self._forecast(plans)

    def _forecast(self, plans: Sequence[Plan]) -> None:
        """Print the forecast of a suite, and which limit will be reached, with its hook."""
        from harness.cli.forecast_table import row_forecasts, suite_line
        from harness.engine.command_limits import LimitHook, first_limit_hit

        expected, out = row_forecasts(plans, self._options), self._options.folder
        if self._suite is not None:
            say(suite_line(self._suite, expected))
        if (budget := self._scaling.budget).limits:
            self.hooks.insert(0, LimitHook(budget, plans, out, self._command, say))
            say(f"forecast: {first_limit_hit(budget, plans, expected, out)}")

    def executor(self) -> AbstractContextManager[Callable[[Plan], RunResult]]:
        """A context manager that yields the function which runs a plan: here, as one shard, or by workers."""
        return self._scaling.executor(self._options, self._command, self._plans)


class _Heading(Hook):
    """Print the name of each row before it runs."""

    def ready(self, plan: Plan) -> Plan:
        """Print the name."""
        say(f"--- {plan.row_name}")
        return plan


def print_warnings(plans: Sequence[Plan], unlogged: Sequence[str] = ()) -> None:
    """Print warnings before the rows run, each sentence once; unlogged: sentences about the tracker."""
    models = {p.config.model.name: p.config.model for p in plans if p.config.model.embedded or p.config.model.small}
    if models:
        from harness.engine import model_warnings

        for model in models.values():
            if model.embedded:
                say(model_warnings.embedded_notice(model))
            if model.small:
                say(model_warnings.small_model_note(model.model_dump(), before_run=True))
    for warning in dict.fromkeys([*unlogged, *(w for plan in plans for w in plan.warnings)]):
        say(f"warning: {warning}")


def _check_forecast(options: Execution, scaling: WorkerOptions) -> None:
    """Raise UserError for --convention without --plan or unknown, and for a price of hours without a limit of money."""
    if scaling.price is not None and not scaling.max_money:
        raise UserError("--price-per-gpu-hour is for --max-money M; give that limit too, or leave the price out")
    if not options.plan and options.convention is not None:
        raise UserError("--convention is for a forecast (--plan); a run keeps the FLOPs under every convention")
    if options.convention not in {None, *CONVENTIONS}:
        raise UnknownName("FLOPs convention", str(options.convention), CONVENTIONS)
