"""Static figures, drawn by matplotlib: panels of lines with error bars and of histograms, as SVG,
PDF or PNG.

    draw([Panel("musique", Axis("t_n", ticks=(1, 2, 3)), Axis("F1"), lines=[Line("pecan",
    points)])], "Curves", "pdf")

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from reports.markup import Html, printable, text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure


FORMS = ("svg", "pdf", "png")
KINDS = 6  # lines that look different, the length of the style's cycle; `panels` keeps a panel to so many

_PAGE_COLOURS = {  # colours of a figure in a page, which has a dark form: names of templates/page.css
    "1d2430": "currentColor",
    "ffffff": "var(--paper, #fff)",
    "e4e7ec": "var(--grid, #e4e7ec)",
    "b6bec9": "var(--edge, #b6bec9)",
    "0072b2": "var(--blue, #0072b2)",
    "009e73": "var(--green, #009e73)",
}

_WIDTH, _HEIGHT, _ENTRY = (
    3.5,
    2.4,
    0.15,
)  # inches of a panel without its legend, and of a line of the legend
_TITLE, _ROOM, _UP = (
    44,
    42,
    30,
)  # characters of a line of a title, of a legend and of the name of an upright axis
_HANDLES = 12  # characters that the lines and gaps of two columns of a legend take


@dataclass(frozen=True)
class Axis:
    """What an axis measures. ticks: the only values with a tick; labels: their texts, by default
    the values;
    log: logarithmic; zero: begins at 0; limits: its ends, by default those of the data.
    """

    name: str
    ticks: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    log: bool = False
    zero: bool = False
    limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Point:
    """A mark with its interval, if it has one; a y of None is a gap in the line."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, row: Mapping[Any, Any], x: str, y: str, scale: float = 1.0) -> Point:
        """The point of a table's row: columns `x`, and `y` with its interval, `scale` times as
        large."""
        values = (row[f"{y}{end}"] for end in ("", ".low", ".high"))
        # A missing number is None or NaN, which alone differs from itself.
        return cls(
            float(row[x]), *(None if v is None or v != v else scale * float(v) for v in values)
        )


@dataclass(frozen=True)
class Line:
    """Points joined in order; right: measured on the right axis; marks: False for a smooth
    curve."""

    name: str
    points: Sequence[Point]
    right: bool = False
    marks: bool = True


@dataclass(frozen=True)
class Panel:
    """One drawing with its axes; `right` is drawn only where a line is measured on it.

    aside: lines over the same x stand a little beside each other, so that no error bar covers
    another.
    """

    title: str
    x: Axis
    left: Axis
    right: Axis | None = None
    lines: Sequence[Line] = ()
    bars: Sequence[tuple[float, float, float]] = ()
    """Columns of a histogram: x at both ends, height."""
    aside: bool = False


def lines(rows: pd.DataFrame, x: str, y: str, scale: float = 1.0) -> list[Line]:
    """A line for each method of a table, through its columns `x` and `y`, with its interval,
    `scale` times as large."""
    return [
        Line(str(method), [Point.of(row, x, y, scale) for row in method_rows.to_dict("records")])
        for method, method_rows in rows.groupby("method", sort=False)
    ]


def panels(
    title: str, x: Axis, left: Axis, drawn: Sequence[Line], *, aside: bool = True
) -> list[Panel]:
    """The lines `drawn` in panels of KINDS each, "musique (1 of 2)", "musique (2 of 2)"; [] without
    a line."""
    parts = [drawn[i : i + KINDS] for i in range(0, len(drawn), KINDS)]
    return [
        Panel(
            title + (f" ({i} of {len(parts)})" if len(parts) > 1 else ""),
            x,
            left,
            None,
            part,
            aside=aside,
        )
        for i, part in enumerate(parts, 1)
    ]


