"""`harness study position`: score by where the evidence stands in the text, and by how far apart its parts are.

harness study position results --out position.svg

The places come from the data set's supporting marks, the scores from the records. No model is loaded.
"""

from __future__ import annotations

from typing import Annotated

from harness.cli.command import setting
from harness.cli.figures import Figure, form_of, show
from harness.cli.options import FigureOutput, MovedData, Runs, Score
from harness.cli.stored_runs import stored_runs, with_rows


def study_position(
    folders: Runs,
    figure: FigureOutput,
    score: Score = None,
    parts: Annotated[int, setting("--parts N", "Equal parts to divide the text into.", min=2)] = 3,
    data: MovedData = None,
) -> int:
    """Plot the score by where the evidence stands in the text, and by how far apart its parts are.

    Runs whose rows cannot be loaded are left out with a warning.
    """
    form = form_of(figure.form, figure.out)
    runs, damaged = stored_runs(folders)
    from reports.figures.position import frame, panels, sections

    table = frame(with_rows(runs, data), score, parts)
    show(Figure("Place of the supporting parts", table, sections(table), panels(table)), form, figure.out)
    return 3 if damaged else 0
