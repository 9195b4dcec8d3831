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
class Replay:
    """What plays the search of a record.

    Args:
        graph: The place of its graph in `Searches.graphs`.
        marked: The nodes that overlap a supporting passage.
        steps: Of each step of the record, the values that only the player shows.
    """

    graph: int
    marked: Sequence[int]
    steps: Sequence[Mapping[str, object]]

    def as_json(self) -> dict[str, object]:
        """The part "replay" of an answer of the page: {"graph": 0, "marked": [3, 7]}."""
        return {"graph": self.graph, "marked": list(self.marked)}


class Searches:
    """The graphs of a data set's searches, drawn and packed, up to a number of bytes.

    Attributes:
        graphs: The packed graphs, one an index.
    """

    def __init__(self, size: int) -> None:
        """Start without a graph.

        Args:
            size: Bytes that all packed graphs together may take.
        """
        self.graphs: list[str] = []
        self._size = size
        self._full = False
        self._places: dict[str, int] = {}  # key of an index -> place of its graph in `graphs`
        self._read: KnownGraphs = {}
        self._with_graphs: set[Path] = set()  # the runs that search over graphs
        self._problems: list[str] = []
        self._n_unplayed = 0

    def replay_of(self, run: StoredRun, record: StoredRecord, rows: Rows) -> Replay | None:
        """What plays the search of a record; also adds its graph to `graphs` unless it is there
        already.

        None where the search went over no graph, its graph cannot be read, or it does not fit into
        the bytes that are left; `notes` tells how many of the last two kinds there are.

        Args:
            run: The run.
            record: The record.
            rows: The rows of its data set.
        """
        if not any(step["node"] is not None for step in record.steps):
            return None
        if self._full and not self._is_drawn(run, record):
            self._n_unplayed += run.path in self._with_graphs
            return None
        found = self._graph_of(run, record)
        if found.graph is None:
            return None
        self._with_graphs.add(run.path)
        place = self._add_graph(found.key, found.graph)
        if place is None:
            return None
        example = rows.examples.get(record.question_id)
        steps = search_steps(record.steps, found.graph)
        return Replay(
            graph=place,
            marked=sorted(overlapping_spans(found.graph.span, run, record, rows)),
            steps=[_replay_step(step, example) for step in steps],
        )

    def _is_drawn(self, run: StoredRun, record: StoredRecord) -> bool:
        """Whether the graph of an index of the record is packed already."""
        return any(str(line.key) in self._places for line in index_lines(run, record))

    def _graph_of(self, run: StoredRun, record: StoredRecord) -> GraphResult:
        """Read the graph of a record; also remembers a problem, which `notes` tells, and the graphs
        of recent records."""
        if len(self._read) > _GRAPHS_KEPT:
            self._read.clear()
        found = read_graph(run, record, self._read)
        if found.problem:
            self._problems.append(found.problem)
        return found

    def _add_graph(self, key: str, graph: Graph) -> int | None:
        """Add a graph to `graphs` unless it is there already, and return its place.

        Args:
            key: The key of its index.
            graph: The graph.

        Returns:
            The place; None where it does not fit into the bytes that are left.
        """
        if key in self._places:
            return self._places[key]
        text = compress_json(draw_graph(graph))
        self._full = len(text) > self._size
        if self._full:
            self._n_unplayed += 1
            return None
        self._size -= len(text)
        self._places[key] = len(self.graphs)
        self.graphs.append(text)
        return self._places[key]

    def notes(self) -> list[str]:
        """Sentences on how many searches cannot be drawn or played, and why; [] where all can."""
        notes = []
        if self._problems:
            searches = _counted_searches(len(self._problems))
            notes.append(f"{searches} cannot be drawn. {self._problems[0]}")
        if self._n_unplayed:
            notes.append(
                f"{_counted_searches(self._n_unplayed)} cannot be played here, so that the page "
                "stays small (harness trace RUN QUESTION_ID --graph FILE.html plays one)."
            )
        return notes


def _counted_searches(count: int) -> str:
    """A number of searches in words: "1 search", "3 searches"."""
    if count == 1:
        return "1 search"
    return f"{count} searches"


