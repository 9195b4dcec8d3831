"""Where the nodes of a graph stand in a drawing: a row a level, the lowest at the bottom, in document order.

    layout(graph)   Layout(width, height, bands, spots, edges, left_out)

A row of few nodes is made of boxes with three lines of text, one of many nodes of dots, which are staggered over
several lines where they would touch; x always grows with the place in the row. Lengths are in pixels.
"""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass

from reports.search_graph import Graph

LEAST = 0.05  # edges up to this weight are left out, as in figures A1 (arXiv 2410.04790v2) and 5 (v1)
_SHADES = 6
_DOT, _BOX_HIGH = 4, 56  # radius of a dot, height of a box
_MARGIN, _LEFT, _TOP = 16, 72, 56
_FULL = 1500  # the width that rows are kept within while they can be
_BOX_LEAST, _BOX_CELL, _BOX_MOST = 90, 190, 178
_DOT_CELL, _STAGGERS = 22, 8
_GAP = 96
_CHAR = 6.2  # pixels of the labels' letters


@dataclass(frozen=True)
class Spot:
    """A node: the middle (x, y), and the size of its box; a dot has no width."""

    x: float
    y: float
    width: float = 0
    height: float = 2 * _DOT


@dataclass(frozen=True)
class Layout:
    """A drawing's places: bands are (level, y of the row's middle); edges are those drawn, the lightest first."""

    width: float
    height: float
    bands: tuple[tuple[int, float], ...]
    spots: tuple[Spot, ...]
    edges: tuple[tuple[int, int, float], ...]
    left_out: int


def layout(graph: Graph) -> Layout:
    """Place the nodes, and choose the edges of a weight above LEAST."""
    rows = graph.rows()
    boxed = {level: len(nodes) * _BOX_LEAST <= _FULL for level, nodes in rows.items()}
    width = max([720.0, *(_wide(len(nodes), boxed[level]) for level, nodes in rows.items())])
    spots: dict[int, Spot] = {}
    bands: list[tuple[int, float]] = []
    y: float = _TOP
    for level, nodes in rows.items():
        cell = width / len(nodes)
        lines = 1 if boxed[level] else max(1, math.ceil(_DOT_CELL / cell))
        high = _BOX_HIGH if boxed[level] else _DOT_CELL * lines
        box = round(min(_BOX_MOST, cell - 12), 1) if boxed[level] else 0
        for i, node in enumerate(nodes):
            x = _LEFT + (i + 0.5) * cell
            middle = y + high / 2 + (i % lines - (lines - 1) / 2) * _DOT_CELL
            spots[node] = Spot(round(x, 1), round(middle, 1), box, _BOX_HIGH if boxed[level] else 2 * _DOT)
        bands.append((level, round(y + high / 2, 1)))
        y += high + _GAP
    edges = sorted((e for e in graph.edges if e[2] > LEAST), key=lambda e: (e[2], e[0], e[1]))
    return Layout(
        width=round(_LEFT + width + _MARGIN, 1),
        height=round((y - _GAP if rows else y) + _MARGIN, 1),
        bands=tuple(bands),
        spots=tuple(spots[i] for i in range(len(graph.text))),
        edges=tuple(edges),
        left_out=len(graph.edges) - len(edges),
    )


def _wide(nodes: int, boxed: bool) -> float:
    """The width a row asks for; dots beyond `_STAGGERS` lines make it wider than the rest."""
    if boxed:
        return min(_FULL, nodes * _BOX_CELL)
    return max(min(_FULL, nodes * _DOT_CELL), nodes * _DOT_CELL / _STAGGERS)


def shade(weight: float, drawn: Layout) -> tuple[int, float]:
    """(shade 0 to 5, thickness in pixels) of a drawn edge: both grow with the weight, from LEAST to the heaviest."""
    _, _, heaviest = drawn.edges[-1]
    part = (weight - LEAST) / (heaviest - LEAST)
    return min(_SHADES - 1, int(part * _SHADES)), round(0.6 + 4.4 * part, 1)


def lines_of(text: str, pixels: float, most: int = 3) -> list[str]:
    """`text` on at most `most` lines that fit into `pixels`, broken at spaces where there are any.

    The last line ends in "…" where something is missing.
    """
    room = max(3, int(pixels / _CHAR))
    rest = " ".join(text.split())
    lines: list[str] = []
    while rest and len(lines) < most:
        fits = _fits(rest, room)
        if fits >= len(rest):
            lines.append(rest)
            break
        if len(lines) == most - 1:
            lines.append(rest[: _fits(rest, room - 1)].rstrip() + "…")
            break
        cut = rest.rfind(" ", 1, fits + 1)
        cut = fits if cut <= 0 else cut
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines


def _fits(text: str, room: int) -> int:
    """How many characters of `text` fit into `room` narrow ones; wide ones (Chinese, Japanese) take two."""
    used = 0
    for i, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > room:
            return max(1, i)
    return len(text)
