"""Score against cost with both intervals, one mark a method, and the front: the best score that
each cost buys.

    points(rows)                             -> [MethodPoint("musique", "bm25", ...), ...]
    draw(points, "longbench.qa_f1", "pdf")   -> the drawing as a file

Cost is that of a question with its share of the index, or of search and answer alone
(cost="search"), in TFLOPs; or the money that servers take (cost="money"). A method is beaten when
another one costs no more, scores no less, and is better in one of the two. A run that was shown the
supporting passages (oracle-evidence) is an upper bound: it takes no part, because nobody can run it
without the answers. A floor (closed-book) may beat others, and is never among the best. A run with
other questions than most runs of its data set, or with another task, takes no part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from harness.errors import UnknownName, UserError
from harness.stats.bootstrap import Interval
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
from reports.main_table import table_rows
from reports.markup import Html, element, join_html
from reports.number_formats import three_digits
from reports.table_cell import Cell, Row
from reports.table_row import TableRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


BEST = "best for its cost"
BEATEN = "beaten"
FLOOR = "floor"
UPPER_BOUND = "upper bound"
ASKED_OTHERWISE = "asked otherwise"
_KINDS_NOT_COMPARED = (UPPER_BOUND, ASKED_OTHERWISE)


@dataclass(frozen=True, slots=True)
class MarkStyle:
    """How the points of one kind look.

    Args:
        legend: Their line of the legend.
        colour: The colour of mark and label.
        marker: The mark, as matplotlib names it.
        is_filled: Whether the mark is filled in its colour.
        bar_colour: The colour of the error bars; None for that of the mark.
    """

    legend: str
    colour: str
    marker: str
    is_filled: bool = False
    bar_colour: str | None = None


_BLUE = "#0072B2"
_GREY = "#7b8694"
_STYLE_BY_KIND = {
    BEST: MarkStyle(
        "best for its cost: none scores as high at no higher cost", _BLUE, "o", is_filled=True
    ),
    BEATEN: MarkStyle(
        "beaten: another scores no less and costs no more", _GREY, "o", bar_colour="#b6bec9"
    ),
    FLOOR: MarkStyle("floor: what others must beat", _GREY, "v"),
    UPPER_BOUND: MarkStyle("upper bound: was shown the evidence", "#009E73", "D"),
    ASKED_OTHERWISE: MarkStyle("asked otherwise: not compared", "#D55E00", "s"),
}
"""The kinds of points, in the order of the legend."""

_WIDE_SIZE = 7.0, 4.0
"""Inches: both columns of a paper."""
_NARROW_SIZE = 3.6, 4.2
"""Inches: a telephone."""
_MAX_POINTS_ALL_LABELLED = 25
"""With more points, those that are beaten have no label: there is no room to read it."""
_JOINING_LINE_DISTANCE = 14
"""Points of the page between a mark and its label from which on a line joins them."""
_SIDE_SHIFTS = np.array([0, 40, 80])
"""Points of the page by which a label may stand further to the left or right of its mark."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the ends of its 95 % interval, None where it has none."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of_interval(cls, estimated: Interval) -> Estimate | None:
        """The mean of an interval with its ends; None where it has no mean."""
        if estimated.mean is None:
            return None
        return cls(estimated.mean, estimated.low, estimated.high)

    def columns(self, name: str) -> dict[str, float | None]:
        """The estimate as columns of a table: {"f1": 0.4, "f1.low": 0.3, "f1.high": 0.5}."""
        return {name: self.value, f"{name}.low": self.low, f"{name}.high": self.high}

    @property
    def ends(self) -> tuple[float, float]:
        """The lower and upper end of the interval; the value itself twice where there is none."""
        if self.low is None or self.high is None:
            return self.value, self.value
        return self.low, self.high


@dataclass(frozen=True, slots=True)
class CostKind:
    """A cost that the figure can show.

    Args:
        cost_of_row: Gives the cost of a row of the main table; None where it is unknown.
        unit: What the axis says: "TFLOPs".
        parts: What is counted: "with its index".
    """

    cost_of_row: Callable[[TableRow], Estimate | None]
    unit: str
    parts: str


def _money_of_row(row: TableRow) -> Estimate | None:
    """Mean money of a question, without an interval; None where it is unknown."""
    if row.money is None:
        return None
    return Estimate(row.money)


