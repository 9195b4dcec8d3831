"""A search as moves: every stored step with the step it came from.

    trace_moves(steps, graph)      Move(number, step, parent, edge, later), in the order of the steps
    forest(moves)                  the same moves depth first, each with its place in the tree: "", "├─ ", "│  └─ "

A step that shows a node stands under the earlier step that showed the predecessor with the largest
edge weight (the earliest of equals). Without a graph, or where no predecessor had been visited (the
similarity alone led there), it stands at the root. Steps of the action "study" lie behind the stop
of the search: what a later stop would have seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reports.search_graph import Graph

STUDY = "study"  # action of a step that only a recording took: it lies behind the stop
LATER = "what a later stop would have seen"


@dataclass(frozen=True)
class Move:
    """Step `number` of a record came from step `parent` over an edge of weight `edge`; later: it is
    behind the stop."""

    number: int
    step: dict[str, Any]
    parent: int | None = None
    edge: float | None = None
    later: bool = False


def trace_moves(steps: Sequence[dict[str, Any]], graph: Graph | None = None) -> list[Move]:
    """The moves of `steps`; with a graph, those that showed a node have their parents."""
    predecessors: dict[int, list[tuple[int, float]]] = {}
    for higher, lower, weight in graph.edges if graph else ():
        if weight > 0:
            predecessors.setdefault(lower, []).append((higher, weight))
    seen: dict[int, int] = {}
    moves: list[Move] = []
    for number, step in enumerate(steps):
        node = step["node"]
        options = [
            (weight, seen[higher])
            for higher, weight in predecessors.get(node, ())
            if higher in seen
        ]
        # The heaviest edge, of equal ones the one from the earliest step.
        edge, parent = min(
            options, key=lambda option: (-option[0], option[1]), default=(None, None)
        )
        moves.append(Move(number, step, parent, edge, later=step["action"] == STUDY))
        if node is not None:
            seen.setdefault(node, number)
    return moves


def forest(moves: Sequence[Move]) -> list[tuple[str, Move]]:
    """`moves` depth first, each after its branch ("│  └─ "); one whose parent is not among them is a root."""
    numbers = {move.number for move in moves}
    by_parent: dict[int | None, list[Move]] = {}
    for move in moves:
        by_parent.setdefault(move.parent if move.parent in numbers else None, []).append(move)
    ordered: list[tuple[str, Move]] = []
    stack = [
        ("", "", move) for move in reversed(by_parent.get(None, []))
    ]  # no recursion: a chain may have 1,000 nodes
    while stack:
        mark, indent, move = stack.pop()
        ordered.append((mark, move))
        children = by_parent.get(move.number, [])
        for child in reversed(children):
            last = child is children[-1]
            stack.append(
                (indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  "), child)
            )
    return ordered
