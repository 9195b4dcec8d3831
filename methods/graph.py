"""The graph over a document: a hierarchical weighted graph of Information Points (PECAN 3.1, GARLIC
3.1).

level 1   chunks of 300 tokens           c1 c2 c3 c4 | c5 c6 ...
level 2   points written over chunks     p1  p2  p3  | p4  p5         edges p -> c, weights of one p sum to 1
level 3   points written over points ...

Built by build.py, stored as the index of the document, searched by search.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np

from harness.method import Index
from harness.types import Shown


@dataclass(frozen=True)
class NewNodes:
    """Nodes that one call of a model wrote.

    Attributes:
        texts: Their texts.
        lower_nodes: The lower nodes that the call read.
        weights: The weights of the edges between the two [texts, read].
    """

    texts: Sequence[str]
    lower_nodes: Sequence[int]
    weights: np.ndarray


@dataclass
class Graph:
    """Nodes in order of creation, chunks first. Edges go from a higher node to lower ones.

    Attributes:
        text: The text of each node, on one line.
        level: The level of each node, from 1.
        span: (start, end) of each chunk in the document; None for a written node.
        log: One line a level, about how it was built.
        notes: Sentences about what did not go as usual.
        higher: Number of each edge's higher node [edges], in ascending order.
        lower: Number of each edge's lower node [edges].
        weight: The weight of each edge [edges], above 0; those from one higher node sum to 1.
    """

    text: list[str] = field(default_factory=list)
    level: list[int] = field(default_factory=list)
    span: list[tuple[int, int] | None] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    higher: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    lower: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    weight: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float64))

    @property
    def edges(self) -> list[tuple[int, int, float]]:
        """All edges as rows (higher node, lower node, weight)."""
        return list(
            zip(self.higher.tolist(), self.lower.tolist(), self.weight.tolist(), strict=True)
        )

    def highest_nodes(self) -> list[int]:
        """Nodes of the highest level that have a text, in order."""
        highest = max(self.level, default=0)
        return [
            node for node, level in enumerate(self.level) if level == highest and self.text[node]
        ]

    def add_node(self, text: str, level: int, span: tuple[int, int] | None = None) -> int:
        """Append a node without edges, and return its number.

        Args:
            text: Its text.
            level: Its level, from 1.
            span: (start, end) in the document for a chunk; None for a written node.
        """
        self.text.append(text)
        self.level.append(level)
        self.span.append(span)
        return len(self.text) - 1

    def add_edges(
        self, edge_blocks: Sequence[tuple[Sequence[int], Sequence[int], np.ndarray]]
    ) -> None:
        """Append the edges of several blocks.

            ([7, 8], [1, 2], [[0.5, 0.5], [0, 1]])    -> edges 7 to 1, 7 to 2, and 8 to 2

        Args:
            edge_blocks: (higher nodes, lower nodes, weights [higher, lower]); a weight of 0 is no
                edge. Higher nodes ascend, also from block to block and after those with edges
                already.
        """
        higher = [self.higher]
        lower = [self.lower]
        weight = [self.weight]
        for higher_nodes, lower_nodes, weights in edge_blocks:
            rows, columns = np.nonzero(weights)
            higher.append(np.asarray(higher_nodes, dtype=np.int32)[rows])
            lower.append(np.asarray(lower_nodes, dtype=np.int32)[columns])
            weight.append(weights[rows, columns])
        self.higher = np.concatenate(higher)
        self.lower = np.concatenate(lower)
        self.weight = np.concatenate(weight)

    def add_level(self, level: int, nodes_by_call: Sequence[NewNodes]) -> list[int]:
        """Append the nodes of a level with their edges, and return their numbers.

        Args:
            level: The number of the level.
            nodes_by_call: For each call of a model the nodes that it wrote.
        """
        nodes: list[int] = []
        edge_blocks: list[tuple[list[int], Sequence[int], np.ndarray]] = []
        for written in nodes_by_call:
            new_nodes = [self.add_node(text, level) for text in written.texts]
            edge_blocks.append((new_nodes, written.lower_nodes, written.weights))
            nodes += new_nodes
        self.add_edges(edge_blocks)
        return nodes

    def texts_of(self, nodes: Sequence[int]) -> list[str]:
        """The texts of the nodes with these numbers, in their order."""
        return [self.text[node] for node in nodes]

    @cached_property
    def _first_edges(self) -> np.ndarray:
        """The number of each node's first edge, [nodes + 1]: node i has the edges from [i] up to [i
        + 1].

        It is computed once, so only for a graph that no longer grows.
        """
        return np.searchsorted(self.higher, np.arange(len(self.text) + 1))

    def edges_below(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """The lower nodes that a node has edges to, each once, and the weights of these edges.

        Returns:
            Two arrays of the same length, [lower nodes] each.
        """
        edges = slice(self._first_edges[node], self._first_edges[node + 1])
        return self.lower[edges], self.weight[edges]

    def source_spans(self, node: int, min_weight: float = 0.0) -> list[tuple[int, int]]:
        """Spans of the chunks that a written node was written from, sorted; all edges downwards are
        followed.

        Args:
            node: The number of the written node.
            min_weight: Edges of a smaller weight are not followed.
        """
        spans: set[tuple[int, int]] = set()
        visited = {node}
        to_follow = [node]
        while to_follow:
            lower, weight = self.edges_below(to_follow.pop())
            for lower_node in lower[weight >= min_weight].tolist():
                span = self.span[lower_node]
                if span is not None:
                    spans.add(span)
                elif lower_node not in visited:
                    visited.add(lower_node)
                    to_follow.append(lower_node)
        return sorted(spans)

    def shown(self, node: int, document_id: str, min_weight: float = 0.0) -> Shown:
        """A node as an Answer says what the reader saw: a chunk as a span of the document, a
        written node as text with its sources.

        Args:
            node: The number of the node.
            document_id: The document's id.
            min_weight: Edges of a smaller weight do not count for the sources.
        """
        span = self.span[node]
        if span is not None:
            return Shown("span", document_id, *span)
        sources = tuple(
            (document_id, start, end) for start, end in self.source_spans(node, min_weight)
        )
        return Shown("generated", document_id, text=self.text[node], sources=sources)

    def to_index(self) -> Index:
        """The graph as an index: field name -> its value, as JSON values and arrays; spans are
        [start, end] or None."""
        index: Index = {item.name: getattr(self, item.name) for item in fields(self)}
        index["span"] = list(map(_span_as_list, self.span))
        return index

    @classmethod
    def from_index(cls, index: Index) -> Graph:
        """The graph that `to_index` made this index of; other keys of the index are ignored."""
        values = {item.name: index[item.name] for item in fields(cls)}
        values["span"] = [_span_from_list(span_as_list) for span_as_list in index["span"]]
        return cls(**values)


def _span_as_list(span: tuple[int, int] | None) -> list[int] | None:
    """The span of a node as an index stores it: (0, 40) -> [0, 40]; None of a written node."""
    if span is None:
        return None
    return list(span)


def _span_from_list(span_as_list: Sequence[int] | None) -> tuple[int, int] | None:
    """The span of a node as an index stores it: [0, 40] -> (0, 40); None of a written node."""
    if span_as_list is None:
        return None
    start, end = span_as_list
    return start, end


def equal_weights(lower_nodes: Sequence[int]) -> np.ndarray:
    """Edge weights [1, group] of one node over a group, all alike; their sum is 1."""
    return np.full((1, len(lower_nodes)), 1 / len(lower_nodes))
