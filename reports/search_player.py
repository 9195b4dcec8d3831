"""What the page needs to play a search: the drawn graph, and its moves; templates/player.js plays
them.

    searches = Searches(size)
    searches.played(run, record, rows)          what plays the search, or None where nothing can be played
    searches.graphs                             packed (reports/compressed_json.py), one an index

    graph     {"width", "height", "bands": [["chunks", y], ...], "spots": [[x, y, width, height], ...],
               "nodes": [[level, text, [label lines]], ...],
               "edges": [[higher, lower, weight, shade, pixels], ...], "least", "left_out"}
    replay    {"graph": place in graphs, "marked": [supporting nodes]}
              a step (details.py) also gets "parent" (a step), "edge", "evidence", "later", "answer"

A graph has a row a level, the lowest at the bottom, in document order: boxes with three lines of
text, or dots where there are many, staggered where they would touch. Lengths are in pixels. Graphs
take at most `size` bytes.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.types import Example
from reports.compressed_json import compress_json, cut_text, without_empty
from reports.evidence import evidence, overlapping_spans
from reports.gold_rows import Rows
from reports.search_graph import Edge, Graph, GraphResult, KnownGraphs, index_lines, read_graph
from reports.search_steps import SearchStep, search_steps

_LONGEST_TEXT = 300
"""Characters of a node's text."""
_LABEL_MARGIN = 14
"""Pixels of a box that its text leaves free."""
_GRAPHS_KEPT = 64
"""Graphs in memory; questions on one document follow each other."""
LEAST = 0.05
"""Edges up to this weight are left out, as in figures A1 (arXiv 2410.04790v2) and 5 (v1)."""
_SHADES = 6
_DOT_RADIUS = 4
_BOX_HEIGHT = 56
_MARGIN = 16
_LEFT = 72
_TOP = 56
_NARROWEST = 720.0
_FULL = 1500
"""The width that rows are kept within while they can be."""
_BOX_LEAST = 90
_BOX_CELL = 190
_BOX_MOST = 178
_BOX_GAP = 12
_DOT_CELL = 22
_MOST_LINES = 8
"""Lines on which the dots of a row are staggered."""
_ROW_GAP = 96
_LETTER_WIDTH = 6.2
"""Pixels of a label's letter."""
_LABEL_LINES = 3


@dataclass(frozen=True)
class Played:
    """What plays the search of a record.

    Args:
        graph: The place of its graph in `Searches.graphs`.
        marked: The nodes that overlap a supporting passage.
        steps: Of each step of the record, what only the player shows.
    """

    graph: int
    marked: Sequence[int]
    steps: Sequence[Mapping[str, object]]

    def as_json(self) -> dict[str, object]:
        """The part "replay" of an answer of the page (see the module)."""
        return {"graph": self.graph, "marked": list(self.marked)}


class Searches:
    """The graphs of a data set's searches, drawn and packed, at most `size` bytes of them."""

    def __init__(self, size: int) -> None:
        """Begin without a graph; size: bytes that all may have."""
        self.graphs: list[str] = []
        self._size = size
        self._full = False
        self._places: dict[str, int] = {}  # key of an index -> place of its graph in `graphs`
        self._read: KnownGraphs = {}
        self._with_graphs: set[Path] = set()  # the runs that search over graphs
        self._problems: list[str] = []
        self._left = 0

    def played(self, run: StoredRun, record: StoredRecord, rows: Rows) -> Played | None:
        """What plays the search of a record; None where it went over no graph, or there is no room.

        Its graph is added to `graphs`, unless it is there already.

        Args:
            run: The run.
            record: The record.
            rows: The rows of its data set.
        """
        if not any(step["node"] is not None for step in record.steps):
            return None
        if self._full and not self._is_drawn(run, record):
            self._left += run.path in self._with_graphs
            return None
        found = self._graph_of(run, record)
        if found.graph is None:
            return None
        self._with_graphs.add(run.path)
        place = self._place_of(found.key, found.graph)
        if place is None:
            return None
        example = rows.examples.get(record.question_id)
        steps = search_steps(record.steps, found.graph)
        return Played(
            graph=place,
            marked=sorted(overlapping_spans(found.graph.span, run, record, rows)),
            steps=[_played_step(step, example) for step in steps],
        )

    def _is_drawn(self, run: StoredRun, record: StoredRecord) -> bool:
        """Whether the graph of an index of the record is packed already."""
        return any(str(line.key) in self._places for line in index_lines(run, record))

    def _graph_of(self, run: StoredRun, record: StoredRecord) -> GraphResult:
        """The graph of a record; a problem is remembered."""
        if len(self._read) > _GRAPHS_KEPT:
            self._read.clear()
        found = read_graph(run, record, self._read)
        if found.problem:
            self._problems.append(found.problem)
        return found

    def _place_of(self, key: str, graph: Graph) -> int | None:
        """The place of a graph in `graphs`, where it is added; None where there is no room."""
        if key in self._places:
            return self._places[key]
        text = compress_json(draw_graph(graph))
        self._full = len(text) > self._size
        if self._full:
            self._left += 1
            return None
        self._size -= len(text)
        self._places[key] = len(self.graphs)
        self.graphs.append(text)
        return self._places[key]

    def notes(self) -> list[str]:
        """Sentences on searches that cannot be played, and why."""
        notes = []
        if self._problems:
            searches = _counted_searches(len(self._problems))
            notes.append(f"{searches} cannot be drawn. {self._problems[0]}")
        if self._left:
            notes.append(
                f"{_counted_searches(self._left)} cannot be played here, so that the page stays "
                "small (harness trace RUN QUESTION_ID --graph FILE.html plays one)."
            )
        return notes


