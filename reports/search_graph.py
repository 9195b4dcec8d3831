"""The graph that a search went over: read from the index cache, known by its keys and not by its
method.

An index is only read: one that is damaged stays where it is, and `problem` says so in a sentence.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.engine.made_documents import joined_id
from harness.storage.index_cache import cache_root, read_packed
from harness.storage.record_notes import is_joined
from harness.storage.records import IndexLine, StoredRecord, StoredStep
from harness.storage.run_folder import StoredRun
from harness.storage.serialize import load

_GRAPH_KEYS = ("text", "level", "higher", "lower", "weight")


class Edge(NamedTuple):
    """An edge between two nodes of neighbouring levels.

    Attributes:
        higher: The node of the higher level.
        lower: The node of the lower level.
        weight: A finite number.
    """

    higher: int
    lower: int
    weight: float


class Span(NamedTuple):
    """The characters of the indexed text from `start` to `end`, the last not included."""

    start: int
    end: int


@dataclass(frozen=True)
class Graph:
    """A graph whose nodes are numbered from 0.

    Args:
        texts: The text of each node.
        levels: The level of each node, 1 for the lowest.
        edges: All edges.
        spans: Where each node's text stands in the indexed text, None for a text that was written;
            () where no node has one.
    """

    texts: tuple[str, ...]
    levels: tuple[int, ...]
    edges: tuple[Edge, ...]
    spans: tuple[Span | None, ...] = ()

    def nodes_by_level(self) -> dict[int, list[int]]:
        """Level -> its nodes, the highest level first: {2: [2], 1: [0, 1]}.

        The nodes of a level stand in document order where all of them have a span, else by number.
        """
        levels = sorted(set(self.levels), reverse=True)
        nodes_by_level: dict[int, list[int]] = {level: [] for level in levels}
        for node, level in enumerate(self.levels):
            nodes_by_level[level].append(node)
        for nodes in nodes_by_level.values():
            spans: dict[int, Span] = {}
            for node in nodes:
                span = self.span_of(node)
                if span is not None:
                    spans[node] = span
            if len(spans) == len(nodes):
                nodes.sort(key=spans.__getitem__)
        return nodes_by_level

    def level_name(self, level: int) -> str:
        """A level's name on the page: "level 2", but "chunks" for the lowest if all of its nodes
        are parts of the text."""
        nodes = [node for node, node_level in enumerate(self.levels) if node_level == level]
        are_parts_of_text = all(self.span_of(node) is not None for node in nodes)
        if level == min(self.levels) and are_parts_of_text:
            return "chunks"
        return f"level {level}"

    def span_of(self, node: int) -> Span | None:
        """The start and end of a node's text in the indexed text; None for a text that was
        written."""
        if not self.spans:
            return None
        return self.spans[node]


@dataclass(frozen=True)
class CachedGraph:
    """The graph of an index in the cache, or what is wrong with it.

    Args:
        graph: The graph; None where it cannot be read, and for an index that is no graph.
        problem: The end of a sentence, "is not in the cache ..."; None where nothing is wrong.
    """

    graph: Graph | None = None
    problem: str | None = None


GraphsByIndexKey = dict[str, CachedGraph]
"""What was read before, by the key of its index."""


@dataclass(frozen=True)
class GraphResult:
    """The graph of a record.

    Args:
        graph: The graph, or None.
        problem: A sentence on why there is none where there should be one.
        key: The key of its index in the cache; "" where there is not one index.
    """

    graph: Graph | None = None
    problem: str | None = None
    key: str = ""


def parse_graph(index: object) -> Graph | None:
    """The graph in an index that has text, level, higher, lower and weight; None for another index.

    Edge i goes from node higher[i] to node lower[i] with weight[i]; node j has text[j], level[j]
    and, where the index has "span", the place span[j] in the document.

        {"text": ["A b.", "A"], "level": [1, 2], "higher": [1], "lower": [0], "weight": [0.5]}
            -> Graph(texts=("A b.", "A"), levels=(1, 2), edges=(Edge(1, 0, 0.5),))
    """
    if not isinstance(index, Mapping):
        return None
    is_graph = all(name in index for name in _GRAPH_KEYS)
    if not is_graph:
        return None
    higher = np.asarray(index["higher"]).tolist()
    lower = np.asarray(index["lower"]).tolist()
    weights = np.asarray(index["weight"]).tolist()
    edges = tuple(
        Edge(*ends_and_weight) for ends_and_weight in zip(higher, lower, weights, strict=True)
    )
    spans: list[Span | None] = []
    for span in index.get("span") or ():
        if span is None:
            spans.append(None)
        else:
            spans.append(Span(span[0], span[1]))
    return Graph(
        texts=tuple(index["text"]), levels=tuple(index["level"]), edges=edges, spans=tuple(spans)
    )


def indexes_of_record(run: StoredRun, record: StoredRecord) -> list[IndexLine]:
    """The indexes that served a record, as lines of documents.jsonl: of each document the newest
    one that was built.

    Where the method read several documents joined into one, the index of that one is among them.
    """
    document_ids = list(record.document_ids)
    if is_joined(record.notes):
        document_ids.append(joined_id(document_ids))
    newest_by_document: dict[str, IndexLine] = {}
    for line in run.index_lines:
        serves_question = line.question_id in (None, record.question_id)  # None: all questions
        if line.failed or not serves_question:
            continue
        if line.document_id in document_ids:
            newest_by_document[line.document_id] = line  # a later line replaces an earlier one
    return list(newest_by_document.values())


def read_graph(
    run: StoredRun, record: StoredRecord, graphs_by_key: GraphsByIndexKey
) -> GraphResult:
    """The graph of a record's one index; also adds what it reads from the cache to `graphs_by_key`.

    A graph that the steps do not fit is a problem. There is neither a graph nor a problem where no
    step has a node, or several indexes served the record.

    Args:
        run: The run.
        record: The record.
        graphs_by_key: Key of an index -> its graph, of indexes that were read before.
    """
    steps_with_node = [step for step in record.steps if step["node"] is not None]
    if not steps_with_node:
        return GraphResult()
    indexes = indexes_of_record(run, record)
    if not indexes and run.index_lines:
        return GraphResult(problem="documents.jsonl names no index of this question.")
    if len(indexes) != 1:
        return GraphResult()
    key = str(indexes[0].key)
    document = indexes[0].document_id
    if key not in graphs_by_key:
        graphs_by_key[key] = _read_cached_graph(key)
    cached = graphs_by_key[key]
    if cached.graph is not None:
        mismatch = why_steps_do_not_fit(cached.graph, steps_with_node)
        if mismatch:
            problem = f"The index of {document} is not the one that was searched ({mismatch})."
            return GraphResult(problem=problem, key=key)
    if cached.problem:
        return GraphResult(problem=f"The index of {document} {cached.problem}.", key=key)
    return GraphResult(graph=cached.graph, key=key)


def why_steps_do_not_fit(graph: Graph, steps: Sequence[StoredStep]) -> str | None:
    """Why steps cannot be of this graph, as a part of a sentence: "it has no node 7"; None where
    nothing speaks against it."""
    for step in steps:
        node = step["node"]
        level = step["level"]
        if node is None:
            continue
        if not 0 <= node < len(graph.texts):
            return f"it has no node {node}"
        level_in_graph = graph.levels[node]
        if level is not None and level != level_in_graph:
            return f"its node {node} is of level {level_in_graph}, and the search saw level {level}"
        shown = step.get("shown") or {}
        text_is_generated = shown.get("kind") == "generated"
        if text_is_generated and shown["text"] and shown["text"] != graph.texts[node]:
            return f"its node {node} has another text"
    return None


def _read_cached_graph(key: str) -> CachedGraph:
    """Read the graph of the index with this key from the cache; what goes wrong becomes `problem`.

    The key is unique, so all folders of the cache are looked through for it.
    """
    if not re.fullmatch("[0-9a-f]{64}", key):
        return CachedGraph(problem="has no key that could be looked up (documents.jsonl)")
    root = cache_root()
    folders = sorted(root.glob(f"*/{key[:2]}/{key}"))
    if not folders:
        return CachedGraph(
            problem=f"is not in the cache {root} any more (HARNESS_CACHE or HARNESS_HOME names "
            "another one)"
        )
    folder = folders[0]
    try:
        index = load(*read_packed(folder, key))
        return CachedGraph(parse_graph(index))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return CachedGraph(problem=f"cannot be read from the cache: {folder} is damaged ({error})")
