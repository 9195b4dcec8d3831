"""`harness report [RUNS]`: tables of all runs below a folder, a page of them, or published numbers beside them.

harness report results                       a table for each data set, best first
harness report results --out table.tex       to a file: .txt, .md, .csv, .tex or .json
harness report results --wide                one table: a row a method, a column a data set, and the mean over data sets
harness report results --html report.html    one page that opens without a network
harness report a b --html index.html         one page of all runs below both, with a leaderboard
harness report results --paper               published value, ours, the difference: equivalent, differs, undecided, ...
harness report results --paper --margin 1    equivalent within 1 point (costs: 1 %), by default 2
harness report curves results                a figure: see report_curves.py, report_nodes.py, ...
"""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli.command import output, setting
from harness.cli.compare import chosen_columns
from harness.cli.options import RunsFolders, Score, TableOutput
from harness.cli.output import format_of, write
from harness.cli.stored_runs import joined, stored_runs
from harness.cost.flops import DEFAULT
from harness.errors import UserError
from harness.storage.paths import masked, words_without_home

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


@dataclass(frozen=True)
class Page:
    """The page, and published numbers in tables and on the page."""

    html: Annotated[str | None, output("--html FILE", "Write one self-contained page.")] = None
    questions: Annotated[
        int | None, output("--questions N", "Questions per data set with details on the page.", "all")
    ] = None
    force: Annotated[bool, setting("--force", "With --html: compare runs that differ in more than the method.")] = False
    paper: Annotated[
        bool, setting("--paper", "Show published numbers beside the measured ones: equivalent, differs or undecided.")
    ] = False
    margin: Annotated[
        float | None,
        setting(
            "--margin X",
            "With --paper: largest difference called equivalent, in points of a score or percent of a cost.",
            "2",
        ),
    ] = None


@dataclass(frozen=True)
class Wide:
    """The table of methods by data sets."""

    wide: Annotated[
        bool, output("--wide", "One table: a row a method, a column a data set, and the mean over data sets.")
    ] = False
    intervals: Annotated[bool, output("--intervals", "With --wide: show the interval of each mean.")] = False
    score: Score = None


def report(table: TableOutput, page: Page, wide: Wide, folders: RunsFolders = None) -> int:
    """Print tables of runs, or write them as a page.

    One table for each data set, best method first. The exit code is 3 if a damaged run was left out.
    """
    form = format_of(table.form, table.out)
    columns = chosen_columns(table.columns, table.everything)
    _check(table, page)
    _check_wide(table, page, wide)
    folders = folders or ["results"]
    runs, damaged = stored_runs(folders)
    runs = joined(_once(runs)) if table.average_seeds else _once(runs)
    if table.by is not None:
        from reports.by_kind import parts

        runs = parts(runs, table.by)
    if page.html is not None:
        title = " · ".join(dict.fromkeys(Path(folder).resolve().name for folder in folders))
        write(_page(runs, title, table, page), page.html)
    if page.html is None or table.out is not None:
        if page.paper:
            text = _paper(runs, form, page.margin, table.convention)
        else:
            text = _wide(runs, form, wide) if wide.wide else _tables(runs, form, columns, table)
        write(text, table.out)
    return 3 if damaged else 0


def _once(runs: list[StoredRun]) -> list[StoredRun]:
    """The runs without copies in other results folders: of several, the one with most questions; warns about those."""
    kept: dict[tuple[str, str], StoredRun] = {}
    for run in runs:
        key = run.config["dataset"]["name"], run.path.name
        if (other := kept.get(key)) is None:
            kept[key] = run
            continue
        kept[key], left = (run, other) if len(run.records) > len(other.records) else (other, run)
        sys.stderr.write(f"warning: left out: {left.path} is the same run as {kept[key].path}\n")
    return list(kept.values())


