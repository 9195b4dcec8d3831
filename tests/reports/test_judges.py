"""Agreement of two raters: by hand, and as scikit-learn's kappa."""

from __future__ import annotations

import random

import pytest
from sklearn.metrics import cohen_kappa_score

from reports.judges import agreement


@pytest.mark.parametrize(
    ("a", "b", "share", "kappa"),
    [
        ("1100", "1000", 0.75, 0.5),
        ("10", "01", 0.0, -1.0),
        ("1010", "1010", 1.0, 1.0),
        ("1111", "1100", 0.5, 0.0),
        ("111", "111", 1.0, None),
        ("", "", None, None),
    ],
)
def test_agreement_by_hand(a: str, b: str, share: float | None, kappa: float | None) -> None:
    pairs = [(x == "1", y == "1") for x, y in zip(a, b, strict=True)]
    assert agreement(pairs) == {"share": share, "kappa": kappa}


def test_kappa_is_that_of_scikit_learn() -> None:
    draw = random.Random(7)
    for n in (5, 40, 333):
        a = [draw.random() < 0.3 for _ in range(n)] + [True, False]
        b = [x if draw.random() < 0.8 else not x for x in a]
        assert agreement(list(zip(a, b, strict=True)))["kappa"] == pytest.approx(cohen_kappa_score(a, b))
