"""`harness study`: figures of stored runs, each made by the module of its name.

No model is loaded, for lengths only a run's tokenizer. Texts, supporting marks and gold answers are the data set's.
"""

from typing import Annotated

from harness.cli.command import setting
from harness.cli.figures import parse_numbers, write_figure
from harness.cli.options import Convention, MovedData, Runs, Score
from harness.cli.table_output import FigureOutput
from harness.cost.flops import DEFAULT
from harness.errors import UserError


def study_position(
    folders: Runs,
    output: FigureOutput,
    score: Score = None,
    parts: Annotated[int, setting("--parts N", "Equal parts to divide the text into.", min=2)] = 3,
    data: MovedData = None,
) -> int:
    """Plot the score by where the evidence stands in the text, and by how far apart its parts are.

    Runs whose rows cannot be loaded are left out with a warning.
    """
    return write_figure("position", output, folders, "harness_audit", score=score, parts=parts, data=data)


def study_length(
    folders: Runs,
    output: FigureOutput,
    score: Score = None,
    edges: Annotated[
        str | None,
        setting("--edges N,...", "Edges of the length groups, in tokens.", "four groups of about equal size"),
    ] = None,
    data: MovedData = None,
) -> int:
    """Plot the score, and how often the answer was shown, by the length of the documents.

    Runs whose rows or tokenizer cannot be loaded are left out with a warning.
    """
    limits = parse_numbers(edges, "--edges", int, lambda n: n > 0, "numbers of tokens")
    if limits is not None and limits != sorted(limits):
        raise UserError(f"--edges {edges}: should rise from edge to edge")
    return write_figure("length", output, folders, "harness_audit", score=score, edges=limits, data=data)


def study_trials(
    folders: Runs,
    output: FigureOutput,
    score: Score = None,
    most: Annotated[
        int | None, setting("--most N", "Highest maximum to show.", "the highest recorded one", min=0)
    ] = None,
    data: MovedData = None,
    convention: Convention = DEFAULT,
) -> int:
    """Plot score and requests by the maximum number of trials, from runs made with --record-stops."""
    return write_figure(
        "trials", output, folders, "harness_audit", most=most, score=score, data=data, convention=convention
    )


def study_requests(folders: Runs, output: FigureOutput, score: Score = None) -> int:
    """Plot the score by the number of requests per question; requests for indexes are counted apart."""
    return write_figure("requests", output, folders, "harness_audit", score=score)
