"""Which runs of one data set the data cannot separate from the best one
(harness/stats/best_of_several.py)."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from harness.errors import UserError
from harness.stats.best_of_several import ComparisonWithBest, compare_with_best, selection_bias
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.run_records import values_in_order


def compare_runs_with_best(
    runs: Sequence[StoredRun],
    score_name: str,
    best: str | None = None,
    among: Collection[str] | None = None,
) -> ComparisonWithBest:
    """Compare runs with the best of them on the questions that all of them have a score for.

    Args:
        runs: Two or more of one data set; their names are the names in the result.
        score_name: Name of the score.
        best: Name of the run to compare with; None: the one with the highest mean.
        among: The ids of the questions that count; None for all.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    common = common_scores(runs, score_name, among)
    return compare_with_best(common.scores, common.clusters, best=best)


def bias_of_highest_score(
    runs: Sequence[StoredRun], score_name: str, among: Collection[str] | None = None
) -> float:
    """By how much the highest score of these runs is too high by chance, in [0, 1].

    The run was chosen by the same questions that give its score.

    Args:
        runs: Two or more of one data set.
        score_name: Name of the score.
        among: The ids of the questions that count; None for all.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    common = common_scores(runs, score_name, among)
    return selection_bias(common.scores, common.clusters)


class CommonScores(NamedTuple):
    """The scores of several runs on the same questions.

        -> CommonScores({"bm25--0a": [1.0, 0.0], "sbert--1b": [1.0, 1.0]}, [0, 0])

    Attributes:
        scores: Name of each run -> the score of each question.
        clusters: The cluster of each question, in the same order.
    """

    scores: dict[str, list[float]]
    clusters: list[int]


def common_scores(
    runs: Sequence[StoredRun], score_name: str, among: Collection[str] | None = None
) -> CommonScores:
    """The scores of runs on the questions for which all of them have one, in the order of the first
    run, with the clusters of its questions.

    Args:
        runs: Runs of one data set.
        score_name: Name of the score.
        among: The ids of the questions that count; None for all.

    Raises:
        UserError: They have no scored question in common.
        UnknownName: A run does not have the score.
    """
    scores_of_runs = [facts.score_values(run, score_name) for run in runs]
    scores_of_first_run = scores_of_runs[0]
    shared_ids = set(scores_of_first_run.ids)
    if among is not None:
        shared_ids.intersection_update(among)
    score_by_question_by_run = {}
    for run, scores_of_run in zip(runs, scores_of_runs, strict=True):
        score_by_question = scores_of_run.by_question()
        score_by_question_by_run[run.name] = score_by_question
        shared_ids &= score_by_question.keys()
    common_ids = [question for question in scores_of_first_run.ids if question in shared_ids]
    if not common_ids:
        raise UserError(f"the runs have no question with the score {score_name} in common")
    scores = {}
    for run_name, score_by_question in score_by_question_by_run.items():
        scores[run_name] = values_in_order(score_by_question, common_ids)
    clusters = values_in_order(scores_of_first_run.clusters_by_question(), common_ids)
    return CommonScores(scores, clusters)
