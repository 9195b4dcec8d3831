"""The mean that people would give all answers, from a judge's scores of all and people's labels of some.

    judge f of all N answers, labels Y of n  ──►  mean(f) + mean of (Y - f) over the labelled

That is the prediction-powered estimate of A. N. Angelopoulos et al. (2023), with the labelled answers
among the N: the labels' own mean where all are labelled. It asks that the labelled answers are a
random part of all.

The labelled answers have Y - s f each and the others s f, where s is the share without a label; the
variance is that of their sums by document. As a few labels may hold none of the judge's mistakes, it
leans to its largest value by WORST_DOCUMENTS documents, as that of scores does (bootstrap.py). The
interval is Student's, with the labelled documents less one as degrees of freedom. Coverage:
python -m bench.agreement.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.stats.bootstrap import LEVEL, NOTHING, Interval, interval
from harness.stats.resampling import Floats, student_quantile

FEWEST_LABELLED = 10  # documents
WORST_DOCUMENTS = 2.0
WORST_VARIANCE = 0.25  # of a label in [0, 1]


def prediction_powered(
    judged: Sequence[float],
    labels: Sequence[float | None],
    clusters: NDArray[np.int32],
    *,
    level: float = LEVEL,
) -> Interval:
    """The mean that people's labels of all answers would have, with its interval.

    Args:
        judged: (n,) the judge's scores in [0, 1].
        labels: (n,) people's, in [0, 1]; None for an answer without a label.
        clusters: (n,) the document of each answer.
        level: Coverage of the interval.

    Returns:
        The estimate, with the numbers of labelled answers and of their documents; NOTHING without a
        label.
    """
    scores = np.asarray(judged, dtype=np.float64)
    is_labelled = np.asarray([label is not None for label in labels], dtype=bool)
    known = np.asarray([label for label in labels if label is not None], dtype=np.float64)
    places = np.unique(np.asarray(clusters), return_inverse=True)[1]
    if not len(known):
        return NOTHING
    if is_labelled.all():
        return interval(known, clusters, level=level)
    share = float(1.0 - is_labelled.mean())
    rest = share * scores[~is_labelled]
    corrected = known - share * scores[is_labelled]
    mean = float(rest.mean() + corrected.mean())
    documents = len(np.unique(places[is_labelled]))
    shown = min(max(mean, 0.0), 1.0)
    if documents < FEWEST_LABELLED:
        return Interval(shown, None, None, len(known), documents)
    of_labelled = _by_document(corrected, places[is_labelled], places)
    of_rest = _by_document(rest, places[~is_labelled], places)
    sizes = np.bincount(places[is_labelled])
    variance = documents / (documents - 1) * float(((of_labelled + of_rest) ** 2).sum())
    worst = WORST_VARIANCE * float((sizes**2).sum()) / len(known) ** 2
    lean = WORST_DOCUMENTS / (documents + WORST_DOCUMENTS)
    variance += lean * max(worst - float((of_labelled**2).sum()), 0.0)
    half = student_quantile((1.0 + level) / 2.0, documents - 1) * math.sqrt(variance)
    low, high = max(mean - half, 0.0), min(mean + half, 1.0)
    return Interval(shown, min(low, shown), max(high, shown), len(known), documents)


def _by_document(values: Floats, own: NDArray[np.intp], places: NDArray[np.intp]) -> Floats:
    """(documents,) what the values of each document add to the error of the values' mean.

    Args:
        values: (m,) of some of the answers.
        own: (m,) the number of the document of each value.
        places: (n,) the numbers of the documents of all answers.
    """
    count = int(places.max()) + 1
    weights = (values - values.mean()) / len(values)
    return np.bincount(own, weights=weights, minlength=count).astype(np.float64)
