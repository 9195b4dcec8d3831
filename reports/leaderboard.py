"""A table of all runs of the page over every data set, which templates/leaderboard.js groups, sorts
and filters.

Without a script it stands grouped by data set, best first. Scores of two data sets are not
compared: groups by method and by model keep them in rows of their own, and "methods × data sets"
gives each data set a column.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.markup import Html, filled, text
from reports.provenance import date
from reports.table_formats import Cells

_COUNTS = ("n", "documents", "failed", "left_out")
_NUMERIC = (
    "score",
    "tokens",
    "tflops",
    "ratio",
    "ratio.search",
    "money",
    "seconds.p50",
    "seconds.p95",
    *_COUNTS,
)
_COLUMNS = ("method", "model", "data set", *_NUMERIC, "date", "suite", "folder")


def leaderboard(means: pd.DataFrame, runs: Sequence[StoredRun], links: Mapping[str, str]) -> Html:
    """The table of the rows of main_table.frame; links: data set -> its section."""
    by_key = {facts.run_key(run): run for run in runs}
    folders = sources(runs)
    rows = []
    for row in facts.records(means):
        run = by_key[row["dataset"], row["run"]]
        scores = {
            f"score{end}": row.get(f"{row['headline']}{end}") for end in ("", ".low", ".high")
        }
        run_facts = {"date": date(run), "suite": facts.suite(run), "folder": folders[run.path]}
        run_facts |= {"data set": row["dataset"], "tflops": row["tflops.total"]}
        rows.append(row | scores | run_facts)
    table = pd.DataFrame(rows)
    hidden = [name for name in ("suite", "folder") if table[name].nunique() == 1]
    hidden += [] if table["left_out"].any() else ["left_out"]
    cells = Cells(
        table[[*_NUMERIC, "score.low", "score.high"]].astype("float64")
    )  # numbers as the tables write them
    for row, texts in zip(rows, cells.rows, strict=True):
        row["texts"] = dict(zip(cells.heads, texts, strict=True))
        # What the script groups and sorts by.
        data: dict[str, Any] = {
            name: text(row[name])
            for name in ("method", "model", "data set", "suite", "folder", "date")
        }
        numbers = {name: row[name] for name in _NUMERIC if row[name] is not None}
        data |= {name: float(value) for name, value in numbers.items() if not pd.isna(value)}
        data |= {"asked-otherwise": ""} if row["asked_otherwise"] else {}
        row["attributes"] = {
            f"data-{re.sub('[ _]', '-', name)}": value for name, value in data.items()
        }
    shown = [name for name in _COLUMNS if name not in hidden]
    return filled("leaderboard.html", rows=rows, shown=shown, numeric=_NUMERIC, links=links)


def sources(runs: Sequence[StoredRun]) -> dict[Any, str]:
    """The results folder of each run by the run's path, without what all of them share."""
    folders = {run.path: run.path.parent.parent for run in runs}
    shared = os.path.commonpath([folder.resolve() for folder in folders.values()])
    relative = {path: os.path.relpath(folder.resolve(), shared) for path, folder in folders.items()}
    return {
        path: os.path.basename(shared) if name == "." else name for path, name in relative.items()
    }
