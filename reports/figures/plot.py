"""Static figures, drawn by matplotlib: panels of lines with error bars and of histograms, as SVG,
PDF or PNG.

    line = Line("pecan", [Point(1, 40.0), Point(2, 45.0)])
    draw([Panel("musique", Axis("t_n"), Axis("F1"), lines=[line])], "Curves", "pdf")

Two panels stand in a row; paper.mplstyle holds everything that is a matter of taste. Equal panels
give equal bytes. matplotlib is imported when something is drawn, through its Figure class: no
display, no state of pyplot.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.facts import frame_rows
from reports.markup import Html, escaped_text, printable
from reports.table_cell import Cell, Row, number_or_none, number_or_raise

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import Formatter, Locator


FORMS = ("svg", "pdf", "png")
MAX_LINES_PER_PANEL = 6
"""Lines that look different: the length of the style's cycle, and the most lines of a panel."""

_PAGE_COLOURS = {
    "1d2430": "currentColor",
    "ffffff": "var(--paper, #fff)",
    "e4e7ec": "var(--grid, #e4e7ec)",
    "b6bec9": "var(--edge, #b6bec9)",
    "0072b2": "var(--blue, #0072b2)",
    "009e73": "var(--green, #009e73)",
}
"""Colours of a figure -> names of templates/page.css, as a page has a dark form."""

# Inches of a panel without its legend, and of a line of the legend.
_PANEL_WIDTH = 3.5
_PANEL_HEIGHT = 2.4
_LEGEND_LINE_HEIGHT = 0.15

# Most characters of a line of text.
_TITLE_CHARACTERS = 44
_LEGEND_CHARACTERS = 42
_HANDLE_CHARACTERS = 12  # of a legend, what the drawn lines and gaps of two columns take
_X_NAME_CHARACTERS = 60
_Y_NAME_CHARACTERS = 30
_TICK_CHARACTERS = 16


@dataclass(frozen=True)
class Axis:
    """What an axis measures, and how it is drawn."""

    name: str
    ticks: tuple[float, ...] = ()
    """The only values with a tick; () for ticks at round numbers."""
    labels: tuple[str, ...] = ()
    """The texts of the ticks; () for their values."""
    is_logarithmic: bool = False
    starts_at_zero: bool = False
    """Whether the axis starts at 0."""
    limits: tuple[float, float] | None = None
    """Its ends; None for those of the data."""


