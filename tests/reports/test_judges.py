"""Agreement of two raters, by hand."""

import pytest

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
def test_agreement_by_hand(a, b, share, kappa):
    pairs = [(x == "1", y == "1") for x, y in zip(a, b, strict=True)]
    assert agreement(pairs) == {"share": share, "kappa": kappa}
