"""How far two raters agree beyond chance, with an interval that respects documents.

    >>> one, other = [1, 1, 0, 0] * 6, [1, 0, 0, 0] * 6
    >>> found = kappa(one, other, range(24))
    >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
    (0.5, 0.12, 0.76)

Cohen's kappa (1960) is (share - chance) / (1 - chance). Its interval is by the delete-one-document
jackknife of Fisher's transform of kappa, with Student's t (figures: python -m bench.agreement).
None is shown with fewer than FEWEST documents, and where little is known of how the two agree and
differ: with fewer than FEWEST_OF_BOTH documents on which they differ, or on which neither gives the
commonest rating.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.stats.bootstrap import LEVEL
from harness.stats.resampling import Floats, student_quantile

FEWEST = 20
FEWEST_OF_BOTH = 2
_ROUNDING_ERROR = 1e-9  # an error that is nothing but rounding


@dataclass(frozen=True)
class Kappa:
    """Agreement of two raters.

    Attributes:
        n: How many items both rated.
        value: None where chance alone agrees always.
        low: Lower end of the interval; None where none is shown.
        high: Upper end.
    """

    n: int
    value: float | None
    low: float | None = None
    high: float | None = None


def kappa(
    one: Sequence[Hashable],
    other: Sequence[Hashable],
    clusters: Sequence[int] | NDArray[np.int32],
    *,
    level: float = LEVEL,
) -> Kappa:
    """Cohen's kappa of two raters, with an interval where enough documents show how they differ.

    Args:
        one: (n,) the first rater's rating of each item.
        other: (n,) the second's.
        clusters: (n,) the document of each item.
        level: Coverage of the interval.
    """
    n = len(one)
    tables_by_document = _tables_by_document(one, other, clusters)
    value = _kappa(tables_by_document.sum(axis=0))
    if value is None:
        return Kappa(n, None)
    half_width = _half_width_of_transformed(tables_by_document, level)
    if half_width is None:
        return Kappa(n, value)
    transformed_value = _fisher_transform(value)
    return Kappa(
        n,
        value,
        math.tanh(transformed_value - half_width),
        math.tanh(transformed_value + half_width),
    )


def _tables_by_document(
    one: Sequence[Hashable],
    other: Sequence[Hashable],
    clusters: Sequence[int] | NDArray[np.int32],
) -> Floats:
    """Count, for each document, how often the two raters gave each pair of ratings.

    Args:
        one: (n,) the first rater's rating of each item.
        other: (n,) the second's.
        clusters: (n,) the document of each item.

    Returns:
        (documents, ratings, ratings): the first rater's rating by the second's.
    """
    rating_numbers: dict[Hashable, int] = {}
    for rating in (*one, *other):
        rating_numbers.setdefault(rating, len(rating_numbers))
    document_numbers = np.unique(np.asarray(clusters), return_inverse=True)[1]
    n_documents = int(document_numbers.max(initial=-1)) + 1
    tables = np.zeros((n_documents, len(rating_numbers), len(rating_numbers)))
    for document_number, first, second in zip(document_numbers, one, other, strict=True):
        tables[document_number, rating_numbers[first], rating_numbers[second]] += 1
    return tables


def _kappa(table: Floats) -> float | None:
    """Kappa of one table of counts; None where there is no item, or chance alone agrees always.

    Args:
        table: (ratings, ratings): how often the raters gave each pair of ratings.
    """
    n = table.sum()
    # Times n squared, so that full agreement is met exactly.
    chance = float(table.sum(axis=0) @ table.sum(axis=1))
    if chance == n * n:
        return None
    return float((np.trace(table) * n - chance) / (n * n - chance))


def _fisher_transform(value: float) -> float:
    """Fisher's transform of kappa, atanh; kappa is cut to -0.999 .. 0.999, as 1 has no
    transform.
    """
    return math.atanh(min(max(value, -0.999), 0.999))


def _half_width_of_transformed(tables: Floats, level: float) -> float | None:
    """Half the width of the interval of the transformed kappa; None where no interval is shown.

    By the jackknife: kappa is computed again without each document.

    Args:
        tables: (documents, ratings, ratings) counts of pairs of ratings.
        level: Coverage of the interval.
    """
    n_documents = len(tables)
    if n_documents < FEWEST or not _enough_documents_differ(tables):
        return None
    total = tables.sum(axis=0)
    kappas_without_one = []
    for table in tables:
        kappa_without_it = _kappa(total - table)
        if kappa_without_it is None:
            return None
        kappas_without_one.append(_fisher_transform(kappa_without_it))
    deviations = np.asarray(kappas_without_one) - np.mean(kappas_without_one)
    jackknife_error = math.sqrt((n_documents - 1) / n_documents * float(deviations @ deviations))
    if jackknife_error < _ROUNDING_ERROR:
        return None
    return student_quantile((1.0 + level) / 2.0, n_documents - 1) * jackknife_error


def _enough_documents_differ(tables: Floats) -> bool:
    """Whether enough documents hold items on which the two raters differ, and enough documents
    items to which neither gives the commonest rating.

    Args:
        tables: (documents, ratings, ratings) counts of pairs of ratings.
    """
    total = tables.sum(axis=0)
    commonest = int(np.argmax(total.sum(axis=0) + total.sum(axis=1)))
    without_it = np.delete(np.delete(tables, commonest, axis=1), commonest, axis=2)
    documents_without_it = (without_it.sum(axis=(1, 2)) > 0).sum()
    equal_ratings = np.trace(tables, axis1=1, axis2=2)
    documents_differing = (tables.sum(axis=(1, 2)) > equal_ratings).sum()
    return bool(min(documents_without_it, documents_differing) >= FEWEST_OF_BOTH)
