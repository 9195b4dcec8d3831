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

The scores of a document's nodes (LongRefiner 3.3; docs/methods/longrefiner.md#longrefiner-local).

local    LS(leaf) = what the scoring model says        LS(part) = mean of LS over its children
global   GS(part) = 1 if its title is selected         otherwise GS(node) = GS(parent) / number of its children
sum      LS + R * GS, the local scores min-max normalised over all nodes of all documents of a question

The paper gives the indicator to "section nodes" without saying what a sub-section that is not
selected gets; here it takes its share of its section, as any child. Text under no title has GS 0.

The released code: a section's mean takes its own paragraphs together as one child; a selected part
gives its children 1 / (m + 1), m the number of a section's sub-sections or of a sub-section's
paragraphs; shares go one level down, add to a child's own, and a selected abstract gives its
paragraphs none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from methods.longrefiner.config import Rule
from methods.longrefiner.prompts import folded
from methods.longrefiner.shown import Leaf, Piece, Showing
from methods.longrefiner.tree import Node, Tree


def selectable_titles(node: Node) -> frozenset[str]:
    """The folded titles by which a part can be selected; an abstract is "abstract" besides its
    title."""
    titles: set[str] = set()
    if node.title and not node.leaf:
        titles.add(folded(node.title))
    if node.kind == "abstract":
        titles.add("abstract")
    return frozenset(titles)


def local_scores(tree: Tree, leaves: Sequence[float], rule: Rule = "paper") -> np.ndarray:
    """Local scores LS [nodes].

    Args:
        tree: A document's tree.
        leaves: Scores of its leaves by the scoring model, in the order of `tree.leaves()`.
        rule: How the score of a section is made from those of its children.
    """
    scores = np.zeros(len(tree.nodes))
    scores[tree.leaves()] = leaves
    children = tree.children()
    for i in reversed(range(len(tree.nodes))):  # children have higher numbers than their parents
        if tree.nodes[i].leaf:
            continue
        if rule == "code" and tree.nodes[i].kind == "section":
            scores[i] = _mean_with_paragraphs_as_one(tree, children[i], scores)
        else:
            scores[i] = np.mean(scores[children[i]])
    return scores


def _mean_with_paragraphs_as_one(tree: Tree, children: Sequence[int], scores: np.ndarray) -> float:
    """The mean score of a section's sub-sections and of its own paragraphs, which count as one."""
    paragraphs: list[float] = []
    values: list[float] = []
    for child in children:
        if tree.nodes[child].leaf:
            paragraphs.append(float(scores[child]))
        else:
            values.append(float(scores[child]))
    if paragraphs:
        values.append(float(np.mean(paragraphs)))
    return float(np.mean(values))


