"""Score against cost with both intervals, one mark a method, and the front: the best score that
each cost buys.

    points(means, runs) ─► dataset method model score[.low .high] tflops[.low .high] cost convention mark beaten_by
    draw(points(means, runs), "longbench.qa_f1_score", "pdf")

Cost is that of a question with its share of the index, or of search and answer alone
(cost="search"), in TFLOPs; or the money that servers take (cost="money"), which then stands under
"tflops". A method is beaten when another one costs no more, scores no less, and is better in one of
the two. A run that was shown the supporting passages (oracle-evidence) is an upper bound: it takes
no part, because nobody can run it without the answers. A floor (closed-book) may beat others, and
is never among the best. A run that was asked other questions than most runs of its data set, or for
another task, takes no part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness.errors import UnknownName, UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures.figure import Figure
from reports.figures.plot import (
    Axis,
    figure_file,
    inline_svg,
    legend_below,
    paper_style,
    set_axis,
    wrapped,
)
from reports.main_table import frame
from reports.markup import Html, el, joined
from reports.table_formats import three_digits

if TYPE_CHECKING:
    from matplotlib.axes import Axes


COSTS = {
    "total": ("tflops.total", "TFLOPs", "with its index"),
    "search": ("tflops", "TFLOPs", "search + answer"),
    "money": ("money", "money", "with its index"),
}
"""Which cost of reports.main_table.frame is drawn, and what the axis says of it."""
_WIDE = 7.0, 4.0  # inches: both columns of a paper
_NARROW = 3.6, 4.2  # for a telephone
_MOST_LABELLED = (
    25  # with more marks, those that are beaten have no label: there is no room to read it
)
_FAR, _ASIDE = (
    14,
    (0, 40, 80),
)  # points between a mark and its label: from here on a line joins them; places aside
BEST, BEATEN, FLOOR = "best for its cost", "beaten", "floor"
UPPER_BOUND, OTHERWISE = "upper bound", "asked otherwise"
_MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    BEST: (
        "best for its cost: none scores as high at no higher cost",
        {"color": "#0072B2", "marker": "o", "mfc": "#0072B2"},
    ),
    BEATEN: (
        "beaten: another scores no less and costs no more",
        {"color": "#7b8694", "marker": "o", "ecolor": "#b6bec9"},
    ),
    FLOOR: ("floor: what others must beat", {"color": "#7b8694", "marker": "v"}),
    UPPER_BOUND: ("upper bound: was shown the evidence", {"color": "#009E73", "marker": "D"}),
    OTHERWISE: ("asked otherwise: not compared", {"color": "#D55E00", "marker": "s"}),
}
"""What a point is called -> its line in the legend, and how it is drawn."""


def figure(
    runs: Sequence[StoredRun], *, dataset: str | None, score: str | None, cost: str, convention: str
) -> Figure:
    """The figure of the runs over one data set, which must be named where there are several; else
    as `points`.

    Raises UserError where no run has both a score and a cost, UnknownName for a data set, cost or
    convention.
    """
    if cost not in COSTS:
        raise UnknownName("cost", cost, COSTS)
    names = list(dict.fromkeys(facts.run_key(run)[0] for run in runs))
    if dataset is not None and dataset not in names:
        raise UnknownName("data set of these runs", dataset, names)
    if dataset is None and len(names) > 1:
        raise UserError(
            "score against cost is drawn for one data set; add --dataset with one of "
            f"{', '.join(names)}"
        )
    runs = [run for run in runs if facts.run_key(run)[0] == (dataset or names[0])]
    means = frame(runs, convention=convention)
    marks = points(means, runs, score, cost)
    if not marks:
        unknown = f"no run has both a score and known {COSTS[cost][1]}, so there is no figure"
        raise UserError(f"{unknown}; harness report says what is missing")
    name = score or str(means["headline"].iloc[0])
    table = pd.DataFrame(marks).rename(
        columns={f"score{end}": f"{name}{end}" for end in ("", ".low", ".high")}
    )
    table["mark"] = table.pop("mark")  # the last column
    if cost == "money":
        table = table.drop(columns=["tflops.low", "tflops.high", "convention"]).rename(
            columns={"tflops": "money"}
        )
    table["beaten_by"] = table["beaten_by"].map(", ".join)
    return Figure("Score against cost", table, drawing=partial(draw, marks, name))


def points(
    means: pd.DataFrame, runs: Sequence[StoredRun], score: str | None = None, cost: str = "total"
) -> list[dict[str, Any]]:
    """Score, cost, mark and what beats it, a dict for each row of `means` (main_table.frame) that has
    both numbers.

    score: by default each data set's headline; cost: a key of COSTS; runs: those of the rows.
    Raises UnknownName for a score that none of them has.
    """
    all_scores = {
        name for run in runs for name in (*facts.score_names(run), *facts.corpus_scores(run))
    }
    if score is not None and score not in all_scores:
        raise UnknownName(
            "score", score, sorted(all_scores), "harness score RUN --scorers NAME adds a score"
        )
    rows: list[dict[str, Any]] = []
    ends = ("", ".low", ".high")
    for row in facts.records(means):
        name = score or row["headline"]
        point = {key: row[key] for key in ("dataset", "method", "model")}
        point |= {f"score{end}": row.get(f"{name}{end}") for end in ends}
        point |= {f"tflops{end}": row.get(f"{COSTS[cost][0]}{end}") for end in ends}
        point |= {"cost": cost, "convention": row["convention"], "mark": _mark_of_row(row)}
        if pd.notna(point["score"]) and pd.notna(point["tflops"]) and point["tflops"] > 0:
            rows.append(point)
    for row in rows:
        row["beaten_by"] = tuple(other["method"] for other in rows if _beats(other, row))
        if row["mark"] == BEST and row["beaten_by"]:
            row["mark"] = BEATEN
    return rows


def _mark_of_row(row: Mapping[str, Any]) -> str:
    """The mark of a row of main_table.frame before it is compared with others."""
    if row["upper_bound"]:
        return UPPER_BOUND
    if row["asked_otherwise"]:
        return OTHERWISE
    return FLOOR if row["floor"] else BEST


def _beats(other: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Whether `other`, of the same data set, scores no less than `row`, costs no more, and is
    better in one of both."""
    unranked = (UPPER_BOUND, OTHERWISE)
    if other["dataset"] != row["dataset"] or other["mark"] in unranked or row["mark"] in unranked:
        return False
    dearer, better = float(other["tflops"] - row["tflops"]), float(other["score"] - row["score"])
    return dearer <= 0 <= better and (dearer, better) != (0, 0)


