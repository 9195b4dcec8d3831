"""The mean that people would give all answers, from a judge's scores of all and people's labels of
some.

    judge f of all N answers, labels Y of n  ──►  mean(f) + mean of (Y - f) over the labelled

That is the prediction-powered estimate of A. N. Angelopoulos et al. (2023), with the labelled
answers among the N: the labels' own mean where all are labelled. It asks that the labelled answers
are a random part of all.

The labelled answers have Y - s f each and the others s f, where s is the share without a label; the
variance is that of their sums by document. As a few labels may hold none of the judge's mistakes,
it leans to its largest value by WORST_DOCUMENTS documents, as that of scores does (bootstrap.py).
The interval is Student's, with the labelled documents less one as degrees of freedom. Coverage:
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
    known_labels = np.asarray([label for label in labels if label is not None], dtype=np.float64)
    document_numbers = np.unique(np.asarray(clusters), return_inverse=True)[1]
    if not len(known_labels):
        return NOTHING
    if is_labelled.all():
        return interval(known_labels, clusters, level=level)
    unlabelled_share = float(1.0 - is_labelled.mean())
    rest_scores = unlabelled_share * scores[~is_labelled]
    corrected = known_labels - unlabelled_share * scores[is_labelled]
    mean = float(rest_scores.mean() + corrected.mean())
    n_documents = len(np.unique(document_numbers[is_labelled]))
    shown_mean = min(max(mean, 0.0), 1.0)
    if n_documents < FEWEST_LABELLED:
        return Interval(shown_mean, None, None, len(known_labels), n_documents)
    error_of_labelled = _error_by_document(
        corrected, document_numbers[is_labelled], document_numbers
    )
    error_of_rest = _error_by_document(
        rest_scores, document_numbers[~is_labelled], document_numbers
    )
    labels_per_document = np.bincount(document_numbers[is_labelled])
    variance = _variance_of_estimate(error_of_labelled, error_of_rest, labels_per_document)
    half_width = student_quantile((1.0 + level) / 2.0, n_documents - 1) * math.sqrt(variance)
    low = max(mean - half_width, 0.0)
    high = min(mean + half_width, 1.0)
    return Interval(
        shown_mean, min(low, shown_mean), max(high, shown_mean), len(known_labels), n_documents
    )


def _variance_of_estimate(
    error_of_labelled: Floats, error_of_rest: Floats, labels_per_document: NDArray[np.intp]
) -> float:
    """The variance of the estimate by documents. That of the labelled answers leans to its largest
    value, as if WORST_DOCUMENTS more documents had it.

    Args:
        error_of_labelled: (documents,) from `_error_by_document`, of the labelled answers.
        error_of_rest: (documents,) the same of the other answers.
        labels_per_document: (documents,) numbers of labelled answers.
    """
    n_documents = int((labels_per_document > 0).sum())
    n_labels = int(labels_per_document.sum())
    seen_variance = float(((error_of_labelled + error_of_rest) ** 2).sum())
    seen_variance *= n_documents / (n_documents - 1)
    worst_variance = WORST_VARIANCE * float((labels_per_document**2).sum()) / n_labels**2
    variance_of_labelled = float((error_of_labelled**2).sum())
    lean_share = WORST_DOCUMENTS / (n_documents + WORST_DOCUMENTS)
    return seen_variance + lean_share * max(worst_variance - variance_of_labelled, 0.0)


def _error_by_document(
    values: Floats, document_of_value: NDArray[np.intp], all_document_numbers: NDArray[np.intp]
) -> Floats:
    """(documents,) what the values of each document add to the error of the values' mean.

    Args:
        values: (m,) of some of the answers.
        document_of_value: (m,) the number of the document of each value.
        all_document_numbers: (n,) the numbers of the documents of all answers.
    """
    n_documents = int(all_document_numbers.max()) + 1
    weights = (values - values.mean()) / len(values)
    return np.bincount(document_of_value, weights=weights, minlength=n_documents).astype(np.float64)
