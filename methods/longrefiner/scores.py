"""The scores of a document's nodes (LongRefiner 3.3; docs/methods/longrefiner.md#longrefiner-local).

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

import numpy as np

from methods.longrefiner.config import Rule
from methods.longrefiner.prompts import folded
from methods.longrefiner.tree import Node, Tree


def selectable_titles(node: Node) -> frozenset[str]:
    """The folded titles by which a node can be selected: its own, and "abstract" for an abstract;
    empty for a leaf."""
    titles: set[str] = set()
    if node.title and not node.is_leaf:
        titles.add(folded(node.title))
    if node.kind == "abstract":
        titles.add("abstract")
    return frozenset(titles)


def local_scores(tree: Tree, leaf_scores: Sequence[float], rule: Rule = "paper") -> np.ndarray:
    """The local score LS of each node [nodes], from those of the leaves upwards.

    Args:
        tree: A document's tree.
        leaf_scores: The scores of its leaves by the scoring model, in the order of `tree.leaves()`.
        rule: How a section's score is made: "paper" is the mean of its children's; for "code" its
            own paragraphs count as one child. Other parts have the mean of their children's.
    """
    scores = np.zeros(len(tree.nodes))
    scores[tree.leaves()] = leaf_scores
    children = tree.children()
    # Children have higher numbers than their parents, so that their scores are known first.
    for number in reversed(range(len(tree.nodes))):
        if tree.nodes[number].is_leaf:
            continue
        if rule == "code" and tree.nodes[number].kind == "section":
            scores[number] = _mean_with_paragraphs_as_one(tree, children[number], scores)
        else:
            scores[number] = np.mean(scores[children[number]])
    return scores


def _mean_with_paragraphs_as_one(tree: Tree, children: Sequence[int], scores: np.ndarray) -> float:
    """The mean score of a section's sub-sections and of its own paragraphs, which count as one.

    Args:
        tree: The tree.
        children: The numbers of the section's children.
        scores: The scores of all nodes, the children's already set [nodes].
    """
    paragraph_scores: list[float] = []
    child_scores: list[float] = []
    for child in children:
        if tree.nodes[child].is_leaf:
            paragraph_scores.append(float(scores[child]))
        else:
            child_scores.append(float(scores[child]))
    if paragraph_scores:
        child_scores.append(float(np.mean(paragraph_scores)))
    return float(np.mean(child_scores))


def normalised(scores: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each document's scores on one scale from 0 to 1, the lowest and the highest of all documents;
    all 0 where all are equal."""
    if not scores:
        return []
    all_scores = np.concatenate(scores)
    if not len(all_scores) or all_scores.max() == all_scores.min():
        return [np.zeros(len(values)) for values in scores]
    lowest = all_scores.min()
    score_range = all_scores.max() - lowest
    return [(values - lowest) / score_range for values in scores]


def global_scores(tree: Tree, selected: Collection[str], rule: Rule = "paper") -> np.ndarray:
    """The global score GS of each node [nodes], from the selected parts downwards.

    Args:
        tree: A document's tree.
        selected: The folded titles that were selected.
        rule: How a selected part gives shares to the nodes under it.
    """
    titles_of_nodes = map(selectable_titles, tree.nodes)
    is_chosen = [not titles.isdisjoint(selected) for titles in titles_of_nodes]
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
    for number, node in enumerate(tree.nodes):  # parents first, so a parent's score is known
        if is_chosen[number]:
            scores[number] = 1.0
        elif node.parent >= 0:
            scores[number] = scores[node.parent] / len(children[node.parent])
    return scores


def _shares_by_code(tree: Tree, is_chosen: Sequence[bool]) -> np.ndarray:
    """Global scores [nodes] as the released code computes them.

    A selected part has 1 and adds a share to each of its children, unless it is an abstract. The
    share is 1 / (m + 1), m the number of a section's sub-sections or of a sub-section's paragraphs.

    Args:
        tree: The tree.
        is_chosen: Whether each node is selected [nodes].
    """
    scores = np.array(is_chosen, dtype=float)
    children = tree.children()
    for number, node in enumerate(tree.nodes):
        if node.parent < 0 or not is_chosen[node.parent]:
            continue
        kind = tree.nodes[node.parent].kind
        if kind == "abstract":
            continue
        # A section is shared by its sub-sections, a sub-section by its paragraphs.
        counts_leaves = kind == "sub-section"
        siblings = [tree.nodes[child] for child in children[node.parent]]
        n_counted = sum(sibling.is_leaf == counts_leaves for sibling in siblings)
        scores[number] += 1 / (n_counted + 1)
    return scores
