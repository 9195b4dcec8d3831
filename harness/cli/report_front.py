"""`harness report front`: score against cost, and which methods no other one beats in both.

harness report front results/pocket~musique --out front.pdf
harness report front results --dataset musique --score musique.answer_f1 --format csv
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from harness.cli.command import choice
from harness.cli.figures import Figure, form_of, sections_of, show
from harness.cli.options import Convention, FigureOutput, RunsFolders, Score
from harness.cli.stored_runs import figure_runs
from harness.cost.flops import DEFAULT
from harness.errors import UnknownName, UserError


def report_front(
    figure: FigureOutput,
    folders: RunsFolders = None,
    dataset: Annotated[str | None, choice("--dataset -d NAME", "The data set, where the runs are of several.")] = None,
    score: Score = None,
    cost: Annotated[
        str,
        choice("--cost whole|search", "Cost of a question: with its share of the index, or search and answer alone."),
    ] = "whole",
    convention: Convention = None,
) -> int:
    """Plot score against TFLOPs a question, with intervals.

    A hollow mark is a method that another one beats in both.
    """
    form = form_of(figure.form, figure.out)
    runs, damaged = figure_runs(folders, "front")
    import pandas as pd

    from reports.figures import front
    from reports.tables import frame

    if cost not in front.COSTS:
        raise UnknownName("cost", cost, front.COSTS)
    names = list(dict.fromkeys(str(run.config["dataset"]["name"]) for run in runs))
    if dataset is not None and dataset not in names:
        raise UnknownName("data set of these runs", dataset, names)
    if dataset is None and len(names) > 1:
        raise UserError(f"score against cost is drawn for one data set; add --dataset with one of {', '.join(names)}")
    runs = [run for run in runs if run.config["dataset"]["name"] == (dataset or names[0])]
    means = frame(runs, convention=convention or DEFAULT)
    points = front.points(means, runs, score, cost)
    if not points:
        raise UserError(
            "no run has both a score and known FLOPs, so there is no figure; harness report says what is missing"
        )
    table = pd.DataFrame(points).rename(columns={"score": (name := score or str(means["headline"].iloc[0]))})
    table = table.rename(columns={f"score.{end}": f"{name}.{end}" for end in ("low", "high")})
    table = table.drop(columns=["ceiling", "apart"]).assign(mark=[front.kind_of(point) for point in points])
    table["dominated_by"] = table["dominated_by"].map(", ".join)
    drawing = partial(front.draw, points, name)
    show(Figure("Score against cost", table, sections_of(table), drawing=drawing), form, figure.out)
    return 3 if damaged else 0
