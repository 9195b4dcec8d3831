"""A scatter of score against cost as inline SVG: logarithmic x, error bars on both axes, labels that do not overlap.

chart(points(means, runs), "longbench.qa_f1_score")   ->  <svg ...>

filled dot    no method beats it at no higher cost        hollow dot   dominated
diamond       a ceiling (was shown the evidence)          step line    the front
dashed dot    asked other questions than most: apart
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reports.markup import Html, el, joined

_W, _H = 940, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 20, 52
_CHAR, _LINE = 7.4, 15  # pixels of a 12 px character and line


@dataclass
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: _Box) -> float:
        """Common area in pixels."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide * high if wide > 0 and high > 0 else 0.0


@dataclass
class _Scale:
    """Values to pixels: x logarithmic between two powers, y linear."""

    low: float
    high: float
    bottom: float
    top: float
    ticks: list[float] = field(default_factory=list)

    def x(self, value: float) -> float:
        span = math.log10(self.high / self.low)
        return _LEFT + (_W - _LEFT - _RIGHT) * math.log10(max(value, self.low) / self.low) / span

    def y(self, value: float) -> float:
        return _H - _BOTTOM - (_H - _TOP - _BOTTOM) * (value - self.bottom) / (self.top - self.bottom)


def chart(points: Sequence[dict[str, Any]], score: str) -> Html:
    """The chart of one data set's points (reports.front.points), or a sentence where there is none."""
    if not points:
        return el("p", "No run of this data set has both a score and a cost.", class_="none")
    scale = _scale(points)
    title = f"{score} (times 100) against TFLOPs a question, search and answer"
    cost = f"TFLOPs a question, search + answer ({points[0]['convention']}, log)"
    marks = [_mark(p, scale) for p in points]
    return el(
        "svg",
        el("title", title),
        _axes(scale, score, cost),
        _front_line(points, scale),
        *marks,
        *_labels(points, scale),
        viewBox=f"0 0 {_W} {_H}",
        role="img",
        class_="front",
    )


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between low and high: 1, 2 and 5 times powers of ten, or powers alone over a wide range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if math.log10(high / low) > 3 else (1, 2, 5)
    return [s * 10.0**p for p in powers for s in steps if low <= s * 10.0**p <= high * (1 + 1e-9)]


def place_labels(
    anchors: Sequence[tuple[float, float]], labels: Sequence[str], obstacles: Sequence[_Box] = ()
) -> list[_Box]:
    """A box for each label near its anchor (pixels), the first free place of a ring that widens; else the freest."""
    placed: list[_Box] = []
    dots = [_Box(x - 6, y - 6, x + 6, y + 6) for x, y in anchors]
    for (x, y), label in zip(anchors, labels, strict=True):
        options = [_fit(box) for box in _around(x, y, len(label) * _CHAR)]
        taken = [*placed, *dots, *obstacles]
        cost = [sum(box.overlap(other) for other in taken) for box in options]
        placed.append(options[cost.index(min(cost))])
    return placed


def _around(x: float, y: float, width: float) -> list[_Box]:
    return [
        _Box(left, middle - _LINE / 2, left + width, middle + _LINE / 2)
        for ring in range(8)
        for middle in dict.fromkeys((y - 11 - ring * _LINE, y + 11 + ring * _LINE))
        for left in (x + 10, x - 10 - width, x - width / 2)
    ]


def _fit(box: _Box) -> _Box:
    """Moved into the drawing."""
    right = max(0.0, box.right - (_W - 4)) - max(0.0, _LEFT + 4 - box.left)
    down = max(0.0, 4 - box.top) - max(0.0, box.bottom - (_H - _BOTTOM - 2))
    return _Box(box.left - right, box.top + down, box.right - right, box.bottom + down)


def _scale(points: Sequence[dict[str, Any]]) -> _Scale:
    xs = [v for p in points for v in _ends(p, "tflops") if v > 0]
    ys = [v for p in points for v in _ends(p, "score")]
    low, high = min(xs) / 1.5, max(xs) * 1.5
    if high / low < 10:  # a decade at least, so that a tick is in sight
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(10), middle * math.sqrt(10)
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if (max(ys) - min(ys)) / s <= 8 or s == 0.2)
    bottom, top = math.floor(min(ys) / step) * step, math.ceil(max(ys) / step + 0.25) * step
    ticks = [bottom + i * step for i in range(round((top - bottom) / step) + 1)]
    return _Scale(low, high, bottom, top, ticks)


def _ends(point: dict[str, Any], name: str) -> list[float]:
    """The value and its interval's ends, as far as they are known."""
    found = [point[f"{name}{end}"] for end in ("", ".low", ".high")]
    return [float(v) for v in found if v is not None and not math.isnan(v)]


