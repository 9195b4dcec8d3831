"""`harness report [RUNS]`: tables of all runs below a folder, a page of them, or published numbers
beside them.

harness report results                       a table for each data set, best first
harness report results --out table.tex       to a file: .txt, .md, .csv, .tex or .json
harness report results --wide                one table: a row a method, a column a data set, and the mean over data sets
harness report results --html report.html    one page that opens without a network
harness report results --xlsx table.xlsx     numbers as numbers, intervals in columns of their own
harness report a b --html index.html         one page of all runs below both, with a leaderboard
harness report results --paper               published value, ours, the difference: equivalent, differs, undecided, ...
harness report results --paper --margin 1    equivalent within 1 point (costs: 1 %), by default 2
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from harness.cli.command import choice, output, setting
from harness.cli.compare import chosen_columns
from harness.cli.figures import parse_numbers, write_figure
from harness.cli.options import (
    RESULTS,
    Common,
    Convention,
    MovedData,
    RowsToCompare,
    RunsFolders,
    Score,
)
from harness.cli.stored_runs import (
    average_seeds,
    read_stored_runs,
    with_newest_code,
    without_copies,
)
from harness.cli.table_output import (
    FigureOutput,
    TableOutput,
    choose_table_format,
    print_or_write,
    terminal_width,
)
from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError
from harness.storage.named_runs import read_runs, with_distinct_names
from harness.storage.paths import command_without_home, with_address_secrets_masked
from harness.storage.run_folder import Hold, StoredRun
from reports import paper
from reports.by_kind import split_by_kind
from reports.checks import Checks
from reports.columns import pick_columns, sections
from reports.comparability import on_common_questions
from reports.compare import paired_rows
from reports.details import PageLimits
from reports.facts import check_reference
from reports.finding import finding_text
from reports.gold_rows import check_one_dataset
from reports.main_table import REFERENCE, as_frame, best_first, table_rows
from reports.methods_by_dataset import wide_table
from reports.not_checked import not_checked_sentence
from reports.page import Comparison, PageOptions, page
from reports.paper import MARGIN
from reports.provenance import PageOrigin
from reports.table_formats import line_below, render, render_sections
from reports.workbook import workbook_bytes

if TYPE_CHECKING:
    from reports.table_row import TableRow


@dataclass(frozen=True)
class Page:
    """The page, and published numbers in tables and on the page."""

    html: Annotated[str | None, output("--html FILE", "Write one self-contained page.")] = None
    xlsx: Annotated[
        str | None,
        output("--xlsx FILE", "Write the tables as a workbook; with --html, the page links to it."),
    ] = None
    title: Annotated[
        str | None, output("--title TEXT", "Heading of the page.", "the names of the folders")
    ] = None
    description: Annotated[str, output("--description TEXT", "A paragraph below the heading.")] = ""
    questions: Annotated[
        int | None,
        output("--questions N", "Questions per data set with details on the page.", "all"),
    ] = None
    force: Annotated[
        bool,
        setting(
            "--force",
            "With --html or --wide --reference: compare runs that differ in more than the method.",
        ),
    ] = False
    paper: Annotated[
        bool,
        setting(
            "--paper",
            "Show published numbers beside the measured ones: equivalent, differs or undecided.",
        ),
    ] = False
    margin: Annotated[
        float | None,
        setting(
            "--margin X",
            "With --paper: largest difference called equivalent, in points of a score or percent "
            "of a cost.",
            "2",
        ),
    ] = None


@dataclass(frozen=True)
class Wide:
    """The table of methods by data sets."""

    wide: Annotated[
        bool,
        output(
            "--wide", "One table: a row a method, a column a data set, and the mean over data sets."
        ),
    ] = False
    intervals: Annotated[
        bool, output("--intervals", "With --wide: show the interval of each mean.")
    ] = False
    score: Score = None


def report(
    table: TableOutput,
    page: Page,
    wide: Wide,
    folders: RunsFolders = None,
    common: Common = False,
    data: RowsToCompare = None,
) -> int:
    """Print tables of runs, or write them as a page.

    One table for each data set, best method first. The exit code is 3 if a damaged run was left
    out.
    """
    form = choose_table_format(table.form, table.out)
    columns = chosen_columns(table.columns, table.everything)
    _check_options(table, page, wide)
    _check_wide_options(table, page, wide)
    folders = folders or [RESULTS]
    hold: Hold = "numbers"
    if table.average_seeds or (common and page.html is not None):
        hold = "all"  # a vote and the page need answers
    runs, damaged = read_stored_runs(folders, hold=hold)
    runs = with_newest_code(without_copies(runs), table.all_code)
    if table.average_seeds:
        runs = average_seeds(runs)
    if common:
        runs = on_common_questions(runs)
    if table.by is not None:
        runs = split_by_kind(runs, table.by)
    if table.reference is not None:
        check_reference(runs, table.reference)
    check_one_dataset(runs, data)
    checks = Checks(data)  # finds what is odd in the runs when first asked
    if page.html is not None:
        names = dict.fromkeys(Path(folder).resolve().name for folder in folders)
        title = page.title or " · ".join(names)
        html = _page_html(runs, title, checks, table, page, damaged=damaged)
        print_or_write(html, page.html)
    if page.xlsx is not None:
        print_or_write(_workbook_content(runs, table, checks), page.xlsx)
    writes_page_or_workbook = page.html is not None or page.xlsx is not None
    if not writes_page_or_workbook or table.out is not None:
        print_or_write(
            _table_text(runs, form, columns, checks, table=table, page=page, wide=wide),
            table.out,
        )
    if damaged:
        return 3
    return 0


def _check_options(table: TableOutput, page: Page, wide: Wide) -> None:
    """Raise UserError for an option that would have no effect with the others given.

    Args:
        table: Options of tables.
        page: Options of the page and of published numbers.
        wide: Options of the table of methods by data sets.
    """
    _check_page_options(table, page, wide)
    _check_paper_options(table, page)
    _check_table_options(table, page)


def _check_page_options(table: TableOutput, page: Page, wide: Wide) -> None:
    """Raise UserError for an option of the HTML page that would have no effect, or is out of range.

    Args:
        table: Options of tables.
        page: Options of the page.
        wide: Options of the table of methods by data sets.
    """
    page_options = {
        "--questions": page.questions is not None,
        "--title": page.title,
        "--description": page.description,
    }
    page_flags = [flag for flag, value in page_options.items() if value]
    if page.html is None and page_flags:
        raise UserError(f"{page_flags[0]} is a setting of the page; add --html FILE")
    compares_wide_table = wide.wide and bool(table.reference)
    if page.force and page.html is None and not compares_wide_table:
        raise UserError(
            "--force is a setting of --html FILE and --wide --reference; or use: harness compare "
            "--force"
        )
    if page.questions is not None and page.questions < 0:
        raise UserError(f"--questions {page.questions}: should be 0 or more")
    if table.by is not None and (page.html is not None or page.paper):
        raise UserError(
            "--by divides tables of runs; leave out --html (the page has each kind) and --paper"
        )


def _check_paper_options(table: TableOutput, page: Page) -> None:
    """Raise UserError for an option that does not go with --paper, published numbers beside
    ours.
    """
    if page.margin is not None and not page.paper:
        raise UserError(
            "--margin is a setting of the comparison with published numbers; add --paper"
        )
    if page.margin is not None and not 0 < page.margin < float("inf"):
        raise UserError(f"--margin {page.margin:g}: should be more than 0")
    if page.paper and (table.columns is not None or table.everything):
        raise UserError(
            "--columns and --all choose among the columns of runs; leave them out with --paper"
        )
    if page.paper and page.xlsx is not None:
        raise UserError("--xlsx holds tables of runs; leave it out with --paper")


def _check_table_options(table: TableOutput, page: Page) -> None:
    """Raise UserError for an option of the printed table where no table is printed."""
    table_options = {"--format": table.form, "--columns": table.columns, "--all": table.everything}
    table_flags = [flag for flag, value in table_options.items() if value]
    if not table_flags or table.out is not None:
        return
    if page.html is not None:
        raise UserError(
            f"{table_flags[0]} is a setting of the table, and --html makes a page only; add --out "
            "FILE for both"
        )
    if page.xlsx is not None:
        raise UserError(
            f"{table_flags[0]} is a setting of the printed table, and --xlsx has every column; add "
            "--out FILE for both"
        )


def _check_wide_options(table: TableOutput, page: Page, wide: Wide) -> None:
    """Raise UserError for an option that has no effect with --wide, or none without it.

    Args:
        table: Options of tables.
        page: Options of the page and of published numbers.
        wide: Options of the table of methods by data sets.
    """
    if not wide.wide:
        for flag, value in (("--score", wide.score), ("--intervals", wide.intervals)):
            if value:
                raise UserError(
                    f"{flag} is a setting of the table of methods by data sets; add --wide"
                )
        return
    page_options = {"--paper": page.paper, "--html": page.html, "--xlsx": page.xlsx}
    table_options = {
        "--columns": table.columns,
        "--all": table.everything,
        "--convention": table.convention,
    }
    for flag, value in {**page_options, **table_options}.items():
        if value:
            raise UserError(
                f"--wide shows one score of each run, so {flag} has no effect; leave one of the "
                "two out"
            )


def _page_html(
    runs: list[StoredRun],
    title: str,
    checks: Checks,
    table: TableOutput,
    options: Page,
    *,
    damaged: Sequence[str],
) -> str:
    """Make the HTML page of the runs; its header shows the command that writes it.

    Args:
        runs: Stored runs.
        title: The heading.
        checks: Finds what is odd in the runs, once for all that is written.
        table: The options of its tables.
        options: The options of the page.
        damaged: The names of damaged runs, which were left out.
    """
    command = [
        with_address_secrets_masked(word)
        for word in command_without_home(["harness", *sys.argv[1:]])
    ]
    margin: float | None = None
    if options.paper:
        margin = options.margin or MARGIN
    comparison = Comparison(
        reference=table.reference,
        force=options.force,
        convention=table.convention,
        margin=margin,
    )
    origin = PageOrigin(datetime.now(UTC), command)
    limits = PageLimits(options.questions)
    page_options = PageOptions(
        title=title,
        description=options.description,
        comparison=comparison,
        limits=limits,
        written=origin,
        workbook=_workbook_link(options),
        damaged=damaged,
    )
    return page(runs, page_options, checks)


def _workbook_link(options: Page) -> str | None:
    """The link from the page to the workbook, relative to the page's folder; None where one of the
    two is not written.
    """
    if options.xlsx is None or options.html is None:
        return None
    relative_path = os.path.relpath(options.xlsx, Path(options.html).parent)
    return quote(relative_path.replace(os.sep, "/"))


def _workbook_content(runs: list[StoredRun], table: TableOutput, checks: Checks) -> bytes:
    """The main tables of the runs as the bytes of an .xlsx file."""
    return workbook_bytes(best_rows(runs, table, checks))


def _table_text(
    runs: list[StoredRun],
    form: str,
    columns: list[str] | None,
    checks: Checks,
    *,
    table: TableOutput,
    page: Page,
    wide: Wide,
) -> str:
    """Write the table that the options ask for.

    That is: published numbers (--paper), methods by data sets (--wide), or a table for each data
    set. csv and json hold a single table, with every column. A sentence below text and markdown
    says what was not checked; published numbers have their own words for it. Below the text of one
    data set stand the sentences with which a page opens.

    Args:
        runs: Stored runs.
        form: The format: "text", "csv", "json", ...
        columns: The columns to show, in order; None for the usual ones.
        checks: Finds what is odd in the runs, once for all that is written.
        table: Options of tables.
        page: Options of the page and of published numbers.
        wide: Options of the table of methods by data sets.
    """
    if page.paper:
        return paper.text(runs, form, page.margin or paper.MARGIN, table.convention)
    width = terminal_width(form, table.out)
    if wide.wide:
        text = _wide_text(runs, form, checks, table=table, page=page, wide=wide)
        return text + line_below(not_checked_sentence(runs, checks, wide.score), form, width)
    rows = best_rows(runs, table, checks)
    frame = as_frame(rows)
    if form not in ("csv", "json"):
        text = render_sections(sections(frame, columns), form, width)
        if form == "text":
            text += line_below(_finding(rows, checks), form, width)
        return text + line_below(not_checked_sentence(runs, checks), form, width)
    if columns:
        frame = pick_columns(frame, columns)
    return render(frame, form)


def _finding(rows: Sequence[TableRow], checks: Checks) -> str | None:
    """The sentences with which a page of these runs opens; None for a single run, and for runs of
    several data sets.

    Args:
        rows: The rows of the table, best first.
        checks: What was found in the runs.
    """
    datasets = {row.dataset for row in rows}
    if len(rows) < 2 or len(datasets) > 1:
        return None
    return finding_text(rows, checks)


def best_rows(runs: list[StoredRun], table: TableOutput, checks: Checks) -> list[TableRow]:
    """The rows of the runs' main table, best method first within each data set.

    Args:
        runs: Stored runs.
        table: Options of tables.
        checks: Finds what is odd in the runs, once for all that is written.
    """
    rows = table_rows(
        runs,
        convention=table.convention or DEFAULT_CONVENTION,
        reference=table.reference or REFERENCE,
        checks=checks,
    )
    return best_first(rows)


def table_of_folders(folders: Sequence[Path]) -> str:
    """The table that `harness report` prints of these run folders, without what was not checked.

    "" where fewer than two of them have an answered question.
    """
    runs = [run for run in read_runs(sorted(folders), hold="numbers") if run.records]
    runs = with_newest_code(without_copies(with_distinct_names(runs)), all_code=False)
    if len(runs) < 2:
        return ""
    frame = as_frame(best_rows(runs, TableOutput(), Checks()))
    return render_sections(sections(frame), "text", terminal_width("text", out=None))


def _wide_text(
    runs: list[StoredRun],
    form: str,
    checks: Checks,
    *,
    table: TableOutput,
    page: Page,
    wide: Wide,
) -> str:
    """Write the table of methods by data sets; csv and json also have the intervals.

    Args:
        runs: Stored runs.
        form: The format: "text", "csv", "json", ...
        checks: Finds what is odd in the runs, once for all that is written.
        table: Options of tables, of which the reference and the output file count.
        page: Options of which `force` counts: compare runs that differ in more than the method.
        wide: Options of this table.
    """
    differences = None
    if table.reference is not None:
        differences = paired_rows(
            runs, reference=table.reference, score=wide.score, force=page.force, checks=checks
        )
    rows = table_rows(runs, checks=checks)
    if form in ("csv", "json"):
        exported = wide_table(rows, wide.score, intervals=True, differences=differences)
        return render(exported.frame(), form)
    shown = wide_table(rows, wide.score, intervals=wide.intervals, differences=differences)
    return render_sections(shown.sections(wide.score), form, terminal_width(form, table.out))


def report_curves(
    output: FigureOutput,
    folders: RunsFolders = None,
    score: Score = None,
    t_p: Annotated[
        str | None,
        setting(
            "--t-p X,...", "Confidence thresholds.", "0.1 to 0.98, up to the highest recorded one"
        ),
    ] = None,
    t_n: Annotated[int, setting("--t-n N", "Stop patience from 1 to N.", min=1)] = 8,
    data: MovedData = None,
    convention: Convention = DEFAULT_CONVENTION,
) -> int:
    """Plot score and TFLOPs of other stopping rules, from runs made with --record-stops.

    The recorded answers are scored now, as `harness score` does, so the data set is loaded; no
    model is.
    """
    thresholds = parse_numbers(
        t_p,
        "--t-p",
        parse_number=float,
        is_allowed=lambda p: 0 <= p <= 1,
        expected="numbers from 0 to 1",
    )
    return write_figure(
        "curves",
        output,
        folders,
        t_n=t_n,
        t_p=thresholds,
        score=score,
        data=data,
        convention=convention,
    )


def report_front(
    output: FigureOutput,
    folders: RunsFolders = None,
    dataset: Annotated[
        str | None, choice("--dataset -d NAME", "The data set, where the runs are of several.")
    ] = None,
    score: Score = None,
    cost: Annotated[
        str,
        choice(
            "--cost total|search|money",
            "FLOPs of a question: with its share of the index, or search and answer alone; or "
            "money of a server.",
        ),
    ] = "total",
    convention: Convention = DEFAULT_CONVENTION,
) -> int:
    """Plot score against TFLOPs or money a question, with intervals.

    A hollow mark is a method that another one beats: it scores no less and costs no more.
    """
    return write_figure(
        "front", output, folders, dataset=dataset, score=score, cost=cost, convention=convention
    )


def report_nodes(output: FigureOutput, folders: RunsFolders = None) -> int:
    """Plot how many nodes each question retrieved: a histogram with a log-normal fit."""
    return write_figure("nodes", output, folders)


def report_queries(
    output: FigureOutput,
    folders: RunsFolders = None,
    per_document: Annotated[
        str | None, setting("--per-document N,...", "Numbers of queries per document.", "1,2,4,8")
    ] = None,
    reference: Annotated[
        str | None,
        setting(
            "--reference NAME",
            "Show where others break even with this method, run folder or run hash.",
            "full-context",
        ),
    ] = None,
    paper: Annotated[
        bool, setting("--paper", "Add the published numbers below the measured ones.")
    ] = False,
    convention: Convention = None,
) -> int:
    """Plot TFLOPs per query where queries share an index."""
    counts = parse_numbers(
        per_document,
        "--per-document",
        parse_number=int,
        is_allowed=lambda k: k >= 1,
        expected="whole numbers from 1 on",
    )
    return write_figure(
        "queries",
        output,
        folders,
        per_document=counts,
        reference=reference,
        paper=paper,
        convention=convention,
    )


def report_sweep(
    output: FigureOutput,
    folders: RunsFolders = None,
    x: Annotated[
        str | None,
        setting(
            "--x KEY",
            "The setting to plot against, as --set names it.",
            "the only one that differs",
        ),
    ] = None,
    score: Score = None,
    convention: Convention = DEFAULT_CONVENTION,
) -> int:
    """Plot score and TFLOPs against a setting that was swept, one line for each method.

    Runs whose method has no such setting are drawn as level lines.
    """
    return write_figure("sweep", output, folders, x=x, score=score, convention=convention)


def report_tokens(output: FigureOutput, folders: RunsFolders = None, data: MovedData = None) -> int:
    """Count the tokens of documents, questions and answers of each data set.

    Runs over the same rows with the same model count as one. Only the model's tokenizer is loaded.
    """
    return write_figure("tokens", output, folders, data=data)
