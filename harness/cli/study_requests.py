"""`harness study requests`: model requests per question, without those for indexes, beside the score."""

from __future__ import annotations

from harness.cli.figures import Figure, form_of, show
from harness.cli.options import FigureOutput, Runs, Score
from harness.cli.stored_runs import stored_runs


def study_requests(folders: Runs, figure: FigureOutput, score: Score = None) -> int:
    """Plot the score by the number of requests per question; requests for indexes are counted apart."""
    form = form_of(figure.form, figure.out)
    runs, damaged = stored_runs(folders)
    from reports.figures.requests import frame, panels, sections

    table = frame(runs, score)
    show(Figure("Requests a question", table, sections(table), panels(table)), form, figure.out)
    return 3 if damaged else 0
