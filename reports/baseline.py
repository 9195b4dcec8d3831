"""A run beside an earlier one, as `harness gate` judges it: the paired difference, and what speaks
against comparing them.

    compare_with_baseline(run, base).difference     -> -0.03
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UserError
from harness.stats.paired_tests import paired_test
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.checks import Checks
from reports.run_pairs import RunPair, choose_score, comparison_problems
from reports.run_records import values_in_order


@dataclass(frozen=True)
class BaselineComparison:
    """A run's score minus that of an earlier run, on the questions of the earlier one.

    Args:
        score: Name of the score.
        difference: Mean of run minus baseline, in [-1, 1].
        low: Lower end of its 95 % interval; None: too few documents.
        high: Upper end, or None.
        questions: The number of questions that are compared.
        documents: The number of their clusters.
        asks_whole_folder: Whether all are about all pages of a folder; then clusters are questions.
        left_out: The number of questions that the baseline has a score for and the run has not.
        objections: What would have stopped `harness compare`, a sentence each.
    """

    score: str
    difference: float
    low: float | None
    high: float | None
    questions: int
    documents: int
    asks_whole_folder: bool
    left_out: int
    objections: Sequence[str]


def compare_with_baseline(
    run: StoredRun, base: StoredRun, score: str | None = None, allow_left_out: bool = False
) -> BaselineComparison:
    """A run's score minus that of an earlier run, with its interval.

    Two runs are compared also where both have one name, or where their models differ.

    Args:
        run: The run that is judged.
        base: The run that it is compared with.
        score: Name of the score; None: the baseline's headline.
        allow_left_out: Leave questions out that only the baseline has a score for; else they count
            0 for the run.

    Raises:
        UserError: The two have no scored question in common.
        UnknownName: One of them does not have the score.
    """
    pair = RunPair(run, "this run", base, "the baseline")
    score_name = choose_score(pair, score)
    score_by_question = facts.score_values(run, score_name).by_question()
    base_scores = facts.score_values(base, score_name)
    shared_ids = [question for question in base_scores.ids if question in score_by_question]
    if not shared_ids:
        raise UserError("the two have no scored question in common")
    compared_ids = list(base_scores.ids)
    if allow_left_out:
        compared_ids = shared_ids
    test = paired_test(
        [score_by_question.get(question, 0.0) for question in compared_ids],
        values_in_order(base_scores.by_question(), compared_ids),
        values_in_order(base_scores.clusters_by_question(), compared_ids),
    )
    problems = comparison_problems(pair, score_name, Checks())
    return BaselineComparison(
        score=score_name,
        difference=test.difference,
        low=test.low,
        high=test.high,
        questions=test.n,
        documents=test.clusters,
        asks_whole_folder=facts.asks_whole_folder(run),
        left_out=len(base_scores.ids) - len(shared_ids),
        objections=[f"compared all the same: {reason}" for reason in problems],
    )
