"""Reciprocal rank fusion: one order out of several (Cormack, Clarke and Buettcher, SIGIR 2009).

    [2, 0, 1] and [2, 1], k = 60   ->   2 (1/61 + 1/61), 1 (1/63 + 1/62), 0 (1/62)

A list may leave items out: these gain nothing from it.
"""

from collections.abc import Sequence

import numpy as np


def reciprocal_rank_fusion(rankings: Sequence[Sequence[int]], items: int, k: int) -> np.ndarray:
    """Sum 1 / (k + rank) over the rankings, with ranks from 1 on.

    Args:
        rankings: Numbers of items, best first; each at most once in a ranking.
        items: How many items there are.
        k: The constant of the formula: a larger one makes first places count less.

    Returns:
        Scores [items], higher is better; 0 for an item in no ranking.
    """
    scores = np.zeros(items)
    for ranking in rankings:
        for rank, item in enumerate(ranking, 1):
            scores[item] += 1 / (k + rank)
    return scores
