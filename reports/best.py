"""Which runs of one data set the data cannot separate from the best one
(harness/stats/best_of_several.py)."""

from collections.abc import Sequence

from harness.errors import UserError
from harness.stats.best_of_several import BesideBest, compare_with_best, selection_bias
from harness.storage.run_folder import StoredRun
from reports import facts


def beside_best(runs: Sequence[StoredRun], score: str, best: str | None = None) -> BesideBest:
    """Compare runs with the best of them on the questions that all of them have a score for.

    Args:
        runs: Two or more of one data set; their names are the names in the result.
        score: Name of the score.
        best: Name of the run to compare with; None: the one with the highest mean.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    scores, clusters = _common_scores(runs, score)
    return compare_with_best(scores, clusters, best=best)


def too_high_by(runs: Sequence[StoredRun], score: str) -> float:
    """By how much the highest score of these runs is too high, as it was chosen by the same
    questions.

    Args:
        runs: Two or more of one data set.
        score: Name of the score.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    return selection_bias(*_common_scores(runs, score))


def _common_scores(
    runs: Sequence[StoredRun], score: str
) -> tuple[dict[str, list[float]], list[int]]:
    """Name of each run -> its scores of the questions that all of them have one for, and the
    clusters of these. Raises UserError, UnknownName."""
    columns = [facts.scored(run, score) for run in runs]
    values = [dict(zip(column.ids, column.values, strict=True)) for column in columns]
    clusters = dict(zip(columns[0].ids, columns[0].clusters, strict=True))
    shared = set(values[0]).intersection(*values)
    common = [question for question in columns[0].ids if question in shared]
    if not common:
        raise UserError(f"the runs have no question with the score {score} in common")
    scores = {}
    for run, by_question in zip(runs, values, strict=True):
        scores[run.name] = [by_question[question] for question in common]
    return scores, [int(clusters[question]) for question in common]
