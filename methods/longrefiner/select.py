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

import itertools
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
    if node.leaf:
        return frozenset()
    titles = {folded(node.title)} if node.title else set()
    return frozenset(titles | ({"abstract"} if node.kind == "abstract" else set()))


def local_scores(tree: Tree, leaves: Sequence[float], rule: Rule = "paper") -> np.ndarray:
    """Local scores LS [nodes]; leaves: those of the leaves by the scoring model, in the order of
    `tree.leaves()`."""
    scores = np.zeros(len(tree.nodes))
    scores[tree.leaves()] = leaves
    children = tree.children()
    for i in reversed(range(len(tree.nodes))):  # children stand behind their parents
        if not tree.nodes[i].leaf:
            values = [scores[child] for child in children[i]]
            if rule == "code" and tree.nodes[i].kind == "section":
                leaf_scores = [scores[child] for child in children[i] if tree.nodes[child].leaf]
                values = [scores[child] for child in children[i] if not tree.nodes[child].leaf]
                values += [np.mean(leaf_scores)] if leaf_scores else []
            scores[i] = np.mean(values)
    return scores


def normalised(scores: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each document's scores on one scale from 0 to 1; all 0 where all are equal."""
    every = np.concatenate(scores) if scores else np.zeros(0)
    if not len(every) or every.max() == every.min():
        return [np.zeros(len(values)) for values in scores]
    low, width = every.min(), every.max() - every.min()
    return [(values - low) / width for values in scores]


def global_scores(tree: Tree, selected: Collection[str], rule: Rule = "paper") -> np.ndarray:
    """Global scores GS [nodes] of a tree; selected: folded titles."""
    scores = np.zeros(len(tree.nodes))
    chosen = [bool(selectable_titles(node).intersection(selected)) for node in tree.nodes]
    children = tree.children()
    for i, node in enumerate(tree.nodes):
        if rule == "paper":
            parent = node.parent
            scores[i] = (
                1.0 if chosen[i] else scores[parent] / len(children[parent]) if parent >= 0 else 0.0
            )
        else:
            scores[i] = chosen[i]
            kind = tree.nodes[node.parent].kind
            if node.parent >= 0 and chosen[node.parent] and kind != "abstract":
                siblings = (tree.nodes[child] for child in children[node.parent])
                counted = sum(sibling.leaf == (kind == "sub-section") for sibling in siblings)
                scores[i] += 1 / (counted + 1)
    return scores


def choose_by_code(showing: Showing, scores: Sequence[np.ndarray], budget: int) -> Choice:
    """The released code's choice within `budget` tokens, separators not counted; scores: of each
    document, [nodes]."""
    trees = showing.trees
    size = {
        place: showing.tokens([showing.node_piece(*place)]) for place in _by_score(showing, scores)
    }
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
        inside = [
            leaf
            for leaf in chosen
            if leaf[0] == document and trees[document].nodes[leaf[1]].parent == number
        ]
        freed = sum(size[leaf] for leaf in inside)
        if inside and left + freed < size[place]:
            continue
        chosen = [*(leaf for leaf in chosen if leaf not in inside), place]
        left += freed - size[place]
    kept = tuple(chosen[:-1])
    return Choice(
        kept,
        tuple(showing.node_piece(*place) for place in kept),
        "budget" if left < 0 else "exhausted",
    )


def _by_score(showing: Showing, scores: Sequence[np.ndarray]) -> list[Leaf]:
    """All nodes of all documents as (document, node), by falling score."""
    leaves = [
        (document, leaf) for document, tree in enumerate(showing.trees) for leaf in tree.leaves()
    ]
    parts: list[Leaf] = []
    for document, tree in enumerate(showing.trees):
        inner_nodes = (i for i, node in enumerate(tree.nodes) if not node.leaf)
        parts += [
            (document, i)
            for i in sorted(inner_nodes, key=lambda i: (tree.under(i)[-1], -tree.level(i)))
        ]
    return sorted([*leaves, *parts], key=lambda place: -scores[place[0]][place[1]])


@dataclass(frozen=True)
class Choice:
    """nodes: the chosen ones, in order of choice; pieces: the text to read; reason: why the choice
    ended."""

    nodes: tuple[Leaf, ...]
    pieces: tuple[Piece, ...]
    reason: str


def choose_nodes(
    showing: Showing, scores: Sequence[np.ndarray], budget: int, skip: bool = False
) -> Choice:
    """The paper's choice within `budget` tokens as shown; scores: of each document, [nodes]; skip:
    overflow "skip"."""
    trees = showing.trees
    inside: set[Leaf] = set()
    taken: list[Leaf] = []
    reason = "exhausted"
    every = [
        (document, node) for document, values in enumerate(scores) for node in range(len(values))
    ]
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