@dataclass(frozen=True)
class Point:
    """A mark with its interval, if it has one; a y of None is a gap in the line."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, row: Row, x_column: str, y_column: str, scale: float = 1.0) -> Point:
        """The point of a table's row.

        Args:
            row: Values by the names of their columns.
            x_column: The column of the place on the x axis.
            y_column: The column of the value; `y_column`.low and `y_column`.high are its interval.
            scale: The factor of the value and its interval: 100 for a score in [0, 1].
        """
        return cls(
            x=float(number_or_raise(row[x_column])),
            y=_scaled(row[y_column], scale),
            low=_scaled(row[f"{y_column}.low"], scale),
            high=_scaled(row[f"{y_column}.high"], scale),
        )

    @property
    def has_interval(self) -> bool:
        """Whether the value and both ends of its interval are known."""
        return None not in (self.y, self.low, self.high)


def _scaled(cell: Cell, scale: float) -> float | None:
    """The number in a cell of a table times `scale`; None for an empty cell."""
    number = number_or_none(cell)
    if number is None or math.isnan(number):
        return None
    return scale * float(number)


@dataclass(frozen=True)
class Line:
    """Points joined in order."""

    name: str
    points: Sequence[Point]
    on_right_axis: bool = False
    """Whether it is measured on the right axis."""
    has_marks: bool = True
    """False for a smooth curve."""


class Bar(NamedTuple):
    """A column of a histogram, from x at its left end to x at its right end."""

    left: float
    right: float
    height: float


@dataclass(frozen=True)
class Panel:
    """One drawing with its axes; `right` is drawn only where a line is measured on it."""

    title: str
    x: Axis
    left: Axis
    right: Axis | None = None
    lines: Sequence[Line] = ()
    bars: Sequence[Bar] = ()
    """Columns of a histogram."""
    side_by_side: bool = False
    """Whether lines over the same x stand a little beside each other, so that no error bar covers
    another."""


def lines(rows: pd.DataFrame, x_column: str, y_column: str, scale: float = 1.0) -> list[Line]:
    """A line for each method of a table, named by it.

    Args:
        rows: The table, with a column "method".
        x_column: The column of the place on the x axis.
        y_column: The column of the value; `y_column`.low and `y_column`.high are its interval.
        scale: The factor of the value and its interval.
    """
    method_lines = []
    for method, method_rows in rows.groupby("method", sort=False):
        points = [Point.of(row, x_column, y_column, scale) for row in frame_rows(method_rows)]
        method_lines.append(Line(str(method), points))
    return method_lines


def panels(
    title: str, x: Axis, left: Axis, lines_of_methods: Sequence[Line], *, side_by_side: bool = True
) -> list[Panel]:
    """The lines in panels of at most MAX_LINES_PER_PANEL each: "musique (1 of 2)" and "musique (2
    of 2)".

    Args:
        title: The title of the panels, before their numbers.
        x: The x axis of each panel.
        left: The y axis of each panel.
        lines_of_methods: The lines; without a line there is no panel.
        side_by_side: Whether lines over the same x stand a little beside each other.
    """
    starts = range(0, len(lines_of_methods), MAX_LINES_PER_PANEL)
    groups = [lines_of_methods[start : start + MAX_LINES_PER_PANEL] for start in starts]
    panel_list = []
    for number, group in enumerate(groups, 1):
        panel_title = title
        if len(groups) > 1:
            panel_title = f"{title} ({number} of {len(groups)})"
        panel = Panel(
            panel_title, x=x, left=left, right=None, lines=group, side_by_side=side_by_side
        )
        panel_list.append(panel)
    return panel_list


def draw(panels: Sequence[Panel], title: str, form: str = "svg") -> bytes:
    """The panels as one file, two in a row.

    Args:
        panels: At least one.
        title: The title in the file's metadata.
        form: One of FORMS.

    Returns:
        The content of the file.
    """
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    most_legend_lines = max(_legend_height(panel) for panel in panels)
    height = _PANEL_HEIGHT + _LEGEND_LINE_HEIGHT * most_legend_lines
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_PANEL_WIDTH * columns, height * rows))
        for panel_number, panel in enumerate(panels, 1):
            _draw_panel(figure.add_subplot(rows, columns, panel_number), panel)
        return figure_file(figure, title, form)


def _legend_height(panel: Panel) -> int:
    """The number of lines of text that the legend of a panel takes; 0 where there is no legend."""
    if len(panel.lines) < 2:
        return 0
    names = [line.name for line in panel.lines]
    n_text_lines = 0
    for name in names:
        n_text_lines += wrapped(name, _LEGEND_CHARACTERS).count("\n") + 1
    return math.ceil(n_text_lines / _legend_columns(names, _LEGEND_CHARACTERS))


@contextmanager
def paper_style() -> Iterator[None]:
    """A context in which matplotlib draws by its defaults and paper.mplstyle, whatever the user's
    matplotlibrc says."""
    import matplotlib.style

    with (
        resources.as_file(resources.files("reports.figures") / "paper.mplstyle") as style,
        matplotlib.style.context(style, after_reset=True),
    ):
        yield


def figure_file(figure: Figure, title: str, form: str) -> bytes:
    """The content of a file of the figure, without a date, so that equal figures are equal bytes.

    Args:
        figure: The figure.
        title: The title in the file's metadata.
        form: One of FORMS.
    """
    left_out: dict[str, dict[str, None]] = {
        "svg": {"Creator": None, "Date": None},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
        "png": {"Software": None},
    }
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # drawn as a box
        metadata = {"Title": printable(title), **left_out[form]}
        figure.savefig(buffer, format=form, metadata=metadata)
    return buffer.getvalue()


def inline_svg(svg: bytes, titles: Mapping[str, str] | None = None) -> Html:
    """An SVG file of `figure_file` as an element of a page, in the page's colours.

    A page's content security policy forbids style attributes, so each property becomes an attribute
    of its own.

    Args:
        svg: The content of the file.
        titles: Id of an artist -> what a pointer over it reads.
    """
    source = svg.decode()
    view_box = re.search(r'viewBox="[^"]*"', source)
    assert view_box is not None  # `figure_file` makes no other file
    body = source[source.index('<g id="figure_1">') :]  # what is drawn, without the file's head
    for gid, title in (titles or {}).items():
        body = body.replace(f'<g id="{gid}">', f"<g><title>{escaped_text(title)}</title>", 1)
    body = re.sub("<[^>]*>", _tag_for_page, body)  # text between tags is not touched
    return Html(f'<svg class="figure" {view_box[0]} role="img" stroke-linejoin="round">{body}')


def _tag_for_page(found: re.Match[str]) -> str:
    """A matched tag of an SVG file without ids and styles, in the colours of the page.

    '<g id="a" style="fill: #0072b2">'     -> '<g fill="var(--blue, #0072b2)">'
    """
    tag = re.sub('^<g id="[^"]*"', "<g", found[0]).replace("xlink:href", "href")
    tag = re.sub(r' style="([^"]*)"', _style_as_attributes, tag)
    for colour, name in _PAGE_COLOURS.items():
        tag = tag.replace(f'"#{colour}"', f'"{name}"')
    return tag


def _style_as_attributes(found: re.Match[str]) -> str:
    """A matched style as attributes: ' style="fill: none; stroke: red"' -> ' fill="none"
    stroke="red"'."""
    return re.sub(r"([a-z-]+): ([^;]*);? ?", r' \1="\2"', found[1])