def _check(table: TableOutput, page: Page) -> None:
    """Raise UserError for options that would have no effect."""
    if page.html is None and page.questions is not None:
        raise UserError("--questions is a setting of the page; add --html FILE")
    if page.html is None and page.force:
        raise UserError("--force is a setting of the page; add --html FILE, or use: harness compare RUN RUN --force")
    if page.questions is not None and page.questions < 0:
        raise UserError(f"--questions {page.questions}: should be 0 or more")
    if table.by is not None and (page.html is not None or page.paper):
        raise UserError("--by divides tables of runs; leave out --html (the page has each kind) and --paper")
    if page.margin is not None and not page.paper:
        raise UserError("--margin is a setting of the comparison with published numbers; add --paper")
    if page.margin is not None and not 0 < page.margin < float("inf"):
        raise UserError(f"--margin {page.margin:g}: should be more than 0")
    if page.paper and (table.columns is not None or table.everything):
        raise UserError("--columns and --all choose among the columns of runs; leave them out with --paper")
    if page.html is not None and table.out is None:
        for flag, given in (("--format", table.form), ("--columns", table.columns), ("--all", table.everything)):
            if given:
                raise UserError(
                    f"{flag} is a setting of the table, and --html makes a page only; add --out FILE for both"
                )


def _check_wide(table: TableOutput, page: Page, wide: Wide) -> None:
    """Raise UserError for options that have no effect with --wide, or none without it."""
    if not wide.wide:
        for flag, given in (("--score", wide.score), ("--intervals", wide.intervals)):
            if given:
                raise UserError(f"{flag} is a setting of the table of methods by data sets; add --wide")
        return
    others = {
        "--paper": page.paper,
        "--html": page.html,
        "--columns": table.columns,
        "--all": table.everything,
        "--reference": table.reference,
        "--convention": table.convention,
    }
    for flag, given in others.items():
        if given:
            raise UserError(f"--wide shows one score of each run, so {flag} has no effect; leave one of the two out")


def _wide(runs: list[StoredRun], form: str, options: Wide) -> str:
    """Methods by data sets as text; csv and json hold the intervals always."""
    from reports.render import render, render_sections
    from reports.tables import frame
    from reports.wide import sections, wide

    whole = form in ("csv", "json")
    table = wide(frame(runs), options.score, intervals=options.intervals or whole)
    return render(table, form) if whole else render_sections(sections(table, options.score), form)


def _paper(runs: list[StoredRun], form: str, margin: float | None, convention: str | None) -> str:
    """Published numbers beside the measured ones."""
    from reports.columns import sections, shortened
    from reports.paper import MARGIN, frame, incomplete, legend
    from reports.render import render, render_sections

    margin = margin or MARGIN
    whole = frame(runs, margin=margin, convention=convention)
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


def _page(runs: list[StoredRun], title: str, table: TableOutput, options: Page) -> str:
    from datetime import UTC, datetime

    from reports.details import Limits
    from reports.page import page
    from reports.page_header import Written
    from reports.paper import MARGIN

    command = [masked(word) for word in words_without_home(["harness", *sys.argv[1:]])]
    return page(
        runs,
        title=title,
        reference=table.reference,
        limits=Limits(options.questions),
        margin=(options.margin or MARGIN) if options.paper else None,
        convention=table.convention,
        force=options.force,
        written=Written(datetime.now(UTC), command),
    )


def _tables(runs: list[StoredRun], form: str, columns: list[str] | None, options: TableOutput) -> str:
    """The tables of `runs` as text: one a data set, best first; csv and json hold a single one with every column."""
    from reports.columns import ordered, sections, select
    from reports.render import render, render_sections
    from reports.tables import REFERENCE, frame

    reference = options.reference or REFERENCE
    whole = ordered(frame(runs, convention=options.convention or DEFAULT, reference=reference))
    if form in ("csv", "json"):
        return render(select(whole, columns) if columns else whole, form)
    return render_sections([(s.title, s.frame) for s in sections(whole, columns)], form)
