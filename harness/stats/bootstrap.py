"""Intervals that respect documents: questions about one document are not independent.

    values + clusters ──► sums per cluster ──► mean and its error ──► Interval

    >>> found = interval([1.0, 0.0, 1.0, 1.0], ["d1", "d1", "d2", "d3"])
    >>> found.mean, round(found.low, 2), round(found.high, 2), found.n, found.clusters
    (0.75, 0.15, 0.98, 4, 3)

A cluster is whatever must be resampled as one (question_clusters.py).

How an interval is made depends on what a value is (figures: python -m bench.coverage):

    scores in [0, 1]   Wilson's interval (1927) with an effective number of questions, m (1 - m) / V;
                       V, the variance of the mean, follows from the correlation within documents
    differences        the inverted sign-flip test over documents (sign_flips.py)
    costs              the wider of the bootstrap-t (Efron 1979, with Hesterberg's expanded quantiles,
                       2015) and D. R. Cox's interval for the mean of lognormal values (Zhou and Gao
                       1997): a sample of heavy tails often holds none of the dear ones

None is shown with fewer than 3 clusters, for differences with fewer than 6, for costs where the
clusters weigh as few as 8 equal ones. The bootstrap percentile interval of earlier versions covered
50 % with 2 documents and 82 to 87 % with 5 and 10 of unequal size.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.stats.resampling import (
    EQUAL,
    RESAMPLES,
    Floats,
    bootstrap_t_ends,
    student_quantile,
)
from harness.stats.sign_flips import sign_flip_test, spread_of_questions

# Names of clusters, or their numbers in the order of the names, 0 for the first.
Labels = Sequence[str] | Sequence[int] | NDArray[np.int32]

LEVEL = 0.95  # of every interval that is shown, unless its place says otherwise
FEWEST = 3  # clusters of an interval: two say next to nothing about the spread between documents
MAX_LOG_HALF_WIDTH = math.log(1000.0)  # an interval of costs that reaches further says nothing
# Documents whose spread is as large as it can be, chosen by simulation.
WORST_BETWEEN = 0.75
WORST_SPREAD = 2.0
FEWEST_FOR_COSTS = 8  # of equal weight: costs have no upper end that bounds what was not seen


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its interval. mean is None where there is no value; low and high are None where
    there are too few clusters for an interval that covers what it says."""

    mean: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int


NOTHING = Interval(None, None, None, 0, 0)


def with_interval(
    write: Callable[[float], str], value: float, low: float | None, high: float | None
) -> str:
    """Write a value with its interval: "41.3 [36.0, 46.9]"; alone if an end is None or NaN.

    Args:
        write: Writes a number, 41.32 -> "41.3".
        value: The value.
        low: The lower end.
        high: The upper end.
    """
    if low is None or high is None or math.isnan(low + high):
        return write(value)
    return f"{write(value)} [{write(low)}, {write(high)}]"


