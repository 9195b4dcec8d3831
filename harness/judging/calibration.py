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

BIN_SIZE = 100
"""Answers of a bin."""


@dataclass(frozen=True)
class ConfidentAnswer:
    """A judged answer with its confidence.

    Attributes:
        confidence: How sure the answer says it is, in percent.
        right: 1 for a right answer, 0 for a wrong one.
    """

    confidence: float
    right: float


def _mean_gap(answers: Sequence[ConfidentAnswer]) -> float:
    """The mean confidence of answers, as a share, less the share of right ones."""
    gaps = [answer.confidence / 100 - answer.right for answer in answers]
    return sum(gaps) / len(gaps)


def calibration_error(answers: Iterable[ConfidentAnswer]) -> float | None:
    """The calibration error of answers, from 0 to 1; None for fewer than two full bins of them.

    Answers are sorted by confidence and cut into bins of BIN_SIZE. The error is the root of the sum
    of (share of answers in a bin) * (mean confidence - share of right ones)^2. The last bin, which
    takes what is left over, is not in the sum, as in BrowseComp-Plus' code.
    """
    ordered = sorted(answers, key=lambda answer: answer.confidence)
    n_bins = len(ordered) // BIN_SIZE
    if n_bins < 2:
        return None
    share_of_bin = BIN_SIZE / len(ordered)
    squared_gaps = 0.0
    for number in range(n_bins - 1):
        gap = _mean_gap(ordered[number * BIN_SIZE : (number + 1) * BIN_SIZE])
        squared_gaps += share_of_bin * gap**2
    return sqrt(squared_gaps)
