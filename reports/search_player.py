"""What the page needs to play a search: the drawn graph, and its moves; templates/player.js plays
them.

    drawings = GraphDrawings(max_bytes)
    drawings.replay_of(run, record, rows)     what plays the search; None where nothing can be played
    drawings.graphs                           packed (reports/compressed_json.py), one an index

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
from reports.evidence import evidence_of_piece, nodes_with_evidence
from reports.gold_rows import QuestionRows
from reports.search_graph import (
    Edge,
    Graph,
    GraphResult,
    GraphsByIndexKey,
    indexes_of_record,
    read_graph,
)
from reports.search_steps import SearchStep, search_steps

_MAX_TEXT_CHARACTERS = 300
"""Characters of a node's text."""
_LABEL_MARGIN = 14
"""Pixels of a box that its text leaves free."""
_MAX_GRAPHS_IN_MEMORY = 64
"""Graphs in memory; questions on one document follow each other."""
MIN_EDGE_WEIGHT = 0.05
"""Edges up to this weight are left out, as in figures A1 (arXiv 2410.04790v2) and 5 (v1)."""
_N_SHADES = 6
_DOT_RADIUS = 4
_BOX_HEIGHT = 56
_MARGIN = 16
_LEFT_MARGIN = 72
_TOP_MARGIN = 56
_MIN_WIDTH = 720.0
_USUAL_MAX_WIDTH = 1500
"""The width that rows are kept within while they can be."""
_MIN_BOX_CELL = 90
_USUAL_BOX_CELL = 190
_MAX_BOX_WIDTH = 178
_BOX_GAP = 12
_DOT_CELL = 22
_MAX_DOT_LINES = 8
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
        supporting_nodes: The nodes that overlap a supporting passage.
        steps: Of each step of the record, the values that only the player shows.
    """

    graph: int
    supporting_nodes: Sequence[int]
    steps: Sequence[Mapping[str, object]]

    def as_json(self) -> dict[str, object]:
        """The part "replay" of an answer of the page: {"graph": 0, "marked": [3, 7]}."""
        return {"graph": self.graph, "marked": list(self.supporting_nodes)}


class GraphDrawings:
    """The graphs of a data set's searches, drawn and packed, up to a number of bytes.

    Attributes:
        graphs: The packed graphs, one an index.
    """

    def __init__(self, max_bytes: int) -> None:
        """Start without a graph.

        Args:
            max_bytes: Bytes that all packed graphs together may take.
        """
        self.graphs: list[str] = []
        self._bytes_left = max_bytes
        self._is_full = False
        self._graph_numbers: dict[str, int] = {}  # key of an index -> its graph's place in `graphs`
        self._graphs_by_key: GraphsByIndexKey = {}
        self._runs_with_graphs: set[Path] = set()  # the runs that search over graphs
        self._problems: list[str] = []
        self._n_unplayed = 0

    def replay_of(self, run: StoredRun, record: StoredRecord, rows: QuestionRows) -> Replay | None:
        """What plays the search of a record; also adds its graph to `graphs` unless it is there
        already.

        None where the search went over no graph, its graph cannot be read, or it does not fit into
        the bytes that are left; `notes` tells how many of the last two kinds there are.

        Args:
            run: The run.
            record: The record.
            rows: The rows of its data set.
        """
        shows_a_node = any(step["node"] is not None for step in record.steps)
        if not shows_a_node:
            return None
        if self._is_full and not self._has_drawn_graph(run, record):
            if run.path in self._runs_with_graphs:
                self._n_unplayed += 1
            return None
        graph_result = self._read_graph(run, record)
        if graph_result.graph is None:
            return None
        self._runs_with_graphs.add(run.path)
        graph_number = self._add_graph(graph_result.key, graph_result.graph)
        if graph_number is None:
            return None
        example = rows.examples.get(record.question_id)
        steps = search_steps(record.steps, graph_result.graph)
        supporting_nodes = nodes_with_evidence(graph_result.graph.spans, run, record, rows)
        return Replay(
            graph=graph_number,
            supporting_nodes=sorted(supporting_nodes),
            steps=[_replay_step(step, example) for step in steps],
        )

    def _has_drawn_graph(self, run: StoredRun, record: StoredRecord) -> bool:
        """Whether the graph of an index of the record is packed already."""
        return any(str(line.key) in self._graph_numbers for line in indexes_of_record(run, record))

    def _read_graph(self, run: StoredRun, record: StoredRecord) -> GraphResult:
        """Read the graph of a record; also stores its problem for `notes`, and the graph for the
        next records on the same index."""
        if len(self._graphs_by_key) > _MAX_GRAPHS_IN_MEMORY:
            self._graphs_by_key.clear()
        graph_result = read_graph(run, record, self._graphs_by_key)
        if graph_result.problem:
            self._problems.append(graph_result.problem)
        return graph_result

    def _add_graph(self, key: str, graph: Graph) -> int | None:
        """Add a graph to `graphs` unless it is there already, and return its place.

        Args:
            key: The key of its index.
            graph: The graph, which is drawn and packed.

        Returns:
            The place; None where it does not fit into the bytes that are left.
        """
        if key in self._graph_numbers:
            return self._graph_numbers[key]
        text = compress_json(draw_graph_json(graph))
        self._is_full = len(text) > self._bytes_left
        if self._is_full:
            self._n_unplayed += 1
            return None
        self._bytes_left -= len(text)
        self._graph_numbers[key] = len(self.graphs)
        self.graphs.append(text)
        return self._graph_numbers[key]

    def notes(self) -> list[str]:
        """Sentences on how many searches cannot be drawn or played, and why; [] where all can."""
        notes = []
        if self._problems:
            searches = _count_in_words(len(self._problems))
            notes.append(f"{searches} cannot be drawn. {self._problems[0]}")
        if self._n_unplayed:
            notes.append(
                f"{_count_in_words(self._n_unplayed)} cannot be played here, so that the page "
                "stays small (harness trace RUN QUESTION_ID --graph FILE.html plays one)."
            )
        return notes


def _count_in_words(count: int) -> str:
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
        evidence=evidence_of_piece(step.shown, example),
        later=step.is_later,
        answer=cut_text(step.answer or "", _MAX_TEXT_CHARACTERS),
    )


@dataclass(frozen=True)
class _NodePosition:
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
class _RowName:
    """The name of a row of the graph, and where it stands, in pixels."""

    name: str
    y: float

    def json(self) -> list[str | float]:
        """The row's name and height as the list [name, y]."""
        return [self.name, self.y]


