"""The drawings of this package: each takes a frame and gives panels.

draw(curve_panels(frame))      score and TFLOPs against t_n, and against t_p          (PECAN figure 4)
draw(node_panels(runs, fits))  nodes per question as a histogram, with the fitted curve  (PECAN figure 3)
draw(query_panels(frame, ks))  TFLOPs per query against queries per document
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from reports import stored as facts
from reports.figures import nodes
from reports.figures.curves import slices
from reports.figures.plot import Bar, Line, Panel, Point, linear, logarithmic, steps
from reports.figures.queries import column

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


def curve_panels(table: pd.DataFrame) -> list[Panel]:
    """Two panels a curve: over t_n at the run's t_p, and over t_p at its t_n, where more than one of these is known."""
    panels = []
    for title, over_n, over_p in slices(table):
        t_p = over_n["t_p"].iloc[0]
        fixed_p, fixed_n = "greedy" if pd.isna(t_p) else f"t_p = {t_p:g}", f"t_n = {over_p['t_n'].iloc[0]:.0f}"
        for rows, axis, name in (
            (over_n, "t_n", f"stop patience t_n ({fixed_p})"),
            (over_p, "t_p", f"confidence threshold t_p ({fixed_n})"),
        ):
            known = int(rows["mean"].notna().sum())
            if known and (axis == "t_n" or (known > 1 and not pd.isna(t_p))):
                panels.append(_curve(title, facts.records(rows), axis, name))
    return panels


def _curve(title: str, rows: Sequence[dict[str, Any]], axis: str, name: str) -> Panel:
    score = str(rows[0]["score"])
    left = [_point(row, axis, "mean", 100.0, f"{score} × 100") for row in rows]
    right = [_point(row, axis, "tflops", 1.0, "TFLOPs") for row in rows]
    lines = [Line(score, left)]
    costs = _values(right)
    if costs:
        lines.append(Line("TFLOPs a question", right, right=True))
    return Panel(
        title,
        steps(name, (float(row[axis]) for row in rows)),
        linear(f"{score} × 100", _values(left)),
        linear(f"TFLOPs a question, search + answer ({rows[0]['convention']})", costs) if costs else None,
        lines,
    )


def _point(row: dict[str, Any], axis: str, name: str, scale: float, unit: str) -> Point:
    value, low, high = (_scaled(row[f"{name}{end}"], scale) for end in ("", ".low", ".high"))
    told = f"{axis} = {row[axis]:g}: " + ("not covered" if value is None else f"{value:.4g} {unit}")
    return Point(float(row[axis]), value, low, high, told)


def _values(points: Sequence[Point]) -> list[float]:
    return [v for p in points for v in (p.y, p.low, p.high) if v is not None]


def _scaled(value: Any, scale: float) -> float | None:
    return None if value is None or pd.isna(value) else scale * float(value)


def node_panels(runs: Sequence[StoredRun], fits: dict[str, nodes.Fit]) -> list[Panel]:
    """A histogram a run, in per cent of its questions; the curve is the share that the fit gives to each column."""
    panels = []
    kept = [run for run in runs if any(nodes.counts(run))]
    for run, label in zip(kept, facts.labels(kept), strict=True):
        title = f"{facts.key(run)[0]} · {label} · {run.config['model']['name']}"
        panels.append(_histogram(title, nodes.counts(run), fits.get(str(run.path))))
    return panels


def _histogram(title: str, values: Sequence[int], fit: nodes.Fit | None) -> Panel:
    wide = nodes.width(values)
    first = min(values)
    bars = []
    for start in range(first, max(values) + 1, wide):
        share = 100 * sum(start <= v < start + wide for v in values) / len(values)
        which = f"{start}" if wide == 1 else f"{start} to {start + wide - 1}"
        # A whole number stands in the middle of its column; the axis does not go below 0 for it.
        bars.append(
            Bar(max(start - 0.5, 0.0), start + wide - 0.5, share, f"{which} nodes: {share:.1f} % of the questions")
        )
    lines = []
    x = linear("nodes retrieved per question", (bars[0].start, bars[-1].end), zero=first <= 0.2 * max(values))
    if fit is not None:
        known = sum(v > 0 for v in values) / len(values)
        low, high = max(x.low, 0.01), x.high
        places = [low + (high - low) * i / 200 for i in range(201)]
        curve = [Point(p, 100 * known * wide * fit.density(p)) for p in places]
        lines.append(Line(f"log-normal, KS {fit.ks:.3f}, p {fit.p:.3f}", curve, marks=False))
    tallest = max([bar.height for bar in bars] + [p.y or 0.0 for line in lines for p in line.points])
    name = title if fit is None else f"{title} · KS {fit.ks:.3f}, p {fit.p:.3f}"
    return Panel(name, x, linear("questions, per cent", [tallest], zero=True), None, lines, bars)


def query_panels(table: pd.DataFrame, per_document: Sequence[int]) -> list[Panel]:
    """A panel a data set and model: one line a method, both axes logarithmic."""
    panels = []
    for (dataset, model), group in table.groupby(["dataset", "model"], sort=False):
        lines = []
        for row in facts.records(group):
            costs = [(k, _scaled(row[column(k)], 1.0)) for k in per_document]
            told = f"{row['method']}, {{}} queries a document: {{:.3g}} TFLOPs a query"
            points = [Point(k, v, told=told.format(k, v)) for k, v in costs if v is not None and v > 0]
            if points:
                lines.append(Line(str(row["method"]), points))
        if lines:
            x = logarithmic("queries per document", [float(k) for k in per_document], [float(k) for k in per_document])
            axis = f"TFLOPs a query, index included ({group['convention'].iloc[0]})"
            left = logarithmic(axis, [p.y for line in lines for p in line.points if p.y])
            panels.append(Panel(f"{dataset} · {model}", x, left, None, lines))
    return panels
