"""Which of several methods the data cannot separate from the best one.

    scores of k methods + clusters ──► joint sign flips ──► largest statistic of all pairs ──► ComparisonWithBest

The best of k methods is chosen by the data, and its mean is too high by chance: compared with it as
if it had been chosen before, 20 equal methods have a "significantly worse" one in 11 % of tables.
Here the p of a method is the share of sign flips in which the largest statistic of *any* pair of
methods reaches that of this method and the best one (max-type: P. H. Westfall and S. S. Young 1993;
simultaneous comparisons with the best: J. C. Hsu 1996). Under "no method is better than another"
the probability that any method is separated is 5 %. The flips are those of sign_flips.py, so with
two methods p is that of `paired_test`. What unseen documents may add to a difference (there) counts
for the pair that is tested, not for the others: two versions of one method, which differ in 3 of 100
answers, say nothing of the spread of other pairs, and doubled all intervals when it did.

The interval of a difference holds every d with p(d) >= 0.05, where p(d) is the p of "the difference
is d": d is taken from the pair's own documents, and the statistics of all pairs stand beside it as
they are, since a statistic over its own spread hardly depends on the true difference. So p is below
0.05 exactly if the interval leaves 0 out. Simulated in `python -m bench.coverage`.

`selection_bias` estimates by how much the best one's mean is too high.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from harness.stats.bootstrap import Labels, per_cluster
from harness.stats.paired_tests import paired_test
from harness.stats.resampling import Floats, merge_clusters
from harness.stats.sign_flips import flip_sets, spread_of_questions, unseen_weight

ALPHA = 0.05
_RESAMPLES = 1000  # of the selection bias, which is written with one digit
_FEWEST_OF_JAMES_STEIN = 4  # methods
_TOLERANCE = 1e-9  # equal statistics differ by the order of additions
_HALVINGS = 20  # ends of intervals are exact to a millionth of the span


@dataclass(frozen=True, slots=True)
class FromBest:
    """A method beside the best one.

    Args:
        name: The method.
        mean: Its mean.
        difference: Its mean minus that of the best.
        low: Lower end of the difference, valid for all pairs of methods at once; None: too few
            documents.
        high: Upper end, or None.
        p: The p value of "no method is better than another", for all pairs at once; 1 for the best.
    """

    name: str
    mean: float
    difference: float
    low: float | None
    high: float | None
    p: float

    def reversed(self) -> FromBest:
        """The same comparison the other way round: the mean of the best minus that of this
        method.
        """
        low = high = None
        if self.low is not None and self.high is not None:
            low = -self.high
            high = -self.low
        return replace(self, difference=-self.difference, low=low, high=high)


@dataclass(frozen=True, slots=True)
class ComparisonWithBest:
    """All methods beside the one with the highest mean, in the order that was given.

    Args:
        best: Its name; the first of several with equal means.
        rows: One of each method.
        documents: Number of clusters.
        questions: Number of questions.
    """

    best: str
    rows: Sequence[FromBest]
    documents: int
    questions: int

    def by_name(self) -> dict[str, FromBest]:
        """Name of each method -> its row."""
        found: dict[str, FromBest] = {}
        for row in self.rows:
            found[row.name] = row
        return found

    @property
    def inseparable(self) -> tuple[str, ...]:
        """The names of the best method and of those that the data cannot separate from it (p >=
        0.05).
        """
        others = [row.name for row in self.rows if row.name != self.best and row.p >= ALPHA]
        return (self.best, *others)


def compare_with_best(
    scores: Mapping[str, Sequence[float] | Floats],
    clusters: Labels,
    *,
    best: str | None = None,
    seed: int = 0,
) -> ComparisonWithBest:
    """Compare all methods with the best of them.

    Args:
        scores: Method -> (n,) scores of the same questions in the same order; two methods or more.
        clusters: (n,) the label of each question's document.
        best: The method to compare with; None: the one with the highest mean.
        seed: Fixes the random signs.

    Raises:
        ValueError: A value that is not finite, or lengths that differ.
    """
    names = list(scores)
    sums, sizes = _by_document(scores, clusters)
    means = sums.sum(axis=0) / sizes.sum()
    chosen = int(np.argmax(np.round(means, 12)))
    if best is not None:
        chosen = names.index(best)
    joint = _JointTest.of(sums, sizes, _question_spreads(scores), seed)
    span = _span(scores)
    rows = []
    for place, name in enumerate(names):
        mean = float(means[place])
        if place == chosen:
            rows.append(FromBest(name, mean, 0.0, 0.0, 0.0, 1.0))
            continue
        alone = paired_test(scores[name], scores[names[chosen]], clusters, seed=seed)
        if len(names) == 2:  # the only pair: its own test is that of all pairs
            rows.append(FromBest(name, mean, alone.difference, alone.low, alone.high, alone.p))
            continue
        pair = joint.pair(place, chosen)
        p = max(pair.p(0.0), alone.p)
        low_end, high_end = pair.end(-span), pair.end(span)
        rejects_some_difference = low_end > -span or high_end < span
        low = high = None
        if rejects_some_difference and alone.low is not None and alone.high is not None:
            low = min(alone.low, low_end)
            high = max(alone.high, high_end)
        rows.append(FromBest(name, mean, alone.difference, low, high, p))
    return ComparisonWithBest(names[chosen], tuple(rows), len(sizes), int(sizes.sum()))


def _span(scores: Mapping[str, Sequence[float] | Floats]) -> float:
    """The largest difference that two scores can have: 1 where all are in [0, 1]."""
    highest = 1.0
    lowest = 0.0
    for values in scores.values():
        highest = max(highest, float(np.max(values)))
        lowest = min(lowest, float(np.min(values)))
    return highest - lowest


def _question_spreads(scores: Mapping[str, Sequence[float] | Floats]) -> Floats:
    """The standard deviation of the differences of questions, for each pair of k methods: (k, k).

    Args:
        scores: k methods -> (n,) scores of the same questions.
    """
    columns = [np.asarray(values, dtype=np.float64) for values in scores.values()]
    spreads = np.zeros((len(columns), len(columns)))
    for i, j in combinations(range(len(columns)), 2):
        spreads[i, j] = spreads[j, i] = spread_of_questions(columns[i] - columns[j])
    return spreads


def _by_document(
    scores: Mapping[str, Sequence[float] | Floats], clusters: Labels
) -> tuple[Floats, Floats]:
    """Sum the scores of each method over each document.

    Args:
        scores: k methods -> (n,) scores of the same questions.
        clusters: (n,) the label of each question's document.

    Returns:
        The sums of scores, (G, k), and the numbers of questions, (G,), of the G documents.
    """
    columns = [per_cluster(values, clusters) for values in scores.values()]
    sums = np.stack([column for column, _ in columns], axis=1)
    return sums, columns[0][1]


@dataclass(frozen=True)
class _PairTest:
    """The test of the difference between two methods, for all pairs of methods at once.

    Args:
        sums: (G,) the difference of the two in each document.
        sizes: (G,) the number of questions of each document.
        flipped: (sets,) the total difference under each set of sign flips.
        flipped_sizes: (sets,) the total number of questions with the same signs.
        largest: (sets,) the largest statistic of any pair of methods under each set of sign flips.
        question_spread: The standard deviation of the differences of questions.
    """

    sums: Floats
    sizes: Floats
    flipped: Floats
    flipped_sizes: Floats
    largest: Floats
    question_spread: float

    def p(self, difference: float) -> float:
        """The p of "the true difference is this", between 0 and 1.

        It is the share of sign flips in which the largest statistic of any pair, or that of this
        pair once the difference is taken from it, reaches the observed one.
        """
        residuals = self.sums - difference * self.sizes
        spread = float(np.sqrt(residuals @ residuals))
        if spread == 0.0:
            return 1.0
        observed = abs(float(residuals.sum())) / spread
        unseen = unseen_weight(residuals, self.sizes, 1.0, self.question_spread)
        own = (np.abs(self.flipped - difference * self.flipped_sizes) + unseen) / spread
        reached = np.maximum(self.largest, own) >= observed - _TOLERANCE
        return float(reached.mean())

    def end(self, bound: float) -> float:
        """The end of the 95 % interval on the side of a bound.

        0 is tried first, so that the interval leaves it out exactly if p(0) is below 0.05.

        Args:
            bound: The largest difference that there can be, or the smallest.

        Returns:
            The difference where p falls below 0.05; the bound where it does not.
        """
        inside = float(self.sums.sum() / self.sizes.sum())
        outside = bound
        zero_is_between = min(inside, outside) < 0.0 < max(inside, outside)
        if zero_is_between and self.p(0.0) < ALPHA:
            outside = 0.0
        elif zero_is_between:
            inside = 0.0
        if self.p(outside) >= ALPHA:
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2.0
            if self.p(middle) >= ALPHA:
                inside = middle
            else:
                outside = middle
        return inside


@dataclass(frozen=True)
class _JointTest:
    """Sign flips of all methods together.

    Args:
        sums: (G, k) sums of the scores of k methods in each of G documents.
        sizes: (G,) the number of questions of each document.
        flipped: (sets, k) the total of each method under each set of sign flips.
        flipped_sizes: (sets,) the total number of questions with the same signs.
        largest: (sets,) the largest statistic of any pair of methods; infinite for the observed
            signs.
        question_spreads: (k, k) the standard deviation of the differences of questions of each
            pair.
    """

    sums: Floats
    sizes: Floats
    flipped: Floats
    flipped_sizes: Floats
    largest: Floats
    question_spreads: Floats

    @classmethod
    def of(cls, sums: Floats, sizes: Floats, question_spreads: Floats, seed: int) -> _JointTest:
        """Flip the signs of documents, for all methods alike.

        Args:
            sums: (G, k) sums of the scores of k methods in each of G documents.
            sizes: (G,) the number of questions of each document.
            question_spreads: (k, k) the standard deviation of the differences of questions of each
                pair.
            seed: Fixes the random signs.
        """
        generator = np.random.default_rng(seed)
        *merged, sizes = merge_clusters([*sums.T, sizes], generator)
        sums = np.stack(merged, axis=1)
        flips = flip_sets(len(sizes), generator)
        flipped = sums.sum(axis=0) - 2.0 * (flips @ sums)
        flipped_sizes = sizes.sum() - 2.0 * (flips @ sizes)
        largest = np.zeros(len(flips))
        for i, j in combinations(range(sums.shape[1]), 2):
            differences = sums[:, i] - sums[:, j]
            spread = float(np.sqrt(differences @ differences))
            if spread == 0.0:
                continue
            statistic = np.abs(flipped[:, i] - flipped[:, j]) / spread
            np.maximum(largest, statistic, out=largest)
        largest[0] = np.inf
        return cls(sums, sizes, flipped, flipped_sizes, largest, question_spreads)

    def pair(self, method: int, best: int) -> _PairTest:
        """The test of one method minus the best one.

        Args:
            method: Index of the method, 0 to k - 1.
            best: Index of the best method.
        """
        return _PairTest(
            sums=self.sums[:, method] - self.sums[:, best],
            sizes=self.sizes,
            flipped=self.flipped[:, method] - self.flipped[:, best],
            flipped_sizes=self.flipped_sizes,
            largest=self.largest,
            question_spread=float(self.question_spreads[method, best]),
        )


def selection_bias(scores: Mapping[str, Sequence[float] | Floats], clusters: Labels) -> float:
    """By how much the highest of several means is too high, as it was chosen by the same data.

    Documents are drawn again; each time the method that is best there is chosen, and its mean there
    is compared with the mean that it was drawn from (the optimism of the bootstrap, B. Efron,
    JASA 78, 1983). The means that are drawn from are shrunk to their average as James and Stein
    (1961) do, by what documents make them differ: else equal methods would seem to differ, and the
    bias would come out a third too small.

    Args:
        scores: Method -> (n,) scores of the same questions in the same order; two methods or more.
        clusters: (n,) the label of each question's document.
    """
    sums, sizes = _by_document(scores, clusters)
    generator = np.random.default_rng(0)
    *merged, sizes = merge_clusters([*sums.T, sizes], generator)
    sums = np.stack(merged, axis=1)
    documents = len(sizes)
    drawn = generator.multinomial(documents, np.full(documents, 1.0 / documents), _RESAMPLES)
    means = sums.sum(axis=0) / sizes.sum()
    errors = (drawn @ sums) / (drawn @ sizes)[:, None] - means
    errors -= errors.mean(axis=0)  # 0 but for the finite number of resamples
    again = _shrunk(means, errors) + errors
    best = again.argmax(axis=1)
    return float(errors[np.arange(_RESAMPLES), best].mean())


def _shrunk(means: Floats, errors: Floats) -> Floats:
    """The means, moved to their average by the share of their spread that documents explain.

    The share is that of James and Stein; for 2 and 3 methods, where theirs does not exist, it is
    the moment estimate, the variance by documents over that of the means.

    Args:
        means: (k,) the mean of each method.
        errors: (resamples, k) how far each mean lies off in each resample; what all methods share
            moves none beside the others.
    """
    count = len(means)
    between = float(means.var(ddof=1))
    if between <= 0.0:
        return means
    own = errors - errors.mean(axis=1, keepdims=True)
    within = float((own**2).sum(axis=1).mean()) / (count - 1)
    share = within / between
    if count >= _FEWEST_OF_JAMES_STEIN:
        share *= (count - 3) / (count - 1)
    remaining = max(0.0, 1.0 - share)
    shrunk: Floats = means.mean() + remaining * (means - means.mean())
    return shrunk
