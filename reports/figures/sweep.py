"""Score and cost against a setting that was swept, one line a method.

    frame(runs, "method.k")  ─►  dataset method model method.k score mean[.low .high] tokens tflops[.low .high] ...

method is the run's label without the swept setting: "bm25", or "bm25 chunk_tokens=150" where
another one differs too. A run without the setting is a reference: its row has no value, and the
figure shows it as a level line.

score mean mean.low mean.high        the score's name, its mean in [0, 1], 95 % interval, by cluster
tokens                               search + answer per question
tflops tflops.low tflops.high        1e12 FLOPs of search + answer per question, likewise with its interval
convention n failed truncated notes run
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.config.yaml_tree import value_text
from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UnknownName, UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures import plot
from reports.figures.figure import SAME, Figure, by_score
from reports.figures.plot import Axis, Line, Panel, Point
from reports.main_table import table_rows
from reports.run_columns import row_cells
from reports.settings import distinct_labels, full_column_name, is_number, name_runs, setting_values
from reports.table_cell import Cell, Row, number_or_raise
from reports.table_row import TableRow

_COST = (
    "tokens",
    "tflops",
    "tflops.low",
    "tflops.high",
    "convention",
    "n",
    "failed",
    "truncated",
    "notes",
    "run",
)
_LOG_RANGE = 16  # largest value over smallest from which the axis is logarithmic
_MOST_TICKS = 8  # with more values, ticks stand at round numbers


def figure(
    runs: Sequence[StoredRun],
    *,
    x: str | None,
    score: str | None,
    convention: str,
    warn: Callable[[str], None],
) -> Figure:
    """The figure of score and cost against a setting.

    Args:
        runs: Stored runs.
        x: The setting to show them by; by default the only one that differs.
        score: Name of a score; by default each run's headline.
        convention: How FLOPs are counted.
        warn: Gets a sentence where the setting has a single value.

    Raises:
        UserError: There is no run, a run without records, or not one setting that differs.
        UnknownName: There is no such setting, score or convention.
    """
    keys = set[str]()
    for run in runs:
        keys.update(setting_values(run))
    key = full_column_name(x or only_varying_setting(runs), keys)
    table = frame(runs, key, score, convention)
    if table[key].nunique() < 2:
        warn(f"note: all these runs have one value of {key}; run others with --sweep {key}=A,B")
    return Figure(f"Sweep of {key}", table, by_score(table, f"over {key}"), panels(table, key))


def only_varying_setting(runs: Sequence[StoredRun]) -> str:
    """The one setting in which runs differ, as `--set` names it: "method.k".

    Raises:
        UserError: They differ in none or several.
    """
    found: dict[str, None] = {}
    for name in name_runs(runs):
        found.update(dict.fromkeys(name.values))
    keys = list(found)
    if len(keys) == 1:
        return keys[0]
    if keys:
        raise UserError(
            f"these runs differ in several settings; name one of them with --x: {', '.join(keys)}"
        )
    example = "harness run --method bm25 --dataset musique --sweep method.k=1,3,10"
    raise UserError(
        f"these runs differ in no setting, so there is nothing to plot; make some with: {example}"
    )


@dataclass(frozen=True)
class SweptRun:
    """A run of a sweep.

    Args:
        table_row: Its row of the main table.
        settings: Every setting of the run, by the key that `--set` takes.
    """

    table_row: TableRow
    settings: Mapping[str, object]

    @property
    def run(self) -> StoredRun:
        """The run itself."""
        return self.table_row.run

    def point(self, x: str) -> tuple[str, str, str]:
        """Where the run stands in the figure: data set, model, and value of the setting `x` as
        text."""
        return self.table_row.dataset, self.table_row.model, value_text(self.settings.get(x))

    def cell(self, x: str) -> float | str | None:
        """The run's value of the setting `x`: a number, or the text that one types for another
        value.

        None for a run without the setting.
        """
        if x not in self.settings:
            return None
        value = self.settings[x]
        if is_number(value):
            return value
        return value_text(value)

    def row(self, x: str, label: str, score: str) -> Row:
        """The run's row of `frame`.

        Args:
            x: The setting.
            label: The method's name.
            score: The name of the score.
        """
        model = self.table_row.model
        if x == "model":
            model = ""
        row: dict[str, Cell] = {
            "dataset": self.table_row.dataset,
            "method": label,
            "model": model,
            x: self.cell(x),
            "score": score,
            **facts.interval_columns("mean", self.table_row.score(score)),
        }
        columns = row_cells(self.table_row)
        for name in _COST:
            row[name] = columns[name]
        return row


def frame(
    runs: Sequence[StoredRun],
    x: str,
    score: str | None = None,
    convention: str = DEFAULT_CONVENTION,
) -> pd.DataFrame:
    """Score and cost by value of a setting, a row a run; the columns are at the head of this file.

    Args:
        runs: Stored runs.
        x: The setting.
        score: Name of a score; by default each run's headline.
        convention: How FLOPs are counted.

    Raises:
        UserError: There is no run, or a run without records.
        UnknownName: No run has the setting, a run does not have the score, or there is no such
            convention.
    """
    runs = sorted(runs, key=lambda run: run.config.dataset.name)
    table = table_rows(runs, convention=convention)
    swept = [SweptRun(row, setting_values(row.run)) for row in table]
    _check_setting(x, swept)
    # A line with two runs at one value is two lines.
    labels = distinct_labels(facts.run_labels(runs, [x]), runs, [part.point(x) for part in swept])
    rows = []
    for part, label in zip(swept, labels, strict=True):
        rows.append(part.row(x, label, _score_of(part.run, score)))
    rows = _sorted_rows(rows, x)
    column = pd.Series([row[x] for row in rows], dtype=object)
    return facts.as_floats(pd.DataFrame(rows)).assign(**{x: column})


def _check_setting(x: str, swept: Sequence[SweptRun]) -> None:
    """Raise UnknownName where no run has the setting `x`."""
    keys = set[str]()
    for part in swept:
        keys.update(part.settings)
    if x not in keys:
        raise UnknownName("setting", x, sorted(keys), "settings of these runs")


def _score_of(run: StoredRun, score: str | None) -> str:
    """The name of the score that is shown of a run: `score`, by default its headline.

    Raises:
        UnknownName: The run does not have the score.
    """
    name = score or facts.headline_score(run)
    if name not in {*facts.score_names(run), *facts.corpus_score_sources(run)}:
        raise UnknownName("score", name, facts.score_names(run), f"scores of {run.path.name}")
    return name


def _sorted_rows(rows: Sequence[Row], x: str) -> list[Row]:
    """The rows by data set, method and value of `x`; those without the setting come last in their
    data set."""
    in_order = _sorted_values([row[x] for row in rows])

    def sort_key(row: Row) -> tuple[str, bool, str, int]:
        """The data set, whether the row lacks the setting, the method, and the place of its
        value."""
        value_place = -1
        if row[x] is not None:
            value_place = in_order.index(row[x])
        return str(row["dataset"]), row[x] is None, str(row["method"]), value_place

    return sorted(rows, key=sort_key)


def _sorted_values(values: Sequence[Cell]) -> list[Cell]:
    """The different values of a setting, None left out: numbers by size, others as they come.

    [3, 1, None, 3] -> [1, 3]
    """
    found: list[Cell] = []
    numbers: list[float] = []
    for value in dict.fromkeys(values):
        if value is not None:
            found.append(value)
        if is_number(value):
            numbers.append(value)
    if len(numbers) == len(found):
        return [*sorted(numbers)]
    return found


def panels(table: pd.DataFrame, x: str) -> list[Panel]:
    """Panels for each data set, model and score: the score and the cost over the setting, a line a
    method."""
    drawn = []
    for (dataset, model, score), rows in table.groupby(SAME, sort=False):
        values = _sorted_values(list(rows[x]))
        if not values:
            continue  # every run of this data set is a reference
        title = str(dataset)
        if model:
            title = f"{dataset} · {model}"
        setting = _setting_axis(x.removeprefix("method."), values)
        cost = "tokens"
        unit = "tokens a question, search + answer"
        if rows["tflops"].notna().any():
            convention = rows["convention"].iloc[0]
            cost = "tflops"
            unit = f"TFLOPs a question, search + answer ({convention})"
        scores = _lines(rows, x, _Measured("mean", 100), setting.places)
        drawn += plot.panels(title, setting.axis, Axis(f"{score} × 100"), scores)
        costs = _lines(rows, x, _Measured(cost, 1), setting.places)
        drawn += plot.panels(title, setting.axis, Axis(unit, starts_at_zero=True), costs)
    return drawn


@dataclass(frozen=True)
class _SettingAxis:
    """The axis of a setting, and the place of each of its values on it."""

    axis: Axis
    places: Mapping[Cell, float]


def _setting_axis(name: str, values: Sequence[Cell]) -> _SettingAxis:
    """The axis of a setting: numbers to scale, other values one beside the other.

    Args:
        name: The name of the setting.
        values: Its values, as `_sorted_values` has them.
    """
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) < len(values):
        places = dict(zip(values, map(float, range(len(values))), strict=True))
        axis = Axis(name, tuple(places.values()), tuple(map(str, values)))
        return _SettingAxis(axis, places)
    first = numbers[0]
    last = numbers[-1]
    ticks: tuple[float, ...] = ()
    if len(numbers) <= _MOST_TICKS:
        ticks = tuple(numbers)
    axis = Axis(name, ticks, is_logarithmic=first > 0 and last >= _LOG_RANGE * first)
    return _SettingAxis(axis, dict(zip(values, numbers, strict=True)))


@dataclass(frozen=True)
class _Measured:
    """A column of `frame` that is drawn, and what it is multiplied by."""

    column: str
    scale: float


def _lines(
    rows: pd.DataFrame, x: str, measured: _Measured, places: Mapping[Cell, float]
) -> list[Line]:
    """A line for each method that has values of the column.

    Args:
        rows: Rows of `frame` in one panel.
        x: The setting.
        measured: The column that is drawn.
        places: Value of the setting -> its place on the axis.
    """
    lines = []
    known = rows[rows[measured.column].notna()]
    for method, part in known.groupby("method", sort=False):
        lines.append(_method_line(str(method), facts.frame_rows(part), x, measured, places))
    return lines


def _method_line(
    method: str,
    rows: Sequence[Row],
    x: str,
    measured: _Measured,
    places: Mapping[Cell, float],
) -> Line:
    """The line of a method; that of a run without the setting is level and spans all places.

    Args:
        method: The name of the line.
        rows: Rows of `frame` of this method.
        x: The setting.
        measured: The column that is drawn.
        places: Value of the setting -> its place on the axis.
    """
    column = measured.column
    scale = measured.scale
    points = []
    for row in rows:
        if row[x] is None:
            height = scale * number_or_raise(row[column])
            level = [Point(place, height) for place in sorted(set(places.values()))]
            return Line(method, level, has_marks=False)
        drawn: Row = {
            "place": places[row[x]],
            column: row[column],
            f"{column}.low": row.get(f"{column}.low"),
            f"{column}.high": row.get(f"{column}.high"),
        }
        points.append(Point.of(drawn, "place", column, scale))
    return Line(method, points)
