"""Which runs of one data set the data cannot separate from the best one
(harness/stats/best_of_several.py)."""

from collections.abc import Sequence

from harness.errors import UserError
from harness.stats.best_of_several import ComparisonWithBest, compare_with_best, selection_bias
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.run_records import values_of


def compare_runs_with_best(
    runs: Sequence[StoredRun], score: str, best: str | None = None
) -> ComparisonWithBest:
    """Compare runs with the best of them on the questions that all of them have a score for.

    Args:
        runs: Two or more of one data set; their names are the names in the result.
        score: Name of the score.
        best: Name of the run to compare with; None: the one with the highest mean.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    scores, clusters = common_scores(runs, score)
    return compare_with_best(scores, clusters, best=best)


def too_high_by(runs: Sequence[StoredRun], score: str) -> float:
    """By how much the highest score of these runs is too high by chance, in [0, 1].

    The run was chosen by the same questions that give its score.

    Args:
        runs: Two or more of one data set.
        score: Name of the score.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    return selection_bias(*common_scores(runs, score))


def common_scores(
    runs: Sequence[StoredRun], score: str
) -> tuple[dict[str, list[float]], list[int]]:
    """The scores of runs on the questions that all of them have one for, and the clusters of these.

        -> {"bm25--0a": [1.0, 0.0], "sbert--1b": [1.0, 1.0]}, [0, 0]

    Args:
        runs: Runs of one data set.
        score: Name of the score.

    Returns:
        Name of each run -> its scores, and the cluster of each question, in one order.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    columns = [facts.scored(run, score) for run in runs]
    first = columns[0]
    shared = set(first.ids)
    by_run = {}
    for run, column in zip(runs, columns, strict=True):
        values = column.by_question()
        by_run[run.name] = values
        shared &= values.keys()
    common = [question for question in first.ids if question in shared]
    if not common:
        raise UserError(f"the runs have no question with the score {score} in common")
    scores = {name: values_of(values, common) for name, values in by_run.items()}
    return scores, values_of(first.clusters_by_question(), common)
