"""The graph that a search went over: read from the index cache, known by its keys and not by its
method.

An index is only read: one that is damaged stays where it is, and `problem` says so in a sentence.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.engine.made_documents import joined_id
from harness.storage.index_cache import cache_root, read_packed
from harness.storage.records import IndexLine
from harness.storage.run_folder import StoredRun
from harness.storage.serialize import load

_KEYS = ("text", "level", "higher", "lower", "weight")


@dataclass(frozen=True)
class Graph:
    """Nodes by number: text[i], level[i] (1 = the lowest), span[i] = (start, end) in the indexed
    text or None.

    edges: (higher, lower, weight), higher and lower being node numbers and weight a finite number.
    """

    text: tuple[str, ...]
    level: tuple[int, ...]
    edges: tuple[tuple[int, int, float], ...]
    span: tuple[tuple[int, int] | None, ...] = ()

    def rows(self) -> dict[int, list[int]]:
        """The nodes of each level, the highest level first; in document order where all of them
        have a span."""
        rows: dict[int, list[int]] = {level: [] for level in sorted(set(self.level), reverse=True)}
        for node, level in enumerate(self.level):
            rows[level].append(node)
        for nodes in rows.values():
            places = {node: span for node in nodes if (span := self.place(node)) is not None}
            if len(places) == len(nodes):
                nodes.sort(key=places.__getitem__)
        return rows

    def level_name(self, level: int) -> str:
        """A level's name on the page: "chunks" for the lowest if all of its nodes are parts of the
        text."""
        nodes = [node for node, node_level in enumerate(self.level) if node_level == level]
        lowest = level == min(self.level) and all(self.place(node) is not None for node in nodes)
        return "chunks" if lowest else f"level {level}"

    def place(self, node: int) -> tuple[int, int] | None:
        """Where the text of `node` stands in the indexed text; None for a text that was written."""
        return self.span[node] if self.span else None


@dataclass(frozen=True)
class GraphResult:
    """The graph of a record; `problem` says why there is none where there should be one; key: of
    the cache."""

    graph: Graph | None = None
    problem: str | None = None
    key: str = ""


def parse_graph(index: Any) -> Graph | None:
    """The graph in an index that has text, level, higher, lower and weight; None for any other
    index."""
    if not isinstance(index, Mapping) or not all(name in index for name in _KEYS):
        return None
    ends = (np.asarray(index[name]).tolist() for name in ("higher", "lower", "weight"))
    spans = tuple(None if span is None else (span[0], span[1]) for span in index.get("span") or ())
    return Graph(tuple(index["text"]), tuple(index["level"]), tuple(zip(*ends, strict=True)), spans)


def index_lines(run: StoredRun, record: Mapping[str, Any]) -> list[IndexLine]:
    """The lines of documents.jsonl behind a record, one a document, the newest that was built.

    A method that takes one document was handed several joined under an id of their own
    (harness.engine.made_documents).
    """
    ids = list(record["document_ids"])
    if (record.get("notes") or {}).get("joined"):
        ids.append(joined_id(ids))
    lines: dict[str, IndexLine] = {}
    for line in run.documents:
        serves = line.question_id in (None, record["question_id"])
        if line.document_id in ids and serves and not line.failed:
            lines[line.document_id] = line
    return list(lines.values())


def read_graph(
    run: StoredRun, record: Mapping[str, Any], cache: dict[str, tuple[Graph | None, str | None]]
) -> GraphResult:
    """The graph of a record's one index. Neither graph nor problem: no step has a node, or there is
    not one index.

    cache: digest -> (graph, problem) of what was read before, for the next call. A graph that the
    steps do not fit is not returned.
    """
    nodes = [step for step in record["steps"] if step["node"] is not None]
    lines = index_lines(run, record) if nodes else []
    if not lines and run.documents and nodes:
        return GraphResult(problem="documents.jsonl names no index of this question.")
    if len(lines) != 1:
        return GraphResult()
    key, name = str(lines[0].key), lines[0].document_id
    if key not in cache:
        cache[key] = _cached_graph(key)
    graph, problem = cache[key]
    if graph is not None and (other := mismatch(graph, nodes)):
        graph, problem = None, f"is not the one that was searched ({other})"
    return GraphResult(graph, problem and f"The index of {name} {problem}.", key)


def mismatch(graph: Graph, steps: list[dict[str, Any]]) -> str | None:
    """Why `steps` (those with a node) cannot be of this graph; None where nothing speaks against
    it."""
    for step in steps:
        node, shown = step["node"], step.get("shown") or {}
        if not 0 <= node < len(graph.text):
            return f"it has no node {node}"
        if step["level"] is not None and step["level"] != graph.level[node]:
            return f"its node {node} is of level {graph.level[node]}, and the search saw level {step['level']}"
        if shown.get("kind") == "generated" and shown["text"] and shown["text"] != graph.text[node]:
            return f"its node {node} has another text"
    return None


def _cached_graph(key: str) -> tuple[Graph | None, str | None]:
    """The graph of the index under the digest `key` in the cache, and what is wrong: "is not in the
    cache ...".

    The digest is unique, so the folder of the implementation that stands above it need not be
    known.
    """
    if not re.fullmatch("[0-9a-f]{64}", key):
        return None, "has no key that could be looked up (documents.jsonl)"
    root = cache_root()
    folder = next(iter(sorted(root.glob(f"*/{key[:2]}/{key}"))), None)
    if folder is None:
        return (
            None,
            (
                f"is not in the cache {root} any more (HARNESS_CACHE or HARNESS_HOME names another "
                "one)"
            ),
        )
    try:
        return parse_graph(load(*read_packed(folder, key))), None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"cannot be read from the cache: {folder} is damaged ({error})"
