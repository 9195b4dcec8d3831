"""Tests of the difference between two methods on the same questions, which respect documents.

    a, b + clusters ──► sums of a - b ──► sign flips (sign_flips.py) ──► PairedTest
    p values of a family ──► holm(...)            differences ──► detectable_difference(...)
    two intervals of a mean, a region ──► equivalence(...)

What a cluster is: harness/stats/question_clusters.py. Several methods: best_of_several.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from harness.stats.bootstrap import FEWEST, LEVEL, Labels, per_cluster
from harness.stats.resampling import EQUAL, Floats, student_quantile
from harness.stats.sign_flips import (
    carrying_documents,
    enclosed,
    flip_sets,
    one_outweighs,
    sign_flip_test,
    spread_of_questions,
    unseen_weight,
)

POWER = 0.8
_N_SIMULATED = 200  # samples of `detectable_difference`
_NO_DIFFERENCE = 1e-12
_NEARLY_NORMAL = 50  # documents, from which on the total of random signs is as good as normal


@dataclass(frozen=True, slots=True)
class PairedTest:
    """mean(a - b), its interval (None: too few documents for this test), and the two-sided p of the
    same test: it is below 0.05 exactly if the 95 % interval leaves 0 out."""

    difference: float
    low: float | None
    high: float | None
    p: float
    n: int
    clusters: int


def paired_test(
    a: Sequence[float] | Floats,
    b: Sequence[float] | Floats,
    clusters: Labels,
    *,
    seed: int = 0,
    level: float = LEVEL,
) -> PairedTest:
    """Test mean(a - b) = 0 for scores of two methods on the same questions.

    Null: taken from the mean, each document is as likely to favour the one method as the other.

    Args:
        a: (n,) scores of one method.
        b: (n,) scores of the other, in the same question order.
        clusters: (n,) the label of each question's document.
        seed: Fixes the random signs; up to 14 documents all signs are used.
        level: Coverage of the interval.

    Raises:
        ValueError: A value that is not finite, or lengths that differ.
    """
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    sums, sizes = per_cluster(differences, clusters)
    highest_score = max(1.0, float(np.max(a)), float(np.max(b)))
    lowest_score = min(0.0, float(np.min(a)), float(np.min(b)))
    flip_test = sign_flip_test(
        sums,
        sizes,
        span=highest_score - lowest_score,
        question_spread=spread_of_questions(differences),
        level=level,
        seed=seed,
    )
    difference = float(sums.sum() / sizes.sum())
    low, high = flip_test.low, flip_test.high
    if len(sums) < FEWEST:
        low = high = None
    return PairedTest(difference, low, high, flip_test.p, int(sizes.sum()), len(sizes))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the given order (S. Holm 1979).

    Rejecting where an adjusted p is below 0.05 keeps the family-wise error at 5 %.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    n_tests = len(p_values)
    smallest_first = sorted(range(n_tests), key=p_values.__getitem__)
    adjusted = [1.0] * n_tests
    largest_so_far = 0.0
    for rank, index in enumerate(smallest_first):
        multiplied = min(1.0, (n_tests - rank) * p_values[index])
        largest_so_far = max(largest_so_far, multiplied)
        adjusted[index] = largest_so_far
    return adjusted


def detectable_difference(
    values_difference: Sequence[float] | Floats, clusters: Labels, tests: int = 1
) -> float | None:
    """The true mean difference that `paired_test` finds with probability 0.8, with questions and
    documents as these.

    Args:
        values_difference: (n,) a - b of each question.
        clusters: (n,) the label of each question's document.
        tests: The size of the family that Holm's correction is made over; the first test is made
            at 5 % / tests.

    Returns:
        None where this test cannot find any difference, because its smallest p, 2 / 2^G, is above 5
        % / tests, one document outweighs the others, or it would be larger than 1; and where fewer
        than 3 documents carry the spread, which is as good as unknown then.
    """
    sums, sizes = per_cluster(values_difference, clusters)
    n_documents = len(sizes)
    alpha = 0.05 / tests
    smallest_p = 2.0 * 0.5**n_documents
    if n_documents < FEWEST or smallest_p > alpha or one_outweighs(sizes):
        return None
    if np.ptp(sums / sizes) <= EQUAL or float(carrying_documents(sums, sizes)) < FEWEST:
        return None
    question_spread = spread_of_questions(values_difference)
    if n_documents > _NEARLY_NORMAL:
        unseen_difference = float(unseen_weight(sums, sizes, 1.0, question_spread) / sizes.sum())
        detectable = _detectable_by_many(sums, sizes, alpha) + unseen_difference
    else:
        detectable = _detectable_by_simulation(sums, sizes, alpha, question_spread)
    if detectable > 1.0:
        return None
    return detectable


def questions_to_show(
    a: Sequence[float], b: Sequence[float], clusters: Labels, tests: int = 1
) -> int | None:
    """How many questions in all `paired_test` needs to find a true difference as large as the one
    seen.

    With probability 0.8, by the normal distribution: n (z se / difference)^2.

    Args:
        a: (n,) scores of one method.
        b: (n,) scores of the other, in the same question order.
        clusters: (n,) the label of each question's document.
        tests: The size of the family of tests; one is made at 5 % / tests.

    Returns:
        None where no difference, or no spread, was seen.
    """
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    seen_difference = float(differences.mean())
    error_of_mean = standard_error(differences, clusters)
    if not error_of_mean or abs(seen_difference) < _NO_DIFFERENCE:
        return None
    normal = NormalDist()
    quantiles = normal.inv_cdf(1.0 - 0.05 / (2 * tests)) + normal.inv_cdf(POWER)
    return math.ceil(len(differences) * (quantiles * error_of_mean / seen_difference) ** 2)


def _detectable_by_many(sums: Floats, sizes: Floats, alpha: float) -> float:
    """The difference found with probability 0.8 where there are many documents: the standard error
    times the noncentrality at which |t| with G - 1 degrees of freedom exceeds its critical value.

    Args:
        sums: (G,) the sum of the differences in each document.
        sizes: (G,) the number of questions of each document.
        alpha: The level that the test is made at, 0.05 / tests.
    """
    from scipy.special import nctdtrinc

    freedom = len(sizes) - 1
    critical = student_quantile(1.0 - alpha / 2.0, freedom)
    noncentrality = float(nctdtrinc(freedom, 1.0 - POWER, critical))
    return noncentrality * _standard_error(sums, sizes)


def _detectable_by_simulation(
    sums: Floats, sizes: Floats, alpha: float, question_spread: float
) -> float:
    """The difference found with probability 0.8 where there are few documents: how far the lower
    end of the interval lies below the true mean in all but 20 % of samples.

    A sample is G documents drawn with replacement. Its spread is scaled by the root of G / chi^2
    with G - 2 degrees of freedom, as the spread of few documents is itself uncertain: that is its
    posterior with the uniform prior on the standard deviation that A. Gelman recommends (Bayesian
    Analysis 1, 2006). A true difference moves the interval by as much, so it is found where it
    exceeds this distance.

    Args:
        sums: (G,) the sum of the differences in each document.
        sizes: (G,) the number of questions of each document.
        alpha: The level that the test is made at, 0.05 / tests.
        question_spread: The standard deviation of the differences of questions.
    """
    n_documents = len(sizes)
    generator = np.random.default_rng(0)
    drawn_documents = generator.integers(0, n_documents, (n_documents, _N_SIMULATED))
    residuals = sums - sums.sum() / sizes.sum() * sizes
    scale = np.sqrt(n_documents / generator.chisquare(n_documents - 2, _N_SIMULATED))
    sample_sums = residuals[drawn_documents] * scale
    sample_sizes = sizes[drawn_documents]
    flips = flip_sets(n_documents, generator)
    unseen = unseen_weight(sample_sums, sample_sizes, 1.0, question_spread * scale)
    lows, _ = enclosed(flips @ sample_sums, flips @ sample_sizes, sample_sums, sample_sizes, unseen)
    rank = math.ceil(len(lows) * alpha - 1e-9) - 1
    distances = -np.partition(lows, rank, axis=0)[rank]
    return float(np.quantile(distances, POWER, method="higher"))


def equivalence(
    narrow: tuple[float, float], wide: tuple[float, float], region: tuple[float, float]
) -> Literal["equivalent", "different", "undecided"]:
    """Decide at 5 % whether a mean lies inside `region` ("equivalent"), outside of it
    ("different"), or whether that is "undecided".

    The 90 % interval is part of the 95 % interval, so the two decisions exclude each other.

    Args:
        narrow: (low, high), the 90 % interval of the mean. Inside the region, two one-sided tests
            at 5 % both reject a mean beyond an end of the region (Schuirmann 1987).
        wide: (low, high), the 95 % interval. Outside of it, a two-sided test at 5 % rejects every
            mean.
        region: (low, high), differences that do not matter.
    """
    low, high = region
    if low <= narrow[0] and narrow[1] <= high:
        return "equivalent"
    if wide[1] < low or high < wide[0]:
        return "different"
    return "undecided"


def standard_error(values: Sequence[float] | Floats, clusters: Labels) -> float | None:
    """The standard error of the mean of `values`, by documents; None with fewer than two
    documents.

    Args:
        values: (n,), finite.
        clusters: (n,) the label of each value's document.
    """
    sums, sizes = per_cluster(values, clusters)
    if len(sizes) < 2:
        return None
    return _standard_error(sums, sizes)


def _standard_error(sums: Floats, sizes: Floats) -> float:
    """The standard error of a mean by clusters, sqrt(G / (G - 1) * sum_g (S_g - m n_g)^2) / n.

    The linearised variance of a ratio (Cochran, "Sampling Techniques", 1977, section 6.3); with
    clusters of one value it is s / sqrt(n).

    Args:
        sums: (G,) the sum of the values in each cluster, S_g.
        sizes: (G,) the number of values of each cluster, n_g.
    """
    n_clusters = len(sizes)
    n_values = sizes.sum()
    residuals = sums - sums.sum() / n_values * sizes
    return float(math.sqrt(n_clusters / (n_clusters - 1) * float(residuals @ residuals)) / n_values)
