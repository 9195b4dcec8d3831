"""The bootstrap over clusters, and Student's t: what the intervals of bootstrap.py are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_Places = NDArray[np.int64]

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
"""Numbers that are drawn at once, which bounds memory."""


def merge_clusters(columns: Sequence[Floats], generator: np.random.Generator) -> list[Floats]:
    """Sum each column over random groups of clusters, at most MOST_GROUPS of them, which says why.

    Args:
        columns: (clusters,) each; all are grouped alike. They are returned as they are where there
            are no more clusters than groups.
        generator: Draws the groups.

    Returns:
        The columns, (groups,) each.
    """
    groups = _random_groups(len(columns[0]), generator)
    if groups is None:
        return list(columns)
    return [_summed(column, groups) for column in columns]


def _random_groups(clusters: int, generator: np.random.Generator) -> _Places | None:
    """The group of each cluster, (clusters,); None where each is its own."""
    if clusters <= MOST_GROUPS:
        return None
    return generator.permutation(clusters) % MOST_GROUPS


def _summed(column: Floats, groups: _Places) -> Floats:
    """The sum of a column over each group of clusters.

    Args:
        column: (clusters,) numbers.
        groups: (clusters,) the group of each cluster.

    Returns:
        (groups,) sums.
    """
    return np.bincount(groups, weights=column).astype(np.float64)


@dataclass(frozen=True)
class _Samples:
    """Samples of clusters, drawn with replacement.

    Attributes:
        groups: The group of each cluster, (clusters,); None where each is its own.
        counts: How often each sample has each group, (samples, groups).
    """

    groups: _Places | None
    counts: NDArray[np.uint16]


@lru_cache(maxsize=8)  # of 8 MB at most; the runs of a table have the same clusters
def _drawn_samples(clusters: int, seed: int, resamples: int) -> _Samples:
    """Draw bootstrap samples of clusters: how often each group of clusters is in each sample.

    Args:
        clusters: The number of clusters.
        seed: Fixes the draws.
        resamples: The number of samples.
    """
    generator = np.random.default_rng(seed)
    groups = _random_groups(clusters, generator)
    n_groups = min(clusters, MOST_GROUPS)
    counts = np.empty((resamples, n_groups), dtype=np.uint16)
    rows_per_block = max(1, BLOCK // n_groups)
    for start in range(0, resamples, rows_per_block):
        rows = min(rows_per_block, resamples - start)
        samples = generator.integers(0, n_groups, (rows, n_groups))
        group_indices = samples + n_groups * np.arange(rows)[:, np.newaxis]
        counted = np.bincount(group_indices.ravel(), minlength=rows * n_groups)
        counts[start : start + rows] = counted.reshape(rows, n_groups)
    return _Samples(groups, counts)


def resample_sums(columns: Sequence[Floats], seed: int, resamples: int) -> Floats:
    """Draw clusters with replacement, and sum each column over each sample.

    Args:
        columns: (clusters,) each; columns[k][g] belongs to cluster g.
        seed: Fixes the draws.
        resamples: The number of samples.

    Returns:
        (resamples, columns) sums.
    """
    samples = _drawn_samples(len(columns[0]), seed, resamples)
    merged = list(columns)
    if samples.groups is not None:
        merged = [_summed(column, samples.groups) for column in columns]
    return samples.counts.astype(np.float64) @ np.stack(merged, axis=1)


def interval_ends(resampled_values: Floats, n_clusters: int, tail: float) -> tuple[float, float]:
    """The ends of an interval: two quantiles of resampled values, a little further out than
    `tail`.

    At Phi(sqrt(G / (G - 1)) t_{G-1}(tail)) and its mirror image (Hesterberg 2015).

    Args:
        resampled_values: The values, one for each sample.
        n_clusters: The number of clusters, G.
        tail: The probability on each side: 0.025 for 95 %.
    """
    tail = NormalDist().cdf(
        math.sqrt(n_clusters / (n_clusters - 1)) * student_quantile(tail, n_clusters - 1)
    )
    low, high = np.quantile(resampled_values, [tail, 1.0 - tail])
    return float(low), float(high)


def student_quantile(p: float, freedom: float) -> float:
    """The quantile at probability `p` of Student's t with `freedom` degrees of freedom."""
    from scipy.special import stdtrit  # loaded here: reading stored runs needs none

    return float(stdtrit(freedom, p))


def bootstrap_t_ends(
    sums: Floats, sizes: Floats, seed: int, resamples: int, level: float
) -> tuple[float, float]:
    """The ends of a bootstrap-t interval of the mean of values, sum / size over clusters.

    The lower end is 0 or above where every sum is. Both ends are the mean where nothing is known of
    the spread.

    Args:
        sums: (clusters,) the sum of the values in each cluster.
        sizes: (clusters,) how many values each cluster has.
        seed: Fixes the samples.
        resamples: The number of samples.
        level: Coverage of the interval: 0.95.
    """
    columns = [sums, sizes, sums**2, sums * sizes, sizes**2]
    n_clusters = len(sizes)
    mean = float(sums.sum() / sizes.sum())
    totals = [np.array([column.sum()]) for column in columns]
    error_of_mean = float(_errors_of_ratios(totals, n_clusters)[0])
    drawn_sums = resample_sums(columns, seed, resamples).T
    drawn_errors = _errors_of_ratios(list(drawn_sums), n_clusters)
    smallest_error = EQUAL * max(1.0, abs(mean))
    usable = drawn_errors > smallest_error
    if error_of_mean <= smallest_error or not usable.any():
        return mean, mean
    t_values = (drawn_sums[0] / drawn_sums[1] - mean)[usable] / drawn_errors[usable]
    low, high = interval_ends(t_values, n_clusters, COST_TAIL * (1.0 - level))
    lower_bound = -math.inf
    if (sums >= 0.0).all():
        lower_bound = 0.0
    return max(mean - high * error_of_mean, lower_bound), mean - low * error_of_mean


def _errors_of_ratios(totals: Sequence[Floats], clusters: int) -> Floats:
    """The standard error of the ratio sum / size in each sample, (samples,).

    Args:
        totals: Five columns, (samples,) each: the sums over clusters of s, n, s * s, s * n and
            n * n, where s is the sum of a cluster and n its size.
        clusters: The number of clusters of a sample.
    """
    s, n, ss, sn, nn = totals
    ratio = s / n
    squared = ss - 2.0 * ratio * sn + ratio**2 * nn
    errors: Floats = np.sqrt(np.maximum(squared, 0.0) * clusters / (clusters - 1)) / n
    return errors