def _draw_panel(ax: Axes, panel: Panel) -> None:
    """Draw title, bars, lines and axes of a panel, and a legend of more than one line."""
    from matplotlib import rcParams

    ax.set_title(textwrap.fill(printable(panel.title), _TITLE_CHARACTERS, max_lines=3))
    if panel.bars:
        _draw_bars(ax, panel.bars)
    right_axes = _right_axes(ax, panel)
    styles = list(rcParams["axes.prop_cycle"])
    shifts = _shift_of_each_line(panel)
    legend_artists = []
    for number, line in enumerate(panel.lines):
        axes_of_line = ax
        if line.on_right_axis and right_axes is not None:
            axes_of_line = right_axes
        x_values = _shifted_x(line, shifts[number], is_logarithmic=panel.x.is_logarithmic)
        style = styles[number % len(styles)]
        legend_artists.append(_draw_line(axes_of_line, line, style, x_values))
    set_axis(ax.xaxis, panel.x)
    set_axis(ax.yaxis, panel.left)
    if panel.right is not None and right_axes is not None:
        set_axis(right_axes.yaxis, panel.right)
    if len(legend_artists) > 1:
        legend_below(ax, legend_artists, [line.name for line in panel.lines])


def _draw_bars(ax: Axes, bars: Sequence[Bar]) -> None:
    """Draw the columns of a histogram on the axes."""
    ax.bar(
        [bar.left for bar in bars],
        [bar.height for bar in bars],
        [bar.right - bar.left for bar in bars],
        align="edge",
        color="#c5ccd6",
        edgecolor="white",
        linewidth=0.4,
    )


def _right_axes(ax: Axes, panel: Panel) -> Axes | None:
    """New axes for the lines that are measured at the right; None where there is no such line."""
    if panel.right is None or not any(line.on_right_axis for line in panel.lines):
        return None
    right_axes = ax.twinx()
    right_axes.spines.right.set_visible(True)
    right_axes.grid(visible=False)
    return right_axes


def _shift_of_each_line(panel: Panel) -> list[float]:
    """How far each line is moved along x, so that no error bar covers another.

    On a logarithmic axis the shift is one of logarithms; all are 0 where lines are not moved.
    """
    if not panel.side_by_side:
        return [0.0] * len(panel.lines)
    x_values = _x_range(panel)
    x_min = min(x_values)
    x_max = max(x_values)
    if panel.x.is_logarithmic:
        x_min = math.log(x_min)
        x_max = math.log(x_max)
    step = 0.012 * (x_max - x_min)
    middle_number = (len(panel.lines) - 1) / 2
    return [step * (number - middle_number) for number in range(len(panel.lines))]


