"""Tables as HTML, and one page of a figure with its tables, which loads nothing and runs nothing."""

import base64
import hashlib
from collections.abc import Sequence
from string import Template

import pandas as pd

from reports.markup import Html, el, joined
from reports.render import Cells

_PAGE = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '$hash'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>$style</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
"""
)

_STYLE = """
body { margin: 0 auto; max-width: 1180px; padding: 24px 28px 60px; color: #1d2430; background: #fff;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 24px; } h2 { font-size: 17px; margin: 28px 0 8px; overflow-wrap: anywhere; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: left; border-bottom: 1px solid #d8dde4; white-space: nowrap; }
th { background: #f4f6f9; } .number { text-align: right; }
.wide { overflow-x: auto; } .note { color: #5b6675; font-size: 13px; margin: 6px 0; overflow-wrap: anywhere; }
svg.figure { display: block; width: 100%; height: auto; border: 1px solid #d8dde4; border-radius: 6px; }
"""


def page(title: str, drawing: Html | None, tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """A page with the drawing, if there is one, and titled tables below it."""
    body = joined(drawing, *(joined(el("h2", name), table(frame)) for name, frame in tables))
    return _PAGE.substitute(title=joined(title), hash=sha256(_STYLE), style=_STYLE, body=body)


def sha256(code: str) -> str:
    """A style or script as a content security policy names it."""
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
    made = el("table", el("thead", el("tr", *head)), el("tbody", *body), class_="sortable" if sortable else None)
    return joined(el("div", made, class_="wide"), *(el("p", note, class_="note") for note in cells.below()))


def small_interval(cell: str) -> Html:
    """A cell with its interval, if it has one, in small type."""
    value, bracket, interval = cell.partition(" [")
    return joined(value, el("small", f" [{interval}")) if bracket and interval.endswith("]") else joined(cell)
