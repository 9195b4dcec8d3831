"""How far the confidence that answers name is from how often they are right: the calibration error
that BrowseComp-Plus' program prints (calib_err of evaluate_run.py, after D. Hendrycks).

    200 answers, sorted by confidence     -> bins of 100; the root of the mean square of
                                             (mean confidence - share of right ones) over the bins

As there, the last bin, which takes what is left over, is in the number of answers but not in the
sum. Below two bins that sum is empty: there is no error here, where the program prints 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

BIN = 100
"""Answers of a bin."""


@dataclass(frozen=True)
class Sure:
    """An answer that was judged. confidence: in percent; right: 1 or 0."""

    confidence: float
    right: float


def _gap(answers: Sequence[Sure]) -> float:
    """The mean confidence less the share of right answers."""
    gaps = [answer.confidence / 100 - answer.right for answer in answers]
    return sum(gaps) / len(gaps)


def calibration_error(answers: Iterable[Sure]) -> float | None:
    """The error, from 0 to 1; None for fewer than two bins of answers."""
    ordered = sorted(answers, key=lambda answer: answer.confidence)
    n_bins = len(ordered) // BIN
    if n_bins < 2:
        return None
    total = 0.0
    for number in range(n_bins - 1):
        gap = _gap(ordered[number * BIN : (number + 1) * BIN])
        total += BIN / len(ordered) * gap**2
    return sqrt(total)