def _replay_step(step: SearchStep, example: Example | None) -> dict[str, object]:
    """What only the player shows of a step, without what is empty.

    -> {"parent": 1, "edge": 0.402, "evidence": "yes", "later": true, "answer": "Rome"}
    """
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
        width: The width of its box; 0 for a dot.
        height: The height of the box or dot.
    """

    x: float
    y: float
    width: float
    height: float

    def json(self) -> list[float]:
        """The spot as the list [x, y, width, height]."""
        return [self.x, self.y, self.width, self.height]


@dataclass(frozen=True)
class _Band:
    """The name of a row of the graph, and where it stands, in pixels."""

    name: str
    y: float

    def json(self) -> list[str | float]:
        """The row's name and height as the list [name, y]."""
        return [self.name, self.y]


@dataclass(frozen=True)
class _Layout:
    """A drawn graph: a spot a node, a band a row, and its size in pixels."""

    spots: Sequence[_Spot]
    bands: Sequence[_Band]
    width: float
    height: float


def draw_graph(graph: Graph) -> dict[str, object]:
    """The JSON of a drawn graph: size, rows, nodes with their places and labels, and edges.

        {"width", "height", "bands": [["chunks", y], ...], "spots": [[x, y, width, height], ...],
         "nodes": [[level, text, [label lines]], ...],
         "edges": [[higher, lower, weight, shade, pixels], ...], "least", "left_out"}

    Edges up to the weight 0.05 are left out ("left_out" counts them); the heaviest come last.
    """
    layout = _layout(graph)
    edges = [edge for edge in graph.edges if edge[2] > LEAST]
    edges.sort(key=_by_weight)
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


def _by_weight(edge: Edge) -> tuple[float, int, int]:
    """A sort key of an edge: its weight, then its higher and its lower node."""
    higher, lower, weight = edge
    return weight, higher, lower


def _node_json(level: int, text: str, spot: _Spot) -> list[int | str | list[str]]:
    """A node as the list [level, text, lines of the label]; a dot has no label.

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
    """An edge as the list [higher node, lower node, weight, shade 0 to 5, thickness in pixels].

    Shade and thickness grow with the weight, from 0.05 to that of the heaviest edge.
    """
    higher, lower, weight = edge
    part = (weight - LEAST) / (heaviest - LEAST)
    shade = min(_SHADES - 1, int(part * _SHADES))
    return [higher, lower, round(weight, 4), shade, round(0.6 + 4.4 * part, 1)]


def _layout(graph: Graph) -> _Layout:
    """Where everything of a graph is drawn: a row for each level, boxes where they fit, else
    dots."""
    rows = graph.rows()
    row_widths = [_row_width(len(nodes)) for nodes in rows.values()]
    width = max([_NARROWEST, *row_widths])
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
    """Whether the nodes of a row of so many are drawn as boxes; else they are dots."""
    return count * _BOX_LEAST <= _FULL


def _row_width(count: int) -> float:
    """The pixels that a row of so many nodes takes at best.

    Dots that would need more than eight lines make the row wider than the usual limit.
    """
    if _is_boxed(count):
        return min(_FULL, count * _BOX_CELL)
    return max(min(_FULL, count * _DOT_CELL), count * _DOT_CELL / _MOST_LINES)


class _Row:
    """A row of nodes in a drawn graph: boxes beside each other, or dots on one or more lines."""

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
        """The height of the row in pixels."""
        if self._boxed:
            return _BOX_HEIGHT
        return _DOT_CELL * self._lines

    def spot(self, place: int, top: float) -> _Spot:
        """Where a node of the row is drawn: in the middle of its cell, dots on several lines in
        turn.

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
    """A text on at most three lines that fit into `pixels`, for the label of a box.

    Lines are broken at spaces, inside a word only where there is none; "…" ends a text that is cut.
    """
    letters = max(3, int(pixels / _LETTER_WIDTH))
    rest = " ".join(text.split())
    lines: list[str] = []
    while rest:
        fits = _fitting_length(rest, letters)
        if fits >= len(rest):
            return [*lines, rest]
        is_last_line = len(lines) == _LABEL_LINES - 1
        if is_last_line:
            start = rest[: _fitting_length(rest, letters - 1)]
            return [*lines, start.rstrip() + "…"]
        cut = rest.rfind(" ", 1, fits + 1)
        if cut <= 0:
            cut = fits
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines


def _fitting_length(text: str, letters: int) -> int:
    """How many characters of a text fit where so many narrow letters do; wide ones (Chinese,
    Japanese) take the place of two."""
    used = 0
    for place, character in enumerate(text):
        used += 1
        if unicodedata.east_asian_width(character) in "WF":
            used += 1
        if used > letters:
            return max(1, place)
    return len(text)
