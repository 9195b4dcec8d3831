"""`harness run`: plan every row, run them in turn, print each result; one that fails never loses the others.

rows = methods x data sets     from --method and --dataset, or from --suite
names and keys wrong anywhere  -> nothing is run
a row that cannot be planned   -> its mistakes on stderr, the other rows run
a row that stops midway        -> what was answered stays on disk
the exit code is the worst     by _BY_SEVERITY; the last lines name the rows that did not run whole

Rows are planned by harness/engine/plan.py and run by harness/engine/runner.py; run_hooks.py attaches the rest.
"""

import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from harness.cli.options import Repeat, Selection, Sweep
from harness.cli.output import failure_text, print_result, rows_lost_sentence, say
from harness.cli.run_hooks import Attachments
from harness.cli.run_options import Execution, WorkerOptions
from harness.cli.stopping import print_resume_command, until_interrupted
from harness.config.layers import Choices
from harness.engine.expand_command import Planned, bug_sentence, plan_all
from harness.engine.rows_in_turn import Lost, Outcome, in_turn
from harness.errors import FirstFailure, HarnessError, RowWaits, UserError
from harness.storage.files import check_home

# Exit codes, the worst last: a command's is its worst, with 3 for 2 once a row ran; 4: a check failed (gate.py).
_BY_SEVERITY = (0, 3, 4, 2, 1)


def run(
    selection: Selection, execution: Execution, scaling: WorkerOptions, sweep: Sweep = None, repeat: Repeat = None
) -> int:
    """Run methods on data sets; the same command again resumes.

    Every method runs on every data set; --sweep runs each combination of its values, --repeat each of N seeds. Answers
    are scored and saved one by one, so nothing is lost when a run stops.
    """
    return run_selection(selection, execution, scaling, sweep, repeat)


def run_selection(
    selection: Selection,
    execution: Execution,
    scaling: WorkerOptions,
    sweep: Sweep = None,
    repeat: Repeat = None,
    ran: list[Path] | None = None,
) -> int:
    """Run the rows of a selection; returns the exit code. sweep, repeat: as of `run`; ran: gets each run's folder."""

    def work() -> int:
        rows, command = selection.rows(sweep, repeat), ["harness", *sys.argv[1:]]
        return _run_all(rows, selection.suite, execution, scaling, command, [] if ran is None else ran)

    return until_interrupted(work, "interrupted; what was answered is saved")


def _run_all(
    rows: list[Choices],
    suite: str | None,
    options: Execution,
    scaling: WorkerOptions,
    command: list[str],
    folders: list[Path],
) -> int:
    """Plan and run the rows; returns the worst exit code.

    suite: its name; command: its words; folders: gets the folder of each row that ran.
    """
    attached = Attachments(suite, options, scaling, command)
    wanted = attached.with_option_settings(rows)
    if options.plan:
        return attached.only_plan(wanted)
    check_home()
    attached.track()
    planned = plan_all(wanted, say)
    attached.begin(planned.plans)
    with attached.executor() as execute:  # in this process it is harness.engine.runner.run
        code, waiting = _run_and_print(in_turn(planned.plans, execute, attached.hooks), planned, options, folders)
    if len(wanted) > 1 and (planned.lost or suite is not None):
        say(rows_lost_sentence(len(wanted), planned.lost))
    if waiting:
        print_resume_command("rows wait for the number of another row")
    return max([code, *(hook.closed() for hook in attached.hooks)], key=_BY_SEVERITY.index)


def _run_and_print(
    outcomes: Iterable[Outcome], planned: Planned, options: Execution, folders: list[Path]
) -> tuple[int, bool]:
    """Run the rows by drawing their outcomes, and print each as it ends; rows not run whole go to `planned.lost`.

    folders: gets the folder of each row that ran. Returns the exit code, and whether a row waits for another one.
    """
    code, ran, waiting = planned.code, False, False
    several = len(planned.plans) > 1
    for number, outcome in enumerate(outcomes, 1):
        row_code, why = _print_one(outcome, several, options)
        code = max(code, row_code, key=_BY_SEVERITY.index)
        waits = isinstance(outcome.error, RowWaits)
        ran, waiting = ran or (row_code != 2 and not waits), waiting or waits
        folders += [outcome.result.folder] if outcome.result else []
        planned.lost += [Lost(outcome.plan.row_name, why)] if why else []
        if options.fail_fast and why:
            planned.lost += [Lost(p.row_name, "not started, as --fail-fast asks") for p in planned.plans[number:]]
            break
    return 3 if ran and code == 2 else code, waiting


def _print_one(outcome: Outcome, several: bool, options: Execution) -> tuple[int, str | None]:
    """Print a row's result, named if there are `several`. Returns its exit code, and why it did not finish or None."""
    name, result, error = outcome.plan.row_name, outcome.result, outcome.error
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
        say(failure_text(result, f"{name}: " if several else "", options.debug))
    why = [f"{result.failed} of {result.summary['n_total']} questions failed"] if result.failed else []
    why += result.save_problems
    return (3, "; ".join(why)) if why else (0, None)