COSTS = {
    "total": CostKind(
        lambda row: Estimate.of_interval(row.numbers.tflops_total), "TFLOPs", "with its index"
    ),
    "search": CostKind(
        lambda row: Estimate.of_interval(row.numbers.tflops), "TFLOPs", "search + answer"
    ),
    "money": CostKind(_money_of_row, "money", "with its index"),
}


@dataclass(frozen=True, slots=True)
class MethodPoint:
    """A method in the figure.

    Args:
        dataset: Its data set.
        method: Its name in tables.
        model: The name of the reader.
        score: Its score, in [0, 1].
        spent: Its cost, of the kind COSTS[cost].
        cost: A key of COSTS.
        convention: How FLOPs are counted.
        kind: The kind of point that it is, a key of _STYLE_BY_KIND.
        beaten_by: Methods that score no less and cost no more.
    """

    dataset: str
    method: str
    model: str
    score: Estimate
    spent: Estimate
    cost: str
    convention: str
    kind: str
    beaten_by: tuple[str, ...] = ()

    @property
    def position(self) -> tuple[float, float]:
        """Where the mark stands: the cost, and the score in points of 100."""
        return self.spent.value, 100 * self.score.value

    @property
    def score_ends(self) -> tuple[float, float]:
        """The lower and upper end of the score's interval, in points of 100."""
        low, high = self.score.ends
        return 100 * low, 100 * high

    def beats(self, other: MethodPoint) -> bool:
        """Whether the method scores no less than `other`, costs no more, and is better in one of
        both.

        False for points of different data sets, upper bounds, and runs that were asked otherwise.
        """
        if other.dataset != self.dataset:
            return False
        if self.kind in _KINDS_NOT_COMPARED or other.kind in _KINDS_NOT_COMPARED:
            return False
        extra_cost = self.spent.value - other.spent.value
        extra_score = self.score.value - other.score.value
        if extra_cost > 0 or extra_score < 0:
            return False
        return extra_cost < 0 or extra_score > 0

    def columns(self, score: str) -> Row:
        """The point as a row of the figure's table, its score under the name `score`.

        -> {"dataset": "musique", "method": "bm25", "f1": 0.4, "f1.low": 0.3, ..., "mark": ...}
        """
        row: dict[str, Cell] = {
            "dataset": self.dataset,
            "method": self.method,
            "model": self.model,
            **self.score.columns(score),
        }
        if self.cost == "money":
            row["money"] = self.spent.value
            row["cost"] = self.cost
        else:
            row |= self.spent.columns("tflops")
            row["cost"] = self.cost
            row["convention"] = self.convention
        row["beaten_by"] = ", ".join(self.beaten_by)
        row["mark"] = self.kind
        return row


def figure(
    runs: Sequence[StoredRun], *, dataset: str | None, score: str | None, cost: str, convention: str
) -> Figure:
    """The figure of the runs over one data set.

    Args:
        runs: Stored runs of one or more data sets.
        dataset: The data set to draw; None only where all runs are over one.
        score: Name of a score; None for the data set's headline.
        cost: A key of COSTS.
        convention: How FLOPs are counted.

    Raises:
        UserError: No run has both a score and a cost, or it is not said which data set to draw.
        UnknownName: The data set, cost, score or convention does not exist.
    """
    if cost not in COSTS:
        raise UnknownName("cost", cost, COSTS)
    by_dataset = facts.runs_by_dataset(runs)
    dataset_name = _chosen_dataset(list(by_dataset), dataset)
    rows = table_rows(by_dataset[dataset_name], convention=convention)
    method_points = points(rows, score, cost)
    if not method_points:
        problem = f"no run has both a score and known {COSTS[cost].unit}, so there is no figure"
        raise UserError(f"{problem}; harness report says what is missing")
    score_name = score or rows[0].headline
    table = facts.as_floats(pd.DataFrame([point.columns(score_name) for point in method_points]))
    return Figure("Score against cost", table, drawing=partial(draw, method_points, score_name))


