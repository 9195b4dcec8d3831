"""`harness run`: plan every run, execute them in turn, print each result; one that fails never
loses the others.

runs = methods x data sets     from --method and --dataset, or from --suite
names and keys wrong anywhere  -> nothing is run
a run that cannot be planned   -> its mistakes on stderr, the others go on
a run that stops midway        -> what was answered stays on disk
the exit code is the worst     by _CODES_BY_SEVERITY; the last lines name the incomplete runs

What is run is a RunRequest, as from Python; runs are planned by harness/engine/plan.py and executed
by harness/engine/runner.py.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness.api.run_request import RunRequest
from harness.cli.failures import failure_text, incomplete_runs_sentence
from harness.cli.output import print_result, print_warnings, say
from harness.cli.plan_table import print_plan
from harness.cli.run_hooks import (
    declared_checks,
    limit_hooks,
    print_expected_suite_cost,
    trackers_and_checks,
)
from harness.cli.run_options import NO_CHECKS, CheckOptions, Printing, WorkerOptions
from harness.cli.stopping import until_interrupted
from harness.engine.plan import PlannedRun
from harness.engine.plan_runs import plan_runs
from harness.engine.progress import Progress
from harness.engine.progress_line import ProgressLine
from harness.engine.runs_in_turn import Hook, IncompleteRun, Outcome, Planned, bug_sentence, in_turn
from harness.errors import FirstFailure, HarnessError, UserError
from harness.parallel.phases import forget_phases, phase, phase_table
from harness.storage.files import check_home

_CODES_BY_SEVERITY = (0, 3, 4, 2, 1)
"""Exit codes, of which a command with several ends with the last: 0 done, 3 incomplete, 4 a check
failed, 2 the user's mistake, 1 a bug."""
SAVED = "interrupted; what was answered is saved"


def run(
    request: RunRequest,
    printing: Printing,
    checks: CheckOptions,
    scaling: WorkerOptions,
) -> int:
    """Run methods on data sets; the same command again resumes.

    Every method runs on every data set; --sweep runs each combination of its values, --repeat each
    of N seeds. Answers are scored and saved one by one, so nothing is lost when a run stops.
    Several runs end with their table.
    """
    finished: list[Path] = []
    work = partial(
        run_request, request, printing, scaling, checks=checks, finished_folders=finished
    )
    code = until_interrupted(work, SAVED)
    if len(finished) > 1 and not printing.json:
        print_table(finished)
    return code


def print_table(folders: list[Path]) -> None:
    """Print the table of the runs in these folders, as `harness report` does; nothing where fewer
    than two have an answer.
    """
    from harness.cli.report import table_of_folders

    table = table_of_folders(folders)
    if table:
        print(f"\n{table.rstrip()}", flush=True)


def run_request(
    request: RunRequest,
    printing: Printing,
    scaling: WorkerOptions,
    checks: CheckOptions = NO_CHECKS,
    finished_folders: list[Path] | None = None,
) -> int:
    """Make the runs of a request, or print what they would cost (--plan).

    Also prints warnings, the expected cost of a suite, what is incomplete, and with --debug the
    seconds of each phase.

    Args:
        request: The runs, where they are written and logged, and what they may cost.
        printing: What is printed of them, and whether they are only planned.
        scaling: The worker processes that answer the questions, or this worker's part of them.
        checks: Scores and differences that each run must reach (--fail-under,
            --fail-below-baseline).
        finished_folders: A list to which the folders of runs that ended are added.

    Returns:
        The most severe exit code of the runs, the trackers and the checks.
    """
    forget_phases()
    scaling.check(request, only_plans=printing.plan)
    printing.check()
    runs = request.runs(say)
    if printing.plan:
        return print_plan(runs, request, printing, declared_checks(request, checks))
    check_home()
    command = _Command(request, printing, scaling)
    hooks, unlogged = trackers_and_checks(request, checks, scaling)
    with phase("planning"):
        planned = plan_runs(runs, say)
    print_warnings(planned.plans, unlogged)
    hooks_of_limits = limit_hooks(request, planned.plans, command.budget, command.command_words)
    print_expected_suite_cost(request, planned.plans, printing)
    hooks = [*hooks_of_limits, *hooks]
    command.execute(planned, hooks)
    if printing.debug:
        say(phase_table())
    if finished_folders is not None:
        finished_folders += command.finished
    if len(runs) > 1 and (planned.incomplete or request.suite is not None):
        say(incomplete_runs_sentence(len(runs), planned.incomplete))
    hook_codes = [hook.closed() for hook in hooks]
    return max([command.code, *hook_codes], key=_CODES_BY_SEVERITY.index)


class _Ending(NamedTuple):
    """How a run ended: the exit code for it, and why it is incomplete, "" where it is complete."""

    exit_code: int
    why_incomplete: str


