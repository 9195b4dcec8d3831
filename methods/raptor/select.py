"""Which nodes of a tree are shown (docs/methods/raptor.md#raptor-retrieval).

collapsed (CT)   all nodes of all levels together, the nearest first; the first `top_k` of them
traversal (TT)   the `top_k` nearest of the highest level, then those of their children, and so on down to the chunks
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from methods.graph import Graph


def _nearest(nodes: Sequence[int], similarity: np.ndarray) -> list[int]:
    """The nodes by falling similarity; ties keep their order."""
    return [nodes[i] for i in np.argsort(-similarity[list(nodes)], kind="stable")] if nodes else []


def collapsed(similarity: np.ndarray) -> list[int]:
    """All nodes by falling similarity [nodes] to the question; ties keep document order."""
    return _nearest(range(len(similarity)), similarity)


def traversal(graph: Graph, similarity: np.ndarray, top_k: int) -> list[int]:
    """The nearest nodes level by level from the top, at most `top_k` of each; a node is a candidate once."""
    kept: list[int] = []
    nodes = graph.top()
    while nodes:
        chosen = _nearest(nodes, similarity)[:top_k]
        kept += chosen
        nodes = list(dict.fromkeys(int(child) for node in chosen for child in graph.below(node)[0]))
    return kept
