"""`harness report memory`: how much of a score is recalled rather than read.

harness run --method closed-book,oracle-evidence --dataset musique
harness run --method closed-book,oracle-evidence --dataset musique --set dataset.swap=entities
harness report memory results --out memory.svg
"""

from __future__ import annotations

from harness.cli.figures import Figure, form_of, show
from harness.cli.options import FigureOutput, RunsFolders, Score
from harness.cli.output import say
from harness.cli.stored_runs import figure_runs
from harness.errors import UserError


def report_memory(figure: FigureOutput, folders: RunsFolders = None, score: Score = None) -> int:
    """Compare each run with the same run over the twin of its data set, which has other names and numbers.

    The drop, as a share of the score, is what was recalled rather than read.
    """
    form = form_of(figure.form, figure.out)
    runs, damaged = figure_runs(folders, "memory")
    from reports import recalled

    found = list(recalled.pairs(runs))
    paired = {str(pair.twin.path) for pair in found}
    alone = [run for run in runs if recalled.twin_of(run) is not None and str(run.path) not in paired]
    if not found:
        raise UserError(
            "there are no runs over a data set and over its twin that differ in nothing else; run the same command "
            "with and without --set dataset.swap=entities"
        )
    for run in alone:
        say(f"warning: left out: {run.path}: no run over the original; run its command without dataset.swap")
    table = recalled.frame(found, score)
    show(Figure("Recalled rather than read", table, recalled.sections(table), recalled.panels(table)), form, figure.out)
    return 3 if damaged else 0