def draw(
    rows: Sequence[Mapping[str, Any]],
    score: str,
    form: str = "svg",
    size: tuple[float, float] = _WIDE,
) -> bytes:
    """The rows of `points` of one data set, at least one, as a file of a form of FORMS; size: in
    inches."""
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=size)
        ax = figure.add_subplot()
        handles = {}
        for i, point in enumerate(rows):
            handles[point["mark"]] = _draw_mark(ax, point, i)
        _, unit, parts = COSTS[str(rows[0]["cost"])]
        convention = "" if unit == "money" else f"{rows[0]['convention']}, "
        set_axis(ax.xaxis, Axis(f"{unit} a question, {parts} ({convention}log)", log=True))
        set_axis(ax.yaxis, Axis(f"{score} × 100"))
        ax.set_title(str(rows[0]["dataset"]))
        # The best score that each cost buys, as steps up to the right edge.
        if best := sorted(_coordinates(point) for point in rows if point["mark"] == BEST):
            limits = ax.get_xlim()
            xs, ys = zip(*best, (limits[1], best[-1][1]), strict=True)
            ax.step(
                xs,
                ys,
                where="post",
                color="#0072B2",
                ls="--",
                lw=0.8,
                marker="",
                alpha=0.6,
                zorder=1,
            )
            ax.set_xlim(limits)
        kinds = [kind for kind in _MARKS if kind in handles]
        legend_below(
            ax,
            [handles[kind] for kind in kinds],
            [_MARKS[kind][0] for kind in kinds],
            room=int(12 * size[0]),
        )
        figure.draw_without_rendering()  # fixes the layout, so that places on the page are known
        figure.set_layout_engine("none")
        _draw_labels(ax, rows)
        return figure_file(figure, f"{score} against {unit} a question", form)


