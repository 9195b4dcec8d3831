"""What the page needs to play a search: the drawn graph, and its moves; templates/player.js plays them.

    graphs, notes = replays(runs, questions, rows, size)      and answers that can be played get a "replay":

    graph     {"width", "height", "bands": [["chunks", y], ...], "spots": [[x, y, width, height], ...],
               "nodes": [[level, text, [label lines]], ...], "edges": [[higher, lower, weight, shade, pixels], ...],
               "least", "left_out"}                     one an index, shared by the questions on it
    replay    {"graph": place in graphs, "marked": [supporting nodes], "moves": [{"action", "node", ...}], "more": 0}

The graphs and moves of a data set take at most `size` bytes of JSON; what is left out is counted in the notes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reports.evidence import evidence, supporting
from reports.graph_layout import layout, lines_of, shade
from reports.search_graph import Graph, read_graph
from reports.walk import Move, walk

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun
    from harness.types import Example
    from reports.gold_rows import Rows


_MOST_MOVES = 400
_LONGEST = 300  # characters of a node's text
_LABEL = 14  # pixels of a box that its text leaves free


def replays(
    runs: Sequence[StoredRun], questions: Sequence[dict[str, Any]], rows: Sequence[Rows], size: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Put a "replay" into every answer of `questions` (reports.details) whose search went over a graph, as above.

    rows: of each run.
    """
    graphs: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    problems: list[str] = []
    left = 0
    for i, run in enumerate(runs):
        by_id = {record["question_id"]: record for record in run.records}
        kept: dict[str, tuple[Graph | None, str | None]] = {}
        for question in questions:
            answer, record = question["answers"][i], by_id.get(question["id"])
            if answer is None or record is None:
                continue
            found = read_graph(run, record, kept=kept)
            problems += [found.problem] if found.problem else []
            if found.graph is None:
                continue
            told = _replay(found.graph, run, record, rows[i])
            new = None if found.key in places else drawn(found.graph)
            need = len(json.dumps(told)) + (0 if new is None else len(json.dumps(new)))
            if need > size:
                left += 1
                continue
            size -= need
            if new is not None:
                places[found.key] = len(graphs)
                graphs.append(new)
            answer["replay"] = {"graph": places[found.key], **told}
    return graphs, _notes(problems, left)


def _notes(problems: list[str], left: int) -> list[str]:
    notes = []
    if problems:
        notes.append(f"{_searches(len(problems))} cannot be drawn. {problems[0]}")
    if left:
        told = "harness trace RUN QUESTION_ID --graph FILE.svg draws one"
        notes.append(f"{_searches(left)} cannot be played here, so that the page stays small ({told}).")
    return notes


def _searches(count: int) -> str:
    return "1 search" if count == 1 else f"{count} searches"


def drawn(graph: Graph) -> dict[str, Any]:
    """The JSON of a drawn graph, as above."""
    plan = layout(graph)
    nodes = []
    for level, text, spot in zip(graph.level, graph.text, plan.spots, strict=True):
        told = " ".join(text.split())
        nodes.append([level, _cut(told), lines_of(told, spot.width - _LABEL) if spot.width else []])
    return {
        "width": plan.width,
        "height": plan.height,
        "bands": [[graph.row_name(level), y] for level, y in plan.bands],
        "spots": [[s.x, s.y, s.width, s.height] for s in plan.spots],
        "nodes": nodes,
        "edges": [[high, low, round(weight, 4), *shade(weight, plan)] for high, low, weight in plan.edges],
        "least": plan.least,
        "left_out": plan.left_out,
    }


def _replay(graph: Graph, run: StoredRun, record: dict[str, Any], rows: Rows) -> dict[str, Any]:
    moves = walk(record["steps"], graph)
    example = rows.examples.get(record["question_id"])
    return {
        "marked": sorted(supporting(graph, run, record, rows)),
        "moves": [_move(move, example) for move in moves[:_MOST_MOVES]],
        "more": max(0, len(moves) - _MOST_MOVES),
    }


def _move(move: Move, example: Example | None) -> dict[str, Any]:
    step = move.step
    told = {
        "action": step["action"],
        "node": step["node"],
        "p_yes": None if step["p_yes"] is None else round(step["p_yes"], 4),
        "tokens": step["tokens"],
        "scores": {name: round(value, 5) for name, value in step["scores"].items()},
        "parent": move.parent,
        "edge": None if move.edge is None else round(move.edge, 4),
        "evidence": evidence(step["shown"], example),
        "later": move.later,
        "note": _cut(step["note"]),
        "answer": None if step.get("answer") is None else _cut(step["answer"]),
    }
    # Not `value in (None, "", False, {})`: node 0 and step 0 are equal to False.
    return {
        name: value
        for name, value in told.items()
        if value is not None and value is not False and value not in ("", {})
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text)} characters)"