def _chosen_dataset(names: Sequence[str], dataset: str | None) -> str:
    """The data set to draw: `dataset`, or the only one of the names where it is None.

    Raises:
        UserError: It is None, and there are several names.
        UnknownName: It is none of the names.
    """
    if dataset is None and len(names) > 1:
        raise UserError(
            "score against cost is drawn for one data set; add --dataset with one of "
            f"{', '.join(names)}"
        )
    if dataset is None:
        return names[0]
    if dataset not in names:
        raise UnknownName("data set of these runs", dataset, names)
    return dataset


def points(
    rows: Sequence[TableRow], score: str | None = None, cost: str = "total"
) -> list[MethodPoint]:
    """The point of each row of the main table that has both a score and a cost above 0.

    Args:
        rows: The rows (main_table.table_rows).
        score: Name of a score; by default each data set's headline.
        cost: A key of COSTS.

    Raises:
        UnknownName: No run has the score.
    """
    if score is not None:
        _check_score([row.run for row in rows], score)
    method_points = []
    for row in rows:
        point = _point_of_row(row, score or row.headline, cost)
        if point is not None:
            method_points.append(point)
    return [_with_beaten_by(point, method_points) for point in method_points]


def _check_score(runs: Sequence[StoredRun], score: str) -> None:
    """Raise UnknownName where no run has this score."""
    known: set[str] = set()
    for run in runs:
        known.update(facts.score_names(run))
        known.update(facts.corpus_score_sources(run))
    if score not in known:
        hint = "harness score RUN --scorers NAME adds a score"
        raise UnknownName("score", score, sorted(known), hint)


def _point_of_row(row: TableRow, score: str, cost: str) -> MethodPoint | None:
    """The point of a row of the main table before it is compared; None without score or cost.

    Args:
        row: The row.
        score: The name of the score.
        cost: A key of COSTS.
    """
    estimated_score = Estimate.of_interval(row.score(score))
    estimated_cost = COSTS[cost].cost_of_row(row)
    if estimated_score is None or estimated_cost is None or estimated_cost.value <= 0:
        return None
    return MethodPoint(
        dataset=row.dataset,
        method=row.label,
        model=row.model,
        score=estimated_score,
        spent=estimated_cost,
        cost=cost,
        convention=row.numbers.convention,
        kind=_kind_before_comparison(row),
    )


def _kind_before_comparison(row: TableRow) -> str:
    """The kind of point of a row as long as nothing beats it; `_with_beaten_by` makes a BEST that
    is beaten BEATEN."""
    if row.is_upper_bound:
        return UPPER_BOUND
    if row.asked_otherwise:
        return ASKED_OTHERWISE
    if row.is_floor:
        return FLOOR
    return BEST


def _with_beaten_by(point: MethodPoint, all_points: Sequence[MethodPoint]) -> MethodPoint:
    """The point with the methods that beat it; where any does, BEST becomes BEATEN.

    Args:
        point: The point.
        all_points: All points, also of other data sets and the point itself.
    """
    beaten_by = tuple(other.method for other in all_points if other.beats(point))
    kind = point.kind
    if beaten_by and kind == BEST:
        kind = BEATEN
    return replace(point, beaten_by=beaten_by, kind=kind)


def draw(
    method_points: Sequence[MethodPoint],
    score: str,
    form: str = "svg",
    size: tuple[float, float] = _WIDE_SIZE,
) -> bytes:
    """The points of one data set as a file: marks with error bars, the front, legend and labels.

    Args:
        method_points: One or more points.
        score: The name of their score.
        form: One of plot.FORMS.
        size: Width and height in inches.

    Returns:
        The content of the file.
    """
    unit = COSTS[method_points[0].cost].unit
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=size)
        ax = figure.add_subplot()
        artist_by_kind = {}
        for index, point in enumerate(method_points):
            artist_by_kind[point.kind] = _draw_mark(ax, point, index)
        set_axis(ax.xaxis, Axis(_cost_axis_name(method_points[0]), is_logarithmic=True))
        set_axis(ax.yaxis, Axis(f"{score} × 100"))
        ax.set_title(method_points[0].dataset)
        _draw_front(ax, method_points)
        _draw_legend(ax, artist_by_kind, max_characters=int(12 * size[0]))
        figure.draw_without_rendering()  # fixes the layout, so that places on the page are known
        figure.set_layout_engine("none")
        _draw_labels(ax, method_points)
        return figure_file(figure, f"{score} against {unit} a question", form)


