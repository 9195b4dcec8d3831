"""Which nodes are read: the paper's rule (LongRefiner 3.3 and A.4; docs/methods/longrefiner.md#longrefiner-selection).

Nodes of all documents are taken by falling score until the budget is met. A part brings all that is under it; what is
in already is not counted again; when the last child of a part has come in, the part is in. A part that does not fit is
passed over, for its paragraphs follow; a paragraph that does not fit ends the choice (overflow "stop") or is passed
over too ("skip"). What was chosen is read in its original order.

Equal scores: the earlier document and the earlier text first, a part before what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from methods.longrefiner.shown import Leaf, Piece, Showing


@dataclass(frozen=True)
class Choice:
    """nodes: the chosen ones, in order of choice; pieces: the text to read; reason: why the choice ended."""

    nodes: tuple[Leaf, ...]
    pieces: tuple[Piece, ...]
    reason: str


def by_score(scores: Sequence[np.ndarray]) -> list[Leaf]:
    """(document, node) by falling score."""
    every = [(document, node) for document, values in enumerate(scores) for node in range(len(values))]
    return sorted(every, key=lambda place: (-scores[place[0]][place[1]], place))


def choose(showing: Showing, scores: Sequence[np.ndarray], budget: int, skip: bool = False) -> Choice:
    """Nodes whose text as it is shown has `budget` tokens at most; scores: of each document, [nodes]."""
    trees = showing.trees
    inside: set[Leaf] = set()
    taken: list[Leaf] = []
    reason = "exhausted"
    for document, node in by_score(scores):
        new = {(document, leaf) for leaf in trees[document].under(node)} - inside
        if not new:
            continue
        if showing.tokens(showing.pieces(inside | new)) > budget:
            reason = "budget"
            if trees[document].nodes[node].leaf and not skip:
                break
            continue
        inside |= new
        taken.append((document, node))
    return Choice(tuple(taken), tuple(showing.pieces(inside)), reason)
