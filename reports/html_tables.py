"""Tables as HTML, and one page of a figure with its tables, which loads nothing and runs
nothing."""

from collections.abc import Collection, Sequence
from itertools import compress

import pandas as pd

from reports.cells import Cells
from reports.markup import Html, csp_hash, fill_template, read_template


def tables_page(
    title: str, drawing: Html | None, tables: Sequence[tuple[str, pd.DataFrame]]
) -> str:
    """One HTML page that loads nothing: a drawing, and titled tables below it.

    Args:
        title: The title of the page.
        drawing: The drawing; None for none.
        tables: (title, table) of each table.
    """
    style = read_template("tables.css")
    policy = f"default-src 'none'; style-src '{csp_hash(style)}'"
    titled_tables = [(name, table_html(frame)) for name, frame in tables]
    return fill_template(
        "tables.html",
        title=title,
        policy=policy,
        style=style,
        drawing=drawing,
        tables=titled_tables,
    )


def table_html(frame: pd.DataFrame, *, sortable: bool = False, gaps: Collection[str] = ()) -> Html:
    """A frame as an HTML table with the cells of the text table, and its footnotes below.

    Args:
        frame: The table.
        sortable: Whether a reader can sort it: heads are buttons then, each number is in data-value
            for templates/page.js, and intervals are in small type.
        gaps: Scores that are shown even without any value.
    """
    cells = Cells(frame, gaps)
    numbers_by_row: list[dict[str, object]] = [{} for _ in cells.rows]
    if sortable:
        numbers_by_row = _numbers_by_row(frame, cells)
    return fill_template("table.html", cells=cells, values=numbers_by_row, sortable=sortable)


def _numbers_by_row(frame: pd.DataFrame, cells: Cells) -> list[dict[str, object]]:
    """Of each row, head -> number in the columns of numbers: [{"n": 20, "f1": 0.413}, ...].

    A script sorts by them; what is missing is left out.
    """
    number_headings = list(compress(cells.headings, cells.is_numeric))
    rows = []
    for row in frame.to_dict("records"):
        numbers = {}
        for heading in number_headings:
            if heading in row and not pd.isna(row[heading]):
                numbers[heading] = row[heading]
        rows.append(numbers)
    return rows