@dataclass(frozen=True)
class _Layout:
    """A drawn graph: a spot a node, a band a row, and its size in pixels."""

    positions: Sequence[_NodePosition]
    row_names: Sequence[_RowName]
    width: float
    height: float


def draw_graph_json(graph: Graph) -> dict[str, object]:
    """The JSON of a drawn graph: size, rows, nodes with their places and labels, and edges.

        {"width", "height", "bands": [["chunks", y], ...], "spots": [[x, y, width, height], ...],
         "nodes": [[level, text, [label lines]], ...],
         "edges": [[higher, lower, weight, shade, pixels], ...], "least", "left_out"}

    Edges up to the weight 0.05 are left out ("left_out" counts them); the heaviest come last.
    """
    layout = _layout(graph)
    edges = [edge for edge in graph.edges if edge.weight > MIN_EDGE_WEIGHT]
    edges.sort(key=_weight_and_nodes)
    nodes = []
    for level, text, position in zip(graph.levels, graph.texts, layout.positions, strict=True):
        nodes.append(_node_json(level, text, position))
    return {
        "width": layout.width,
        "height": layout.height,
        "bands": [band.json() for band in layout.row_names],
        "spots": [position.json() for position in layout.positions],
        "nodes": nodes,
        "edges": [_edge_json(edge, heaviest=edges[-1].weight) for edge in edges],
        "least": MIN_EDGE_WEIGHT,
        "left_out": len(graph.edges) - len(edges),
    }


def _weight_and_nodes(edge: Edge) -> tuple[float, int, int]:
    """A sort key of an edge: its weight, then its higher and its lower node."""
    return edge.weight, edge.higher, edge.lower


def _node_json(level: int, text: str, position: _NodePosition) -> list[int | str | list[str]]:
    """A node as the list [level, text, lines of the label]; a dot has no label.

    Args:
        level: The level of the node.
        text: Its text.
        position: Where it is drawn.
    """
    line = " ".join(text.split())
    label: list[str] = []
    if position.width:
        label = label_lines(line, position.width - _LABEL_MARGIN)
    return [level, cut_text(line, _MAX_TEXT_CHARACTERS), label]


def _edge_json(edge: Edge, heaviest: float) -> list[float]:
    """An edge as the list [higher node, lower node, weight, shade 0 to 5, thickness in pixels].

    Shade and thickness grow with the weight, from 0.05 to that of the heaviest edge.
    """
    relative_weight = (edge.weight - MIN_EDGE_WEIGHT) / (heaviest - MIN_EDGE_WEIGHT)
    shade = min(_N_SHADES - 1, int(relative_weight * _N_SHADES))
    thickness = round(0.6 + 4.4 * relative_weight, 1)
    return [edge.higher, edge.lower, round(edge.weight, 4), shade, thickness]