def _counted_searches(count: int) -> str:
    """ "1 search", "3 searches" """
    if count == 1:
        return "1 search"
    return f"{count} searches"


def _played_step(step: SearchStep, example: Example | None) -> dict[str, object]:
    """What only the player shows of a step: the step and edge that led to it, whether it showed
    evidence, whether it came after the stop, and the answer that was recorded there."""
    edge = None
    if step.edge is not None:
        edge = round(step.edge, 4)
    return without_empty(
        parent=step.parent,
        edge=edge,
        evidence=evidence(step.shown, example),
        later=step.is_later,
        answer=cut_text(step.answer or "", _LONGEST_TEXT),
    )


@dataclass(frozen=True)
class _Spot:
    """Where a node is drawn, in pixels.

    Args:
        x: Its middle, from the left.
        y: Its middle, from the top.
        width: 0 for a dot.
        height: Of the box or dot.
    """

    x: float
    y: float
    width: float
    height: float

    def json(self) -> list[float]:
        """[x, y, width, height]"""
        return [self.x, self.y, self.width, self.height]


@dataclass(frozen=True)
class _Band:
    """The name of a row of the graph, and where it stands, in pixels."""

    name: str
    y: float

    def json(self) -> list[str | float]:
        """[name, y]"""
        return [self.name, self.y]


@dataclass(frozen=True)
class _Layout:
    """A drawn graph: a spot a node, a band a row, and its size in pixels."""

    spots: Sequence[_Spot]
    bands: Sequence[_Band]
    width: float
    height: float


def draw_graph(graph: Graph) -> dict[str, object]:
    """The JSON of a drawn graph (see the module): edges up to the weight LEAST are left out, the
    heaviest come last."""
    layout = _layout(graph)
    edges = [edge for edge in graph.edges if edge[2] > LEAST]
    edges.sort(key=lambda edge: (edge[2], edge[0], edge[1]))
    nodes = []
    for level, text, spot in zip(graph.level, graph.text, layout.spots, strict=True):
        nodes.append(_node_json(level, text, spot))
    return {
        "width": layout.width,
        "height": layout.height,
        "bands": [band.json() for band in layout.bands],
        "spots": [spot.json() for spot in layout.spots],
        "nodes": nodes,
        "edges": [_edge_json(edge, heaviest=edges[-1][2]) for edge in edges],
        "least": LEAST,
        "left_out": len(graph.edges) - len(edges),
    }


def _node_json(level: int, text: str, spot: _Spot) -> list[int | str | list[str]]:
    """[level, text, lines of the label]; a dot has no label.

    Args:
        level: The level of the node.
        text: Its text.
        spot: Where it is drawn.
    """
    line = " ".join(text.split())
    label: list[str] = []
    if spot.width:
        label = label_lines(line, spot.width - _LABEL_MARGIN)
    return [level, cut_text(line, _LONGEST_TEXT), label]


