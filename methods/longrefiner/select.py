"""Which nodes are read: the paper's rule (LongRefiner 3.3 and A.4; docs/methods/longrefiner.md#longrefiner-selection).

Nodes of all documents are taken by falling score until the budget is met. A part brings all that is under it; what is
in already is not counted again; when the last child of a part has come in, the part is in. A part that does not fit is
passed over, for its paragraphs follow; a paragraph that does not fit ends the choice (overflow "stop") or is passed
over too ("skip"). What was chosen is read in its original order.

Equal scores: the earlier document and the earlier text first, a part before what is in it.

Which nodes are read: the released code's rule, where it departs from the paper.

Source: docs/methods/longrefiner.md#longrefiner-selection.

1  by falling score, nodes are pre-selected until one does not fit into twice the budget
2  of these, until the budget is overdrawn: a leaf whose parent is in is passed over; a part takes the place of its
   children that are in, at the end of the list, and is passed over where it does not fit then; anything else is
   added, even if it overdraws
3  the last of the list is dropped, also where nothing was overdrawn
4  each node is read on its own under its document's title, in the order of the list: by score, not by place

Equal scores: leaves before parts, a sub-section before its section.

Kept for comparison: text can be read twice (a section and a paragraph of its sub-section), and one node less than fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from methods.longrefiner.shown import Leaf, Piece, Showing


def choose_as_released(showing: Showing, scores: Sequence[np.ndarray], budget: int) -> Choice:
    """At most `budget` tokens of nodes with their titles, separators not counted."""
    trees = showing.trees
    size = {place: showing.tokens([showing.node(*place)]) for place in _by_score(showing, scores)}
    chosen: list[Leaf] = []
    left = budget
    for place, total in zip(size, itertools.accumulate(size.values()), strict=True):
        if total > 2 * budget:
            break
        document, number = place
        node = trees[document].nodes[number]
        if left < 0:
            break
        if node.leaf and (document, node.parent) in chosen:
            continue
        inside = [leaf for leaf in chosen if leaf[0] == document and trees[document].nodes[leaf[1]].parent == number]
        freed = sum(size[leaf] for leaf in inside)
        if inside and left + freed < size[place]:
            continue
        chosen = [*(leaf for leaf in chosen if leaf not in inside), place]
        left += freed - size[place]
    kept = tuple(chosen[:-1])
    return Choice(kept, tuple(showing.node(*place) for place in kept), "budget" if left < 0 else "exhausted")


def _by_score(showing: Showing, scores: Sequence[np.ndarray]) -> list[Leaf]:
    """(document, node) by falling score."""
    leaves = [(document, leaf) for document, tree in enumerate(showing.trees) for leaf in tree.leaves()]
    parts: list[Leaf] = []
    for document, tree in enumerate(showing.trees):
        own = (i for i, node in enumerate(tree.nodes) if not node.leaf)
        parts += [(document, i) for i in sorted(own, key=lambda i: (tree.under(i)[-1], -tree.level(i)))]
    return sorted([*leaves, *parts], key=lambda place: -scores[place[0]][place[1]])


@dataclass(frozen=True)
class Choice:
    """nodes: the chosen ones, in order of choice; pieces: the text to read; reason: why the choice ended."""

    nodes: tuple[Leaf, ...]
    pieces: tuple[Piece, ...]
    reason: str


def choose(showing: Showing, scores: Sequence[np.ndarray], budget: int, skip: bool = False) -> Choice:
    """Nodes whose text as it is shown has `budget` tokens at most; scores: of each document, [nodes]."""
    trees = showing.trees
    inside: set[Leaf] = set()
    taken: list[Leaf] = []
    reason = "exhausted"
    every = [(document, node) for document, values in enumerate(scores) for node in range(len(values))]
    for document, node in sorted(every, key=lambda place: (-scores[place[0]][place[1]], place)):
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
