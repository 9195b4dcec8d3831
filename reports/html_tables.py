"""Tables as HTML, and one page of a figure with its tables, which loads nothing and runs
nothing."""

from collections.abc import Sequence

import pandas as pd

from reports.markup import Html, filled, read_template, sha256
from reports.table_formats import Cells


def page(title: str, drawing: Html | None, tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """One HTML page that loads nothing: the drawing, if there is one, and titled tables below
    it."""
    style = read_template("tables.css")
    policy = f"default-src 'none'; style-src '{sha256(style)}'"
    titled = [(name, table(frame)) for name, frame in tables]
    return filled(
        "tables.html", title=title, policy=policy, style=style, drawing=drawing, tables=titled
    )


def table(frame: pd.DataFrame, *, sortable: bool = False) -> Html:
    """A frame as an HTML table with the cells of the text table; its footnotes below.

    sortable: with buttons as heads and each number in data-value, for templates/page.js; intervals
    in small type.
    """
    cells = Cells(frame)
    numbers = [
        name
        for name, numeric in zip(cells.heads, cells.numeric, strict=True)
        if sortable and numeric
    ]
    values = [
        {n: row[n] for n in numbers if n in row and not pd.isna(row[n])}
        for row in frame.to_dict("records")
    ]
    return filled("table.html", cells=cells, values=values, sortable=sortable)
