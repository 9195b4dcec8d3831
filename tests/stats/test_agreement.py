"""Agreement of two raters: by hand, and as scikit-learn's kappa."""

from __future__ import annotations

import random

import pytest
from sklearn.metrics import cohen_kappa_score

from harness.stats.agreement import Agreement, agreement


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("1100", "1000", Agreement(4, 0.75, 0.5)),
        ("10", "01", Agreement(2, 0.0, -1.0)),
        ("1010", "1010", Agreement(4, 1.0, 1.0)),
        ("1111", "1100", Agreement(4, 0.5, 0.0)),
        ("111", "111", Agreement(3, 1.0, None)),
        ("", "", Agreement(0, None, None)),
    ],
)
def test_agreement_by_hand(a: str, b: str, expected: Agreement) -> None:
    assert agreement([x == "1" for x in a], [x == "1" for x in b]) == expected


def test_kappa_is_that_of_scikit_learn() -> None:
    draw = random.Random(7)
    for n in (5, 40, 333):
        a = [draw.random() < 0.3 for _ in range(n)] + [True, False]
        b = [x if draw.random() < 0.8 else not x for x in a]
        assert agreement(a, b).kappa == pytest.approx(cohen_kappa_score(a, b))


def test_ratings_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="3 and 2"):
        agreement([True] * 3, [True] * 2)