def _layout(graph: Graph) -> _Layout:
    """Where everything of a graph is drawn: a row for each level, boxes where they fit, else
    dots."""
    nodes_by_level = graph.nodes_by_level()
    row_widths = [_row_width(len(nodes)) for nodes in nodes_by_level.values()]
    width = max([_MIN_WIDTH, *row_widths])
    positions: dict[int, _NodePosition] = {}
    row_names = []
    y: float = _TOP_MARGIN
    for level, nodes in nodes_by_level.items():
        row = _Row(len(nodes), width)
        for column, node in enumerate(nodes):
            positions[node] = row.position_of(column, y)
        row_names.append(_RowName(graph.level_name(level), round(y + row.height / 2, 1)))
        y += row.height + _ROW_GAP
    if nodes_by_level:
        y -= _ROW_GAP
    return _Layout(
        positions=[positions[node] for node in range(len(graph.texts))],
        row_names=row_names,
        width=round(_LEFT_MARGIN + width + _MARGIN, 1),
        height=round(y + _MARGIN, 1),
    )


def _fits_boxes(n_nodes: int) -> bool:
    """Whether the nodes of a row of so many are drawn as boxes; else they are dots."""
    return n_nodes * _MIN_BOX_CELL <= _USUAL_MAX_WIDTH


def _row_width(n_nodes: int) -> float:
    """The pixels that a row of so many nodes takes at best.

    Dots that would need more than eight lines make the row wider than the usual limit.
    """
    if _fits_boxes(n_nodes):
        return min(_USUAL_MAX_WIDTH, n_nodes * _USUAL_BOX_CELL)
    width_on_one_line = n_nodes * _DOT_CELL
    return max(min(_USUAL_MAX_WIDTH, width_on_one_line), width_on_one_line / _MAX_DOT_LINES)


class _Row:
    """A row of nodes in a drawn graph: boxes beside each other, or dots on one or more lines."""

    def __init__(self, n_nodes: int, width: float) -> None:
        """Choose boxes or dots, and the lines that dots need.

        Args:
            n_nodes: Nodes of the row.
            width: Pixels of the graph.
        """
        self._has_boxes = _fits_boxes(n_nodes)
        self._cell_width = width / n_nodes
        self._n_lines = 1
        if not self._has_boxes:
            self._n_lines = max(1, math.ceil(_DOT_CELL / self._cell_width))

    @property
    def height(self) -> float:
        """The height of the row in pixels."""
        if self._has_boxes:
            return _BOX_HEIGHT
        return _DOT_CELL * self._n_lines

    def position_of(self, column: int, row_top: float) -> _NodePosition:
        """Where a node of the row is drawn: in the middle of its cell, dots on several lines in
        turn.

        Args:
            column: Its place in the row, from 0 at the left.
            row_top: The upper end of the row, in pixels.
        """
        x = _LEFT_MARGIN + (column + 0.5) * self._cell_width
        line = column % self._n_lines
        stagger = (line - (self._n_lines - 1) / 2) * _DOT_CELL
        y = row_top + self.height / 2 + stagger
        if self._has_boxes:
            width = round(min(_MAX_BOX_WIDTH, self._cell_width - _BOX_GAP), 1)
            return _NodePosition(round(x, 1), round(y, 1), width, _BOX_HEIGHT)
        return _NodePosition(round(x, 1), round(y, 1), 0, 2 * _DOT_RADIUS)


def label_lines(text: str, pixels: float) -> list[str]:
    """A text on at most three lines that fit into `pixels`, for the label of a box.

    Lines are broken at spaces, inside a word only where there is none; "…" ends a text that is cut.
    """
    letters_per_line = max(3, int(pixels / _LETTER_WIDTH))
    remaining_text = " ".join(text.split())
    lines: list[str] = []
    while remaining_text:
        n_fitting = _fitting_length(remaining_text, letters_per_line)
        if n_fitting >= len(remaining_text):
            return [*lines, remaining_text]
        is_last_line = len(lines) == _LABEL_LINES - 1
        if is_last_line:
            last_line = remaining_text[: _fitting_length(remaining_text, letters_per_line - 1)]
            return [*lines, last_line.rstrip() + "…"]
        line_end = remaining_text.rfind(" ", 1, n_fitting + 1)
        if line_end <= 0:
            line_end = n_fitting
        lines.append(remaining_text[:line_end].rstrip())
        remaining_text = remaining_text[line_end:].lstrip()
    return lines


def _fitting_length(text: str, max_letters: int) -> int:
    """How many characters of a text fit where `max_letters` narrow letters do, at least 1; a wide
    one (Chinese, Japanese) counts as two letters."""
    letters = 0
    for position, character in enumerate(text):
        letters += 1
        if unicodedata.east_asian_width(character) in "WF":
            letters += 1
        if letters > max_letters:
            return max(1, position)
    return len(text)
