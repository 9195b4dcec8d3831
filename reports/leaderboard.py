"""A table of all runs of the page over every data set, which templates/leaderboard.js groups, sorts
and filters.

Without a script it stands grouped by data set, best first. Scores of two data sets are not
compared: groups by method and by model keep them in rows of their own, and "methods × data sets"
gives each data set a column.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.stats.bootstrap import Interval, with_interval
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.markup import Html, escaped_text, fill_template
from reports.number_formats import points_of_100
from reports.provenance import start_date
from reports.run_columns import number_format, row_cells
from reports.table_cell import number_or_none
from reports.table_row import TableRow

_SCORE_COLUMN = "score"
_LEFT_OUT_COLUMN = "left_out"
_COST_COLUMNS = ("tokens", "tflops", "ratio", "ratio.search", "money", "seconds.p50", "seconds.p95")
_NUMBER_COLUMNS = (_SCORE_COLUMN, *_COST_COLUMNS, "n", "documents", "failed", _LEFT_OUT_COLUMN)
_COLUMNS = ("method", "model", "data set", *_NUMBER_COLUMNS, "date", "suite", "folder")


@dataclass(frozen=True)
class LeaderboardRow:
    """A run in the leaderboard, as templates/leaderboard.html shows it.

    Args:
        words: Column -> text: method, model, data set, suite, folder, date.
        numbers: Column -> number, of those that are known.
        texts: Column -> number as it is written, with its interval; a column without one is a dash.
        headline: Name of the score.
        upper_bound: Whether the method was shown the supporting passages alone.
        asked_otherwise: Whether it had other questions than most, and is not ranked.
    """

    words: Mapping[str, str]
    numbers: Mapping[str, float]
    texts: Mapping[str, str]
    headline: str
    upper_bound: bool
    asked_otherwise: bool

    @property
    def attributes(self) -> dict[str, Html | float | str]:
        """The HTML attributes of the row by which the script groups and sorts: {"data-method":
        "bm25", "data-score": 0.4, ...}."""
        data: dict[str, Html | float | str] = {}
        for name, word in self.words.items():
            data[_attribute(name)] = escaped_text(word)
        for name, number in self.numbers.items():
            data[_attribute(name)] = number
        if self.asked_otherwise:
            data[_attribute("asked-otherwise")] = ""
        return data


def _attribute(name: str) -> str:
    """The HTML attribute of a column: "left_out" -> "data-left-out"."""
    return f"data-{re.sub('[ _]', '-', name)}"


def leaderboard(rows: Sequence[TableRow], links: Mapping[str, str]) -> Html:
    """The table of all runs as HTML.

    Args:
        rows: The rows of the main table.
        links: Data set -> link to its section of the page.
    """
    folders = results_folder_names([row.run for row in rows])
    leaderboard_rows = [_leaderboard_row(row, folders[row.run.path]) for row in rows]
    hidden = _hidden_columns(leaderboard_rows)
    shown_columns = [name for name in _COLUMNS if name not in hidden]
    return fill_template(
        "leaderboard.html",
        rows=leaderboard_rows,
        shown=shown_columns,
        numeric=_NUMBER_COLUMNS,
        links=links,
    )


def _hidden_columns(rows: Sequence[LeaderboardRow]) -> set[str]:
    """The columns that say nothing: one suite or folder for all runs, no question left out, costs
    that no run has."""
    hidden = set()
    for name in _COST_COLUMNS:
        if not any(name in row.numbers for row in rows):
            hidden.add(name)
    if not any(row.numbers.get(_LEFT_OUT_COLUMN) for row in rows):
        hidden.add(_LEFT_OUT_COLUMN)
    for name in ("suite", "folder"):
        distinct_words = {row.words[name] for row in rows}
        if len(distinct_words) == 1:
            hidden.add(name)
    return hidden


def _leaderboard_row(row: TableRow, folder: str) -> LeaderboardRow:
    """The row of a run in the leaderboard.

    Args:
        row: The run's row of the main table.
        folder: The name of its results folder.
    """
    score = row.score(row.headline)
    columns = row_cells(row)
    cells = {**columns, "tflops": columns["tflops.total"], _SCORE_COLUMN: score.mean}
    numbers = {}
    texts = {}
    for name in _NUMBER_COLUMNS:
        number = number_or_none(cells[name])
        if number is not None:
            numbers[name] = float(number)
            texts[name] = _number_text(name, numbers[name], score)
    return LeaderboardRow(
        words={
            "method": row.label,
            "model": row.model,
            "data set": row.dataset,
            "suite": facts.suite_name(row.run),
            "folder": folder,
            "date": start_date(row.run),
        },
        numbers=numbers,
        texts=texts,
        headline=row.headline,
        upper_bound=row.is_upper_bound,
        asked_otherwise=row.asked_otherwise,
    )


def _number_text(name: str, number: float, score: Interval) -> str:
    """A number as the tables write it; the score with its interval.

    Args:
        name: The column.
        number: The number.
        score: The headline score with its interval.
    """
    if name == _SCORE_COLUMN:
        return with_interval(points_of_100, number, score.low, score.high)
    write = number_format(name) or "{:g}".format
    return write(number)


def results_folder_names(runs: Sequence[StoredRun]) -> dict[Path, str]:
    """Path of each run -> its results folder, without the part of the path that all folders share.

    /data/a/musique/RUN, /data/b/musique/RUN     -> "a", "b"
    """
    folders = {run.path: run.path.parent.parent.resolve() for run in runs}
    common_path = os.path.commonpath(list(folders.values()))
    names = {}
    for path, folder in folders.items():
        name = os.path.relpath(folder, common_path)
        if name == ".":  # this folder is the shared part itself
            name = os.path.basename(common_path)
        names[path] = name
    return names
