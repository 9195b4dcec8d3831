"""The tables of figures as text, and a page that holds a figure with its tables.

formatted(frame)            numbers as strings where their column is no score, so that every format prints them alike
page(title, svg, tables)    one HTML page of both; it loads nothing and runs nothing
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from string import Template
from typing import Any

import pandas as pd

from reports.figures.plot import inline
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

_PLAIN: dict[str, Callable[[float], str]] = {
    "t_n": lambda v: f"{v:.0f}",
    "t_p": lambda v: f"{v:g}",
    "nodes": lambda v: f"{v:.1f}",
    "median": lambda v: f"{v:g}",
    "lowest": lambda v: f"{v:.0f}",
    "highest": lambda v: f"{v:.0f}",
    "mu": lambda v: f"{v:.2f}",
    "sigma": lambda v: f"{v:.2f}",
    "ks": lambda v: f"{v:.3f}",
    "covered": lambda v: f"{v:.0f}",
    "questions per document": lambda v: f"{v:.3g}",
    "break even": lambda v: f"{v:.0f}",
    "trials": lambda v: f"{v:.0f}",
    "retries": lambda v: f"{v:.1f}",
    **dict.fromkeys(
        ("requests", "requests.search", "requests.answer", "requests.index", "requests.built"), lambda v: f"{v:.1f}"
    ),
}


def formatted(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the columns of this package as strings; those that reports.render knows stay numbers."""
    made = frame.copy()
    for name, write in _PLAIN.items():
        if name in made.columns:
            low, high = (made[f"{name}{end}"] if f"{name}{end}" in made.columns else None for end in (".low", ".high"))
            made[name] = [
                _cell(write, value, *(None if c is None else c.iloc[i] for c in (low, high)))
                for i, value in enumerate(frame[name])
            ]
    return made


def _cell(write: Callable[[float], str], value: Any, low: Any, high: Any) -> str | None:
    if value is None or pd.isna(value):
        return None
    if low is None or high is None or pd.isna(low):
        return write(value)
    return f"{write(value)} [{write(low)}, {write(high)}]"


def page(title: str, svg: bytes | None, tables: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """A page with the drawing (an SVG file), if there is one, and titled tables below it."""
    code = "sha256-" + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    drawing = None if svg is None else inline(svg)
    body = joined(drawing, *(joined(el("h2", name), _table(frame)) for name, frame in tables))
    return _PAGE.substitute(title=joined(title), hash=code, style=_STYLE, body=body)


def _table(frame: pd.DataFrame) -> Html:
    cells = Cells(frame)
    kinds = ["number" if numeric else None for numeric in cells.numeric]
    head = [el("th", name, class_=kind, scope="col") for name, kind in zip(cells.heads, kinds, strict=True)]
    rows = [
        el("tr", *(el("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True))) for row in cells.rows
    ]
    made = el("table", el("thead", el("tr", *head)), el("tbody", *rows))
    notes = [*cells.common, *(f"[{i}] {note}" for i, note in enumerate(cells.footnotes, 1))]
    return joined(el("div", made, class_="wide"), *(el("p", note, class_="note") for note in notes))
