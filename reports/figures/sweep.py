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

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from harness.config.yaml_tree import value_text
from harness.cost.flops import DEFAULT
from harness.errors import UnknownName, UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures import plot
from reports.figures.figure import SAME, Figure, by_score
from reports.figures.plot import Axis, Line, Panel, Point
from reports.main_table import frame as means_of
from reports.settings import as_printed, distinct_labels, is_number, name_runs, setting_values

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
    """The figure of the runs over `x`, by default the only setting that differs; else as
    `frame`."""
    keys = {key for run in runs for key in setting_values(run)}
    key = as_printed(x or only_varying_setting(runs), keys)
    table = frame(runs, key, score, convention)
    if table[key].nunique() < 2:
        warn(f"note: all these runs have one value of {key}; run others with --sweep {key}=A,B")
    return Figure(f"Sweep of {key}", table, by_score(table, f"over {key}"), panels(table, key))


def only_varying_setting(runs: Sequence[StoredRun]) -> str:
    """The one setting in which runs differ. Raises UserError where it is none or several."""
    keys = list(dict.fromkeys(key for name in name_runs(runs) for key in name.values))
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


def frame(
    runs: Sequence[StoredRun], x: str, score: str | None = None, convention: str = DEFAULT
) -> pd.DataFrame:
    """Score and cost by value of the setting `x` (columns: see the module). score: by default each
    run's headline.

    Raises UserError for no runs or a run without records, UnknownName for a setting that no run
    has, a score that a run does not have, or a convention.
    """
    runs = sorted(runs, key=lambda run: facts.run_key(run)[0])
    means = facts.records(means_of(runs, convention=convention))
    settings = [setting_values(run) for run in runs]
    if not any(x in values for values in settings):
        keys = sorted({key for values in settings for key in values})
        raise UnknownName("setting", x, keys, "settings of these runs")
    rows = []
    points = [
        (row["dataset"], row["model"], value_text(own.get(x)))
        for row, own in zip(means, settings, strict=True)
    ]
    labels = distinct_labels(
        facts.labels(runs, [x]), runs, points
    )  # a line with two runs at one value is two lines
    for run, label, values, row in zip(runs, labels, settings, means, strict=True):
        name = score or facts.headline(run)
        if name not in {*facts.score_names(run), *facts.corpus_scores(run)}:
            raise UnknownName("score", name, facts.score_names(run), f"scores of {run.path.name}")
        rows.append(
            {
                "dataset": row["dataset"],
                "method": label,
                "model": "" if x == "model" else row["model"],
                # The text that one types for what is no number, so that None is left for runs
                # without the setting.
                x: None
                if x not in values
                else values[x]
                if is_number(values[x])
                else value_text(values[x]),
                "score": name,
                **{f"mean{end}": row[f"{name}{end}"] for end in ("", ".low", ".high")},
                **{column: row[column] for column in _COST},
            }
        )
    places = {value: place for place, value in enumerate(_sorted_values([row[x] for row in rows]))}
    rows.sort(
        key=lambda row: (row["dataset"], row[x] is None, row["method"], places.get(row[x], 0))
    )
    column = pd.Series([row[x] for row in rows], dtype=object)
    return facts.as_floats(pd.DataFrame(rows)).assign(**{x: column})


def _sorted_values(cells: Sequence[Any]) -> list[Any]:
    """The different values in a column of a setting, None left out: numbers by size, others as they
    come."""
    values = [value for value in dict.fromkeys(cells) if value is not None]
    return sorted(values) if all(map(is_number, values)) else values


def panels(table: pd.DataFrame, x: str) -> list[Panel]:
    """For each data set, model and score: the score and the cost over the setting, one line a
    method."""
    drawn = []
    for (dataset, model, score), rows in table.groupby(SAME, sort=False):
        values = _sorted_values(list(rows[x]))
        if not values:
            continue  # every run of this data set is a reference
        # The axis of the setting and the place of each of its values: numbers to scale, other
        # values one by one.
        name = x.removeprefix("method.")
        if all(map(is_number, values)):
            places = {value: float(value) for value in values}
            first, last = float(values[0]), float(values[-1])
            ticks = tuple(map(float, values)) if len(values) <= _MOST_TICKS else ()
            axis = Axis(name, ticks, log=first > 0 and last >= _LOG_RANGE * first)
        else:
            places = {value: float(i) for i, value in enumerate(values)}
            axis = Axis(name, tuple(places.values()), tuple(map(str, values)))
        counted = rows["tflops"].notna().any()
        unit = f"TFLOPs a question, search + answer ({rows['convention'].iloc[0]})"
        cost = ("tflops", unit) if counted else ("tokens", "tokens a question, search + answer")
        for value, scale, measured in (("mean", 100, f"{score} × 100"), (cost[0], 1, cost[1])):
            by_method = rows[rows[value].notna()].groupby("method", sort=False)
            lines = [
                _method_line(str(method), part, x, value, scale, places)
                for method, part in by_method
            ]
            title = f"{dataset} · {model}" if model else str(dataset)
            drawn += plot.panels(title, axis, Axis(measured, zero=value != "mean"), lines)
    return drawn


def _method_line(
    method: str, rows: pd.DataFrame, x: str, value: str, scale: float, places: dict[Any, float]
) -> Line:
    """The line of column `value` times `scale`; places: value of `x` -> place on the axis; a
    reference spans them."""
    points = []
    for row in facts.records(rows):
        ends = {f"{value}{end}": row.get(f"{value}{end}") for end in (".low", ".high")}
        if row[x] is None:
            return Line(
                method,
                [Point(at, scale * row[value]) for at in sorted({*places.values()})],
                marks=False,
            )
        points.append(Point.of({**row, **ends, "place": places[row[x]]}, "place", value, scale))
    return Line(method, points)