def to_html(rows: Sequence[Mapping[str, Any]], score: str) -> tuple[Html, dict[str, bytes]]:
    """The drawing for a page, with tooltips of the marks, for wide and for narrow screens (page.css
    shows one of them), and its files by form; a sentence and no file where there is no point."""
    if not rows:
        return el(
            "p", "No run of this data set has both a score and a known cost.", class_="none"
        ), {}
    titles = {f"point-{i}": _tooltip(point) for i, point in enumerate(rows)}
    files = {form: draw(rows, score, form) for form in ("svg", "pdf")}
    drawn = {"on-wide": files["svg"], "on-narrow": draw(rows, score, size=_NARROW)}
    return joined(
        *(el("div", inline_svg(svg, titles), class_=name) for name, svg in drawn.items())
    ), files


def place_labels(
    anchors: np.ndarray,
    sizes: np.ndarray,
    area: tuple[float, float, float, float],
    obstacles: np.ndarray,
) -> np.ndarray:
    """A box [left, bottom, right, top] for each label: the freest place of a ring that is nearest
    to its own anchor.

    anchors: [n, 2]; sizes: width and height, [n, 2]; area: the box that holds all labels, as far as
    they fit;
    obstacles: boxes [m, 4] that a label should not cover. All in points of the page; earlier labels
    choose first.
    """
    occupied = [*obstacles, *np.hstack([anchors - 4, anchors + 4])]
    placed: list[np.ndarray] = []
    for number, ((x, y), (width, height)) in enumerate(zip(anchors, sizes, strict=True)):
        middles = [y + way * (8 + ring * height / 2) for ring in range(24) for way in (1, -1)]
        sides = [
            x - width / 2,
            *(x + 6 + aside for aside in _ASIDE),
            *(x - 6 - width - aside for aside in _ASIDE),
        ]
        corners = [(left, m - height / 2) for m in middles for left in sides]
        lower = np.clip(
            corners, area[:2], np.maximum(area[:2], np.subtract(area[2:], (width, height)))
        )
        boxes = np.hstack([lower, lower + np.array([width, height])])
        rivals = np.array(occupied)
        overlap_x = np.minimum(boxes[:, None, 2], rivals[:, 2]) - np.maximum(
            boxes[:, None, 0], rivals[:, 0]
        )
        overlap_y = np.minimum(boxes[:, None, 3], rivals[:, 3]) - np.maximum(
            boxes[:, None, 1], rivals[:, 1]
        )
        weights = np.where(
            np.arange(len(rivals)) < len(obstacles), 1, 10
        )  # to cover a mark or a label
        cover = (np.maximum(overlap_x, 0) * np.maximum(overlap_y, 0)) @ weights
        away = np.linalg.norm(
            np.clip(anchors, boxes[:, None, :2], boxes[:, None, 2:]) - anchors, axis=2
        )
        misread = np.delete(away, number, axis=1).min(axis=1, initial=np.inf) < np.minimum(
            away[:, number] + 2, _FAR
        )
        placed.append(boxes[int(np.argmin(cover.round(6) + 10 * misread * width * height))])
        occupied.append(placed[-1])
    return np.array(placed)


