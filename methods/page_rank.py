"""Personalised PageRank of an undirected graph with weights, by networkx.

    page_rank(3, {(0, 1): 2.0, (1, 2): 1.0}, {0: 1.0}, damping=0.5)   -> [0.611, 0.333, 0.056]

A walk starts at a node drawn by the weights of the starts; at each step it goes on along an edge,
drawn by the weights of the edges, or returns to a start.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

TOLERANCE = 1e-10  # of the ranks, all together; the solver of HippoRAG's code (prpack) has this too
MAX_ITERATIONS = 10_000  # a walk that ends here has a damping very near 1


def page_rank(
    n_nodes: int,
    edge_weights: Mapping[tuple[int, int], float],
    start_weights: Mapping[int, float],
    damping: float,
) -> np.ndarray:
    """Rank the nodes of a graph by personalised PageRank.

        3, {(0, 1): 2.0, (1, 2): 1.0}, {0: 1.0}, 0.5 -> [0.611, 0.333, 0.056]

    Args:
        n_nodes: How many nodes there are; they are numbered from 0.
        edge_weights: (node, node) -> weight of the edge between them; of a pair that is there in
            both directions the sum counts.
        start_weights: Node -> its weight among the starts of the walk; 0 for all others.
        damping: How likely the walk goes on at each step, instead of returning to a start.

    Returns:
        The rank of each node, [nodes]; their sum is 1.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(n_nodes))
    for (first, second), weight in edge_weights.items():
        other_direction = graph.get_edge_data(first, second, {"weight": 0.0})["weight"]
        graph.add_edge(first, second, weight=weight + other_direction)
    ranks = networkx.pagerank(
        graph,
        alpha=damping,
        personalization=dict(start_weights),
        weight="weight",
        # networkx stops at the number of nodes times `tol`; all changes together stay below TOLERANCE.
        tol=TOLERANCE / n_nodes,
        max_iter=MAX_ITERATIONS,
    )
    return np.array([ranks[node] for node in range(n_nodes)])
