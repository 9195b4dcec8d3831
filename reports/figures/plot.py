"""Panels with axes as SVG: lines with error bars and bars of a histogram, over one or two y axes.

    draw([Panel("musique", x=steps("t_n", range(1, 9)), left=linear("F1", [30, 45]), lines=[Line(...)])])

Two panels stand in a row. Lines differ in colour, mark and dash, so that they can be told apart without colours. Every
mark has a <title>, which a browser shows under the pointer. No script, no font, no other file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reports.chart import log_ticks
from reports.markup import Html, el, joined

_W, _H = 560, 380  # pixels of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 62, 58, 52
_CHAR = 6.6  # pixels of a 12 px character
KINDS = 6
"""Lines that look different; the seventh looks like the first."""

STYLE = """
svg.figure { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; background: #fff; }
svg.figure text { fill: #1d2430; } svg.figure .head { font-weight: 600; font-size: 13px; }
svg.figure .tick, svg.figure .name { fill: #5b6675; } svg.figure .end { text-anchor: end; }
svg.figure .middle { text-anchor: middle; }
svg.figure .grid { stroke: #e9ecf1; } svg.figure .axis { stroke: #5b6675; }
svg.figure .line { fill: none; stroke-width: 1.8; } svg.figure .bar { stroke-width: 1.3; }
svg.figure .column { fill: #bcd0ea; stroke: #fff; stroke-width: .5; }
svg.figure .k0 { stroke: #1f5fae; } svg.figure .k1 { stroke: #c8641b; stroke-dasharray: 6 3; }
svg.figure .k2 { stroke: #2a7d4f; stroke-dasharray: 2 3; }
svg.figure .k3 { stroke: #8a4fa3; stroke-dasharray: 9 3 2 3; }
svg.figure .k4 { stroke: #b4472b; stroke-dasharray: 12 4; } svg.figure .k5 { stroke: #5b6675; stroke-dasharray: 1 2; }
svg.figure .bar, svg.figure .mark { stroke-dasharray: none; } svg.figure .mark { fill: #fff; stroke-width: 1.8; }
"""


@dataclass(frozen=True)
class Axis:
    """Values between low and high, with ticks; log: powers of ten are equally far apart."""

    name: str
    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies between the ends: 0 to 1."""
        if self.log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Point:
    """A mark with its interval, if it has one; a y of None is a gap in the line."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None
    told: str = ""


@dataclass(frozen=True)
class Line:
    """Points joined in order; right: measured on the right axis; marks: False for a smooth curve."""

    name: str
    points: Sequence[Point]
    right: bool = False
    marks: bool = True


@dataclass(frozen=True)
class Bar:
    """A column of a histogram from x `start` to `end`."""

    start: float
    end: float
    height: float
    told: str = ""


@dataclass(frozen=True)
class Panel:
    """One drawing with its axes; `right` is drawn only where a line is measured on it."""

    title: str
    x: Axis
    left: Axis
    right: Axis | None = None
    lines: Sequence[Line] = ()
    bars: Sequence[Bar] = field(default_factory=tuple)


def linear(name: str, values: Iterable[float], *, zero: bool = False) -> Axis:
    """An axis with about six round ticks that holds all `values`; zero: it begins at 0."""
    known = list(values)
    low, high = (0.0 if zero else min(known)), max(known)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = (0.0, 1.0) if zero else (low - 0.5, low + 0.5)
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(float(f"{i * step:.12g}") for i in range(first, last + 1))
    return Axis(name, ticks[0], ticks[-1], ticks)


def steps(name: str, values: Iterable[float]) -> Axis:
    """An axis for a few single values, each with its tick, and a little room at both ends."""
    ticks = tuple(sorted(set(values)))
    room = max(0.06 * (ticks[-1] - ticks[0]), 1e-9) if len(ticks) > 1 else 0.5
    return Axis(name, ticks[0] - room, ticks[-1] + room, ticks)


def logarithmic(name: str, values: Iterable[float], ticks: Sequence[float] | None = None) -> Axis:
    """A logarithmic axis that holds all `values`, which are above 0, with a little room; ticks: round numbers."""
    known = list(values)
    low, high = min(known) / 1.2, max(known) * 1.2
    found = tuple(ticks) if ticks is not None else tuple(log_ticks(low, high))
    return Axis(name, low, high, found or (min(known), max(known)), log=True)


def draw(panels: Sequence[Panel], title: str, columns: int = 2) -> Html:
    """All panels as one SVG element. Raises ValueError where there is none."""
    if not panels:
        raise ValueError("a figure needs a panel")
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    placed = [
        el("g", _panel(panel), transform=f"translate({_W * (i % columns)} {_H * (i // columns)})")
        for i, panel in enumerate(panels)
    ]
    size = f"0 0 {_W * columns} {_H * rows}"
    return el("svg", el("title", title), *placed, viewBox=size, role="img", class_="figure")


# ---- one panel -----------------------------------------------------------------------------------------------------


def _x(axis: Axis, value: float) -> float:
    return round(_LEFT + (_W - _LEFT - _RIGHT) * axis.share(value), 1)


def _y(axis: Axis, value: float) -> float:
    return round(_H - _BOTTOM - (_H - _TOP - _BOTTOM) * axis.share(value), 1)


def _panel(panel: Panel) -> Html:
    lines = [_line(panel, line, i % KINDS) for i, line in enumerate(panel.lines)]
    head = el("text", _cut(panel.title, _W - 24), x=12, y=20, class_="head")
    return joined(head, _legend(panel.lines), _axes(panel), *(_bar(panel, bar) for bar in panel.bars), *lines)


def _cut(text: str, pixels: float) -> str:
    most = int(pixels / (_CHAR * 1.12))
    return text if len(text) <= most else text[: most - 1] + "…"


def _legend(lines: Sequence[Line]) -> Html:
    """The lines by name, above the drawing; one alone needs none where its axis says what it is."""
    if len(lines) < 2:
        return joined()
    parts = []
    room = (_W - _LEFT - 12) / len(lines)
    for i, line in enumerate(lines):
        x = round(_LEFT + i * room, 1)
        parts.append(el("path", d=f"M{x} 38H{x + 24}", class_=f"line k{i % KINDS}"))
        parts.append(_mark(i % KINDS, x + 12, 38) if line.marks else joined())
        parts.append(el("text", el("title", line.name), _cut(line.name, room - 34), x=x + 30, y=42))
    return el("g", *parts)


def _axes(panel: Panel) -> Html:
    right, bottom = _W - _RIGHT, _H - _BOTTOM
    parts = []
    for tick in _inside(panel.left):
        y = _y(panel.left, tick)
        parts.append(el("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="grid"))
        parts.append(el("text", _number(tick), x=_LEFT - 7, y=y + 4, class_="tick end"))
    last = -math.inf
    for tick in _inside(panel.x):
        x = _x(panel.x, tick)
        parts.append(el("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="axis"))
        told = _number(tick)
        if x - len(told) * _CHAR / 2 > last:  # ticks may lie closer than their numbers are wide
            parts.append(el("text", told, x=x, y=bottom + 17, class_="tick middle"))
            last = x + len(told) * _CHAR / 2 + 3
    parts.append(el("path", d=f"M{_LEFT} {_TOP}V{bottom}H{right}", class_="axis", fill="none"))
    parts.append(el("text", panel.x.name, x=(_LEFT + right) / 2, y=_H - 12, class_="name middle"))
    parts.append(_side(panel.left.name, 15))
    if panel.right is not None and any(line.right for line in panel.lines):
        parts.append(el("line", x1=right, x2=right, y1=_TOP, y2=bottom, class_="axis"))
        places = [(tick, _y(panel.right, tick) + 4) for tick in _inside(panel.right)]
        parts += [el("text", _number(tick), x=right + 7, y=y, class_="tick") for tick, y in places]
        parts.append(_side(panel.right.name, _W - 8))
    return el("g", *parts)


def _inside(axis: Axis) -> list[float]:
    return [tick for tick in axis.ticks if -1e-9 <= axis.share(tick) <= 1 + 1e-9]


def _side(name: str, x: float) -> Html:
    """The name of a y axis, written upwards."""
    spot = f"translate({x} {(_TOP + _H - _BOTTOM) / 2}) rotate(-90)"
    return el("text", _cut(name, _H - _TOP - 12), transform=spot, class_="name middle")


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 and value == round(value) else f"{value:.3g}"


def _bar(panel: Panel, bar: Bar) -> Html:
    x, y = _x(panel.x, bar.start), _y(panel.left, bar.height)
    wide, high = round(_x(panel.x, bar.end) - x, 1), round(_H - _BOTTOM - y, 1)
    return el("rect", el("title", bar.told), x=x, y=y, width=wide, height=high, class_="column")


def _line(panel: Panel, line: Line, kind: int) -> Html:
    axis = panel.right if line.right and panel.right is not None else panel.left
    aside = 3 if line.right else 0  # so that the error bars of two lines do not cover each other
    path, pen = [], "M"
    for point in line.points:
        if point.y is None:
            pen = "M"
            continue
        path.append(f"{pen}{_x(panel.x, point.x) + aside} {_y(axis, point.y)}")
        pen = "L"
    parts = [el("path", d="".join(path), class_=f"line k{kind}")] if len(path) > 1 else []
    for point in line.points if line.marks else ():
        if point.y is None:
            continue
        x = _x(panel.x, point.x) + aside
        whisker = joined()
        if point.low is not None and point.high is not None:
            ends = {"y1": _y(axis, point.low), "y2": _y(axis, point.high)}
            whisker = el("line", x1=x, x2=x, **ends, class_=f"bar k{kind}")
        parts.append(el("g", el("title", point.told), whisker, _mark(kind, x, _y(axis, point.y))))
    return el("g", *parts)


def _mark(kind: int, x: float, y: float) -> Html:
    """Circle, square, diamond, triangle, and the first two again."""
    name = f"mark k{kind}"
    if kind % 4 == 0:
        return el("circle", cx=x, cy=y, r=4, class_=name)
    r = 4.5
    corners = {
        1: [(-r, -r), (r, -r), (r, r), (-r, r)],
        2: [(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)],
        3: [(0, -r - 1), (r + 1, r), (-r - 1, r)],
    }[kind % 4]
    points = "L".join(f"{round(x + dx, 1)} {round(y + dy, 1)}" for dx, dy in corners)
    return el("path", d=f"M{points}Z", class_=name)
