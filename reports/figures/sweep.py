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
from reports.figures.figure import COLUMNS_IN_TITLE, Figure, by_score
from reports.figures.plot import Axis, Line, Panel, Point
from reports.main_table import table_rows
from reports.run_columns import row_cells
from reports.settings import distinct_labels, full_column_name, is_number, name_runs, setting_values
from reports.table_cell import Cell, Row, number_or_raise
from reports.table_row import TableRow

_COST_COLUMNS = (
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
_MIN_LOGARITHMIC_RATIO = 16  # largest value over smallest from which the axis is logarithmic
_MAX_LABELLED_VALUES = 8  # with more values, ticks stand at round numbers


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
    all_settings = set[str]()
    for run in runs:
        all_settings.update(setting_values(run))
    setting = full_column_name(x or only_varying_setting(runs), all_settings)
    table = frame(runs, setting, score, convention)
    if table[setting].nunique() < 2:
        warn(
            f"note: all these runs have one value of {setting}; run others with --sweep "
            f"{setting}=A,B"
        )
    tables = by_score(table, f"over {setting}")
    return Figure(f"Sweep of {setting}", table, tables, panels(table, setting))


def only_varying_setting(runs: Sequence[StoredRun]) -> str:
    """The one setting in which runs differ, as `--set` names it: "method.k".

    Raises:
        UserError: They differ in none or several.
    """
    varying: dict[str, None] = {}  # an ordered set
    for name in name_runs(runs):
        varying.update(dict.fromkeys(name.values))
    keys = list(varying)
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

    def position_in_figure(self, setting: str) -> tuple[str, str, str]:
        """Where the run stands in the figure: data set, model, and value of the setting as text."""
        return self.table_row.dataset, self.table_row.model, value_text(self.settings.get(setting))

    def cell(self, setting: str) -> float | str | None:
        """The run's value of the setting: a number, or the text that one types for another value.

        None for a run without the setting.
        """
        if setting not in self.settings:
            return None
        value = self.settings[setting]
        if is_number(value):
            return value
        return value_text(value)

    def row(self, setting: str, label: str, score: str) -> Row:
        """The run's row of `frame`.

        Args:
            setting: The setting.
            label: The method's name.
            score: The name of the score.
        """
        model = self.table_row.model
        if setting == "model":
            model = ""
        row: dict[str, Cell] = {
            "dataset": self.table_row.dataset,
            "method": label,
            "model": model,
            setting: self.cell(setting),
            "score": score,
            **facts.interval_columns("mean", self.table_row.score(score)),
        }
        cells = row_cells(self.table_row)
        for name in _COST_COLUMNS:
            row[name] = cells[name]
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
    runs = sorted(runs, key=lambda run: run.config.dataset.name)  # as table_rows sorts them
    table = table_rows(runs, convention=convention)
    swept_runs = [SweptRun(row, setting_values(row.run)) for row in table]
    _check_setting(x, swept_runs)
    # A line with two runs at one value is two lines.
    labels_without_setting = facts.run_labels(runs, [x])
    positions = [swept_run.position_in_figure(x) for swept_run in swept_runs]
    labels = distinct_labels(labels_without_setting, runs, positions)
    rows = []
    for swept_run, label in zip(swept_runs, labels, strict=True):
        score_name = _checked_score_name(swept_run.run, score)
        rows.append(swept_run.row(x, label, score_name))
    rows = _sorted_rows(rows, x)
    values = pd.Series([row[x] for row in rows], dtype=object)  # whole numbers stay whole
    return facts.as_floats(pd.DataFrame(rows)).assign(**{x: values})


def _check_setting(setting: str, swept_runs: Sequence[SweptRun]) -> None:
    """Raise UnknownName where no run has the setting."""
    keys = set[str]()
    for swept_run in swept_runs:
        keys.update(swept_run.settings)
    if setting not in keys:
        raise UnknownName("setting", setting, sorted(keys), "settings of these runs")


def _checked_score_name(run: StoredRun, score: str | None) -> str:
    """The name of the score that is shown of a run: `score`, by default its headline.

    Raises:
        UnknownName: The run does not have the score.
    """
    name = score or facts.headline_score(run)
    if name not in {*facts.score_names(run), *facts.corpus_score_sources(run)}:
        raise UnknownName("score", name, facts.score_names(run), f"scores of {run.path.name}")
    return name


def _sorted_rows(rows: Sequence[Row], setting: str) -> list[Row]:
    """The rows by data set, method and value of the setting; those without it come last in their
    data set."""
    sorted_values = _distinct_sorted_values([row[setting] for row in rows])

    def sort_key(row: Row) -> tuple[str, bool, str, int]:
        """The data set, whether the row lacks the setting, the method, and the place of its
        value."""
        value_index = -1
        if row[setting] is not None:
            value_index = sorted_values.index(row[setting])
        return str(row["dataset"]), row[setting] is None, str(row["method"]), value_index

    return sorted(rows, key=sort_key)


def _distinct_sorted_values(values: Sequence[Cell]) -> list[Cell]:
    """The different values of a setting, None left out: numbers by size, others as they come.

    [3, 1, None, 3] -> [1, 3]
    """
    distinct_values: list[Cell] = [value for value in dict.fromkeys(values) if value is not None]
    numbers: list[float] = [value for value in distinct_values if is_number(value)]
    if len(numbers) == len(distinct_values):
        return [*sorted(numbers)]
    return distinct_values


def panels(table: pd.DataFrame, x: str) -> list[Panel]:
    """Panels for each data set, model and score: the score and the cost over the setting, a line a
    method."""
    panel_list = []
    for (dataset, model, score), rows in table.groupby(COLUMNS_IN_TITLE, sort=False):
        values = _distinct_sorted_values(list(rows[x]))
        if not values:
            continue  # every run of this data set is a reference
        title = str(dataset)
        if model:
            title = f"{dataset} · {model}"
        setting_axis = _setting_axis(x.removeprefix("method."), values)
        cost_column = "tokens"
        cost_title = "tokens a question, search + answer"
        if rows["tflops"].notna().any():
            convention = rows["convention"].iloc[0]
            cost_column = "tflops"
            cost_title = f"TFLOPs a question, search + answer ({convention})"
        position_by_value = setting_axis.position_by_value
        score_lines = _lines(rows, x, _DrawnColumn("mean", scale=100), position_by_value)
        score_axis = Axis(f"{score} × 100")
        panel_list += plot.panels(title, setting_axis.axis, score_axis, score_lines)
        cost_lines = _lines(rows, x, _DrawnColumn(cost_column, scale=1), position_by_value)
        cost_axis = Axis(cost_title, starts_at_zero=True)
        panel_list += plot.panels(title, setting_axis.axis, cost_axis, cost_lines)
    return panel_list


@dataclass(frozen=True)
class _SettingAxis:
    """The axis of a setting, and the place of each of its values on it."""

    axis: Axis
    position_by_value: Mapping[Cell, float]


def _setting_axis(name: str, values: Sequence[Cell]) -> _SettingAxis:
    """The axis of a setting: numbers to scale, other values one beside the other.

    Args:
        name: The name of the setting.
        values: Its values, as `_distinct_sorted_values` has them.
    """
    numbers = [float(value) for value in values if is_number(value)]
    if len(numbers) < len(values):
        position_by_value = {value: float(position) for position, value in enumerate(values)}
        axis = Axis(name, tuple(position_by_value.values()), tuple(map(str, values)))
        return _SettingAxis(axis, position_by_value)
    first = numbers[0]
    last = numbers[-1]
    ticks: tuple[float, ...] = ()
    if len(numbers) <= _MAX_LABELLED_VALUES:
        ticks = tuple(numbers)
    is_logarithmic = first > 0 and last >= _MIN_LOGARITHMIC_RATIO * first
    axis = Axis(name, ticks, is_logarithmic=is_logarithmic)
    return _SettingAxis(axis, dict(zip(values, numbers, strict=True)))


@dataclass(frozen=True)
class _DrawnColumn:
    """A column of `frame` that is drawn, and what it is multiplied by."""

    column: str
    scale: float


def _lines(
    rows: pd.DataFrame,
    setting: str,
    drawn_column: _DrawnColumn,
    position_by_value: Mapping[Cell, float],
) -> list[Line]:
    """A line for each method that has values of the column.

    Args:
        rows: Rows of `frame` in one panel.
        setting: The setting.
        drawn_column: The column that is drawn.
        position_by_value: Value of the setting -> its place on the axis.
    """
    lines = []
    rows_with_value = rows[rows[drawn_column.column].notna()]
    for method, method_rows in rows_with_value.groupby("method", sort=False):
        lines.append(
            _method_line(
                str(method), facts.frame_rows(method_rows), setting, drawn_column, position_by_value
            )
        )
    return lines


def _method_line(
    method: str,
    rows: Sequence[Row],
    setting: str,
    drawn_column: _DrawnColumn,
    position_by_value: Mapping[Cell, float],
) -> Line:
    """The line of a method; that of a run without the setting is level and spans all places.

    Args:
        method: The name of the line.
        rows: Rows of `frame` of this method.
        setting: The setting.
        drawn_column: The column that is drawn.
        position_by_value: Value of the setting -> its place on the axis.
    """
    column = drawn_column.column
    scale = drawn_column.scale
    points = []
    for row in rows:
        if row[setting] is None:
            height = scale * number_or_raise(row[column])
            positions = sorted(set(position_by_value.values()))
            level_points = [Point(position, height) for position in positions]
            return Line(method, level_points, has_marks=False)
        point_row: Row = {
            "place": position_by_value[row[setting]],
            column: row[column],
            f"{column}.low": row.get(f"{column}.low"),
            f"{column}.high": row.get(f"{column}.high"),
        }
        points.append(Point.of(point_row, "place", column, scale))
    return Line(method, points)
