"""`harness report nodes`: nodes retrieved per question, as a histogram with a log-normal fit."""

from __future__ import annotations

from harness.cli.figures import Figure, form_of, sections_of, show
from harness.cli.options import FigureOutput, RunsFolders
from harness.cli.stored_runs import figure_runs


def report_nodes(figure: FigureOutput, folders: RunsFolders = None) -> int:
    """Plot how many nodes each question retrieved: a histogram with a log-normal fit."""
    form = form_of(figure.form, figure.out)
    runs, damaged = figure_runs(folders, "nodes")
    from reports.figures.nodes import frame, panels

    table, fits = frame(runs)
    show(Figure("Nodes retrieved per question", table, sections_of(table), panels(runs, fits)), form, figure.out)
    return 3 if damaged else 0
