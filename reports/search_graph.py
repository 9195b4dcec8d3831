"""The graph that a search went over: read from the index cache, known by its keys and not by its
method.

An index is only read: one that is damaged stays where it is, and `problem` says so in a sentence.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.engine.made_documents import joined_id
from harness.storage.index_cache import cache_root, read_packed
from harness.storage.record_notes import is_joined
from harness.storage.records import IndexLine, StoredRecord, StoredStep
from harness.storage.run_folder import StoredRun
from harness.storage.serialize import load

_KEYS = ("text", "level", "higher", "lower", "weight")

Edge = tuple[int, int, float]
"""Higher node, lower node, and a weight that is a finite number."""
Span = tuple[int, int]
"""Start and end in the indexed text."""


@dataclass(frozen=True)
class Graph:
    """A graph whose nodes are numbered from 0.

    Args:
        text: The text of each node.
        level: The level of each node, 1 for the lowest.
        edges: (higher node, lower node, weight) of each edge.
        span: The place of each node's text in the indexed text, None for a text that was written;
            () where no node has one.
    """

    text: tuple[str, ...]
    level: tuple[int, ...]
    edges: tuple[Edge, ...]
    span: tuple[Span | None, ...] = ()

    def rows(self) -> dict[int, list[int]]:
        """Level -> its nodes, the highest level first.

        The nodes of a level stand in document order where all of them have a place, else by number.
        """
        rows: dict[int, list[int]] = {level: [] for level in sorted(set(self.level), reverse=True)}
        for node, level in enumerate(self.level):
            rows[level].append(node)
        for nodes in rows.values():
            places: dict[int, Span] = {}
            for node in nodes:
                span = self.place(node)
                if span is not None:
                    places[node] = span
            if len(places) == len(nodes):
                nodes.sort(key=places.__getitem__)
        return rows

    def level_name(self, level: int) -> str:
        """A level's name on the page: "level 2", but "chunks" for the lowest if all of its nodes
        are parts of the text."""
        nodes = [node for node, node_level in enumerate(self.level) if node_level == level]
        if level == min(self.level) and all(self.place(node) is not None for node in nodes):
            return "chunks"
        return f"level {level}"

    def place(self, node: int) -> Span | None:
        """The start and end of a node's text in the indexed text; None for a text that was
        written."""
        if not self.span:
            return None
        return self.span[node]


@dataclass(frozen=True)
class CachedGraph:
    """The graph of an index in the cache, or what is wrong with it.

    Args:
        graph: The graph; None where it cannot be read, and for an index that is no graph.
        problem: The end of a sentence, "is not in the cache ..."; None where nothing is wrong.
    """

    graph: Graph | None = None
    problem: str | None = None


KnownGraphs = dict[str, CachedGraph]
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
            -> Graph(text=("A b.", "A"), level=(1, 2), edges=((1, 0, 0.5),))
    """
    if not isinstance(index, Mapping) or not all(name in index for name in _KEYS):
        return None
    higher = np.asarray(index["higher"]).tolist()
    lower = np.asarray(index["lower"]).tolist()
    weights = np.asarray(index["weight"]).tolist()
    edges = tuple(zip(higher, lower, weights, strict=True))
    spans: list[Span | None] = []
    for span in index.get("span") or ():
        if span is None:
            spans.append(None)
        else:
            spans.append((span[0], span[1]))
    return Graph(tuple(index["text"]), tuple(index["level"]), edges, tuple(spans))


def index_lines(run: StoredRun, record: StoredRecord) -> list[IndexLine]:
    """The lines of documents.jsonl whose indexes served a record: of each document the newest that
    was built.

    Where the method read several documents joined into one, the line of that one is among them.
    """
    ids = list(record.document_ids)
    if is_joined(record.notes):
        ids.append(joined_id(ids))
    lines: dict[str, IndexLine] = {}
    for line in run.index_lines:
        serves = line.question_id in (None, record.question_id)
        if line.document_id in ids and serves and not line.failed:
            lines[line.document_id] = line
    return list(lines.values())


def read_graph(run: StoredRun, record: StoredRecord, known: KnownGraphs) -> GraphResult:
    """The graph of a record's one index; also adds what was read from the cache to `known`.

    A graph that the steps do not fit is a problem. There is neither a graph nor a problem where no
    step has a node, or several indexes served the record.

    Args:
        run: The run.
        record: The record.
        known: Key of an index -> its graph, of indexes that were read before.
    """
    nodes = [step for step in record.steps if step["node"] is not None]
    if not nodes:
        return GraphResult()
    lines = index_lines(run, record)
    if not lines and run.index_lines:
        return GraphResult(problem="documents.jsonl names no index of this question.")
    if len(lines) != 1:
        return GraphResult()
    key = str(lines[0].key)
    name = lines[0].document_id
    if key not in known:
        known[key] = _cached_graph(key)
    graph = known[key].graph
    problem = known[key].problem
    if graph is not None:
        other = mismatch(graph, nodes)
        if other:
            return GraphResult(
                problem=f"The index of {name} is not the one that was searched ({other}).", key=key
            )
    if problem:
        return GraphResult(problem=f"The index of {name} {problem}.", key=key)
    return GraphResult(graph, key=key)


def mismatch(graph: Graph, steps: Sequence[StoredStep]) -> str | None:
    """Why steps cannot be of this graph, as a part of a sentence: "it has no node 7"; None where
    nothing speaks against it."""
    for step in steps:
        node = step["node"]
        level = step["level"]
        if node is None:
            continue
        if not 0 <= node < len(graph.text):
            return f"it has no node {node}"
        if level is not None and level != graph.level[node]:
            return (
                f"its node {node} is of level {graph.level[node]}, and the search saw level {level}"
            )
        shown = step.get("shown") or {}
        if shown.get("kind") == "generated" and shown["text"] and shown["text"] != graph.text[node]:
            return f"its node {node} has another text"
    return None


def _cached_graph(key: str) -> CachedGraph:
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
        return CachedGraph(parse_graph(load(*read_packed(folder, key))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return CachedGraph(problem=f"cannot be read from the cache: {folder} is damaged ({error})")
