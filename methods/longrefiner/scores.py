"""The scores of a document's nodes (LongRefiner 3.3; docs/methods/longrefiner.md#longrefiner-local).

local    LS(leaf) = what the scoring model says        LS(part) = mean of LS over its children
global   GS(part) = 1 if its title is selected         otherwise GS(node) = GS(parent) / number of its children
sum      LS + R * GS, the local scores min-max normalised over all nodes of all documents of a question

The paper gives the indicator to "section nodes" without saying what a sub-section that is not selected gets; here it
takes its share of its section, as any child. Text under no title has GS 0.

The released code: a section's mean takes its own paragraphs together as one child; a selected part gives its children
1 / (m + 1), m the number of a section's sub-sections or of a sub-section's paragraphs; shares go one level down, add to
a child's own, and a selected abstract gives its paragraphs none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from methods.longrefiner.config import Rule
from methods.longrefiner.prompts import folded
from methods.longrefiner.tree import Node, Tree


def names(node: Node) -> frozenset[str]:
    """By which titles a part is selected; an abstract is "abstract" and, where it has one, its title."""
    if node.leaf:
        return frozenset()
    titles = {folded(node.title)} if node.title else set()
    return frozenset(titles | ({"abstract"} if node.kind == "abstract" else set()))


def local_scores(tree: Tree, leaves: Sequence[float], rule: Rule = "paper") -> np.ndarray:
    """LS [nodes]; leaves: the scoring model's, in the order of `tree.leaves()`."""
    scores = np.zeros(len(tree.nodes))
    scores[tree.leaves()] = leaves
    children = tree.children()
    for i in reversed(range(len(tree.nodes))):  # children stand behind their parents
        if not tree.nodes[i].leaf:
            values = [scores[child] for child in children[i]]
            if rule == "code" and tree.nodes[i].kind == "section":
                own = [scores[child] for child in children[i] if tree.nodes[child].leaf]
                values = [scores[child] for child in children[i] if not tree.nodes[child].leaf]
                values += [np.mean(own)] if own else []
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
    """GS [nodes]; selected: folded titles."""
    scores = np.zeros(len(tree.nodes))
    chosen = [bool(names(node).intersection(selected)) for node in tree.nodes]
    children = tree.children()
    for i, node in enumerate(tree.nodes):
        if rule == "paper":
            parent = node.parent
            scores[i] = 1.0 if chosen[i] else scores[parent] / len(children[parent]) if parent >= 0 else 0.0
        else:
            scores[i] = chosen[i]
            if node.parent >= 0 and chosen[node.parent]:
                scores[i] += _share(tree, node.parent, children)
    return scores


def _share(tree: Tree, parent: int, children: Sequence[Sequence[int]]) -> float:
    """The score that a selected part gives to each of its children under the code's rule."""
    kind = tree.nodes[parent].kind
    if kind == "abstract":
        return 0.0
    counted = [child for child in children[parent] if tree.nodes[child].leaf == (kind == "sub-section")]
    return 1 / (len(counted) + 1)
