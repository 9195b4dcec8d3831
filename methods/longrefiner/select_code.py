"""Which nodes are read: the released code's rule (facts 5.5), where it departs from the paper.

1  by falling score, nodes are pre-selected until one does not fit into twice the budget
2  of these, until the budget is overdrawn: a leaf whose parent is in is passed over; a part takes the place of its
   children that are in, if it fits then, at the end of the list; anything else is added, even if it overdraws
3  the last of the list is dropped, also where nothing was overdrawn
4  each node is read on its own under its document's title, in the order of the list: by score, not by place

Kept for comparison: text can be read twice (a section and a paragraph of its sub-section), and one node less than fits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from methods.longrefiner.select import Choice, by_score
from methods.longrefiner.shown import Leaf, Piece, Showing

__all__ = ["choose_as_released"]


def choose_as_released(showing: Showing, scores: Sequence[np.ndarray], budget: int) -> Choice:
    """At most `budget` tokens of nodes with their titles, separators not counted."""
    trees = showing.trees

    def piece(place: Leaf) -> Piece:
        node = trees[place[0]].nodes[place[1]]
        return showing.piece(place[0], node.start, node.end)

    size = {place: showing.tokens([piece(place)]) for place in by_score(scores)}
    chosen: list[Leaf] = []
    left = budget
    for place in _preselected(size, 2 * budget):
        document, number = place
        node = trees[document].nodes[number]
        if left < 0:
            break
        if node.leaf and (document, node.parent) in chosen:
            continue
        inside = [one for one in chosen if one[0] == document and trees[document].nodes[one[1]].parent == number]
        if inside and left + sum(size[one] for one in inside) >= size[place]:
            chosen = [one for one in chosen if one not in inside]
            left += sum(size[one] for one in inside)
        chosen.append(place)
        left -= size[place]
    kept = tuple(chosen[:-1])
    return Choice(kept, tuple(piece(place) for place in kept), "budget" if left < 0 else "exhausted")


def _preselected(size: dict[Leaf, int], most: int) -> list[Leaf]:
    """The first nodes that fit into `most` tokens together."""
    found: list[Leaf] = []
    for place, tokens in size.items():
        most -= tokens
        if most < 0:
            break
        found.append(place)
    return found
