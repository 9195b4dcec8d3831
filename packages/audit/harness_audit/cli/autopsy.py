"""`harness autopsy [RUNS]`: why each lost question was lost, by substitution from stored runs."""

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Annotated

from harness.cli.command import setting
from harness.cli.figures import choose_figure_format
from harness.cli.options import RESULTS, MovedData, RunsFolders
from harness.cli.output import say
from harness.cli.stored_runs import read_stored_runs, with_newest_code
from harness.cli.table_output import FigureOutput, print_or_write
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from harness_audit import autopsy as reports
from harness_audit.autopsy_figure import draw
from reports import facts
from reports.figures.figure import Figure
from reports.gold_rows import QuestionRows, read_rows


def autopsy(
    figure: FigureOutput,
    folders: RunsFolders = None,
    lost_below: Annotated[
        float | None,
        setting(
            "--lost-below X",
            "A question is lost where its first score is below X, from 0 to 1.",
            "0.5",
        ),
    ] = None,
    data: MovedData = None,
) -> int:
    """Say why each lost question was lost, from stored runs: not retrieved, a wrong stop, misread,
    beyond the model.

    Compares with stored runs of oracle-evidence and closed-book on the same questions; says which
    are missing.
    """
    if lost_below is not None and not 0 < lost_below <= 1:
        raise UserError(f"--lost-below {lost_below:g}: should be above 0 and at most 1")
    form = choose_figure_format(figure.form, figure.out)
    runs, damaged = read_stored_runs(folders or [RESULTS])
    runs = with_newest_code(runs, figure.all_code)

    pairs = [(run, read_rows(run, data=data)) for run in runs]
    _note_problems(pairs)
    commands = _missing_runs(runs)
    if lost_below is None:
        lost_below = reports.LOST_BELOW
    cases = reports.cases_by_run(pairs, lost_below)
    if not cases:
        raise UserError(
            "no run here is of a method that searches or reads; name folders with such runs"
        )
    for command in commands:
        say(f"note: classes are coarser without a run of: {command}")
    table = reports.frame(cases)
    drawing = partial(draw, table)
    lost = Figure("Where questions were lost", table, reports.table(cases), drawing=drawing)
    print_or_write(lost.written(form), figure.out)
    if damaged:
        return 3
    return 0


def _is_sibling(run: StoredRun) -> bool:
    """Whether a run is there to compare others with: its reader was shown the evidence alone, or no
    text."""
    return facts.is_oracle(run) or reports.is_closed_book(run)


def _note_problems(pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> None:
    """Print a note for each run whose gold answers are not at hand: replies and other stops of its
    search are then not compared with them.

    Args:
        pairs: Each run with its rows.
    """
    for run, rows in pairs:
        if rows.problem is not None and not _is_sibling(run):
            say(
                f"note: {run.path}: no look for its gold answers in replies and at other stops: "
                f"{rows.problem}"
            )


def _missing_runs(runs: Sequence[StoredRun]) -> list[str]:
    """The commands of the runs on the evidence alone and without text that are missing to compare
    `runs` with, each once: "harness run -m oracle-evidence,closed-book -d musique ..."."""
    commands: dict[str, None] = {}
    for run in runs:
        if _is_sibling(run):
            continue
        missing = reports.siblings_of(run, runs).missing
        if missing:
            commands[_command_for(run, missing)] = None
    return list(commands)


def _command_for(run: StoredRun, presets: list[str]) -> str:
    """The command, for a shell, that runs other methods on the questions of a run: "harness run -m
    oracle-evidence -d musique --model llama-8b --limit 20 --out results".

    Args:
        run: The run, whose data set, model, number of questions and results folder (two levels
            above its own) it names.
        presets: The presets of the methods.
    """
    config = run.config
    dataset = config.dataset
    parts = ["harness", "run", "-m", ",".join(presets), "-d", dataset.name]
    if dataset.data:
        parts += ["--data", dataset.data]
    # The model's name in run.yaml is no preset; the run's own command has the preset.
    words_of_own_command = run.manifest.command
    for flag in ("--model", "--profile"):
        if flag in words_of_own_command:
            flag_index = words_of_own_command.index(flag)
            parts += words_of_own_command[flag_index : flag_index + 2]
    for name, count in (("limit", config.limit), ("sample", config.sample)):
        if count:
            parts += [f"--{name}", str(count)]
    return shlex.join([*parts, "--out", str(run.path.parents[1])])