def _draw_legend(ax: Axes, artist_by_kind: Mapping[str, Line2D], max_characters: int) -> None:
    """Draw the legend of the kinds of marks that are there.

    Args:
        ax: The axes.
        artist_by_kind: Kind of mark -> the artist of one such mark.
        max_characters: Most characters of a line.
    """
    artists = []
    legends = []
    for kind, style in _STYLE_BY_KIND.items():
        if kind in artist_by_kind:
            artists.append(artist_by_kind[kind])
            legends.append(style.legend)
    legend_below(ax, artists, legends, max_characters=max_characters)


def _cost_axis_name(point: MethodPoint) -> str:
    """The name of the cost axis: "TFLOPs a question, with its index (causal, log)"."""
    kind = COSTS[point.cost]
    scale = "log"
    if kind.unit != "money":
        scale = f"{point.convention}, log"
    return f"{kind.unit} a question, {kind.parts} ({scale})"


def _draw_front(ax: Axes, method_points: Sequence[MethodPoint]) -> None:
    """Draw the best score that each cost buys, as steps up to the right edge."""
    best_positions = sorted(point.position for point in method_points if point.kind == BEST)
    if not best_positions:
        return
    limits = ax.get_xlim()
    _, right_edge = limits
    costs = [cost for cost, _ in best_positions]
    scores = [score for _, score in best_positions]
    costs.append(right_edge)
    scores.append(scores[-1])
    ax.step(
        costs,
        scores,
        where="post",
        color=_BLUE,
        ls="--",
        lw=0.8,
        marker="",
        alpha=0.6,
        zorder=1,
    )
    ax.set_xlim(limits)


def to_html(method_points: Sequence[MethodPoint], score: str) -> tuple[Html, dict[str, bytes]]:
    """The drawing as HTML, with tooltips of the marks, and as files: {"svg": ..., "pdf": ...}.

    The HTML holds it for wide and for narrow screens; page.css shows one of them. Without points it
    is a sentence, and there is no file.

    Args:
        method_points: The points of one data set.
        score: The name of their score.
    """
    if not method_points:
        sentence = "No run of this data set has both a score and a known cost."
        return element("p", sentence, class_="none"), {}
    titles = {f"point-{index}": _tooltip(point) for index, point in enumerate(method_points)}
    files = {"svg": draw(method_points, score, "svg"), "pdf": draw(method_points, score, "pdf")}
    wide = element("div", inline_svg(files["svg"], titles), class_="on-wide")
    narrow_file = draw(method_points, score, size=_NARROW_SIZE)
    narrow = element("div", inline_svg(narrow_file, titles), class_="on-narrow")
    return join_html(wide, narrow), files


def place_labels(
    anchors: np.ndarray,
    sizes: np.ndarray,
    area: tuple[float, float, float, float],
    obstacles: np.ndarray,
) -> np.ndarray:
    """A box for each label, where it covers least, and of such places nearest to its own mark.

    Places that are about as near to another mark come last. Earlier labels choose first. All
    lengths are points of the page.

    Args:
        anchors: The marks that the labels name, [n, 2] of x and y.
        sizes: Width and height of the labels, [n, 2].
        area: Left, bottom, right and top of the box that holds all labels, as far as they fit.
        obstacles: Boxes that a label should not cover, [m, 4] of left, bottom, right, top.

    Returns:
        Boxes [n, 4] of left, bottom, right, top.
    """
    boxes_of_marks = np.hstack([anchors - 4, anchors + 4])
    taken_boxes = [*obstacles, *boxes_of_marks]
    chosen_boxes: list[np.ndarray] = []
    for label_index, size in enumerate(sizes):
        boxes = _boxes_around(anchors[label_index], size, area)
        covered_areas = _covered_area(boxes, np.array(taken_boxes), len(obstacles))
        is_misleading = _is_near_another_mark(boxes, anchors, label_index)
        width, height = size
        penalty = covered_areas.round(6) + 10 * is_misleading * width * height
        chosen_box = boxes[int(np.argmin(penalty))]  # the first, which is nearest, of equal ones
        chosen_boxes.append(chosen_box)
        taken_boxes.append(chosen_box)
    return np.array(chosen_boxes)


