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
from reports.run_pairs import RunPair, compared_score, objections
from reports.run_records import values_of


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
    name = compared_score(pair, score)
    values = facts.scored(run, name).by_question()
    baseline = facts.scored(base, name)
    base_values = baseline.by_question()
    clusters = baseline.clusters_by_question()
    shared = [question for question in baseline.ids if question in values]
    if not shared:
        raise UserError("the two have no scored question in common")
    compared = list(baseline.ids)
    if allow_left_out:
        compared = shared
    test = paired_test(
        [values.get(question, 0.0) for question in compared],
        values_of(base_values, compared),
        values_of(clusters, compared),
    )
    reasons = objections(pair, name, Checks())
    return BaselineComparison(
        score=name,
        difference=test.difference,
        low=test.low,
        high=test.high,
        questions=test.n,
        documents=test.clusters,
        asks_whole_folder=facts.asks_whole_folder(run),
        left_out=len(baseline.ids) - len(shared),
        objections=[f"compared all the same: {reason}" for reason in reasons],
    )
