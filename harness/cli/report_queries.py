"""`harness report queries`: TFLOPs per query where queries share an index.

harness report queries results --per-document 1,2,4,8,100 --paper
harness report queries results --format csv
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from harness.cli.command import setting
from harness.cli.figures import Figure, form_of, numbers, sections_of, show
from harness.cli.options import Convention, FigureOutput, RunsFolders
from harness.cli.stored_runs import figure_runs
from harness.cost.flops import DEFAULT
from harness.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from harness.storage.run_folder import StoredRun


def report_queries(
    figure: FigureOutput,
    folders: RunsFolders = None,
    per_document: Annotated[
        str | None, setting("--per-document N,...", "Numbers of queries per document.", "1,2,4,8")
    ] = None,
    reference: Annotated[
        str | None,
        setting(
            "--reference NAME", "Show where others break even with this method, run folder or run hash.", "full-context"
        ),
    ] = None,
    paper: Annotated[bool, setting("--paper", "Add the published numbers below the measured ones.")] = False,
    convention: Convention = None,
) -> int:
    """Plot TFLOPs per query where queries share an index."""
    form = form_of(figure.form, figure.out)
    counts = _counts(per_document)
    runs, damaged = figure_runs(folders, "queries")
    from reports.figures.queries import PER_DOCUMENT, frame, panels
    from reports.tables import REFERENCE

    chosen = counts or PER_DOCUMENT
    table = frame(runs, chosen, reference or REFERENCE, convention or DEFAULT)
    sections = sections_of(table)
    whole = table
    if paper:
        whole, more = _printed(runs, convention)
        sections += more
    show(Figure("TFLOPs per query", whole, sections, panels(table, chosen)), form, figure.out)
    return 3 if damaged else 0


def _printed(runs: list[StoredRun], convention: str | None) -> tuple[pd.DataFrame, list[tuple[str, pd.DataFrame]]]:
    """The papers' TFLOPs beside the runs', and as sections. Raises UserError where no run measures a printed one."""
    from reports.columns import shortened
    from reports.paper import frame
    from reports.paper.printed import load

    printed = frame(runs, [value for value in load() if value.metric.phases], convention=convention)
    if printed.empty:
        raise UserError("none of these runs measures TFLOPs that a paper prints; leave out --paper")
    parts = sections_of(shortened(printed, "row", 52))  # so long that the number of queries stays
    return printed, [(f"printed and measured: {title}", part) for title, part in parts]


def _counts(text: str | None) -> tuple[int, ...] | None:
    """ "1,2,4" -> (1, 2, 4). Raises UserError for what is no number of queries."""
    if text is None:
        return None
    return tuple(dict.fromkeys(numbers(text, "--per-document", int, lambda k: k >= 1, "whole numbers from 1 on")))