def _boxes_around(
    anchor: np.ndarray, size: np.ndarray, area: tuple[float, float, float, float]
) -> np.ndarray:
    """The places that a label may have around its anchor, nearest first.

    Args:
        anchor: The mark that it names, [2].
        size: Its width and height, [2].
        area: The box that holds all labels.

    Returns:
        Boxes [k, 4] of left, bottom, right, top.
    """
    x, y = anchor
    width, height = size
    centred = [x - width / 2]
    right_of_mark = x + 6 + _SIDE_SHIFTS
    left_of_mark = x - 6 - width - _SIDE_SHIFTS
    lefts = np.concatenate([centred, right_of_mark, left_of_mark])
    corners = []
    for step in range(24):
        distance = 8 + step * height / 2  # of the middle of the label, above and below the mark
        for middle in (y + distance, y - distance):
            bottoms = np.full(len(lefts), middle - height / 2)
            corners.append(np.column_stack([lefts, bottoms]))
    lowest_corner = np.array(area[:2])
    highest_corner = np.maximum(lowest_corner, np.array(area[2:]) - size)
    lower_left = np.clip(np.concatenate(corners), lowest_corner, highest_corner)
    return np.hstack([lower_left, lower_left + size])


def _covered_area(boxes: np.ndarray, taken_boxes: np.ndarray, n_obstacles: int) -> np.ndarray:
    """The area that each box would cover; of marks and labels it counts ten times.

    Args:
        boxes: Boxes that a label may take, [k, 4] of left, bottom, right, top.
        taken_boxes: Boxes that are taken, [m, 4]: obstacles, then marks and labels.
        n_obstacles: How many of these are obstacles.

    Returns:
        Areas, [k].
    """
    # the edges of the overlap of each box with each taken one, [k, m]
    right = np.minimum(boxes[:, None, 2], taken_boxes[:, 2])
    left = np.maximum(boxes[:, None, 0], taken_boxes[:, 0])
    top = np.minimum(boxes[:, None, 3], taken_boxes[:, 3])
    bottom = np.maximum(boxes[:, None, 1], taken_boxes[:, 1])
    overlap = np.maximum(right - left, 0) * np.maximum(top - bottom, 0)  # 0: they do not meet
    weights = np.full(len(taken_boxes), 10)
    weights[:n_obstacles] = 1
    return np.asarray(overlap @ weights)


def _is_near_another_mark(boxes: np.ndarray, anchors: np.ndarray, label_index: int) -> np.ndarray:
    """For each box of a label, whether it is about as near to another label's anchor.

    Args:
        boxes: Boxes that the label may take, [k, 4].
        anchors: The marks of all labels, [n, 2].
        label_index: The number of the label.

    Returns:
        Truth values, [k].
    """
    lower_left = boxes[:, None, :2]
    upper_right = boxes[:, None, 2:]
    nearest_points = np.clip(
        anchors, lower_left, upper_right
    )  # of each box to each mark, [k, n, 2]
    distances = np.linalg.norm(nearest_points - anchors, axis=2)
    distances_to_others = np.delete(distances, label_index, axis=1)
    distance_to_nearest_other = distances_to_others.min(axis=1, initial=np.inf)
    about_as_near = np.minimum(distances[:, label_index] + 2, _JOINING_LINE_DISTANCE)
    return np.asarray(distance_to_nearest_other < about_as_near)


def _draw_mark(ax: Axes, point: MethodPoint, index: int) -> Line2D:
    """Draw the mark of a point with the intervals of its score and cost.

    Args:
        ax: The axes.
        point: The point.
        index: Its place among the points, by which its tooltip finds it.

    Returns:
        The artist of the mark.
    """
    x, y = point.position
    style = _STYLE_BY_KIND[point.kind]
    error_bars = ax.errorbar(
        [x],
        [y],
        yerr=_error_bar(y, point.score_ends),
        xerr=_error_bar(x, point.spent.ends),
        ls="",
        elinewidth=0.7,
        color=style.colour,
        marker=style.marker,
        ecolor=style.bar_colour,
    )
    mark = error_bars.lines[0]
    assert mark is not None
    if style.is_filled:
        mark.set_markerfacecolor(style.colour)
    mark.set_gid(f"point-{index}")
    return mark


