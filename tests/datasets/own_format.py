"""A format of one's own, as the README describes it: one raw row in, one `Row` out."""

from harness.datasets.rows import Row


def parse_row(raw):
    """{"n": 3} ─► what is the square of 3?"""
    n = raw["n"]
    text = f"The square of {n} is {n * n}."
    return Row(f"row-{n}", f"What is the square of {n}?", (("Squares", text),), (str(n * n),), (0,))
