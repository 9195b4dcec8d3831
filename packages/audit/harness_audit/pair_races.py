"""A duel's pairs of methods: a sequential test for each, when it is settled, and which method is
shown to be better.

    races = PairRaces(["pecan", "bm25", "garlic"], sizes, Rules(alpha=0.05))
    races.add_cluster({"pecan": 2.0, "bm25": 1.0, "garlic": 0.5}, 2)       sums of scores over 2 questions of a document
    races.active, races.pairs[0].sentence

The statistics: sequential.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.errors import UserError
from harness_audit.sequential import PairedRace, extend_ranking

Target = Literal["population", "table"]
SettledBy = Literal["level", "order", "width", "all"]
TARGETS: tuple[Target, ...] = ("population", "table")


@dataclass(frozen=True)
class Rules:
    """When a pair is settled, about what, and by which score.

    Args:
        alpha: Largest probability of any wrong verdict, over all pairs and moments.
        width: Also settle a pair whose interval is at most this wide (a difference of scores, 0.05
            for 5 points).
        target: "population" for documents like these, "table" for exactly these questions.
        score: Its name; by default the data set's first scorer.

    Raises:
        UserError: A value cannot be used.
    """

    alpha: float = 0.05
    width: float | None = None
    target: Target = "population"
    score: str | None = None

    def __post_init__(self) -> None:
        """Raise UserError for a value that cannot be used."""
        if not 0.0 < self.alpha < 1.0:
            raise UserError(f"--alpha {self.alpha:g}: should be between 0 and 1, for example 0.05")
        if self.width is not None and not 0.0 < self.width < 2.0:
            raise UserError(
                f"--width {100 * self.width:g}: should be points of the score between 0 and 200"
            )
        if self.target not in TARGETS:
            raise UserError(f"--target {self.target}: should be {' or '.join(TARGETS)}")


@dataclass(frozen=True)
class Verdict:
    """What is known of a pair, as `harness duel --json` prints it.

    Args:
        a: The first method.
        b: The second method.
        settled_by: "level", "order", "width" or "all", as in `Pair`; None while the pair is open.
        better: The method that is shown to be better; None for neither.
        difference: Mean of a minus b, of scores in [0, 1]; None without a question.
        low: Lower end of its interval.
        high: Upper end of its interval.
        p: The p value of the test.
        questions: How many questions were used so far.
        clusters: How many documents or groups of documents were used so far.
    """

    a: str
    b: str
    settled_by: SettledBy | None
    better: str | None
    difference: float | None
    low: float
    high: float
    p: float
    questions: int
    clusters: int


@dataclass
class Pair:
    """Two methods and the test of their difference.

    Args:
        a: The first method.
        b: The second method.
        race: The test.
        settled_by: None while the pair is open; "level": by its own test; "order": by other pairs
            (a above b above c); "width": its interval is narrow enough; "all": by no rule, every
            question is used.
        better: The method that is shown to be better, if any.
        interval: Of the difference of scores, a minus b.
    """

    a: str
    b: str
    race: PairedRace
    settled_by: SettledBy | None = None
    better: str | None = None
    interval: tuple[float, float] = (-1.0, 1.0)

    @property
    def sentence(self) -> str:
        """The verdict in words, or what is known so far of an open pair:

        "a is better than b: a minus b is +12.1 points [3.0, 20.8], n = 60, p = 0.01"

        A p value stands only where the pair's own test decided ("level") or it is open. A mean of
        no questions is shown as 0.
        """
        mean = self.race.mean or 0.0
        low, high = self.interval
        points = f"{100 * mean:+.1f} points [{100 * low:.1f}, {100 * high:.1f}], n = {self.race.n}"
        known_so_far = f"{self.a} minus {self.b} is {points}"
        if self.better is not None:
            other = self.a
            if self.better == self.a:
                other = self.b
            explanation = f"by other pairs; {known_so_far}"
            if self.settled_by == "level":
                explanation = f"{known_so_far}, p = {self.race.p:.2g}"
            return f"{self.better} is better than {other}: {explanation}"
        if self.settled_by == "width":
            return f"{known_so_far}, the width that was asked for"
        return f"{self.a} and {self.b} are not settled: {known_so_far}, p = {self.race.p:.2g}"

    def verdict(self) -> Verdict:
        """What is known of the pair now, as values."""
        low, high = self.interval
        return Verdict(
            a=self.a,
            b=self.b,
            settled_by=self.settled_by,
            better=self.better,
            difference=self.race.mean,
            low=low,
            high=high,
            p=self.race.p,
            questions=self.race.n,
            clusters=self.race.clusters,
        )


class PairRaces:
    """All pairs of a duel.

    Attributes:
        pairs: Each two methods, in the order of the command.
        clusters_used: Method -> how many clusters it was scored on while it had an open pair.
    """

    def __init__(self, names: Sequence[str], sizes: Sequence[int], rules: Rules) -> None:
        """Begin the tests of all pairs.

        Args:
            names: The methods.
            sizes: Questions of each cluster.
            rules: When a pair is settled.
        """
        self.names = names
        self.rules = rules
        self.pairs: list[Pair] = []
        for a, b in itertools.combinations(names, 2):
            race = PairedRace(sizes, finite=rules.target == "table")
            self.pairs.append(Pair(a, b, race))
        self.clusters_used = dict.fromkeys(names, 0)
        # At [i, j]: whether method i is shown to be better than j, and the evidence for it.
        self._better = np.zeros((len(names), len(names)), dtype=bool)
        self._evidence = np.zeros(self._better.shape)

    @property
    def active(self) -> list[str]:
        """The methods with a pair that is not settled, in the order of the command."""
        racing: set[str] = set()
        for pair in self.pairs:
            if pair.settled_by is None:
                racing.update((pair.a, pair.b))
        return [name for name in self.names if name in racing]

    def add_cluster(self, sums: Mapping[str, float], size: int) -> None:
        """Update the test of every open pair with the scores on the next cluster, and settle the
        pairs that the rules allow. Each method with an open pair is counted as having used it.

        Args:
            sums: Method -> sum of its scores over the cluster's questions, for each active method.
            size: How many questions the cluster has.
        """
        for name in self.active:  # a method may have left within this batch
            self.clusters_used[name] += 1
        alpha_per_pair = self.rules.alpha / len(self.pairs)
        indices = list(itertools.combinations(range(len(self.names)), 2))
        for pair, (i, j) in zip(self.pairs, indices, strict=True):
            if pair.settled_by is not None:
                continue
            difference = sums[pair.a] - sums[pair.b]
            # Sums of floats may pass the bound by a rounding error.
            pair.race.add(min(max(difference, -size), size))
            pair.interval = pair.race.interval(alpha_per_pair)
            self._evidence[i, j], self._evidence[j, i] = pair.race.evidence
        # This call also marks in `_better` what is shown now, by own evidence or by other pairs.
        by_own_evidence = set(extend_ranking(self._better, self._evidence, self.rules.alpha))
        for pair, (i, j) in zip(self.pairs, indices, strict=True):
            has_own_evidence = (i, j) in by_own_evidence or (j, i) in by_own_evidence
            if pair.better is None:
                self._settle(pair, i, j, has_own_evidence=has_own_evidence)

    def _settle(self, pair: Pair, i: int, j: int, *, has_own_evidence: bool) -> None:
        """Settle a pair without a verdict, if the rules allow it: sets its `better` and
        `settled_by`, which is "level" by its own test, "order" by those of other pairs, "width"
        where its interval is narrow enough, "all" where every question is used.

        Args:
            pair: The pair; one that is settled by its width may still get a verdict.
            i: The index of its first method in `names`.
            j: The index of its second method.
            has_own_evidence: Whether its own test, not those of other pairs, shows which is better.
        """
        low, high = pair.interval
        if self._better[i, j] or self._better[j, i]:
            pair.better = pair.b
            if self._better[i, j]:
                pair.better = pair.a
            pair.settled_by = "order"
            if has_own_evidence:
                pair.settled_by = "level"
        elif self.rules.width is not None and high - low <= self.rules.width + 1e-9:
            pair.settled_by = "width"
        elif pair.race.complete:
            pair.settled_by = "all"
