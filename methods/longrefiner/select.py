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

from methods.longrefiner.shown import NodePlace, ShownPiece, ShownText
from methods.longrefiner.tree import Tree


@dataclass(frozen=True)
class Choice:
    """Which nodes are read.

    Attributes:
        nodes: The chosen ones, in order of choice.
        pieces: The text to read.
        reason: Why the choice ended: "budget", or "exhausted" where every node had its turn.
    """

    nodes: tuple[NodePlace, ...]
    pieces: tuple[ShownPiece, ...]
    reason: str


def choose_by_code(shown_text: ShownText, scores: Sequence[np.ndarray], max_tokens: int) -> Choice:
    """The released code's choice: nodes by falling score until the budget is overdrawn, or until
    those tried have twice the budget.

    A leaf whose parent is chosen is passed over. A part takes the place of its chosen children; it
    is passed over where it does not fit then. The last of the chosen nodes is dropped.

    Args:
        shown_text: Makes pieces of nodes, and counts their tokens.
        scores: The scores of the nodes of each document, [nodes].
        max_tokens: Most tokens of what is read; separators are not counted.
    """
    places_by_score = _leaves_and_parts_by_score(shown_text, scores)
    tokens_of_node: dict[NodePlace, int] = {}
    for place in places_by_score:
        tokens_of_node[place] = shown_text.count_tokens([shown_text.node_piece(*place)])
    chosen: list[NodePlace] = []
    tokens_left = max_tokens
    tokens_tried = 0
    for place in places_by_score:
        tokens_tried += tokens_of_node[place]
        if tokens_tried > 2 * max_tokens or tokens_left < 0:
            break
        node = shown_text.trees[place.document].nodes[place.node]
        if node.is_leaf and NodePlace(place.document, node.parent) in chosen:
            continue
        chosen_children = _chosen_children(shown_text, chosen, place)
        tokens_freed = sum(tokens_of_node[child] for child in chosen_children)
        if chosen_children and tokens_left + tokens_freed < tokens_of_node[place]:
            continue
        for child in chosen_children:
            chosen.remove(child)
        chosen.append(place)
        tokens_left += tokens_freed - tokens_of_node[place]
    read_nodes = chosen[:-1]  # also where nothing was overdrawn
    reason = "exhausted"
    if tokens_left < 0:
        reason = "budget"
    pieces = [shown_text.node_piece(*place) for place in read_nodes]
    return Choice(nodes=tuple(read_nodes), pieces=tuple(pieces), reason=reason)


def _chosen_children(
    shown_text: ShownText, chosen: Sequence[NodePlace], part: NodePlace
) -> list[NodePlace]:
    """Those of the chosen nodes that are children of a part, in order of choice.

    Args:
        shown_text: The documents' trees.
        chosen: The nodes that are chosen so far.
        part: Where the part is.
    """
    nodes = shown_text.trees[part.document].nodes
    chosen_in_document = [place for place in chosen if place.document == part.document]
    return [place for place in chosen_in_document if nodes[place.node].parent == part.node]


def _leaves_and_parts_by_score(
    shown_text: ShownText, scores: Sequence[np.ndarray]
) -> list[NodePlace]:
    """All nodes of all documents by falling score; of equal scores leaves before parts.

    Args:
        shown_text: The documents' trees.
        scores: The scores of the nodes of each document, [nodes].
    """
    leaves: list[NodePlace] = []
    parts: list[NodePlace] = []
    for document, tree in enumerate(shown_text.trees):
        leaves += [NodePlace(document, leaf) for leaf in tree.leaves()]
        parts += [NodePlace(document, part) for part in _parts_by_end(tree)]

    def high_score_first(place: NodePlace) -> float:
        """A sort key: the score of a node, negated."""
        return -float(scores[place.document][place.node])

    return sorted([*leaves, *parts], key=high_score_first)


def _parts_by_end(tree: Tree) -> list[int]:
    """The numbers of a tree's parts (nodes with others under them) in the order of their last leaf,
    a sub-section before its section."""
    parts = [number for number, node in enumerate(tree.nodes) if not node.is_leaf]

    def last_leaf_then_depth(part: int) -> tuple[int, int]:
        """A sort key: the part's last leaf, of the same leaf the deeper part first."""
        return tree.leaves_under(part)[-1], -tree.level(part)

    return sorted(parts, key=last_leaf_then_depth)


def _nodes_by_score_then_place(scores: Sequence[np.ndarray]) -> list[NodePlace]:
    """All nodes of all documents by falling score; of equal scores the earlier document and text
    first.

    Args:
        scores: The scores of the nodes of each document, [nodes].
    """
    places: list[NodePlace] = []
    for document, node_scores in enumerate(scores):
        places += [NodePlace(document, node) for node in range(len(node_scores))]

    def high_score_first(place: NodePlace) -> tuple[float, NodePlace]:
        """A sort key: a high score first, of equal ones the earlier place."""
        return -float(scores[place.document][place.node]), place

    return sorted(places, key=high_score_first)


def choose_nodes(
    shown_text: ShownText,
    scores: Sequence[np.ndarray],
    max_tokens: int,
    skips_long_paragraphs: bool = False,
) -> Choice:
    """The paper's choice: by falling score, each node is taken with all leaves under it, if what is
    read then still fits.

    A node is passed over where all its leaves are read already, and a part where it does not fit; a
    paragraph that does not fit ends the choice.

    Args:
        shown_text: Makes pieces of leaves, and counts their tokens.
        scores: The scores of the nodes of each document, [nodes].
        max_tokens: Most tokens of what is read, as shown.
        skips_long_paragraphs: Whether a paragraph that does not fit is passed over instead of
            ending the choice.
    """
    read_leaves: set[NodePlace] = set()
    chosen: list[NodePlace] = []
    reason = "exhausted"
    for place in _nodes_by_score_then_place(scores):
        tree = shown_text.trees[place.document]
        leaves = {NodePlace(place.document, leaf) for leaf in tree.leaves_under(place.node)}
        if leaves <= read_leaves:
            continue
        if shown_text.count_tokens(shown_text.join_leaves(read_leaves | leaves)) > max_tokens:
            reason = "budget"
            if tree.nodes[place.node].is_leaf and not skips_long_paragraphs:
                break
            continue
        read_leaves |= leaves
        chosen.append(place)
    return Choice(
        nodes=tuple(chosen), pieces=tuple(shown_text.join_leaves(read_leaves)), reason=reason
    )
