"""Tables as HTML, and one page of a figure with its tables, which loads nothing and runs nothing."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from string import Template

import pandas as pd

from reports.markup import Html, el, joined
from reports.table_formats import Cells


def page(title: str, drawing: Html | None, tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """One HTML page that loads nothing: the drawing, if there is one, and titled tables below it."""
    body = joined(drawing, *(joined(el("h2", name), table(frame)) for name, frame in tables))
    style = read_template("tables.css")
    parts = {"title": joined(title), "hash": sha256(style), "style": style, "body": body}
    return Template(read_template("tables.html")).substitute(parts)


def read_template(name: str) -> str:
    """The text of a file of reports/templates."""
    return resources.files("reports").joinpath("templates", name).read_text(encoding="utf-8")


def sha256(code: str) -> str:
    """The hash of a style or script in the form of a content security policy: "sha256-..."."""
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()


def table(frame: pd.DataFrame, *, sortable: bool = False) -> Html:
    """A frame as an HTML table with the cells of the text table; its footnotes below.

    sortable: with buttons as heads and each number in data-value, for templates/page.js; intervals in small type.
    """
    cells = Cells(frame)
    kinds = ["number" if numeric else None for numeric in cells.numeric]
    heads = [el("button", name, type="button") if sortable else name for name in cells.heads]
    head = [el("th", name, class_=kind, scope="col") for name, kind in zip(heads, kinds, strict=True)]
    body = []
    for row, line in zip(frame.to_dict("records"), cells.rows, strict=True):
        tds = []
        for name, kind, cell in zip(cells.heads, kinds, line, strict=True):
            value = row.get(name) if sortable and kind and not pd.isna(row.get(name)) else None
            tds.append(el("td", small_interval(cell) if sortable else cell, class_=kind, data_value=value))
        body.append(el("tr", *tds))
    element = el("table", el("thead", el("tr", *head)), el("tbody", *body), class_="sortable" if sortable else None)
    return joined(el("div", element, class_="wide"), *(el("p", note, class_="note") for note in cells.below()))


def small_interval(cell: str) -> Html:
    """A cell with its interval, if it has one, in small type."""
    value, bracket, interval = cell.partition(" [")
    return joined(value, el("small", f" [{interval}")) if bracket and interval.endswith("]") else joined(cell)
