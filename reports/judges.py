"""How far the judges of a run agree: those of correctness with each other and the data set's first
score. With people's labels: labels.py.

    judge_agreements(run)   -> [Raters("judge.m", "musique.answer_f1", Agreement(198, 0.92, 0.84))]

A score that is no judge's counts as right from RIGHT on. Failed questions, which every score counts
as wrong, are left out: all would agree on them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from harness.stats.agreement import kappa
from harness.stats.paired_tests import PairedTest, paired_test
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.table_cell import Cell, Row

MIN_RIGHT_SCORE = 0.5


@dataclass(frozen=True)
class Agreement:
    """How far two raters agree.

    Args:
        n: The number of items that both rated.
        share: The share of these that both rate alike; None without items.
        kappa: J. Cohen's (1960), 1 for full agreement and 0 for that of chance, (share - chance) /
            (1 - chance), where chance is the share expected of independent raters who give each
            rating as often as these do. None where chance alone agrees always: both gave every item
            one rating.
        low: Lower end of the 95 % interval of kappa by document; None where none is shown.
        high: Its upper end.
    """

    n: int
    share: float | None
    kappa: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Raters:
    """Two raters of a run's answers, judges or scores, and how far they agree."""

    first: str
    second: str
    agreement: Agreement

    def columns(self) -> Row:
        """The two raters as a row of a table: {"a": "judge.m", "b": "f1", "n": 198, "share": 0.92,
        ...}."""
        agreement = self.agreement
        return {
            "a": self.first,
            "b": self.second,
            "n": agreement.n,
            "share": agreement.share,
            "kappa": agreement.kappa,
            "low": agreement.low,
            "high": agreement.high,
        }


def correctness_judges(run: StoredRun) -> list[str]:
    """The names of the judges of a run that say whether an answer is right."""
    entries = run.manifest.judges
    judges_with_entry = [name for name in facts.judge_names(run) if name in entries]
    return [name for name in judges_with_entry if entries[name].kind == "correctness"]


def judge_agreements(run: StoredRun) -> list[Raters]:
    """How far each judge of correctness agrees with the data set's first score, then each with each
    other."""
    judges = correctness_judges(run)
    first_score = facts.first_score(run)
    pairs = [*product(judges, [first_score]), *combinations(judges, 2)]
    return [
        Raters(rater, other_rater, _score_agreement(run, rater, other_rater))
        for rater, other_rater in pairs
    ]


def _score_agreement(run: StoredRun, score_name: str, other_name: str) -> Agreement:
    """How far two scores agree on which answers are right, over the answered questions that have
    both.

    Args:
        run: The run.
        score_name: The name of a score or judge.
        other_name: The name of the other.
    """
    ratings = []
    clusters = []
    for record, cluster in zip(run.records, facts.question_clusters(run), strict=True):
        scores = record.scores
        if record.error is None and score_name in scores and other_name in scores:
            is_right = scores[score_name] >= MIN_RIGHT_SCORE
            is_right_by_other = scores[other_name] >= MIN_RIGHT_SCORE
            ratings.append((is_right, is_right_by_other))
            clusters.append(int(cluster))
    return agreement(ratings, clusters)


@dataclass(frozen=True)
class PairwiseResult:
    """Which answers a judge of pairs prefers, of a run and another one.

    Args:
        other_run: Name of the other run's folder.
        wins: Number of questions on which the run's answer is preferred in both orders.
        ties: Number of questions on which neither answer is.
        losses: Number of questions on which the other run's answer is.
        test: Wins less losses as a share of these questions; None without any.
    """

    other_run: str
    wins: int
    ties: int
    losses: int
    test: PairedTest | None

    def columns(self) -> Row:
        """The result as a row of a table: {"other_run": "...", "wins": 12, "ties": 5, "losses": 3,
        ...}."""
        row: dict[str, Cell] = {
            "other_run": self.other_run,
            "wins": self.wins,
            "ties": self.ties,
            "losses": self.losses,
        }
        if self.test is not None:
            row["difference"] = self.test.difference
            row["low"] = self.test.low
            row["high"] = self.test.high
            row["p"] = self.test.p
            row["documents"] = self.test.clusters
        return row


def pairwise_result(run: StoredRun, judge: str) -> PairwiseResult:
    """The wins, ties and losses of a run against another by a judge of pairs, with a test by
    document.

    Args:
        run: The run.
        judge: The name of the judge's score: 1 for a win, 0.5 for a tie, 0 for a loss.
    """
    score_values = facts.score_values(run, judge)
    points = list(score_values.values)
    wins = points.count(1.0)
    ties = points.count(0.5)
    test = None
    if points:
        points_of_other = 1.0 - np.asarray(points)
        test = paired_test(points, points_of_other, score_values.clusters)
    return PairwiseResult(
        other_run=str(run.manifest.judges[judge].other_run),
        wins=wins,
        ties=ties,
        losses=len(points) - wins - ties,
        test=test,
    )


def agreement(pairs: Sequence[tuple[Hashable, Hashable]], clusters: Sequence[int]) -> Agreement:
    """How far two raters agree on the items that both rated.

        >>> agreement([(True, True), (True, False), (False, False), (False, False)], [0, 1, 2, 3])
        Agreement(n=4, share=0.75, kappa=0.5, low=None, high=None)

    Args:
        pairs: (rating of the first, rating of the second) of each item.
        clusters: The cluster of each item, as its document.
    """
    n_items = len(pairs)
    if not n_items:
        return Agreement(n=0, share=None, kappa=None)
    n_alike = sum(1 for rating, other_rating in pairs if rating == other_rating)
    first_ratings = [rating for rating, _ in pairs]
    second_ratings = [other_rating for _, other_rating in pairs]
    kappa_estimate = kappa(first_ratings, second_ratings, clusters)
    return Agreement(
        n=n_items,
        share=n_alike / n_items,
        kappa=kappa_estimate.value,
        low=kappa_estimate.low,
        high=kappa_estimate.high,
    )
