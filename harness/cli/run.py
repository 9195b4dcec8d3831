"""`harness run`: plan every run, execute them in turn, print each result; one that fails never
loses the others.

runs = methods x data sets     from --method and --dataset, or from --suite
names and keys wrong anywhere  -> nothing is run
a run that cannot be planned   -> its mistakes on stderr, the others go on
a run that stops midway        -> what was answered stays on disk
the exit code is the worst     by _CODES_BY_SEVERITY; the last lines name the incomplete runs

Runs are planned by harness/engine/plan.py and executed by harness/engine/runner.py; run_hooks.py
attaches the rest.
"""

from __future__ import annotations

import sys
import traceback
from functools import partial
from pathlib import Path

from harness.cli.options import Repeat, Selection, Sweep
from harness.cli.output import print_result, print_warnings, say
from harness.cli.run_hooks import hooks_of_plans, trackers_and_checks, with_option_settings
from harness.cli.run_options import NO_CHECKS, CheckOptions, Execution, WorkerOptions
from harness.cli.stopping import until_interrupted
from harness.engine.plan_runs import plan_runs
from harness.engine.runs_in_turn import Lost, Outcome, bug_sentence, in_turn
from harness.errors import FirstFailure, HarnessError, UserError
from harness.storage.files import check_home

# 0 done, 3 incomplete, 4 a check failed, 2 the user's mistake (3 once any run started), 1 a bug;
# the last one wins.
_CODES_BY_SEVERITY = (0, 3, 4, 2, 1)
SAVED = "interrupted; what was answered is saved"


def run(
    selection: Selection,
    execution: Execution,
    checks: CheckOptions,
    scaling: WorkerOptions,
    sweep: Sweep = None,
    repeat: Repeat = None,
) -> int:
    """Run methods on data sets; the same command again resumes.

    Every method runs on every data set; --sweep runs each combination of its values, --repeat each
    of N seeds. Answers are scored and saved one by one, so nothing is lost when a run stops.
    """
    return until_interrupted(
        partial(run_selection, selection, execution, scaling, sweep, repeat, checks=checks), SAVED
    )


def run_selection(
    selection: Selection,
    options: Execution,
    scaling: WorkerOptions,
    sweep: Sweep = None,
    repeat: Repeat = None,
    finished_folders: list[Path] | None = None,
    checks: CheckOptions = NO_CHECKS,
) -> int:
    """Make the runs of a selection; returns the exit code.

    sweep, repeat, checks: as of `run`; finished_folders: gets the run folders.
    """
    suite, command = selection.suite, ["harness", *sys.argv[1:]]
    scaling.check(options.plan)
    options.check()
    choices_of_runs = with_option_settings(selection.runs(sweep, repeat), options)
    if options.plan:
        from harness.cli.plan_table import only_plan

        return only_plan(choices_of_runs, options, suite)
    check_home()
    hooks, unlogged = trackers_and_checks(selection, options, checks, scaling)
    planned = plan_runs(choices_of_runs, say)
    plans = planned.plans
    print_warnings(plans, unlogged)
    hooks = [*hooks_of_plans(plans, options, scaling, suite, command), *hooks]
    code, started = planned.code, False
    with scaling.executor(
        options, command, len(plans) > 1
    ) as execute:  # by default harness.engine.runner.run
        for number, outcome in enumerate(in_turn(plans, execute, hooks), 1):
            exit_code, problems = _print_one(outcome, len(plans) > 1, options)
            code = max(code, exit_code, key=_CODES_BY_SEVERITY.index)
            started = started or exit_code != 2
            if finished_folders is not None and outcome.result:
                finished_folders.append(outcome.result.folder)
            planned.lost += [Lost(outcome.plan.run_name, problems)] if problems else []
            if options.fail_fast and problems:
                planned.lost += [
                    Lost(p.run_name, "not started, as --fail-fast asks") for p in plans[number:]
                ]
                break
    code = 3 if started and code == 2 else code
    if len(choices_of_runs) > 1 and (planned.lost or suite is not None):
        from harness.cli.failures import incomplete_runs_sentence

        say(incomplete_runs_sentence(len(choices_of_runs), planned.lost))
    return max([code, *(hook.closed() for hook in hooks)], key=_CODES_BY_SEVERITY.index)


def _print_one(outcome: Outcome, several: bool, options: Execution) -> tuple[int, str | None]:
    """Print a run's result, named if there are `several`. Returns its exit code, and why it is
    incomplete, or None."""
    name, result, error = outcome.plan.run_name, outcome.result, outcome.error
    if isinstance(error, HarnessError):
        if options.debug and isinstance(error, FirstFailure):
            say(error.traceback.rstrip())
        say(f"error: {name}: {error}" if several else f"error: {error}")
        return (2 if isinstance(error, UserError) and not error.midway else 3), str(error)
    if error is not None:
        traceback.print_exception(error)
        return 1, bug_sentence(error)
    assert result is not None  # no error: it is there
    for problem in result.save_problems:
        say(f"error: {problem}")
    print_result(result, outcome.plan, options.json)
    if result.failed:
        from harness.cli.failures import failure_text

        say(failure_text(result, f"{name}: " if several else "", options.debug))
    problems = (
        [f"{result.failed} of {result.summary['n_total']} questions failed"]
        if result.failed
        else []
    )
    problems += result.save_problems
    return (3, "; ".join(problems)) if problems else (0, None)
