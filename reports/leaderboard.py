"""A table of all runs of the page over every data set, which templates/leaderboard.js groups, sorts and filters.

Without a script it stands grouped by data set, best first. Scores of two data sets are not compared: groups by method
and by model keep them in rows of their own, and "methods × data sets" gives each data set a column.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.html_tables import small_interval
from reports.markup import Html, el
from reports.provenance import date
from reports.table_formats import Cells

_COUNTS = ("n", "documents", "failed", "left_out")
_NUMERIC = ("score", "tokens", "tflops", "ratio", "ratio.search", "money", "seconds.p50", "seconds.p95", *_COUNTS)
_COLUMNS = ("method", "model", "data set", *_NUMERIC, "date", "suite", "folder")


def leaderboard(means: pd.DataFrame, runs: Sequence[StoredRun], anchors: Mapping[str, str]) -> Html:
    """The table; `means` has the rows of main_table.frame for `runs`, `anchors` the section of each data set."""
    by_key = {facts.run_key(run): run for run in runs}
    folders = sources(runs)
    rows = []
    for row in facts.records(means):
        run = by_key[row["dataset"], row["run"]]
        scores = {f"score{end}": row.get(f"{row['headline']}{end}") for end in ("", ".low", ".high")}
        run_facts = {"date": date(run), "suite": facts.suite(run), "folder": folders[run.path]}
        rows.append(row | scores | run_facts | {"data set": row["dataset"], "tflops": row["tflops.whole"]})
    table = pd.DataFrame(rows)
    hidden = [name for name in ("suite", "folder") if table[name].nunique() == 1]
    hidden += [] if table["left_out"].any() else ["left_out"]
    shown = [name for name in _COLUMNS if name not in hidden]
    cells = Cells(table[[*_NUMERIC, "score.low", "score.high"]].astype("float64"))  # numbers as the tables write them
    formatted = [dict(zip(cells.heads, row, strict=True)) for row in cells.rows]
    kinds = dict.fromkeys(_NUMERIC, "number")
    head = [el("th", el("button", name, type="button"), class_=kinds.get(name), scope="col") for name in shown]
    body = []
    for row, texts in zip(rows, formatted, strict=True):
        # What the script groups and sorts by.
        data = {name: row[name] for name in ("method", "model", "data set", "suite", "folder", "date")}
        data |= {name: float(row[name]) for name in _NUMERIC if row[name] is not None and not pd.isna(row[name])}
        data |= {"apart": ""} if row["apart"] else {}
        attributes = {f"data_{name.replace(' ', '_')}": value for name, value in data.items()}
        body.append(el("tr", *(_html_cell(row, texts, name, anchors) for name in shown), **attributes))
    board = el("table", el("thead", el("tr", *head)), el("tbody", *body), class_="board")
    return el(
        "section",
        el("h2", "Leaderboard"),
        el("div", class_="board-choices bar-of-choices"),
        el("div", board, class_="wide"),
        el(
            "p",
            "Scores are means of each data set's first score × 100 with 95 % intervals; TFLOPs and the ratio to "
            "full-context are per question, the index shared by the questions asked of its document; tokens and "
            "ratio.search are search and answer alone, money is that of a server, seconds the time of a "
            "question's own calls. (c): a ceiling, which was shown the evidence. (q): was asked other questions, or "
            "for another task, than most runs of its data set, and is ranked with none.",
            class_="legend",
        ),
        id="leaderboard",
    )


def sources(runs: Sequence[StoredRun]) -> dict[Any, str]:
    """The results folder of each run by the run's path, without what all of them share."""
    folders = {run.path: run.path.parent.parent for run in runs}
    shared = os.path.commonpath([folder.resolve() for folder in folders.values()])
    relative = {path: os.path.relpath(folder.resolve(), shared) for path, folder in folders.items()}
    return {path: os.path.basename(shared) if name == "." else name for path, name in relative.items()}


def _html_cell(row: Mapping[str, Any], texts: Mapping[str, str], name: str, anchors: Mapping[str, str]) -> Html:
    """The cell of column `name`; texts: the row's numbers as written; anchors: data set -> link to its section."""
    if name in _NUMERIC:
        mark = " (q)" if name == "score" and row["apart"] else ""
        return el("td", small_interval(texts.get(name, "–")), mark, class_="number")
    if name == "data set":
        return el("td", el("a", row[name], href=anchors[row[name]]), el("small", f" {row['headline']}"))
    return el("td", f"{row[name]} (c)" if name == "method" and row["ceiling"] else row[name])
