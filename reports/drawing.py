"""The graph of a search as one SVG file (as figures A1 of arXiv 2410.04790v2 and 5 of v1, and with the search).

    svg(graph, moves, marked)  ->  '<?xml version="1.0" ...><svg ...>...'

rows          levels, the chunks at the bottom in document order
edges         weight above `least` only, the heavier the thicker and redder; those the search went along in blue
a number      the step that visited the node (as `harness trace` counts them); dashed: behind the stop of the search
a diamond     a chunk that overlaps a supporting part

Equal arguments give equal bytes. There is no script and nothing is loaded; texts of nodes are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from reports.graph_layout import DOT, LEAST, LINE, RADIUS, Layout, Spot, layout, lines_of, path, shade, short
from reports.markup import Html, el
from reports.search_graph import Graph
from reports.search_moves import Move

_TOLD = 600  # characters of a node's text that a pointer over it reads
_STYLE = """
svg { background: #fff; }
text { font: 11px system-ui, sans-serif; fill: #1d2430; }
.soft { fill: #5b6675; } .middle { text-anchor: middle; } .end { text-anchor: end; } .name { font-weight: 600; }
.edge { fill: none; }
.w0 { stroke: #d3d8df; } .w1 { stroke: #dcbfb5; } .w2 { stroke: #de9f8b; }
.w3 { stroke: #d97c62; } .w4 { stroke: #c95438; } .w5 { stroke: #a82a17; }
.taken { fill: none; stroke: #1f5fae; stroke-width: 2; }
.body { fill: #f4f6f9; stroke: #9aa4b1; } .visited .body { fill: #e3edf9; stroke: #1f5fae; stroke-width: 1.8; }
.later .body { fill: #fff; stroke: #1f5fae; stroke-dasharray: 3 2; }
.supporting .body { stroke: #2a7d4f; stroke-width: 2.4; } .mark { fill: #2a7d4f; }
.disc { fill: #1f5fae; } .later .disc { fill: #fff; stroke: #1f5fae; }
.number { fill: #fff; font-size: 10px; font-weight: 600; text-anchor: middle; } .later .number { fill: #1f5fae; }
"""


@dataclass(frozen=True)
class _Node:
    """What a node is to the search: the step that visited it, and whether it is evidence."""

    number: int
    visit: Move | None
    marked: bool


def svg(graph: Graph, moves: Sequence[Move], marked: Set[int] = frozenset(), least: float = LEAST) -> str:
    """The drawing. marked: numbers of the supporting nodes; least: edges up to this weight are left out."""
    drawn = layout(graph, least)
    visits: dict[int, Move] = {}
    for move in moves:
        if move.step["node"] is not None:
            visits.setdefault(move.step["node"], move)
    nodes = [_Node(i, visits.get(i), i in marked) for i in range(len(graph.text))]
    told = f"{len(nodes)} nodes, {len(visits)} visited, {len(marked)} supporting"
    body = el(
        "svg",
        el("title", f"Graph of a search: {told}"),
        el("style", _STYLE),
        el("g", *_legend(drawn, told)),
        el("g", *(el("text", graph.row_name(n), x=10, y=short(y + 4), class_="soft") for n, y in drawn.bands)),
        el("g", *_edges(drawn)),
        el("g", *_taken(drawn, moves)),
        el("g", *(_node(graph, drawn.spots[node.number], node) for node in nodes)),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {short(drawn.width)} {short(drawn.height)}",
        width=short(drawn.width),
        height=short(drawn.height),
        role="img",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _edges(drawn: Layout) -> list[Html]:
    out = []
    for higher, lower, weight in drawn.edges:
        step, thick = shade(weight, drawn)
        line = path(drawn.spots[higher], drawn.spots[lower])
        told = el("title", f"#{higher} to #{lower}: weight {weight:.3f}")
        out.append(el("path", told, d=line, class_=f"edge w{step}", stroke_width=short(thick)))
    return out


def _taken(drawn: Layout, moves: Sequence[Move]) -> list[Html]:
    """The edges that the search went along, among those drawn."""
    by_number = {move.number: move for move in moves}
    shown = {(higher, lower) for higher, lower, _ in drawn.edges}
    out = []
    for move in moves:
        if move.parent is None:
            continue
        ends = by_number[move.parent].step["node"], move.step["node"]
        if ends in shown:
            out.append(el("path", d=path(drawn.spots[ends[0]], drawn.spots[ends[1]]), class_="taken"))
    return out


def _legend(drawn: Layout, told: str) -> list[Html]:
    """What the marks mean, in two lines above the drawing."""
    parts = [el("text", told, x=10, y=18, class_="name")]
    if drawn.edges:
        middle = (drawn.least + drawn.heaviest) / 2
        for i, weight in enumerate((drawn.least, middle, drawn.heaviest)):
            step, thick = shade(weight, drawn)
            x = 320 + 78 * i
            parts.append(el("path", d=f"M{x} 14H{x + 26}", class_=f"edge w{step}", stroke_width=short(thick)))
            parts.append(el("text", f"{weight:.2f}", x=x + 32, y=18, class_="soft"))
    words = "blue: visited, by step; dashed: behind the stop; diamond: supporting"
    if drawn.left_out:
        edges = "1 edge" if drawn.left_out == 1 else f"{drawn.left_out} edges"
        words += f"; {edges} of a weight up to {drawn.least:g} left out"
    parts.append(el("text", words, x=10, y=38, class_="soft"))
    return parts


def _node(graph: Graph, spot: Spot, node: _Node) -> Html:
    move = node.visit
    states = ["node", "supporting" if node.marked else "", "" if move is None else "later" if move.later else "visited"]
    text = " ".join(graph.text[node.number].split())
    visit = "" if move is None else f", step {move.number}"
    told = f"#{node.number} · level {graph.level[node.number]}{visit}{', supporting' if node.marked else ''}\n"
    body = _box(spot, node, text) if spot.width else _dot(spot, node)
    title = el("title", told + (text if len(text) <= _TOLD else text[:_TOLD] + "…"))
    return el("g", title, *body, class_=" ".join(s for s in states if s))


def _box(spot: Spot, node: _Node, text: str) -> list[Html]:
    left, top = spot.x - spot.width / 2, spot.y - spot.height / 2
    size = {"x": short(left), "y": short(top), "width": short(spot.width), "height": short(spot.height)}
    parts = [el("rect", **size, rx=5, class_="body")]
    for i, line in enumerate(lines_of(text, spot.width - 14)):
        parts.append(el("text", line, x=short(left + 7), y=short(top + 16 + LINE * i)))
    if node.marked:
        parts.append(_diamond(left + spot.width - 2, top, 6, "mark"))
    if node.visit is not None:
        parts += _number(left + 2, top, node.visit.number)
    return parts


def _dot(spot: Spot, node: _Node) -> list[Html]:
    if node.visit is None:
        if node.marked:
            return [_diamond(spot.x, spot.y, 7, "mark")]
        return [el("circle", cx=short(spot.x), cy=short(spot.y), r=DOT, class_="body")]
    parts = [_diamond(spot.x, spot.y, RADIUS + 7, "mark")] if node.marked else []
    return parts + _number(spot.x, spot.y, node.visit.number)


def _number(x: float, y: float, number: int) -> list[Html]:
    disc = el("circle", cx=short(x), cy=short(y), r=RADIUS, class_="disc")
    return [disc, el("text", number, x=short(x), y=short(y + 3.5), class_="number")]


def _diamond(x: float, y: float, size: float, kind: str) -> Html:
    return el(
        "path",
        d=f"M{short(x)} {short(y - size)}L{short(x + size)} {short(y)}L{short(x)} {short(y + size)}"
        f"L{short(x - size)} {short(y)}Z",
        class_=kind,
    )
