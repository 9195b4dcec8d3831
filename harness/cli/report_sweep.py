"""`harness report sweep`: score and cost against a setting that several runs have other values of.

harness run --method bm25 --dataset musique --sweep method.k=1,3,10
harness report sweep results --x method.k --out k.svg
harness report sweep results --x method.k --score musique.answer_f1 --format csv
"""

from __future__ import annotations

import sys
from typing import Annotated

from harness.cli.command import setting
from harness.cli.figures import Figure, form_of, show
from harness.cli.options import Convention, FigureOutput, RunsFolders, Score
from harness.cli.stored_runs import figure_runs
from harness.cost.flops import DEFAULT


def report_sweep(
    figure: FigureOutput,
    folders: RunsFolders = None,
    x: Annotated[
        str | None, setting("--x KEY", "The setting to plot against, as --set names it.", "the only one that differs")
    ] = None,
    score: Score = None,
    convention: Convention = None,
) -> int:
    """Plot score and TFLOPs against a setting that was swept, one line for each method.

    Runs whose method has no such setting are drawn as level lines.
    """
    form = form_of(figure.form, figure.out)
    runs, damaged = figure_runs(folders, "sweep")
    from reports.figures.sweep import frame, only, panels, sections

    key = x or only(runs)
    table = frame(runs, key, score, convention or DEFAULT)
    if table[key].nunique() < 2:
        sys.stderr.write(f"note: all these runs have one value of {key}; run others with --sweep {key}=A,B\n")
    show(Figure(f"Sweep of {key}", table, sections(table, key), panels(table, key)), form, figure.out)
    return 3 if damaged else 0
