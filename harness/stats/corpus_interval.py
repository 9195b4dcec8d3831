"""Interval of a score of all answers together, such as BLEU: a bootstrap of a function of the sums.

counts + clusters ──► sums per cluster ──► resampled sums ──► statistic of each ──► Interval
"""

from collections.abc import Callable, Sequence

import numpy as np

from harness.stats.bootstrap import FEWEST, LEVEL, NOTHING, Interval, Labels, per_cluster
from harness.stats.resampling import EQUAL, RESAMPLES, interval_ends, resample_sums


def corpus_interval(
    statistic: Callable[[Sequence[float]], float],
    counts: Sequence[Sequence[float]],
    clusters: Labels,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> Interval:
    """A statistic of the sums of counts, such as BLEU, with a bootstrap interval over whole
    clusters.

    The interval is the expanded percentile (Hesterberg 2015, section 5.2.2). It is None with fewer
    than 3 clusters, and where all resamples agree: then nothing is known of the spread.

    Args:
        statistic: Computes a number from k sums, as BLEU is.
        counts: n rows of k whole numbers, one row for each answer.
        clusters: (n,) the label of each answer's document.
        seed: Fixes the resamples.
        resamples: The number of resamples.
        level: Coverage.

    Raises:
        ValueError: Lengths differ. Also what `statistic` raises on the whole.
    """
    count_rows = np.asarray(counts, dtype=np.float64)
    if len(count_rows) != len(clusters):
        raise ValueError(
            f"{len(count_rows)} rows of counts do not match {len(clusters)} cluster labels"
        )
    if not len(count_rows):
        return NOTHING
    sums_by_column = [per_cluster(column, clusters).sums for column in count_rows.T]
    n_clusters = len(sums_by_column[0])
    value = statistic(count_rows.sum(axis=0).tolist())
    if n_clusters < FEWEST:
        return Interval(value, None, None, len(count_rows), n_clusters)
    resampled = resample_sums(sums_by_column, seed, resamples)
    values = np.array([statistic(sums) for sums in resampled.tolist()])
    if np.ptp(values) <= EQUAL:
        return Interval(value, None, None, len(count_rows), n_clusters)
    low, high = interval_ends(values, n_clusters, (1.0 - level) / 2.0)
    return Interval(value, min(low, value), max(high, value), len(count_rows), n_clusters)
