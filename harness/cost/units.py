"""Amounts in the units that people read.

>>> [duration_text(s) for s in (0.0123, 0.378, 42, 600, 9_000, 300_000)]
['12 ms', '0.38 s', '42 s', '10 min', '2.5 h', '3.5 days']
>>> [short_count(n) for n in (950, 21_300, 999_700, 4_120_000)]
['950', '21.3k', '1M', '4.12M']
>>> money_text(12.5), money_text(0.0004)
('12.50', 'below 0.01')
"""

_DAY = 86_400
_UNITS_OF_TIME = ((1, "s", 90), (60, "min", 5_400), (3_600, "h", 172_800))
"""Seconds of a unit, its name, and the time from which the next unit is used."""


def duration_text(seconds: float) -> str:
    """A time in the unit that fits, with two significant digits: 0.0123 -> "12 ms", 600 -> "10
    min".

    Minutes from 90 s, hours from 90 min, days from 48 h on.
    """
    if seconds < 0.0005:
        return "0 s"
    if seconds < 0.0995:
        return f"{1000 * seconds:.0f} ms"
    for unit_seconds, unit, shown_below in _UNITS_OF_TIME:
        if seconds < shown_below:
            return f"{_two_digits(seconds / unit_seconds)} {unit}"
    return f"{_two_digits(seconds / _DAY)} days"


def _two_digits(amount: float) -> str:
    """An amount with two significant digits, without a power of ten: "0.38", "120"."""
    if amount < 9.95:
        return f"{amount:.2g}"
    return f"{amount:.0f}"


def short_count(count: float) -> str:
    """A count with three significant digits and k, M or G: 950 -> "950", 21300 -> "21.3k"."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= 999.5 * size:
            return f"{count / size:.0f}{unit}"
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def money_text(amount: float) -> str:
    """An amount of money with two decimals: 12.5 -> "12.50"; above 0 and below 0.005 "below
    0.01".
    """
    if 0 < amount < 0.005:
        return "below 0.01"
    return f"{amount:,.2f}"