def interval(
    values: Sequence[float] | Floats,
    clusters: Labels,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Interval:
    """The mean of `values`, all weighing alike, with an interval that respects clusters.

    Args:
        values: (n,), finite.
        clusters: The cluster of each value: n names, or n integers, the numbers of the names in
            sorted order. The order of the values does not matter.
        seed: Fixes the resamples of costs.
        resamples: The number of resamples of costs.
        level: Coverage, between 0 and 1.
        bounds: The range a value can have: (0, 1) for scores, (-1, 1) for their differences, None
            for costs. It selects the method: Wilson's interval, the inverted sign-flip test, or
            the bootstrap-t with Cox's interval.

    Returns:
        The mean with its interval; without an interval where there are too few clusters.

    Raises:
        ValueError: Values that are not finite, or lengths that differ.
    """
    sums, sizes = per_cluster(values, clusters)
    n = int(sizes.sum())
    n_clusters = len(sizes)
    if n == 0:
        return NOTHING
    mean = float(sums.sum() / n)
    ends = None
    if bounds is None:
        ends = _ends_of_costs(sums, sizes, seed, resamples, level)
    elif n_clusters >= FEWEST and bounds[0] < 0.0:
        largest_difference = max(bounds[1], -bounds[0])
        question_spread = spread_of_questions(values)
        ends = _ends_of_differences(
            sums, sizes, largest_difference, question_spread, level=level, seed=seed
        )
    elif n_clusters >= FEWEST:
        squares = per_cluster(np.square(values), clusters).sums
        ends = _ends_of_scores(sums, squares, sizes, bounds, level)
    if ends is None:
        return Interval(mean, None, None, n, n_clusters)
    # Rounding must not put the mean outside of its own interval.
    low = min(ends[0], mean)
    high = max(ends[1], mean)
    return Interval(mean, low, high, n, n_clusters)


class ClusterSums(NamedTuple):
    """Values by cluster, in the order of the labels.

    Attributes:
        sums: (G,) the sum of the values of each cluster.
        sizes: (G,) how many they are.
    """

    sums: Floats
    sizes: Floats


def per_cluster(values: Sequence[float] | Floats, clusters: Labels) -> ClusterSums:
    """The sum of the values and their number in each cluster, in the order of the labels.

    ([1.0, 0.0, 1.0], ["d1", "d1", "d2"]) -> ClusterSums([1.0, 1.0], [2.0, 1.0]). Values of a cluster
    are added in sorted order, so the result does not depend on their order. Numbers that no value
    has, such as 1 in [0, 0, 2], are no clusters.

    Args:
        values: (n,), finite.
        clusters: The cluster of each value: n names, or n integers, the numbers of the names in
            sorted order ([0, 0, 1] for ["d1", "d1", "d2"]).

    Raises:
        ValueError: Values that are not finite, or lengths that differ.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or len(numbers) != len(clusters):
        raise ValueError(f"{len(numbers)} values do not match {len(clusters)} cluster labels")
    if not np.isfinite(numbers).all():
        raise ValueError("values must be finite numbers; score a missing value 0.0 and flag it")
    if not len(numbers):
        return ClusterSums(np.zeros(0), np.zeros(0))
    cluster_numbers = np.asarray(clusters)
    are_names = not np.issubdtype(cluster_numbers.dtype, np.signedinteger)
    if are_names:
        cluster_numbers = np.unique(cluster_numbers, return_inverse=True)[1]
    order = np.lexsort((numbers, cluster_numbers))
    sums = np.bincount(cluster_numbers[order], weights=numbers[order])
    sizes = np.bincount(cluster_numbers)
    has_values = sizes > 0
    return ClusterSums(
        sums=sums[has_values].astype(np.float64), sizes=sizes[has_values].astype(np.float64)
    )


def _ends_of_differences(
    sums: Floats, sizes: Floats, span: float, question_spread: float, *, level: float, seed: int
) -> tuple[float, float] | None:
    """The ends of the interval of a mean difference, by the inverted sign-flip test; None where
    the test rejects no mean.

    Args:
        sums: (G,) the sum of the differences in each cluster.
        sizes: (G,) the number of questions of each cluster.
        span: The largest difference that there can be.
        question_spread: The standard deviation of the differences of questions.
        level: Coverage.
        seed: Fixes the random signs.
    """
    flip_test = sign_flip_test(
        sums, sizes, span=span, question_spread=question_spread, level=level, seed=seed
    )
    if flip_test.low is None or flip_test.high is None:
        return None
    return flip_test.low, flip_test.high


def _ends_of_scores(
    sums: Floats, squares: Floats, sizes: Floats, bounds: tuple[float, float], level: float
) -> tuple[float, float]:
    """The ends of the interval of a mean score: Wilson's, with the effective number of questions
    m (1 - m) / V.

    Student's t has G + 2 degrees of freedom: V leans to its largest value already.

    Args:
        sums: (G,) the sum of the scores in each cluster.
        squares: (G,) the sum of their squares.
        sizes: (G,) the number of questions of each cluster.
        bounds: The range of a score. For scores beyond it no worst case is known, and the interval
            is Student's with G - 1 degrees of freedom.
        level: Coverage.
    """
    n_clusters = len(sizes)
    mean = float(sums.sum() / sizes.sum())
    means = sums / sizes
    is_within_bounds = bounds[0] <= float(np.min(means)) and float(np.max(means)) <= bounds[1]
    spread = mean * (1.0 - mean)
    if not is_within_bounds:
        residuals = sums - mean * sizes
        standard_error = math.sqrt(
            n_clusters / (n_clusters - 1) * float(residuals @ residuals)
        ) / float(sizes.sum())
        half_width = student_quantile((1.0 + level) / 2.0, n_clusters - 1) * standard_error
        return mean - half_width, mean + half_width
    if np.ptp(means) <= EQUAL:
        return _ends_without_spread(mean, bounds, n_clusters, level)
    t = student_quantile((1.0 + level) / 2.0, n_clusters + 2)
    a = t**2 * _variance_of_mean(sums, squares, sizes) / spread
    half_width = math.sqrt(a * spread + a * a / 4.0) / (1.0 + a)
    center = (mean + a / 2.0) / (1.0 + a)
    return max(center - half_width, bounds[0]), min(center + half_width, bounds[1])


def _variance_of_mean(sums: Floats, squares: Floats, sizes: Floats) -> float:
    """Variance of the mean m of scores in [0, 1] from the correlation r within documents.

        V = s^2 (1 + r (n q - 1)) / n,   q = sum of (n_g / n)^2,   s^2: variance of a score

    r is the moment estimate from all pairs of one document, each document weighing n_g - 1. Both
    r s^2, the variance between documents, and s^2 lean towards the largest variance that values in
    [0, 1] with this mean can have, m (1 - m) (R. Bhatia and C. Davis 2000), with the weights of
    WORST_BETWEEN and WORST_SPREAD documents against the number of documents that carry the spread.
    Those are few near 0 and 1: where one document of fifty is wrong, little is known of how its
    questions agree. Where three documents of a hundred are wholly wrong, a fifth of all samples of
    fifty show none of them; nearly all intervals that miss the truth are of such samples.

    Args:
        sums: (G,) the sum of the scores in each document.
        squares: (G,) the sum of their squares.
        sizes: (G,) the number of questions of each document, n_g.
    """
    n_questions = float(sizes.sum())
    mean = float(sums.sum() / n_questions)
    squared_deviations = np.maximum(squares - 2.0 * mean * sums + mean**2 * sizes, 0.0)
    seen_variance = float(squared_deviations.sum() / n_questions)
    design_excess = float((sizes**2).sum() / n_questions) - 1.0  # n q - 1
    correlation = _correlation_within(sums - mean * sizes, squared_deviations, sizes, design_excess)
    largest_variance = mean * (1.0 - mean)
    variance_between = _leaning(
        correlation * seen_variance,
        largest_variance,
        _effective_number((sizes - 1.0) * squared_deviations / sizes),
        WORST_BETWEEN,
    )
    variance = _leaning(
        seen_variance, largest_variance, _effective_number(squared_deviations), WORST_SPREAD
    )
    design_effect = 1.0 + min(variance_between / variance, 1.0) * design_excess
    return variance * design_effect / max(n_questions - design_effect, 1e-9)


def _correlation_within(
    residuals: Floats, squared_deviations: Floats, sizes: Floats, design_excess: float
) -> float:
    """The correlation of two scores of one document, from 0 to 1: the mean product of the
    deviations of all pairs, each document weighing n_g - 1, over the variance of a score.

    Args:
        residuals: (G,) the sum of the deviations from the mean in each document.
        squared_deviations: (G,) the sum of their squares.
        sizes: (G,) the number of questions of each document, n_g.
        design_excess: sum of n_g^2 / n, less 1.
    """
    n_questions = float(sizes.sum())
    pairs = sizes * (sizes - 1.0)
    sums_of_products = residuals**2 - squared_deviations
    mean_products = np.divide(sums_of_products, pairs, out=np.zeros_like(pairs), where=pairs > 0.0)
    mean_product = float(((sizes - 1.0) * mean_products).sum())
    mean_product /= max(float((sizes - 1.0).sum()), 1.0)
    seen_correlation = mean_product / float(squared_deviations.sum() / n_questions)
    correlation = seen_correlation
    for _ in range(3):  # residuals from an estimated mean agree less, by the variance of the mean
        design_effect = 1.0 + min(max(correlation, 0.0), 1.0) * design_excess
        correlation = seen_correlation + design_effect / n_questions
    return min(max(correlation, 0.0), 1.0)


def _leaning(seen: float, largest: float, n_carrying: float, n_worst: float) -> float:
    """A variance that leans from the seen one to the largest there can be.

    Args:
        seen: The variance of the sample, with the weight `n_carrying`.
        largest: The largest that there can be, with the weight `n_worst`.
        n_carrying: How many documents carry the seen one.
        n_worst: How many documents count as having the largest one.
    """
    return (n_carrying * seen + n_worst * largest) / (n_carrying + n_worst)


def _effective_number(weights: Floats) -> float:
    """How many equal weights would say as much: (sum of w)^2 / sum of w^2.

    G for G equal weights, 1 where one has all, 0 without any.
    """
    squares = float((weights**2).sum())
    if squares <= 0.0:
        return 0.0
    return float(weights.sum()) ** 2 / squares


def _ends_of_costs(
    sums: Floats, sizes: Floats, seed: int, resamples: int, level: float
) -> tuple[float, float] | None:
    """The ends of the interval of a mean cost: the wider of the bootstrap-t's and of Cox's.

    None with too few clusters, or where Cox's interval is too wide to say anything.

    Args:
        sums: (G,) the sum of the costs in each cluster.
        sizes: (G,) the number of questions of each cluster.
        seed: Fixes the resamples.
        resamples: The number of resamples.
        level: Coverage.
    """
    if _effective_number(sizes) < FEWEST_FOR_COSTS - 1e-9:
        return None
    low, high = bootstrap_t_ends(sums, sizes, seed, resamples, level)
    if np.min(sums) <= 0.0 or low == high:
        return low, high
    by_logs = _ends_of_lognormal(sums / sizes, sizes, level)
    if by_logs is None:
        return None
    return min(low, by_logs[0]), max(high, by_logs[1])


def _ends_of_lognormal(means: Floats, sizes: Floats, level: float) -> tuple[float, float] | None:
    """The ends of Cox's interval of the mean of lognormal values,

        exp(L -+ t sqrt(s^2 / G + s^4 / (2 (G - 1)))).

    L is the mean of the logarithms plus s^2 / 2; clusters weigh as many questions as they have, and
    G is their effective number. None where an end would be a thousand times as far: such costs are
    no sample of one kind.

    Args:
        means: (G,) the mean cost of each cluster, above 0.
        sizes: (G,) the number of questions of each cluster.
        level: Coverage.
    """
    shares = sizes / sizes.sum()
    logs = np.log(means)
    n_effective = _effective_number(sizes)
    mean_log = float(shares @ logs)
    variance = float(shares @ (logs - mean_log) ** 2) * n_effective / (n_effective - 1.0)
    error_of_log_mean = math.sqrt(
        variance / n_effective + variance**2 / (2.0 * (n_effective - 1.0))
    )
    log_half_width = student_quantile((1.0 + level) / 2.0, n_effective - 1.0) * error_of_log_mean
    log_mean = mean_log + variance / 2.0
    if log_half_width > MAX_LOG_HALF_WIDTH:
        return None
    return math.exp(log_mean - log_half_width), math.exp(log_mean + log_half_width)


def _ends_without_spread(
    mean: float, bounds: tuple[float, float], n_clusters: int, level: float
) -> tuple[float, float]:
    """The ends of the interval of a mean where all clusters have one mean, so that nothing is
    known of their spread.

    A kind of cluster that makes up the share q of all is missing from G of them with probability
    (1 - q)^G, which is (1 - level) / 2 for q = 1 - ((1 - level) / 2)^(1 / G). As many unseen
    clusters may lie on a bound, which moves the mean by q times its distance to that bound. On a
    bound itself this is the interval of Clopper and Pearson (1934).

    Args:
        mean: The mean of each cluster.
        bounds: The range of a value.
        n_clusters: The number of clusters, G.
        level: Coverage.
    """
    unseen_share = 1.0 - ((1.0 - level) / 2.0) ** (1.0 / n_clusters)
    return mean - unseen_share * (mean - bounds[0]), mean + unseen_share * (bounds[1] - mean)
