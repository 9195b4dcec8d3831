"""`harness study`: figures of stored runs, each made by the module of its name.

No model is loaded, for lengths only a run's tokenizer. Texts, supporting marks and gold answers are
the data set's.
"""

from harness.cli.figures import write_figure
from harness.cli.options import Convention, MovedData, Runs, Score
from harness.cli.table_output import FigureOutput
from harness.cost.flops import DEFAULT_CONVENTION


def study_position(
    folders: Runs, output: FigureOutput, score: Score = None, data: MovedData = None
) -> int:
    """Plot the score by where the evidence stands in the text, and by how far apart its parts are.

    Runs whose rows cannot be loaded are left out with a warning.
    """
    return write_figure("position", output, folders, "harness_audit", score=score, data=data)


def study_length(
    folders: Runs, output: FigureOutput, score: Score = None, data: MovedData = None
) -> int:
    """Plot the score, and how often the answer was shown, by the length of the documents.

    Runs whose rows or tokenizer cannot be loaded are left out with a warning.
    """
    return write_figure("length", output, folders, "harness_audit", score=score, data=data)


def study_trials(
    folders: Runs,
    output: FigureOutput,
    score: Score = None,
    data: MovedData = None,
    convention: Convention = DEFAULT_CONVENTION,
) -> int:
    """Plot score and requests by the maximum number of trials, from runs made with
    --record-stops."""
    return write_figure(
        "trials", output, folders, "harness_audit", score=score, data=data, convention=convention
    )


def study_requests(folders: Runs, output: FigureOutput, score: Score = None) -> int:
    """Plot the score by the number of requests per question; requests for indexes are counted
    apart."""
    return write_figure("requests", output, folders, "harness_audit", score=score)
