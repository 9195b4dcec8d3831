"""Numbers as text of a table.

three_digits(1234567.0)   -> "1.23e+06"
points_of_100(0.413)            -> "41.3"
"""

import math


def three_digits(value: float, min_without_exponent: float = 1e-4) -> str:
    """A number with three significant digits: 0.0123, 4.56, 108, 12300.

    It has an exponent below `min_without_exponent` and from a million on: 1.23e-05, 1.23e+06.
    """
    if value == 0:
        return "0"
    if not min_without_exponent <= abs(value) < 1e6:
        return f"{value:.2e}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def money_text(value: float) -> str:
    """An amount of money with three significant digits, "0.000123", also for small sums without an
    exponent."""
    return three_digits(value, min_without_exponent=1e-9)


def points_of_100(value: float) -> str:
    """A share in [0, 1] in points of 100: 0.413 -> "41.3"."""
    return f"{100 * value:z.1f}"


def without_decimals(value: float) -> str:
    """A number without decimals: 19.6 -> "20"."""
    return f"{value:.0f}"


def as_factor(value: float) -> str:
    """A ratio with two decimals: 0.24 -> "0.24x"."""
    return f"{value:.2f}x"


def p_value_text(value: float) -> str:
    """A p value with three decimals, "0.031", or "<0.001"."""
    if value < 0.001:
        return "<0.001"
    return f"{value:.3f}"


def with_sign(value: float) -> str:
    """A number with three significant digits and its sign: 4.56 -> "+4.56"."""
    if value > 0:
        return f"+{three_digits(value)}"
    return three_digits(value)


def with_noun(count: int, noun: str) -> str:
    """A number with its noun: "1 question", "3 questions"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}s"
