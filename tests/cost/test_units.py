import doctest

import pytest

from harness.cost import units


def test_docstring() -> None:
    assert doctest.testmod(units).failed == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.0994, "99 ms"), (0.0996, "0.1 s"), (9.96, "10 s"), (89, "89 s"), (91, "1.5 min"), (5399, "90 min"),
     (5400, "1.5 h"), (172_800, "2 days"), (8_640_000, "100 days")],
)  # fmt: skip
def test_units_change_where_the_number_reads_better(seconds: float, text: str) -> None:
    assert units.duration_text(seconds) == text