def _x_range(panel: Panel) -> Sequence[float]:
    """Numbers whose least and greatest are the ends of the x axis: its fixed ends, or the places of
    all points."""
    if panel.x.limits is not None:
        return panel.x.limits
    x_values: list[float] = []
    for line in panel.lines:
        x_values += [point.x for point in line.points]
    return x_values


def _shifted_x(line: Line, shift: float, *, is_logarithmic: bool) -> list[float]:
    """The places of a line's points on the x axis, moved aside.

    Args:
        line: The line.
        shift: How far; of logarithms on a logarithmic axis.
        is_logarithmic: Whether the axis is logarithmic.
    """
    if is_logarithmic:
        return [point.x * math.exp(shift) for point in line.points]
    return [point.x + shift for point in line.points]


def _draw_line(ax: Axes, line: Line, style: Mapping[str, Any], x_values: Sequence[float]) -> Line2D:
    """Draw a line with error bars; one of a single point is a mark, one without marks a curve.

    Args:
        ax: The axes.
        line: Its points and name.
        style: A style of matplotlib's cycle: {"color": ..., "marker": ..., "linestyle": ...}.
        x_values: The place of each point on the x axis.

    Returns:
        The artist that stands for it in a legend.
    """
    if len(x_values) == 1:
        style = {**style, "linestyle": ""}
    y_values = [_nan_for_none(point.y) for point in line.points]
    if not line.has_marks:
        return ax.plot(x_values, y_values, **{**style, "marker": ""})[0]
    lengths_below = []
    lengths_above = []
    for point, y in zip(line.points, y_values, strict=True):
        low = high = math.nan
        if point.has_interval:
            low = _nan_for_none(point.low)
            high = _nan_for_none(point.high)
        lengths_below.append(max(y - low, 0.0))
        lengths_above.append(max(high - y, 0.0))
    # Not clipped: a mark on the axis is drawn whole.
    error_bars = ax.errorbar(
        x_values,
        y_values,
        yerr=[lengths_below, lengths_above],
        elinewidth=0.8,
        clip_on=False,
        **style,
    )
    mark = error_bars.lines[0]
    assert mark is not None
    return mark


def _nan_for_none(value: float | None) -> float:
    """The value as matplotlib takes it: NaN where there is none."""
    if value is None:
        return math.nan
    return value


def wrapped(name: str, max_characters: int) -> str:
    """A name as text of a figure, on lines of at most `max_characters`; no word is left out."""
    return textwrap.fill(printable(name), max_characters)


def set_axis(axis: XAxis | YAxis, spec: Axis) -> None:
    """Set name, scale, ends and ticks of an axis, once everything is drawn on it.

    Args:
        axis: The axis of matplotlib, which is changed.
        spec: What it measures, and how it is drawn.
    """
    ends = _AxisEnds.of(axis)
    ends.set_name(spec.name)
    if spec.is_logarithmic:
        ends.set_scale("log")
    if spec.limits is not None:
        ends.set(*spec.limits)
    elif spec.starts_at_zero:
        ends.set(0.0, ends.get()[1])
    low, high = ends.get()
    if spec.is_logarithmic and high < 10 * low:
        # Widened, so that a power of ten is in sight.
        geometric_mean = math.sqrt(low * high)
        low, high = ends.set(geometric_mean / math.sqrt(10), geometric_mean * math.sqrt(10))
    axis.set_major_locator(_tick_locator(spec, low, high))
    axis.minorticks_off()
    axis.set_major_formatter(_tick_formatter(spec))


