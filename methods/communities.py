"""Communities of a graph, and communities within large ones: levels from 0, the coarsest.

    find_communities([(0, 1, 8.0), (1, 2, 3.0), ...], 10)
        -> [Community(0, (0, 1, 2, ...)), Community(1, (0, 1)), ...]

By Louvain's method (networkx, modularity, edge weights), with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SEED = 0


@dataclass(frozen=True)
class Community:
    """A community of a graph.

    Attributes:
        level: 0 is the coarsest.
        nodes: The numbers of its nodes, sorted.
    """

    level: int
    nodes: tuple[int, ...]


def find_communities(
    edges: Iterable[tuple[int, int, float]], max_nodes: int, largest_component: bool = False
) -> list[Community]:
    """Find the communities of a graph by Louvain's method, and those within large ones.

    A large community that the method does not divide has none in it; an empty graph has none.

    Args:
        edges: (node, node, weight), without directions; the last one of two nodes counts.
        max_nodes: Most nodes of a community; a larger one has communities of the next level in it.
        largest_component: Whether only the largest connected part of the graph counts.

    Returns:
        All communities, the coarsest first.
    """
    import networkx

    def divide(graph: Any, level: int) -> list[Community]:
        """The communities of a graph, as those of this level."""
        groups = networkx.community.louvain_communities(graph, weight="weight", seed=SEED)
        return [Community(level, tuple(sorted(nodes))) for nodes in groups]

    graph = networkx.Graph()
    graph.add_weighted_edges_from(edges)
    if not len(graph):
        return []
    if largest_component:
        graph = graph.subgraph(max(networkx.connected_components(graph), key=len))
    communities_found: list[Community] = []
    not_divided_yet = divide(graph, 0)
    while not_divided_yet:
        community = not_divided_yet.pop()
        communities_found.append(community)
        if len(community.nodes) > max_nodes:
            finer = divide(graph.subgraph(community.nodes), community.level + 1)
            if len(finer) > 1:
                not_divided_yet += finer
    return sorted(communities_found, key=_level_then_nodes)


def _level_then_nodes(community: Community) -> tuple[int, tuple[int, ...]]:
    """A sort key: the coarser level first, in a level the community with the lower nodes."""
    return community.level, community.nodes


def finest_community_of_nodes(all_communities: list[Community], level: int) -> dict[int, int]:
    """Node -> the place in `all_communities` of the finest community of `level` or coarser that has
    it.

    Args:
        all_communities: All communities, the coarsest first.
        level: The finest level that counts.
    """
    community_of_node: dict[int, int] = {}
    for number, community in enumerate(all_communities):
        if community.level <= level:  # a finer one comes later, and takes the nodes over
            community_of_node.update(dict.fromkeys(community.nodes, number))
    return community_of_node