def draw(panels: Sequence[Panel], title: str, form: str = "svg") -> bytes:
    """The panels, at least one, as one file of a form of FORMS."""
    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    legends = [[line.name for line in panel.lines] for panel in panels if len(panel.lines) > 1]
    lines = [sum(wrapped(name, _ROOM).count("\n") + 1 for name in names) for names in legends]
    sized = zip(lines, legends, strict=True)
    heights = (math.ceil(n / _legend_columns(legend, _ROOM)) for n, legend in sized)
    entries = max(heights, default=0)
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH * columns, (_HEIGHT + _ENTRY * entries) * rows))
        for place, panel in enumerate(panels, 1):
            _draw_panel(figure.add_subplot(rows, columns, place), panel)
        return figure_file(figure, title, form)


@contextmanager
def paper_style() -> Iterator[None]:
    """Draw inside with paper.mplstyle on top of matplotlib's defaults, whatever the user's
    matplotlibrc says."""
    import matplotlib.style

    with (
        resources.as_file(resources.files("reports.figures") / "paper.mplstyle") as style,
        matplotlib.style.context(style, after_reset=True),
    ):
        yield


def figure_file(figure: Figure, title: str, form: str) -> bytes:
    """The figure as a file of a form of FORMS, without a date, so that equal figures are equal
    bytes."""
    metadata: dict[str, dict[str, Any]] = {
        "svg": {"Creator": None, "Date": None},
        "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
        "png": {"Software": None},
    }
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # drawn as a box
        figure.savefig(out, format=form, metadata={"Title": printable(title), **metadata[form]})
    return out.getvalue()


def inline_svg(svg: bytes, titles: Mapping[str, str] | None = None) -> Html:
    """An SVG file of `figure_file` as an element of a page.

    A page's content security policy forbids style attributes, so they become attributes of their
    own; colours become those of the page. titles: what a pointer over the artist with this gid
    reads.
    """
    source = svg.decode()
    view = re.search(r'viewBox="[^"]*"', source)
    assert view is not None  # `figure_file` makes no other file
    body = source[source.index('<g id="figure_1">') :]
    for gid, title in (titles or {}).items():
        body = body.replace(f'<g id="{gid}">', f"<g><title>{text(title)}</title>", 1)

    def for_page(tag_match: re.Match[str]) -> str:
        tag = re.sub('^<g id="[^"]*"', "<g", tag_match[0]).replace("xlink:href", "href")
        tag = re.sub(
            r' style="([^"]*)"', lambda m: re.sub(r"([a-z-]+): ([^;]*);? ?", r' \1="\2"', m[1]), tag
        )
        for colour, name in _PAGE_COLOURS.items():
            tag = tag.replace(f'"#{colour}"', f'"{name}"')
        return tag

    body = re.sub("<[^>]*>", for_page, body)  # text between tags is not touched
    return Html(f'<svg class="figure" {view[0]} role="img" stroke-linejoin="round">{body}')


def _draw_panel(ax: Axes, panel: Panel) -> None:
    """Draw title, bars and lines of a panel; lines stand a little aside from each other where
    `panel.aside`."""
    from matplotlib import rcParams

    ax.set_title(textwrap.fill(printable(panel.title), _TITLE, max_lines=3))
    if panel.bars:
        bars = [(start, end - start, high) for start, end, high in panel.bars]
        edges, widths, heights = zip(*bars, strict=True)
        ax.bar(
            edges, heights, widths, align="edge", color="#c5ccd6", edgecolor="white", linewidth=0.4
        )
    right = None
    if panel.right is not None and any(line.right for line in panel.lines):
        right = ax.twinx()
        right.spines.right.set_visible(True)
        right.grid(visible=False)
    styles = list(rcParams["axes.prop_cycle"])
    places = panel.x.limits or [point.x for line in panel.lines for point in line.points]
    scale = math.log if panel.x.log else float
    shift = 0.012 * (scale(max(places)) - scale(min(places))) if panel.aside else 0.0
    middle = (len(panel.lines) - 1) / 2
    handles = []
    for i, line in enumerate(panel.lines):
        aside = shift * (i - middle)
        at = [
            point.x * math.exp(aside) if panel.x.log else point.x + aside for point in line.points
        ]
        axes = right if line.right and right is not None else ax
        handles.append(_draw_line(axes, line, styles[i % len(styles)], at))
    set_axis(ax.xaxis, panel.x)
    set_axis(ax.yaxis, panel.left)
    if panel.right is not None and right is not None:
        set_axis(right.yaxis, panel.right)
    if len(handles) > 1:
        legend_below(ax, handles, [line.name for line in panel.lines])


