"""Tables as HTML, and one page of a figure with its tables, which loads nothing and runs
nothing."""

from collections.abc import Collection, Sequence

import pandas as pd

from reports.cells import Cells
from reports.markup import Html, filled, read_template, sha256


def page(title: str, drawing: Html | None, tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """One HTML page that loads nothing: a drawing, and titled tables below it.

    Args:
        title: Its title.
        drawing: The drawing, if there is one.
        tables: (title, table) each.
    """
    style = read_template("tables.css")
    policy = f"default-src 'none'; style-src '{sha256(style)}'"
    titled = [(name, table(frame)) for name, frame in tables]
    return filled(
        "tables.html", title=title, policy=policy, style=style, drawing=drawing, tables=titled
    )


def table(frame: pd.DataFrame, *, sortable: bool = False, gaps: Collection[str] = ()) -> Html:
    """A frame as an HTML table with the cells of the text table; its footnotes below.

    Args:
        frame: The table.
        sortable: With buttons as heads and each number in data-value, for templates/page.js;
            intervals in small type.
        gaps: Scores that stay without any value.
    """
    cells = Cells(frame, gaps)
    values: list[dict[str, object]] = [{} for _ in cells.rows]
    if sortable:
        values = _numbers(frame, cells)
    return filled("table.html", cells=cells, values=values, sortable=sortable)


def _numbers(frame: pd.DataFrame, cells: Cells) -> list[dict[str, object]]:
    """Head -> number, of each row, by which a script sorts."""
    heads = [head for head, numeric in zip(cells.heads, cells.numeric, strict=True) if numeric]
    found = []
    for row in frame.to_dict("records"):
        numbers = {}
        for head in heads:
            if head in row and not pd.isna(row[head]):
                numbers[head] = row[head]
        found.append(numbers)
    return found
