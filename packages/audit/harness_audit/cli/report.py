"""`harness report bands`, `memory` and `stability`: whether a ranking survives its choices and what
was recalled.

harness report bands results          stored answers under every scorer that applies
harness report stability results      every scorer, judge, judge prompt and draw of questions at once
harness report memory results         runs beside the same runs over an entity-swapped copy of their data set
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from harness.cli.command import setting
from harness.cli.figures import write_figure
from harness.cli.options import RESULTS, MovedData, RunsFolders, Score
from harness.cli.output import say
from harness.cli.stored_runs import read_stored_runs, with_newest_code
from harness.cli.table_output import (
    FigureOutput,
    TableFile,
    TableFormat,
    choose_table_format,
    print_or_write,
    terminal_width,
)
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from harness_audit import score_bands, stability
from reports.gold_rows import QuestionRows, runs_with_rows
from reports.section import Section
from reports.table_formats import render, render_sections


@dataclass(frozen=True)
class Answers:
    """Stored answers with their gold answers, and how what is found is shown.

    Args:
        folders: Run folders, or folders that hold runs.
        data: Where the rows of the data set are now.
        form: The format of the tables.
        out: The file to write.
    """

    folders: RunsFolders = None
    data: MovedData = None
    form: TableFormat = None
    out: TableFile = None


def report_bands(answers: Answers) -> int:
    """Show stored answers under every scorer that applies: the range of a method's means, and of
    its ranks.

    No model is loaded, and run folders stay as they are. csv and json hold a row for each method
    and scorer.
    """
    return _show_analysis(score_bands, answers)


def report_stability(answers: Answers) -> int:
    """Show whether the ranking survives every scorer, judge, judge prompt and draw of questions at
    once.

    Says which share of the pairs of methods flips, and which choice flips them. Reads runs as bands
    does; csv and json hold a row for each choice and pair.
    """
    return _show_analysis(stability, answers)


def _show_analysis(module: Any, answers: Answers) -> int:
    """Read stored runs, and print or write the tables that a module makes of their answers; returns
    the exit code, 3 where a run could not be read, else 0. A note says how many runs of older code
    are left out.

    Args:
        module: A module as `write_analysis` takes it.
        answers: Which runs, and how the tables are shown.
    """
    form = choose_table_format(answers.form, answers.out)
    runs, damaged = read_stored_runs(answers.folders or [RESULTS], hold="nothing")
    newest_runs = with_newest_code(runs, all_code=False)
    n_older = len(runs) - len(newest_runs)
    if n_older:
        runs_left_out = f"{n_older} runs"
        if n_older == 1:
            runs_left_out = "1 run"
        say(f"note: {runs_left_out} of older code or prompts left out (harness prune lists them)")
    write_analysis(module, runs_with_rows(newest_runs, answers.data, say), form, answers.out)
    if damaged:
        return 3
    return 0


def write_analysis(
    module: Any, pairs: Sequence[tuple[StoredRun, QuestionRows]], form: str, out: str | None
) -> None:
    """Analyse stored answers with a module, and print or write its tables.

    Args:
        module: A module such as score_bands: it has `analyse_runs(pairs)`, `frame(analyses)` for
            csv and json, and `sections(analyses)` for people.
        pairs: Each run with its rows.
        form: The format of the tables.
        out: The file; None for stdout.
    """
    analyses = module.analyse_runs(pairs)
    if form in ("csv", "json"):
        print_or_write(render(module.frame(analyses), form), out)
    else:
        tables = [Section(title, table) for title, table in module.sections(analyses)]
        print_or_write(render_sections(tables, form, terminal_width(form, out)), out)


def report_memory(
    output: FigureOutput,
    folders: RunsFolders = None,
    score: Score = None,
    margin: Annotated[
        float,
        setting(
            "--margin POINTS",
            "Largest difference on the evidence alone that is called no difference.",
        ),
    ] = 5,
) -> int:
    """Compare each run with the same run over an entity-swapped copy of its data set: other names
    and numbers.

    The drop, as a share of the score, is what was recalled rather than read. It is shown where the
    runs of oracle-evidence over both show that the copy is no harder.
    """
    if not 0 < margin < 100:
        raise UserError(f"--margin {margin:g}: should be points of the score between 0 and 100")
    return write_figure(
        "memory", output, folders, "harness_audit", score=score, margin=margin / 100
    )
