"""Tables as HTML, and one page of a figure with its tables, which loads nothing and runs
nothing."""

from collections.abc import Collection, Sequence
from itertools import compress

import pandas as pd

from reports.cells import Cells
from reports.markup import Html, filled, read_template, sha256


def page(title: str, drawing: Html | None, tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """One HTML page that loads nothing: a drawing, and titled tables below it.

    Args:
        title: The title of the page.
        drawing: The drawing; None for none.
        tables: (title, table) of each table.
    """
    style = read_template("tables.css")
    policy = f"default-src 'none'; style-src '{sha256(style)}'"
    titled = [(name, table(frame)) for name, frame in tables]
    return filled(
        "tables.html", title=title, policy=policy, style=style, drawing=drawing, tables=titled
    )


def table(frame: pd.DataFrame, *, sortable: bool = False, gaps: Collection[str] = ()) -> Html:
    """A frame as an HTML table with the cells of the text table, and its footnotes below.

    Args:
        frame: The table.
        sortable: Whether a reader can sort it: heads are buttons then, each number is in data-value
            for templates/page.js, and intervals are in small type.
        gaps: Scores that are shown even without any value.
    """
    cells = Cells(frame, gaps)
    values: list[dict[str, object]] = [{} for _ in cells.rows]
    if sortable:
        values = _numbers(frame, cells)
    return filled("table.html", cells=cells, values=values, sortable=sortable)


def _numbers(frame: pd.DataFrame, cells: Cells) -> list[dict[str, object]]:
    """Of each row, head -> number in the columns of numbers: [{"n": 20, "f1": 0.413}, ...].

    A script sorts by them; what is missing is left out.
    """
    heads = list(compress(cells.heads, cells.numeric))
    found = []
    for row in frame.to_dict("records"):
        numbers = {}
        for head in heads:
            if head in row and not pd.isna(row[head]):
                numbers[head] = row[head]
        found.append(numbers)
    return found
