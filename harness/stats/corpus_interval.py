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
    rows = np.asarray(counts, dtype=np.float64)
    if len(rows) != len(clusters):
        raise ValueError(f"{len(rows)} rows of counts do not match {len(clusters)} cluster labels")
    if not len(rows):
        return NOTHING
    columns = [per_cluster(column, clusters)[0] for column in rows.T]
    count = len(columns[0])
    value = statistic(rows.sum(axis=0).tolist())
    if count < FEWEST:
        return Interval(value, None, None, len(rows), count)
    resampled = resample_sums(columns, seed, resamples)
    values = np.array([statistic(sums) for sums in resampled.tolist()])
    if np.ptp(values) <= EQUAL:
        return Interval(value, None, None, len(rows), count)
    low, high = interval_ends(values, count, (1.0 - level) / 2.0)
    return Interval(value, min(low, value), max(high, value), len(rows), count)
