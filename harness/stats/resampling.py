"""The bootstrap over clusters, and Student's t: what the intervals of bootstrap.py are made of."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
COST_TAIL = (
    0.4  # of 1 - level on each side, so that heavy tails are covered in 90 % from 8 clusters on
)
EQUAL = 1e-12  # cluster means that differ by less differ by the order of additions
MOST_GROUPS = 2048
"""More clusters than this are merged at random into this many groups. Unions of independent
clusters are independent of each other, so the bootstrap stays valid, and flipping whole groups is a
subgroup of all flips, so the test stays exact; the error of the estimated spread is about 1 /
sqrt(2 * 2048) = 1.6 %. It bounds time and memory."""

BLOCK = 4_000_000


def merge_clusters(columns: Sequence[Floats], generator: np.random.Generator) -> list[Floats]:
    """Sum each column, one number a cluster, over random groups of clusters: at most MOST_GROUPS,
    which says why."""
    if len(columns[0]) <= MOST_GROUPS:
        return list(columns)
    group = generator.permutation(len(columns[0])) % MOST_GROUPS
    return [np.bincount(group, weights=column).astype(np.float64) for column in columns]


def resample_sums(columns: Sequence[Floats], seed: int, resamples: int) -> Floats:
    """Draw clusters with replacement: sums of each column, (resamples, columns); columns[k][g]
    belongs to cluster g."""
    generator = np.random.default_rng(seed)
    columns = merge_clusters(columns, generator)
    count = len(columns[0])
    totals = np.empty((resamples, len(columns)))
    block = max(1, BLOCK // count)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        samples = generator.integers(0, count, (rows, count))
        for k, column in enumerate(columns):
            totals[start : start + rows, k] = column[samples].sum(axis=1)
    return totals


def interval_ends(drawn: Floats, clusters: int, tail: float) -> tuple[float, float]:
    """Quantiles of resampled values at Phi(sqrt(G / (G - 1)) t_{G-1}(tail)) and its mirror image
    (Hesterberg 2015)."""
    tail = NormalDist().cdf(
        math.sqrt(clusters / (clusters - 1)) * student_quantile(tail, clusters - 1)
    )
    low, high = np.quantile(drawn, [tail, 1.0 - tail])
    return float(low), float(high)


def student_quantile(p: float, freedom: float) -> float:
    """p-quantile of Student's t with df = freedom."""
    from scipy.special import stdtrit  # loaded here: reading stored runs needs none

    return float(stdtrit(freedom, p))


def bootstrap_t_ends(
    sums: Floats, sizes: Floats, seed: int, resamples: int, level: float
) -> tuple[float, float]:
    """Ends of a bootstrap-t interval of sum / size over clusters; at 0 or above where every sum
    is."""
    totals = resample_sums([sums, sizes, sums**2, sums * sizes, sizes**2], seed, resamples).T
    mean, count = float(sums.sum() / sizes.sum()), len(sizes)

    def errors(s: Floats, n: Floats, ss: Floats, sn: Floats, nn: Floats) -> Floats:
        squared = ss - 2.0 * s / n * sn + (s / n) ** 2 * nn
        return np.sqrt(np.maximum(squared, 0.0) * count / (count - 1)) / n

    error = float(
        errors(*(np.array([c.sum()]) for c in (sums, sizes, sums**2, sums * sizes, sizes**2)))[0]
    )
    drawn = errors(*totals)
    usable = drawn > EQUAL * max(1.0, abs(mean))
    if error <= EQUAL * max(1.0, abs(mean)) or not usable.any():
        return mean, mean
    t = (totals[0] / totals[1] - mean)[usable] / drawn[usable]
    low, high = interval_ends(t, count, COST_TAIL * (1.0 - level))
    return max(mean - high * error, 0.0 if (sums >= 0.0).all() else -math.inf), mean - low * error