@dataclass(frozen=True)
class _AxisEnds:
    """The functions of an axis that matplotlib has under two names, one for x and one for y.

    Args:
        get: Gives both ends of the axis.
        set: Sets both ends, and gives them.
        set_scale: Sets the scale: "log".
        set_label: Writes the name of the axis.
        name_width: Most characters of a line of the name.
    """

    get: Callable[[], tuple[float, float]]
    set: Callable[[float, float], tuple[float, float]]
    set_scale: Callable[[str], None]
    set_label: Callable[[str], object]
    name_width: int

    @classmethod
    def of(cls, axis: XAxis | YAxis) -> _AxisEnds:
        """The functions of this axis of matplotlib."""
        axes = axis.axes
        if axis.axis_name == "x":
            return cls(
                get=axes.get_xlim,
                set=axes.set_xlim,
                set_scale=axes.set_xscale,
                set_label=axes.set_xlabel,
                name_width=_X_NAME_CHARACTERS,
            )
        return cls(
            get=axes.get_ylim,
            set=axes.set_ylim,
            set_scale=axes.set_yscale,
            set_label=axes.set_ylabel,
            name_width=_Y_NAME_CHARACTERS,
        )

    def set_name(self, name: str) -> None:
        """Write the name of the axis, on as many lines as it needs."""
        self.set_label(wrapped(name, self.name_width))


def _tick_locator(spec: Axis, low: float, high: float) -> Locator:
    """What tells matplotlib where the ticks of an axis stand: at given values, or at round numbers.

    Args:
        spec: The axis.
        low: Its left or lower end.
        high: Its other end.
    """
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator

    if spec.ticks:
        return FixedLocator(spec.ticks)
    if not spec.is_logarithmic:
        return MaxNLocator(6, steps=[1, 2, 5, 10])
    if high < 1000 * low:
        return LogLocator(subs=(1, 2, 5))
    return LogLocator(subs=(1,))


def _tick_formatter(spec: Axis) -> Formatter:
    """What tells matplotlib the texts at the ticks: the labels of the axis, or the numbers in
    full."""
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    if not spec.labels:
        return FuncFormatter(_number_in_full)
    tick_texts = []
    for label in spec.labels:
        if len(label) > _TICK_CHARACTERS:
            label = label.replace("/", "/ ")  # a place where the line may be broken
        tick_texts.append(wrapped(label, _TICK_CHARACTERS))
    return FixedFormatter(tick_texts)


def _number_in_full(value: float, _position: int | None) -> str:
    """A number without an exponent, as matplotlib asks for it at a tick: "0.00005", "12,000"."""
    return f"{value:,.12f}".rstrip("0").rstrip(".")


def legend_below(
    ax: Axes,
    handles: Sequence[Artist | tuple[Artist, ...]],
    names: Sequence[str],
    max_characters: int = _LEGEND_CHARACTERS,
) -> None:
    """Draw a legend under the name of the x axis, where it covers nothing.

    Args:
        ax: The axes that it explains.
        handles: An artist of each line.
        names: The name of each line.
        max_characters: Most characters of a line of the legend.
    """
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None
    tick_texts = [label.get_text() for label in ax.get_xticklabels()]
    extra_lines = max((text.count("\n") for text in tick_texts), default=0)
    inches_down = (30 + 9 * extra_lines) / 72
    below_ticks = ax.transAxes + ScaledTranslation(0, -inches_down, figure.dpi_scale_trans)
    # A name with "_" in front would be left out, so the names come after the legend is made.
    placeholder_names = list(map(str, range(len(names))))
    legend = ax.legend(
        handles,
        placeholder_names,
        ncols=_legend_columns(names, max_characters),
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below_ticks,
    )
    for label, name in zip(legend.get_texts(), names, strict=True):
        label.set_text(wrapped(name, max_characters))


def _legend_columns(names: Sequence[str], max_characters: int) -> int:
    """The number of columns of a legend: two where the two longest names fit beside each other,
    else one.

    Args:
        names: The names in the legend.
        max_characters: Most characters of a line.
    """
    lengths = sorted(len(name) for name in names)
    two_longest = lengths[-2:]
    fit_beside_each_other = sum(two_longest) + _HANDLE_CHARACTERS <= max_characters
    if len(names) > 1 and fit_beside_each_other:
        return 2
    return 1
