"""What stands in a table: a cell, and a row of cells by the names of their columns.

row: Row = {"dataset": "musique", "method": "bm25", "n": 20, "f1": None, "notes": ("...",)}
"""

from collections.abc import Mapping, Sequence

Cell = str | float | Sequence[str] | None
"""A text, a number or truth value, several texts such as notes; None for what is not known."""
Row = Mapping[str, Cell]
"""Column -> cell, in the order of the columns."""


def number_or_none(cell: Cell) -> float | None:
    """The number in a cell, which may be NaN; None for texts and for what is not known."""
    if isinstance(cell, int | float):
        return cell
    return None


def number_or_raise(cell: Cell) -> float:
    """The number in a cell of a column without gaps.

    Raises:
        TypeError: The cell holds no number.
    """
    if isinstance(cell, int | float):
        return cell
    raise TypeError(f"no number: {cell!r}")
