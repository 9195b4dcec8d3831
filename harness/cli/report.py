"""`harness report RUNS_DIR`: tables of all runs below a folder, a page of them, or published numbers beside them.

harness report results                       a table a data set, best first
harness report results --out table.tex       to a file: .txt, .md, .csv, .tex or .json
harness report results --html report.html    one page that opens without a network
harness report results --paper               printed value, ours, the difference: equivalent, differs, undecided, ...
harness report results --paper --margin 1    equivalent within 1 point (costs: 1 %), by default 2
harness report curves results                a figure: see harness.cli.curves, figures and tokens
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.compare import chosen_columns
from harness.cli.figure_flags import FIGURES
from harness.cli.output import format_of, frames, write
from harness.cost.flops import DEFAULT
from harness.errors import UserError, close_matches
from harness.storage.named_runs import read_runs, run_folders

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


@dataclass(frozen=True)
class Options:
    """How the runs are shown.

    everything prints all columns, columns those named: "a,b"; html: the file of a page, with the details of `questions`
    questions a data set; paper: published numbers beside the measured ones, instead of the table and on the page;
    margin: points of a score, or percent of a cost, within which the two are called equivalent; convention: how FLOPs
    are counted.
    """

    form: str | None = None
    out: str | None = None
    columns: str | None = None
    everything: bool = False
    reference: str | None = None
    html: str | None = None
    questions: int | None = None
    paper: bool = False
    margin: float | None = None
    convention: str | None = None


def main(folder: str, options: Options) -> int:
    """Print or write the tables; 3 when a damaged run had to be left out, which stderr names.

    Raises UserError for a folder without runs or an unknown name, SaveError for a file that cannot be written.
    """
    form = format_of(options.form, options.out)
    columns = chosen_columns(options.columns, options.everything)
    _check(options)
    runs, damaged = stored(folder)
    if options.html is not None:
        write(_page(runs, Path(folder).resolve().name, options), options.html)
    if options.html is None or options.out is not None:
        text = _paper(runs, form, options) if options.paper else table(runs, form, columns, options)
        write(text, options.out)
    return 3 if damaged else 0


def _check(options: Options) -> None:
    """No flag is silently ignored."""
    if options.html is None and options.questions is not None:
        raise UserError("--questions says how many a page holds; add --html FILE")
    if options.questions is not None and options.questions < 0:
        raise UserError(f"--questions {options.questions}: should be 0 or more")
    if options.margin is not None and not options.paper:
        raise UserError("--margin is of the verdicts on published numbers; add --paper")
    if options.margin is not None and not 0 < options.margin < float("inf"):
        raise UserError(f"--margin {options.margin:g}: should be more than 0")
    if options.paper and (options.columns is not None or options.everything):
        raise UserError("--columns and --all choose among the columns of runs; leave them out with --paper")
    if options.html is not None and options.out is None:
        for flag, given in (("--format", options.form), ("--columns", options.columns), ("--all", options.everything)):
            if given:
                raise UserError(f"{flag} is of the table, and --html makes a page only; add --out FILE for both")


def _paper(runs: list[StoredRun], form: str, options: Options) -> str:
    """Published numbers beside the measured ones."""
    from reports.columns import sections, shortened
    from reports.paper import MARGIN, frame, incomplete, legend
    from reports.render import render, render_sections

    margin = options.margin or MARGIN
    whole = frame(runs, margin=margin, convention=options.convention)
    if form in ("csv", "json"):
        return render(whole, form)
    text = "None of these runs measures a printed value; reports/paper/mapping.yaml says which ones would."
    below = incomplete(runs)
    if not whole.empty:
        text = render_sections([(s.title, s.frame) for s in sections(shortened(whole, "row"), ())], form)
        below = [*below, *legend(margin)]
    lines = [line for sentence in below for line in textwrap.wrap(sentence, 150)]
    lines = [f"% {line}" for line in lines] if form in ("latex", "tex") else lines
    return "\n".join([text.rstrip("\n"), "", *lines, ""]) if lines else text


def _page(runs: list[StoredRun], title: str, options: Options) -> str:
    from reports.details import Limits
    from reports.page import LIMITS, page
    from reports.paper import MARGIN

    margin = (options.margin or MARGIN) if options.paper else None
    limits = LIMITS if options.questions is None else Limits(options.questions, LIMITS.size)
    return page(
        runs, title=title, reference=options.reference, limits=limits, margin=margin, convention=options.convention
    )


def table(runs: list[StoredRun], form: str, columns: list[str] | None, options: Options) -> str:
    """The tables of `runs` as text: one a data set, best first; csv and json hold a single one with every column."""
    from reports.columns import ordered, sections, select
    from reports.render import render, render_sections
    from reports.tables import REFERENCE, frame

    reference = options.reference or REFERENCE
    whole = ordered(frame(runs, convention=options.convention or DEFAULT, reference=reference))
    if form in ("csv", "json"):
        return render(select(whole, columns) if columns else whole, form)
    return render_sections([(s.title, s.frame) for s in sections(whole, columns)], form)


def stored(folder: str) -> tuple[list[StoredRun], int]:
    """Every run below `folder` that can be shown, and the number of damaged ones; what is left out is said.

    Raises UserError when none can be shown.
    """
    if not Path(folder).is_dir():
        near = close_matches(folder, FIGURES, most=1)
        figure = f", or did you mean the figure: harness report {near[0]} RUNS_DIR" if near else ""
        raise UserError(f"there is no folder '{folder}'; name the one that was given to --out of the runs{figure}")
    frames()
    runs: list[StoredRun] = []
    damaged: list[UserError] = []
    for path in run_folders([folder]):
        try:
            (run,) = read_runs([path])
        except UserError as error:
            damaged.append(error)
            sys.stderr.write(f"warning: left out: {error}\n")
            continue
        if run.records:
            runs.append(run)
        else:
            sys.stderr.write(f"warning: left out: {path} has no answered question yet\n")
    if not runs:
        raise damaged[0] if damaged else UserError(f"no run below '{folder}' has an answered question yet")
    return runs, len(damaged)
