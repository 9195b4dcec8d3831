"""What the page needs to play a search: the drawn graph, and its moves; templates/player.js plays them.

    searches = Searches(size)
    searches.replay(run, record, rows)      a replay, or None where nothing can be played
    searches.graphs                         packed (reports/compressed_json.py), one an index

    graph     {"width", "height", "bands": [["chunks", y], ...], "spots": [[x, y, width, height], ...],
               "nodes": [[level, text, [label lines]], ...], "edges": [[higher, lower, weight, shade, pixels], ...],
               "least", "left_out"}                     shared by the questions on an index
    replay    {"graph": place in graphs, "marked": [supporting nodes], "moves": [{"action", "node", ...}], "more": 0}

The graphs of a data set take at most `size` bytes; what is left out is counted in the notes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.storage.run_folder import StoredRun
from harness.types import Example
from reports.compressed_json import cut, packed, without_empty
from reports.evidence import evidence, overlapping
from reports.gold_rows import Rows
from reports.graph_layout import LEAST, layout, lines_of, shade
from reports.search_graph import Graph, index_lines, read_graph
from reports.search_moves import Move, walk

_MOST_MOVES = 400
_LONGEST = 300  # characters of a node's text
_LABEL = 14  # pixels of a box that its text leaves free
_KEPT = 64  # graphs in memory; questions on one document follow each other


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

    def replay(self, run: StoredRun, record: dict[str, Any], rows: Rows) -> dict[str, Any] | None:
        """What plays the search of `record`, as above; None where it went over no graph, or there is no room."""
        if not any(step["node"] is not None for step in record["steps"]):
            return None
        if self._full and not any(str(line.get("key")) in self._places for line in index_lines(run, record)):
            self._left += run.path in self._with_graphs
            return None
        if len(self._read) > _KEPT:
            self._read.clear()
        found = read_graph(run, record, kept=self._read)
        self._problems += [found.problem] if found.problem else []
        if found.graph is None:
            return None
        self._with_graphs.add(run.path)
        if found.key not in self._places and not self._add(found.key, found.graph):
            self._left += 1
            return None
        return {"graph": self._places[found.key], **_replay(found.graph, run, record, rows)}

    def _add(self, key: str, graph: Graph) -> bool:
        """Draw a graph; False where there is no room for it."""
        text = packed(drawn(graph))
        self._full = len(text) > self._size
        if not self._full:
            self._size -= len(text)
            self._places[key] = len(self.graphs)
            self.graphs.append(text)
        return not self._full

    def notes(self) -> list[str]:
        """What cannot be played, and why."""
        notes = []
        if self._problems:
            notes.append(f"{_searches(len(self._problems))} cannot be drawn. {self._problems[0]}")
        if self._left:
            command = "harness trace RUN QUESTION_ID --graph FILE.html plays one"
            notes.append(f"{_searches(self._left)} cannot be played here, so that the page stays small ({command}).")
        return notes


def _searches(count: int) -> str:
    return "1 search" if count == 1 else f"{count} searches"


def drawn(graph: Graph) -> dict[str, Any]:
    """The JSON of a drawn graph, as above."""
    plan = layout(graph)
    nodes = []
    for level, text, spot in zip(graph.level, graph.text, plan.spots, strict=True):
        told = " ".join(text.split())
        nodes.append([level, cut(told, _LONGEST), lines_of(told, spot.width - _LABEL) if spot.width else []])
    return {
        "width": plan.width,
        "height": plan.height,
        "bands": [[graph.row_name(level), y] for level, y in plan.bands],
        "spots": [[s.x, s.y, s.width, s.height] for s in plan.spots],
        "nodes": nodes,
        "edges": [[high, low, round(weight, 4), *shade(weight, plan)] for high, low, weight in plan.edges],
        "least": LEAST,
        "left_out": plan.left_out,
    }


def _replay(graph: Graph, run: StoredRun, record: dict[str, Any], rows: Rows) -> dict[str, Any]:
    moves = walk(record["steps"], graph)
    example = rows.examples.get(record["question_id"])
    return {
        "marked": sorted(overlapping(graph.span, run, record, rows)),
        "moves": [_move_json(move, example) for move in moves[:_MOST_MOVES]],
        "more": max(0, len(moves) - _MOST_MOVES),
    }


def _move_json(move: Move, example: Example | None) -> dict[str, Any]:
    """A move as JSON values of the player."""
    step = move.step
    return without_empty(
        action=step["action"],
        node=step["node"],
        p_yes=None if step["p_yes"] is None else round(step["p_yes"], 4),
        tokens=step["tokens"],
        scores={name: round(value, 5) for name, value in step["scores"].items()},
        parent=move.parent,
        edge=None if move.edge is None else round(move.edge, 4),
        evidence=evidence(step["shown"], example),
        later=move.later,
        note=cut(step["note"], _LONGEST),
        answer=None if step.get("answer") is None else cut(step["answer"], _LONGEST),
    )
