"""Communities of a graph, and communities within large ones: levels from 0, the coarsest.

    communities(graph, 10)     [Community(0, (0, 1, 2, ...)), Community(1, (0, 1)), ...]

By Louvain's method (networkx, modularity, edge weights), with a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SEED = 0


@dataclass(frozen=True)
class Community:
    """A community of a graph. level: 0 is the coarsest; nodes: their numbers, sorted."""

    level: int
    nodes: tuple[int, ...]


def communities(graph: Any, most: int, largest_component: bool = False) -> list[Community]:
    """Find the communities of a graph.

    Args:
        graph: Of networkx, without directions; edges may have a `weight`.
        most: Nodes of a community; a larger one has communities of the next level in it.
        largest_component: Whether only the largest part that hangs together counts.

    Returns:
        All communities, the coarsest first.
    """
    import networkx

    if largest_component and len(graph):
        graph = graph.subgraph(max(networkx.connected_components(graph), key=len))
    found: list[Community] = []
    waiting = _parts(graph, 0)
    while waiting:
        community = waiting.pop()
        found.append(community)
        if len(community.nodes) > most:
            parts = _parts(graph.subgraph(community.nodes), community.level + 1)
            if len(parts) > 1:
                waiting += parts
    return sorted(found, key=lambda community: (community.level, community.nodes))


def deepest(found: list[Community], level: int) -> dict[int, int]:
    """Node -> the number of the finest community of `level` or coarser that has it."""
    places: dict[int, int] = {}
    for number, community in enumerate(found):
        if community.level <= level:
            places.update(dict.fromkeys(community.nodes, number))
    return places


def _parts(graph: Any, level: int) -> list[Community]:
    """The communities of one level."""
    import networkx

    if not len(graph):
        return []
    found = networkx.community.louvain_communities(graph, weight="weight", seed=SEED)
    return [Community(level, tuple(sorted(nodes))) for nodes in found]