def _error_bar(value: float, ends: tuple[float, float]) -> tuple[list[float], list[float]]:
    """The lengths of an error bar below and above a value, as matplotlib's `errorbar` takes them:
    (5.0, (4.0, 7.0)) -> ([1.0], [2.0])."""
    low, high = ends
    return [max(0.0, value - low)], [max(0.0, high - value)]


def _draw_labels(ax: Axes, method_points: Sequence[MethodPoint]) -> None:
    """Write the methods' names beside their marks; a line joins a mark with a label that is far
    away."""
    labelled = _points_with_label(method_points)
    with_model = len({point.model for point in method_points}) > 1
    # Error bars cross labels, so that these have a ground of their own.
    background = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.3}
    artists = []
    sizes = []
    anchors = []
    for point in labelled:
        label = _label_text(point, with_model=with_model)
        artist = ax.text(0, 0, label, fontsize=7, bbox=background)
        extent = artist.get_window_extent()
        artists.append(artist)
        sizes.append((extent.width, extent.height))
        anchors.append(ax.transData.transform(point.position))
    boxes = place_labels(
        np.array(anchors).reshape(-1, 2),
        np.array(sizes).reshape(-1, 2),
        ax.bbox.extents,
        _error_bar_boxes(ax, method_points),
    )
    page_to_data = ax.transData.inverted().transform
    for artist, point, anchor, box in zip(artists, labelled, anchors, boxes, strict=True):
        lower_left = box[:2]
        upper_right = box[2:]
        colour = _STYLE_BY_KIND[point.kind].colour
        artist.set(position=page_to_data(lower_left), va="bottom", color=colour)
        nearest_point = np.clip(anchor, lower_left, upper_right)
        distance = np.hypot(*(nearest_point - anchor))
        if distance > _JOINING_LINE_DISTANCE:
            _draw_joining_line(ax, page_to_data(anchor), page_to_data(nearest_point))


def _label_text(point: MethodPoint, *, with_model: bool) -> str:
    """The method's name on lines of at most 40 characters, followed by its model where models
    differ."""
    name = point.method
    if with_model:
        name = f"{point.method} ({point.model})"
    return wrapped(name, 40)


def _points_with_label(method_points: Sequence[MethodPoint]) -> list[MethodPoint]:
    """The points that have a label: all, or those that are not beaten where there are many."""
    if len(method_points) <= _MAX_POINTS_ALL_LABELLED:
        return list(method_points)
    return [point for point in method_points if point.kind != BEATEN]


def _error_bar_boxes(ax: Axes, method_points: Sequence[MethodPoint]) -> np.ndarray:
    """The boxes of both error bars of each point, [2 n, 4] of left, bottom, right, top.

    All lengths are points of the page; a bar counts as two points wide.
    """
    data_to_page = ax.transData.transform
    boxes = []
    for point in method_points:
        x, y = data_to_page(point.position)
        cost_low, cost_high = point.spent.ends
        score_low, score_high = point.score_ends
        left, bottom = data_to_page((cost_low, score_low))
        right, top = data_to_page((cost_high, score_high))
        boxes.append((left, y - 1, right, y + 1))
        boxes.append((x - 1, bottom, x + 1, top))
    return np.array(boxes)


def _draw_joining_line(ax: Axes, start: np.ndarray, end: np.ndarray) -> None:
    """Draw a thin line between a mark and its label.

    Args:
        ax: The axes.
        start: The mark, (x, y).
        end: The nearest point of the label, (x, y).
    """
    ax.plot(
        [start[0], end[0]],
        [start[1], end[1]],
        color="#b6bec9",
        linewidth=0.5,
        linestyle="-",
        marker="",
        zorder=1,
    )


def _tooltip(point: MethodPoint) -> str:
    """What a pointer over a mark reads: "bm25 (llama-8b): 41.3 at 0.512 TFLOPs; beaten by
    pecan"."""
    amount = three_digits(point.spent.value, min_without_exponent=1e-9)
    cost_text = f"{amount} {COSTS[point.cost].unit}"
    text = f"{point.method} ({point.model}): {100 * point.score.value:.1f} at {cost_text}"
    if point.kind == BEATEN:
        return f"{text}; beaten by {', '.join(point.beaten_by)}"
    if point.kind == BEST:
        return text
    return f"{text}; {_STYLE_BY_KIND[point.kind].legend}"
