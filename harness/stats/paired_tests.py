"""Tests of the difference between two methods on the same questions, which respect documents.

    a, b + clusters ──► sums of a - b ──► sign flips, bootstrap ──► PairedTest      paired_test(...)
    p values of a family ──► holm(...)            differences ──► detectable_difference(...)
    two intervals of a mean, a region ──► equivalence(...)

What a cluster is: harness/stats/question_clusters.py.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from harness.stats.bootstrap import Labels, interval, per_cluster
from harness.stats.resampling import BLOCK, Floats, merge_clusters, student_quantile

EXACT_CLUSTERS = 14  # up to here all 2^G sign vectors are enumerated (16,384)


@dataclass(frozen=True, slots=True)
class PairedTest:
    """mean(a - b), its interval (None: fewer than 3 clusters), and the two-sided p value of a
    sign-flip test."""

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
    permutations: int = 10_000,
) -> PairedTest:
    """Test mean(a - b) = 0 for scores of two methods on the same questions, flipping the sign of
    whole clusters.

    a, b: (n,) scores in the same question order; clusters: n labels. Under the null the two methods
    are exchangeable within a document, so every sign vector over clusters is as likely. All 2^G are
    enumerated up to 14 clusters that are no ties (the observed one is among them); beyond,
    `permutations` random ones with p = (hits + 1) / (permutations + 1) (Phipson and Smyth 2010),
    which is never 0. Where all clusters differ alike (all ties, or one method always ahead by as
    much) the interval is that of differences of scores in [0, 1], or in what was seen where that is
    wider. Raises ValueError where a value is not finite.
    """
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    sums, sizes = per_cluster(differences, clusters)
    span = max(1.0, float(np.max(a)), float(np.max(b))) - min(
        0.0, float(np.min(a)), float(np.min(b))
    )
    mean = interval(differences, clusters, seed=seed, bounds=(-span, span))
    difference = float(sums.sum() / sizes.sum())
    p = _sign_flip_p(sums, seed, permutations)
    return PairedTest(difference, mean.low, mean.high, p, mean.n, mean.clusters)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the given order (S. Holm 1979): the family-wise error
    is kept.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = running
    return adjusted


def detectable_difference(
    values_difference: Sequence[float] | Floats, clusters: Labels, tests: int = 1
) -> float | None:
    """The smallest true mean difference that `paired_test` would find with probability 0.8 at this
    n.

    Args:
        values_difference: a - b of each question.
        clusters: Their labels.
        tests: Size of the family that Holm's correction is made over; the first one is tested at 5
            % / tests.

    Returns:
        The clustered standard error times the noncentrality at which |t| with G - 1 degrees of
        freedom exceeds its critical value in 80 %. None where no difference can be found, because
        the smallest p of a sign-flip test, 2 / 2^G, is above alpha, or as it would be larger than
        1; and where no spread was seen.
    """
    error, count, alpha = (
        standard_error(values_difference, clusters),
        len(set(clusters)),
        0.05 / tests,
    )
    if not error or 2.0 * 0.5**count > alpha:
        return None
    from scipy.special import nctdtrinc

    least = float(nctdtrinc(count - 1, 0.2, student_quantile(1.0 - alpha / 2.0, count - 1))) * error
    return least if least <= 1.0 else None


def equivalence(
    narrow: tuple[float, float], wide: tuple[float, float], region: tuple[float, float]
) -> Literal["equivalent", "different", "undecided"]:
    """Whether a mean is shown to lie inside `region`, shown to lie outside, or neither; both at 5
    %.

    narrow: its 90 % interval, which lies inside where two one-sided tests at 5 % both reject a mean
    beyond an end of the region (Schuirmann 1987); wide: its 95 % interval, none of which lies
    inside where a two-sided test at 5 % rejects every mean in the region. The 90 % interval is part
    of the 95 % interval, so the two exclude each other.
    """
    low, high = region
    if low <= narrow[0] and narrow[1] <= high:
        return "equivalent"
    return "different" if wide[1] < low or high < wide[0] else "undecided"


def _sign_flip_p(sums: Floats, seed: int, permutations: int) -> float:
    """Two-sided p of the total under random signs of cluster sums: exact up to EXACT_CLUSTERS, else
    sampled.

    Clusters whose sum is 0 are dropped: their sign changes nothing, and fewer clusters are
    enumerated more often.
    """
    sums = sums[np.abs(sums) > 1e-12]
    # Equal sums must count as hits although floating-point addition orders differ, hence the
    # tolerance.
    tolerance = 1e-9 * float(np.abs(sums).sum())
    observed = abs(float(sums.sum())) - tolerance
    if len(sums) <= EXACT_CLUSTERS:
        bits = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums))
        flipped = (1.0 - 2.0 * (bits & 1)) @ sums
        return float((np.abs(flipped) >= observed).mean())
    generator = np.random.default_rng(seed)
    (sums,) = merge_clusters([sums], generator)
    hits = 0
    block = max(1, BLOCK // len(sums))
    for start in range(0, permutations, block):
        rows = min(block, permutations - start)
        packed = generator.integers(0, 256, (rows, -(-len(sums) // 8)), dtype=np.uint8)
        flips = np.unpackbits(packed, axis=1)[:, : len(sums)].astype(np.float64)
        hits += int((np.abs(sums.sum() - 2.0 * (flips @ sums)) >= observed).sum())
    return (hits + 1) / (permutations + 1)


def standard_error(values: Sequence[float] | Floats, clusters: Labels) -> float | None:
    """Clustered standard error of the mean of `values`; None with fewer than two clusters.

    sqrt(G / (G - 1) * sum_g (S_g - m n_g)^2) / n, the linearised variance of a ratio (Cochran,
    "Sampling Techniques", 1977, section 6.3); with clusters of one it is s / sqrt(n).
    """
    sums, sizes = per_cluster(values, clusters)
    count, n = len(sizes), sizes.sum()
    if count < 2:
        return None
    residuals = sums - sums.sum() / n * sizes
    return float(math.sqrt(count / (count - 1) * float(residuals @ residuals)) / n)
