"""What the page needs to play a search: the drawn graph, and its moves; templates/player.js plays
them.

    searches = Searches(size)
    searches.replay(run, record, rows, steps)   a replay, or None where nothing can be played
    searches.graphs                             packed (reports/compressed_json.py), one an index

    graph     {"width", "height", "bands": [["chunks", y], ...], "spots": [[x, y, width, height], ...],
               "nodes": [[level, text, [label lines]], ...], "edges": [[higher, lower, weight,
               shade, pixels], ...],
               "least", "left_out"}                     shared by the questions on an index
    replay    {"graph": place in graphs, "marked": [supporting nodes]}; a step (details.py) also gets "parent" (a step),
              "edge", "evidence", "later" and "answer"

A graph has a row a level, the lowest at the bottom, in document order: boxes with three lines of
text, or dots where there are many, staggered where they would touch. Lengths are in pixels. Graphs
take at most `size` bytes.
"""

import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.storage.run_folder import StoredRun
from reports.compressed_json import compress_json, cut_text, without_empty
from reports.evidence import evidence, overlapping_spans
from reports.gold_rows import Rows
from reports.search_graph import Graph, index_lines, read_graph
from reports.search_moves import trace_moves

_LONGEST_TEXT = 300  # characters of a node's text
_LABEL_MARGIN = 14  # pixels of a box that its text leaves free
_GRAPHS_KEPT = 64  # graphs in memory; questions on one document follow each other
LEAST = (
    0.05  # edges up to this weight are left out, as in figures A1 (arXiv 2410.04790v2) and 5 (v1)
)
_SHADES = 6
_DOT_RADIUS, _BOX_HEIGHT = 4, 56  # radius of a dot, height of a box
_MARGIN, _LEFT, _TOP = 16, 72, 56
_FULL = 1500  # the width that rows are kept within while they can be
_BOX_LEAST, _BOX_CELL, _BOX_MOST = 90, 190, 178
_DOT_CELL, _STAGGERS = 22, 8
_ROW_GAP = 96
_LETTER_WIDTH, _LABEL_LINES = 6.2, 3  # pixels of a label's letter; lines of a label