def _draw_line(ax: Axes, line: Line, style: dict[str, Any], places: Sequence[float]) -> Any:
    """Draw a line with error bars at x = `places` in a style of matplotlib's cycle; returns its
    artist for a legend."""
    style = style if len(places) > 1 else {**style, "linestyle": ""}
    nan = math.nan
    heights = [nan if p.y is None else p.y for p in line.points]
    if not line.marks:
        return ax.plot(places, heights, **{**style, "marker": ""})[0]
    ends = [
        (nan, nan) if p.y is None or p.low is None or p.high is None else (p.low, p.high)
        for p in line.points
    ]
    below = [max(y - low, 0.0) for y, (low, _) in zip(heights, ends, strict=True)]
    above = [max(high - y, 0.0) for y, (_, high) in zip(heights, ends, strict=True)]
    # Not clipped: a mark on the axis is drawn whole.
    return ax.errorbar(
        places, heights, [below, above], elinewidth=0.8, clip_on=False, **style
    ).lines[0]


def wrapped(name: str, longest: int) -> str:
    """A name as text of a figure, whole, on lines of at most `longest` characters."""
    return textwrap.fill(printable(name), longest)


def set_axis(axis: XAxis | YAxis, spec: Axis) -> None:
    """Name, scale, ends and ticks of an axis, once everything is drawn on it; numbers are written
    out in full."""
    from matplotlib.ticker import (
        FixedFormatter,
        FixedLocator,
        FuncFormatter,
        LogLocator,
        MaxNLocator,
        NullLocator,
    )

    axes = axis.axes
    across = axis.axis_name == "x"
    limit, set_limits = (axes.get_xlim, axes.set_xlim) if across else (axes.get_ylim, axes.set_ylim)
    name = textwrap.fill(printable(spec.name), 60 if across else _UP)
    (axes.set_xlabel if across else axes.set_ylabel)(name)
    if spec.log:
        (axes.set_xscale if across else axes.set_yscale)("log")
    if spec.limits is not None:
        set_limits(*spec.limits)
    elif spec.zero:
        set_limits(0.0, limit()[1])
    low, high = limit()
    if spec.log and high < 10 * low:  # a power of ten is in sight
        middle = math.sqrt(low * high)
        low, high = set_limits(middle / math.sqrt(10), middle * math.sqrt(10))
    if spec.ticks:
        axis.set_major_locator(FixedLocator(spec.ticks))
    elif spec.log:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    else:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axis.set_minor_locator(NullLocator())
    texts = [
        wrapped(label.replace("/", "/ ") if len(label) > 16 else label, 16) for label in spec.labels
    ]
    in_full = FuncFormatter(
        lambda value, _: f"{value:,.12f}".rstrip("0").rstrip(".")
    )  # "0.00005", "12,000"
    axis.set_major_formatter(FixedFormatter(texts) if texts else in_full)


def legend_below(ax: Axes, handles: Sequence[Any], names: Sequence[str], room: int = _ROOM) -> None:
    """A legend under the name of the x axis, where it covers nothing; room: characters that fit
    beside each other."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None
    ticks = max((label.get_text().count("\n") for label in ax.get_xticklabels()), default=0)
    lower = ax.transAxes + ScaledTranslation(0, -(30 + 9 * ticks) / 72, figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": lower}
    # A name with "_" in front would be left out, so the names come after the legend is made.
    legend = ax.legend(
        handles, [str(i) for i in range(len(names))], ncols=_legend_columns(names, room), **place
    )
    for label, name in zip(legend.get_texts(), names, strict=True):
        label.set_text(wrapped(name, room))


def _legend_columns(names: Sequence[str], room: int) -> int:
    """Columns of a legend: two where the two longest names fit beside each other."""
    return 2 if len(names) > 1 and sum(sorted(map(len, names))[-2:]) + _HANDLES <= room else 1