def _draw_mark(ax: Axes, point: Mapping[str, Any], number: int) -> Any:
    """Draw one method; returns what stands for it in the legend; number: its place, by which a
    tooltip finds it."""
    (x, y), style = _coordinates(point), _MARKS[point["mark"]][1]
    xs, ys = _intervals(point)
    bars = [max(0.0, x - xs[0])], [max(0.0, xs[1] - x)]
    drawn = ax.errorbar(
        [x],
        [y],
        ([max(0.0, y - ys[0])], [max(0.0, ys[1] - y)]),
        bars,
        ls="",
        elinewidth=0.7,
        **style,
    )
    (mark, *_) = drawn.lines
    assert mark is not None
    mark.set_gid(f"point-{number}")
    return mark


def _coordinates(point: Mapping[str, Any]) -> tuple[float, float]:
    """(cost, score in points of 100): where a mark stands."""
    return float(point["tflops"]), 100 * float(point["score"])


def _intervals(point: Mapping[str, Any]) -> tuple[tuple[float, float], tuple[float, float]]:
    """((low, high) of the TFLOPs, (low, high) of the score in points); twice the value itself for
    one without them."""
    ends = []
    for name, value, scale in zip(("tflops", "score"), _coordinates(point), (1, 100), strict=True):
        bounds = [point[f"{name}{end}"] for end in (".low", ".high")]
        missing = any(v is None or math.isnan(v) for v in bounds)
        ends.append(
            (value, value) if missing else (scale * float(bounds[0]), scale * float(bounds[1]))
        )
    return ends[0], ends[1]


def _draw_labels(ax: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the methods' names beside their marks, where there is room; a line joins a mark with a
    far label."""
    name_models = len({point["model"] for point in rows}) > 1
    labelled = [p for p in rows if len(rows) <= _MOST_LABELLED or p["mark"] != BEATEN]
    names = [
        wrapped(f"{p['method']} ({p['model']})" if name_models else str(p["method"]), 40)
        for p in labelled
    ]
    backing = {
        "facecolor": "white",
        "edgecolor": "none",
        "alpha": 0.8,
        "pad": 0.3,
    }  # error bars cross labels
    artists = [ax.text(0, 0, name, fontsize=7, bbox=backing) for name in names]
    at = ax.transData.transform
    bars = []
    for point in rows:
        (x, y), (xs, ys) = at(_coordinates(point)), _intervals(point)
        bars.append((at((xs[0], 1))[0], y - 1, at((xs[1], 1))[0], y + 1))
        bars.append((x - 1, at((1, ys[0]))[1], x + 1, at((1, ys[1]))[1]))
    anchors = np.array([at(_coordinates(point)) for point in labelled]).reshape(-1, 2)
    sizes = np.array(
        [(box.width, box.height) for box in (a.get_window_extent() for a in artists)]
    ).reshape(-1, 2)
    boxes = place_labels(anchors, sizes, ax.bbox.extents, np.array(bars))
    back = ax.transData.inverted().transform
    for artist, point, anchor, box in zip(artists, labelled, anchors, boxes, strict=True):
        artist.set(position=back(box[:2]), va="bottom", color=_MARKS[point["mark"]][1]["color"])
        near = np.clip(anchor, box[:2], box[2:])
        if np.hypot(*(near - anchor)) > _FAR:  # too far to see whose label it is
            line = np.array([back(anchor), back(near)])
            ax.plot(
                line[:, 0],
                line[:, 1],
                color="#b6bec9",
                linewidth=0.5,
                linestyle="-",
                marker="",
                zorder=1,
            )


def _tooltip(point: Mapping[str, Any]) -> str:
    """The text that a pointer over a mark reads: method, score, cost, and what the mark says of
    them."""
    spent = f"{three_digits(point['tflops'], least=1e-9)} {COSTS[point['cost']][1]}"
    value = f"{point['method']} ({point['model']}): {100 * point['score']:.1f} at {spent}"
    if point["mark"] == BEATEN:
        return f"{value}; beaten by {', '.join(point['beaten_by'])}"
    return value if point["mark"] == BEST else f"{value}; {_MARKS[point['mark']][0]}"
