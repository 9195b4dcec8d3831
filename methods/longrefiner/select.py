"""Which nodes are read: the paper's rule (LongRefiner 3.3 and A.4;
docs/methods/longrefiner.md#longrefiner-selection).

Nodes of all documents are taken by falling score until the budget is met. A part brings all that is
under it; what is in already is not counted again; when the last child of a part has come in, the
part is in. A part that does not fit is passed over, for its paragraphs follow; a paragraph that
does not fit ends the choice (overflow "stop") or is passed over too ("skip"). What was chosen is
read in its original order.

Equal scores: the earlier document and the earlier text first, a part before what is in it.

The released code's rule, where it departs from the paper (kept for comparison):

1  by falling score, nodes are pre-selected until one does not fit into twice the budget
2  of these, until the budget is overdrawn: a leaf whose parent is in is passed over; a part takes the place of its
   children that are in, at the end of the list, and is passed over where it does not fit then;
   anything else is added, even if it overdraws
3  the last of the list is dropped, also where nothing was overdrawn
4  each node is read on its own under its document's title, in the order of the list: by score, not by place

Equal scores: leaves before parts, a sub-section before its section. Text can be read twice (a
section and a paragraph of its sub-section), and one node less than fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from methods.longrefiner.shown import Piece, Place, Showing
from methods.longrefiner.tree import Tree


@dataclass(frozen=True)
class Choice:
    """Which nodes are read.

    Attributes:
        nodes: The chosen ones, in order of choice.
        pieces: The text to read.
        reason: Why the choice ended: "budget", or "exhausted" where every node had its turn.
    """

    nodes: tuple[Place, ...]
    pieces: tuple[Piece, ...]
    reason: str


def choose_by_code(showing: Showing, scores: Sequence[np.ndarray], budget: int) -> Choice:
    """The released code's choice, in the four steps at the head of this file.

    Args:
        showing: Makes pieces of nodes, and counts their tokens.
        scores: The scores of the nodes of each document, [nodes].
        budget: Most tokens of what is read; separators are not counted.
    """
    order = _by_score(showing, scores)
    size: dict[Place, int] = {}  # tokens of each node
    for place in order:
        size[place] = showing.tokens([showing.node_piece(*place)])
    chosen: list[Place] = []
    left = budget
    total = 0
    for place in order:
        total += size[place]
        if total > 2 * budget or left < 0:
            break
        node = showing.trees[place.document].nodes[place.node]
        if node.leaf and Place(place.document, node.parent) in chosen:
            continue
        replaced = _chosen_children(showing, chosen, place)
        freed = sum(size[child] for child in replaced)
        if replaced and left + freed < size[place]:
            continue
        for child in replaced:
            chosen.remove(child)
        chosen.append(place)
        left += freed - size[place]
    read = chosen[:-1]  # step 3
    reason = "exhausted"
    if left < 0:
        reason = "budget"
    pieces = [showing.node_piece(*place) for place in read]
    return Choice(tuple(read), tuple(pieces), reason)


def _chosen_children(showing: Showing, chosen: Sequence[Place], part: Place) -> list[Place]:
    """Those of the chosen nodes that are children of a part, in order of choice.

    Args:
        showing: The documents' trees.
        chosen: The nodes that are chosen so far.
        part: Where the part is.
    """
    nodes = showing.trees[part.document].nodes
    of_document = [place for place in chosen if place.document == part.document]
    return [place for place in of_document if nodes[place.node].parent == part.node]


def _by_score(showing: Showing, scores: Sequence[np.ndarray]) -> list[Place]:
    """All nodes of all documents by falling score; of equal scores leaves before parts.

    Args:
        showing: The documents' trees.
        scores: The scores of the nodes of each document, [nodes].
    """
    leaves: list[Place] = []
    parts: list[Place] = []
    for document, tree in enumerate(showing.trees):
        leaves += [Place(document, leaf) for leaf in tree.leaves()]
        parts += [Place(document, part) for part in _parts_by_end(tree)]

    def high_score_first(place: Place) -> float:
        """A sort key: the score of a node, negated."""
        return -float(scores[place.document][place.node])

    return sorted([*leaves, *parts], key=high_score_first)


def _parts_by_end(tree: Tree) -> list[int]:
    """The numbers of a tree's parts (nodes with others under them) in the order of their last leaf,
    a sub-section before its section."""
    parts = [i for i, node in enumerate(tree.nodes) if not node.leaf]

    def last_leaf_then_depth(part: int) -> tuple[int, int]:
        """A sort key: the part's last leaf, of the same leaf the deeper part first."""
        return tree.under(part)[-1], -tree.level(part)

    return sorted(parts, key=last_leaf_then_depth)


def _by_score_then_place(scores: Sequence[np.ndarray]) -> list[Place]:
    """All nodes of all documents by falling score; of equal scores the earlier document and text
    first.

    Args:
        scores: The scores of the nodes of each document, [nodes].
    """
    places: list[Place] = []
    for document, values in enumerate(scores):
        places += [Place(document, node) for node in range(len(values))]

    def high_score_first(place: Place) -> tuple[float, Place]:
        """A sort key: a high score first, of equal ones the earlier place."""
        return -float(scores[place.document][place.node]), place

    return sorted(places, key=high_score_first)


def choose_nodes(
    showing: Showing, scores: Sequence[np.ndarray], budget: int, skip: bool = False
) -> Choice:
    """The paper's choice: by falling score, each node is taken with all leaves under it, if what is
    read then still fits.

    Args:
        showing: Makes pieces of leaves, and counts their tokens.
        scores: The scores of the nodes of each document, [nodes].
        budget: Most tokens of what is read, as shown.
        skip: Whether a paragraph that does not fit is passed over instead of ending the choice.
    """
    read_leaves: set[Place] = set()
    taken: list[Place] = []
    reason = "exhausted"
    for place in _by_score_then_place(scores):
        tree = showing.trees[place.document]
        leaves = {Place(place.document, leaf) for leaf in tree.under(place.node)}
        if leaves <= read_leaves:
            continue
        if showing.tokens(showing.pieces(read_leaves | leaves)) > budget:
            reason = "budget"
            if tree.nodes[place.node].leaf and not skip:
                break
            continue
        read_leaves |= leaves
        taken.append(place)
    return Choice(tuple(taken), tuple(showing.pieces(read_leaves)), reason)