def normalised(scores: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each document's scores on one scale from 0 to 1; all 0 where all are equal."""
    if not scores:
        return []
    every = np.concatenate(scores)
    if not len(every) or every.max() == every.min():
        return [np.zeros(len(values)) for values in scores]
    low = every.min()
    width = every.max() - low
    return [(values - low) / width for values in scores]


def global_scores(tree: Tree, selected: Collection[str], rule: Rule = "paper") -> np.ndarray:
    """Global scores GS [nodes] of a tree; selected: folded titles."""
    names = map(selectable_titles, tree.nodes)
    is_chosen = [not titles.isdisjoint(selected) for titles in names]
    if rule == "paper":
        return _shares_by_paper(tree, is_chosen)
    return _shares_by_code(tree, is_chosen)


def _shares_by_paper(tree: Tree, is_chosen: Sequence[bool]) -> np.ndarray:
    """Global scores [nodes] as the paper defines them.

    A selected part has 1. Another node has its parent's score divided by the number of the parent's
    children, and 0 without a parent.

    Args:
        tree: The tree.
        is_chosen: Whether each node is selected [nodes].
    """
    scores = np.zeros(len(tree.nodes))
    children = tree.children()
    for i, node in enumerate(tree.nodes):  # parents first, so a parent's score is known
        if is_chosen[i]:
            scores[i] = 1.0
        elif node.parent >= 0:
            scores[i] = scores[node.parent] / len(children[node.parent])
    return scores


def _shares_by_code(tree: Tree, is_chosen: Sequence[bool]) -> np.ndarray:
    """A selected part has 1 and adds a share to each child, those of an abstract excepted."""
    scores = np.array(is_chosen, dtype=float)
    children = tree.children()
    for i, node in enumerate(tree.nodes):
        if node.parent < 0 or not is_chosen[node.parent]:
            continue
        kind = tree.nodes[node.parent].kind
        if kind == "abstract":
            continue
        # A section is shared by its sub-sections, a sub-section by its paragraphs.
        counts_leaves = kind == "sub-section"
        siblings = [tree.nodes[child] for child in children[node.parent]]
        counted = sum(sibling.leaf == counts_leaves for sibling in siblings)
        scores[i] += 1 / (counted + 1)
    return scores


@dataclass(frozen=True)
class Choice:
    """nodes: the chosen ones, in order of choice; pieces: the text to read; reason: why the choice
    ended."""

    nodes: tuple[Leaf, ...]
    pieces: tuple[Piece, ...]
    reason: str


def choose_by_code(showing: Showing, scores: Sequence[np.ndarray], budget: int) -> Choice:
    """The released code's choice.

    Args:
        showing: Shows pieces, and counts their tokens.
        scores: The scores of each document, [nodes].
        budget: Most tokens of what is read; separators are not counted.
    """
    order = _by_score(showing, scores)
    size = {place: showing.tokens([showing.node_piece(*place)]) for place in order}
    chosen: list[Leaf] = []
    left = budget
    total = 0
    for place in order:
        total += size[place]
        if total > 2 * budget or left < 0:
            break
        document, number = place
        node = showing.trees[document].nodes[number]
        if node.leaf and (document, node.parent) in chosen:
            continue
        inside = _chosen_children(showing, chosen, place)
        freed = sum(size[child] for child in inside)
        if inside and left + freed < size[place]:
            continue
        chosen = [other for other in chosen if other not in inside]
        chosen.append(place)
        left += freed - size[place]
    kept = tuple(chosen[:-1])
    reason = "exhausted"
    if left < 0:
        reason = "budget"
    return Choice(kept, tuple(showing.node_piece(*place) for place in kept), reason)


def _chosen_children(showing: Showing, chosen: Sequence[Leaf], place: Leaf) -> list[Leaf]:
    """Those of the chosen nodes that are children of the node at `place`."""
    document, number = place
    nodes = showing.trees[document].nodes
    of_document = [other for other in chosen if other[0] == document]
    return [other for other in of_document if nodes[other[1]].parent == number]


def _by_score(showing: Showing, scores: Sequence[np.ndarray]) -> list[Leaf]:
    """All nodes of all documents as (document, node), by falling score; of equal scores leaves
    before parts. scores: of each document, [nodes]."""
    leaves: list[Leaf] = []
    parts: list[Leaf] = []
    for document, tree in enumerate(showing.trees):
        leaves += [(document, leaf) for leaf in tree.leaves()]
        parts += [(document, part) for part in _parts_by_end(tree)]
    return sorted([*leaves, *parts], key=lambda place: -scores[place[0]][place[1]])


def _parts_by_end(tree: Tree) -> list[int]:
    """The parts of a tree in the order of their last leaf, a sub-section before its section."""
    parts = [i for i, node in enumerate(tree.nodes) if not node.leaf]
    return sorted(parts, key=lambda part: (tree.under(part)[-1], -tree.level(part)))


def _by_score_then_place(scores: Sequence[np.ndarray]) -> list[Leaf]:
    """All nodes of all documents as (document, node), by falling score; of equal scores the earlier
    document and text first. scores: of each document, [nodes]."""
    places: list[Leaf] = []
    for document, values in enumerate(scores):
        places += [(document, node) for node in range(len(values))]
    return sorted(places, key=lambda place: (-scores[place[0]][place[1]], place))


def choose_nodes(
    showing: Showing, scores: Sequence[np.ndarray], budget: int, skip: bool = False
) -> Choice:
    """The paper's choice.

    Args:
        showing: Shows pieces, and counts their tokens.
        scores: The scores of each document, [nodes].
        budget: Most tokens of what is read, as shown.
        skip: Whether a paragraph that does not fit is passed over instead of ending the choice.
    """
    inside: set[Leaf] = set()
    taken: list[Leaf] = []
    reason = "exhausted"
    for document, node in _by_score_then_place(scores):
        tree = showing.trees[document]
        new = {(document, leaf) for leaf in tree.under(node)} - inside
        if not new:
            continue
        if showing.tokens(showing.pieces(inside | new)) > budget:
            reason = "budget"
            if tree.nodes[node].leaf and not skip:
                break
            continue
        inside |= new
        taken.append((document, node))
    return Choice(tuple(taken), tuple(showing.pieces(inside)), reason)