class Searches:
    """The graphs of a data set's searches, drawn and packed, at most `size` bytes of them."""

    def __init__(self, size: int) -> None:
        self.graphs: list[str] = []
        self._size = size
        self._full = False
        self._places: dict[str, int] = {}
        self._read: dict[str, tuple[Graph | None, str | None]] = {}
        self._with_graphs: set[Path] = set()  # the runs that search over graphs
        self._problems: list[str] = []
        self._left = 0

    def replay(
        self, run: StoredRun, record: dict[str, Any], rows: Rows, steps: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        """The JSON that plays the search of `record`; None where it went over no graph, or there is
        no room.

        steps: the record's steps as JSON; each gets what only a replay shows of it.
        """
        if not any(step["node"] is not None for step in record["steps"]):
            return None
        if self._full and not any(
            str(line.key) in self._places for line in index_lines(run, record)
        ):
            self._left += run.path in self._with_graphs
            return None
        if len(self._read) > _GRAPHS_KEPT:
            self._read.clear()
        result = read_graph(run, record, self._read)
        self._problems += [result.problem] if result.problem else []
        if result.graph is None:
            return None
        self._with_graphs.add(run.path)
        if result.key not in self._places:
            text = compress_json(draw_graph(result.graph))
            self._full = len(text) > self._size
            if self._full:
                self._left += 1
                return None
            self._size -= len(text)
            self._places[result.key] = len(self.graphs)
            self.graphs.append(text)
        example = rows.examples.get(record["question_id"])
        for move, step in zip(trace_moves(record["steps"], result.graph), steps, strict=False):
            step |= without_empty(
                parent=move.parent,
                edge=None if move.edge is None else round(move.edge, 4),
                evidence=evidence(move.step["shown"], example),
                later=move.later,
                answer=cut_text(move.step.get("answer") or "", _LONGEST_TEXT),
            )
        marked = sorted(overlapping_spans(result.graph.span, run, record, rows))
        return {"graph": self._places[result.key], "marked": marked}

    def notes(self) -> list[str]:
        """Sentences on searches that cannot be played, and why."""
        command = "harness trace RUN QUESTION_ID --graph FILE.html plays one"
        reasons = (
            (len(self._problems), f"cannot be drawn. {''.join(self._problems[:1])}"),
            (self._left, f"cannot be played here, so that the page stays small ({command})."),
        )
        return [
            f"{count} search{'es' * (count > 1)} {reason}" for count, reason in reasons if count
        ]


def draw_graph(graph: Graph) -> dict[str, Any]:
    """The JSON of a drawn graph (see the module): edges up to the weight LEAST are left out, the
    heaviest come last."""
    spots, bands, width, height = _layout(graph)
    edges = sorted((e for e in graph.edges if e[2] > LEAST), key=lambda e: (e[2], e[0], e[1]))
    nodes = []
    for level, text, (*_, box, _) in zip(graph.level, graph.text, spots, strict=True):
        line = " ".join(text.split())
        nodes.append(
            [
                level,
                cut_text(line, _LONGEST_TEXT),
                label_lines(line, box - _LABEL_MARGIN) if box else [],
            ]
        )
    return {
        "width": width,
        "height": height,
        "bands": bands,
        "spots": spots,
        "nodes": nodes,
        "edges": [
            [high, low, round(weight, 4), *_shade(weight, edges[-1][2])]
            for high, low, weight in edges
        ],
        "least": LEAST,
        "left_out": len(graph.edges) - len(edges),
    }


def _layout(graph: Graph) -> tuple[list[list[float]], list[list[str | float]], float, float]:
    """([x, y, width, height] of each node, width 0 for a dot; [name, y] of each row; width and
    height of the graph)."""
    rows = graph.rows()
    boxed = {level: len(nodes) * _BOX_LEAST <= _FULL for level, nodes in rows.items()}
    widths = [
        min(_FULL, len(nodes) * (_BOX_CELL if boxed[level] else _DOT_CELL))
        for level, nodes in rows.items()
    ]
    # Dots that would need more than _STAGGERS lines make their row wider.
    crowded = [
        len(nodes) * _DOT_CELL / _STAGGERS for level, nodes in rows.items() if not boxed[level]
    ]
    width = max([720.0, *widths, *crowded])
    spots: dict[int, list[float]] = {}
    bands: list[list[str | float]] = []
    y: float = _TOP
    for level, nodes in rows.items():
        cell = width / len(nodes)
        lines = 1 if boxed[level] else max(1, math.ceil(_DOT_CELL / cell))
        high = _BOX_HEIGHT if boxed[level] else _DOT_CELL * lines
        box = round(min(_BOX_MOST, cell - 12), 1) if boxed[level] else 0
        for i, node in enumerate(nodes):
            x = _LEFT + (i + 0.5) * cell
            middle = y + high / 2 + (i % lines - (lines - 1) / 2) * _DOT_CELL
            spots[node] = [
                round(x, 1),
                round(middle, 1),
                box,
                _BOX_HEIGHT if boxed[level] else 2 * _DOT_RADIUS,
            ]
        bands.append([graph.level_name(level), round(y + high / 2, 1)])
        y += high + _ROW_GAP
    height = (y - _ROW_GAP if rows else y) + _MARGIN
    size = round(_LEFT + width + _MARGIN, 1), round(height, 1)
    return [spots[i] for i in range(len(graph.text))], bands, *size


def _shade(weight: float, heaviest: float) -> tuple[int, float]:
    """(shade 0 to 5, thickness in pixels) of a drawn edge: both grow with the weight, from LEAST to
    the heaviest."""
    part = (weight - LEAST) / (heaviest - LEAST)
    return min(_SHADES - 1, int(part * _SHADES)), round(0.6 + 4.4 * part, 1)


def label_lines(text: str, pixels: float) -> list[str]:
    """`text` on at most three lines that fit into `pixels`, broken at spaces if it has any; "…"
    ends a cut one."""
    room = max(3, int(pixels / _LETTER_WIDTH))
    words_left = " ".join(text.split())
    lines: list[str] = []
    while (fits := _fits(words_left, room)) < len(words_left):
        if len(lines) == _LABEL_LINES - 1:
            return [*lines, words_left[: _fits(words_left, room - 1)].rstrip() + "…"]
        cut = words_left.rfind(" ", 1, fits + 1)
        cut = fits if cut <= 0 else cut
        lines.append(words_left[:cut].rstrip())
        words_left = words_left[cut:].lstrip()
    return [*lines, words_left] if words_left else lines


def _fits(text: str, room: int) -> int:
    """How many characters of `text` fit into `room` narrow ones; wide ones (Chinese, Japanese) take
    two."""
    used = 0
    for i, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > room:
            return max(1, i)
    return len(text)