@dataclass
class _Command:
    """One call of `harness run`.

    Attributes:
        request: The runs, and what they may cost.
        printing: What is printed of them.
        scaling: How processes share the work.
        finished: The folders of runs that ended.
        code: The exit code so far.
        command_words: What was typed, for the manifest.
        budget: The limits of the command.
    """

    request: RunRequest
    printing: Printing
    scaling: WorkerOptions
    finished: list[Path] = field(default_factory=list)
    code: int = 0

    def __post_init__(self) -> None:
        """Keep what was typed and the limits of the command; no run has started."""
        self.command_words = ["harness", *sys.argv[1:]]
        self.budget = self.request.budget(self.scaling.gpus_per_worker)
        self._any_run_started = False  # whether any run wrote its folder

    def execute(self, planned: Planned, hooks: list[Hook]) -> None:
        """Execute the planned runs in turn and print each result.

        Sets `code`, fills `finished`, and adds the incomplete runs to `planned.incomplete`. With
        --fail-fast the first incomplete run is the last one that is started.

        Args:
            planned: The runs.
            hooks: What else happens as a run begins and ends: trackers, checks.
        """
        self.code = planned.exit_code
        has_several_runs = len(planned.plans) > 1
        progress = partial(self._make_progress, has_several_runs=has_several_runs)
        executor = self.scaling.executor(self.request, self.budget, self.command_words, progress)
        with executor as execute:
            for n_executed, outcome in enumerate(in_turn(planned.plans, execute, hooks), 1):
                why_incomplete = self._print_and_record(outcome, has_several_runs)
                if why_incomplete:
                    planned.incomplete.append(IncompleteRun(outcome.plan.run_name, why_incomplete))
                if why_incomplete and self.request.fail_fast:
                    for plan in planned.plans[n_executed:]:
                        planned.incomplete.append(
                            IncompleteRun(plan.run_name, "not started, as --fail-fast asks")
                        )
                    break
        if self._any_run_started and self.code == 2:
            self.code = 3  # 2 says that nothing was run

    def _make_progress(self, plan: PlannedRun, has_several_runs: bool) -> Progress:
        """Make what shows the progress of a run; its name is printed too where there are
        `has_several_runs`.
        """
        if has_several_runs and not sys.stderr.isatty():  # a live line begins with the run's name
            say(f"--- {plan.run_name}")
        if self.printing.quiet:
            return Progress()
        if has_several_runs:
            return ProgressLine(name=plan.run_name)
        return ProgressLine()

    def _print_and_record(self, outcome: Outcome, has_several_runs: bool) -> str:
        """Print how a run ended, and update `code`, `finished` and whether any run has started.

        Args:
            outcome: The run with its result or error.
            has_several_runs: Whether the command has several runs, so that this one must be named.

        Returns:
            Why the run is incomplete; "" where it is complete.
        """
        exit_code, why_incomplete = self._print_error(outcome, has_several_runs)
        if outcome.result is not None:
            self.finished.append(outcome.result.folder)
            why_incomplete = self._print_result(outcome, has_several_runs)
            exit_code = 0
            if why_incomplete:
                exit_code = 3
        self.code = max(self.code, exit_code, key=_CODES_BY_SEVERITY.index)
        was_started = exit_code != 2  # which says that nothing was run
        self._any_run_started = self._any_run_started or was_started
        return why_incomplete

    def _print_error(self, outcome: Outcome, has_several_runs: bool) -> _Ending:
        """Print the error that ended a run, if one did; returns how the run ended: the exit code (0
        for no error, 1 for a bug, 2 where nothing was run, 3 for a run that stopped) and the
        sentence.
        """
        error = outcome.error
        name = outcome.plan.run_name
        if error is None:
            return _Ending(0, "")
        if not isinstance(error, HarnessError):
            traceback.print_exception(error)
            return _Ending(1, bug_sentence(error))
        if self.printing.debug and isinstance(error, FirstFailure):
            say(error.traceback.rstrip())
        sentence = str(error)
        if has_several_runs:
            sentence = f"{name}: {error}"
        say(f"error: {sentence}")
        if isinstance(error, UserError) and not error.midway:
            return _Ending(2, str(error))
        return _Ending(3, str(error))

    def _print_result(self, outcome: Outcome, has_several_runs: bool) -> str:
        """Print the result of a run that ended; returns why it is
        incomplete, "" where it is complete.
        """
        result = outcome.result
        assert result is not None  # the caller looked
        for problem in result.save_problems:
            say(f"error: {problem}")
        print_result(result, outcome.plan, json=self.printing.json)
        problems = list(result.save_problems)
        if result.failed:
            label = ""
            if has_several_runs:
                label = f"{outcome.plan.run_name}: "
            say(failure_text(result, label, with_traceback=self.printing.debug))
            total = result.summary.n_total
            problems.insert(0, f"{result.failed} of {total} questions failed")
        return "; ".join(problems)