def _edge_json(edge: Edge, heaviest: float) -> list[float]:
    """An edge with its shade (0 to 5) and thickness in pixels: both grow with the weight, from
    LEAST to the heaviest."""
    higher, lower, weight = edge
    part = (weight - LEAST) / (heaviest - LEAST)
    shade = min(_SHADES - 1, int(part * _SHADES))
    return [higher, lower, round(weight, 4), shade, round(0.6 + 4.4 * part, 1)]


def _layout(graph: Graph) -> _Layout:
    """Where everything stands: a row a level, boxes where they fit, else dots."""
    rows = graph.rows()
    width = max([_NARROWEST, *(_row_width(len(nodes)) for nodes in rows.values())])
    spots: dict[int, _Spot] = {}
    bands = []
    y: float = _TOP
    for level, nodes in rows.items():
        row = _Row(len(nodes), width)
        for place, node in enumerate(nodes):
            spots[node] = row.spot(place, y)
        bands.append(_Band(graph.level_name(level), round(y + row.height / 2, 1)))
        y += row.height + _ROW_GAP
    if rows:
        y -= _ROW_GAP
    return _Layout(
        spots=[spots[node] for node in range(len(graph.text))],
        bands=bands,
        width=round(_LEFT + width + _MARGIN, 1),
        height=round(y + _MARGIN, 1),
    )


def _is_boxed(count: int) -> bool:
    """Whether the nodes of a row are boxes."""
    return count * _BOX_LEAST <= _FULL


def _row_width(count: int) -> float:
    """Pixels that a row wants; dots that would need more than _MOST_LINES lines make it wider."""
    if _is_boxed(count):
        return min(_FULL, count * _BOX_CELL)
    return max(min(_FULL, count * _DOT_CELL), count * _DOT_CELL / _MOST_LINES)


class _Row:
    """A row of `count` nodes in a graph of a width in pixels."""

    def __init__(self, count: int, width: float) -> None:
        """Choose boxes or dots, and the lines that dots need.

        Args:
            count: Nodes of the row.
            width: Pixels of the graph.
        """
        self._boxed = _is_boxed(count)
        self._cell = width / count
        self._lines = 1
        if not self._boxed:
            self._lines = max(1, math.ceil(_DOT_CELL / self._cell))

    @property
    def height(self) -> float:
        """Pixels."""
        if self._boxed:
            return _BOX_HEIGHT
        return _DOT_CELL * self._lines

    def spot(self, place: int, top: float) -> _Spot:
        """Where a node of the row is drawn.

        Args:
            place: Its place in the row, from 0 at the left.
            top: The upper end of the row, in pixels.
        """
        x = _LEFT + (place + 0.5) * self._cell
        stagger = (place % self._lines - (self._lines - 1) / 2) * _DOT_CELL
        y = top + self.height / 2 + stagger
        if self._boxed:
            width = round(min(_BOX_MOST, self._cell - _BOX_GAP), 1)
            return _Spot(round(x, 1), round(y, 1), width, _BOX_HEIGHT)
        return _Spot(round(x, 1), round(y, 1), 0, 2 * _DOT_RADIUS)


def label_lines(text: str, pixels: float) -> list[str]:
    """`text` on at most three lines that fit into `pixels`, broken at spaces if it has any; "…"
    ends a cut one."""
    room = max(3, int(pixels / _LETTER_WIDTH))
    left = " ".join(text.split())
    lines: list[str] = []
    while left:
        fits = _fits(left, room)
        if fits >= len(left):
            return [*lines, left]
        if len(lines) == _LABEL_LINES - 1:
            return [*lines, left[: _fits(left, room - 1)].rstrip() + "…"]
        cut = left.rfind(" ", 1, fits + 1)
        if cut <= 0:
            cut = fits
        lines.append(left[:cut].rstrip())
        left = left[cut:].lstrip()
    return lines


def _fits(text: str, room: int) -> int:
    """How many characters of `text` fit into `room` narrow ones; wide ones (Chinese, Japanese) take
    two."""
    used = 0
    for place, character in enumerate(text):
        used += 1
        if unicodedata.east_asian_width(character) in "WF":
            used += 1
        if used > room:
            return max(1, place)
    return len(text)