def _axes(scale: _Scale, score: str, cost: str) -> Html:
    parts = []
    for tick in scale.ticks:
        y = round(scale.y(tick), 1)
        parts.append(el("line", x1=_LEFT, x2=_W - _RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(el("text", f"{100 * tick:.0f}", x=_LEFT - 8, y=y + 4, class_="tick end"))
    for tick in log_ticks(scale.low, scale.high):
        x = round(scale.x(tick), 1)
        parts.append(el("line", x1=x, x2=x, y1=_TOP, y2=_H - _BOTTOM, class_="grid"))
        parts.append(el("text", f"{tick:g}", x=x, y=_H - _BOTTOM + 18, class_="tick middle"))
    parts.append(el("line", x1=_LEFT, x2=_W - _RIGHT, y1=_H - _BOTTOM, y2=_H - _BOTTOM, class_="axis"))
    parts.append(el("line", x1=_LEFT, x2=_LEFT, y1=_TOP, y2=_H - _BOTTOM, class_="axis"))
    middle = (_LEFT + _W - _RIGHT) / 2
    parts.append(el("text", cost, x=middle, y=_H - 10, class_="name middle"))
    spot = f"translate(16 {(_TOP + _H - _BOTTOM) / 2}) rotate(-90)"
    parts.append(el("text", f"{score} × 100", transform=spot, class_="name middle"))
    return el("g", *parts)


def _front_line(points: Sequence[dict[str, Any]], scale: _Scale) -> Html:
    """The best score that each cost buys, as steps."""
    best = sorted((p["tflops"], p["score"]) for p in points if _kind(p) == "undominated")
    if not best:
        return joined()
    path = f"M{scale.x(best[0][0]):.1f} {scale.y(best[0][1]):.1f}"
    path += "".join(f"H{scale.x(x):.1f}V{scale.y(y):.1f}" for x, y in best[1:])
    return el("path", d=f"{path}H{_W - _RIGHT}", class_="best")


def _mark(point: dict[str, Any], scale: _Scale) -> Html:
    x, y = round(scale.x(point["tflops"]), 1), round(scale.y(point["score"]), 1)
    kind = _kind(point)
    parts = []
    xs, ys = _ends(point, "tflops")[1:], _ends(point, "score")[1:]
    if len(xs) == 2:
        parts.append(el("line", x1=round(scale.x(xs[0]), 1), x2=round(scale.x(xs[1]), 1), y1=y, y2=y, class_="bar"))
    if len(ys) == 2:
        parts.append(el("line", x1=x, x2=x, y1=round(scale.y(ys[0]), 1), y2=round(scale.y(ys[1]), 1), class_="bar"))
    if point["ceiling"]:
        parts.append(el("path", d=f"M{x} {y - 7}L{x + 7} {y}L{x} {y + 7}L{x - 7} {y}Z", class_="dot"))
    else:
        parts.append(el("circle", cx=x, cy=y, r=5, class_="dot"))
    return el("g", el("title", _told(point)), *parts, class_=kind)


def _bars(point: dict[str, Any], scale: _Scale) -> list[_Box]:
    """The error bars of a point as obstacles: a label across one is hard to read."""
    x, y = scale.x(point["tflops"]), scale.y(point["score"])
    xs = [scale.x(v) for v in _ends(point, "tflops")]
    ys = [scale.y(v) for v in _ends(point, "score")]
    return [_Box(min(xs), y - 1, max(xs), y + 1), _Box(x - 1, min(ys), x + 1, max(ys))]


def _kind(point: dict[str, Any]) -> str:
    if point["ceiling"] or point["apart"]:
        return "ceiling" if point["ceiling"] else "apart"
    return "dominated" if point["dominated_by"] else "undominated"


def _told(point: dict[str, Any]) -> str:
    """What a pointer over the mark reads."""
    told = f"{point['method']} ({point['model']}): {100 * point['score']:.1f} at {point['tflops']:.3g} TFLOPs"
    if point["ceiling"]:
        return f"{told}; a ceiling, it was shown the evidence"
    if point["apart"]:
        return f"{told}; apart, it was asked other questions than most runs"
    return told + (f"; dominated by {', '.join(point['dominated_by'])}" if point["dominated_by"] else "")


def _labels(points: Sequence[dict[str, Any]], scale: _Scale) -> list[Html]:
    models = {p["model"] for p in points}
    names = [p["method"] if len(models) == 1 else f"{p['method']} ({p['model']})" for p in points]
    names = [name if len(name) <= 40 else name[:39] + "…" for name in names]
    anchors = [(scale.x(p["tflops"]), scale.y(p["score"])) for p in points]
    bars = [bar for p in points for bar in _bars(p, scale)]
    out = []
    for (x, y), box, name, point in zip(anchors, place_labels(anchors, names, bars), names, points, strict=True):
        middle = (box.top + box.bottom) / 2
        near = min(max(x, box.left), box.right)
        if abs(middle - y) > 20:
            edge = box.bottom if middle < y else box.top
            out.append(
                el("line", x1=round(x, 1), y1=round(y, 1), x2=round(near, 1), y2=round(edge, 1), class_="leader")
            )
        place = {"x": round(box.left, 1), "y": round(middle + 4, 1)}
        out.append(el("text", name, class_=f"label {_kind(point)}", **place))
    return out
