"""Graph construction: a hierarchical weighted graph of Information Points over a document (S000 3.1, S001 3.1).

level 1   chunks of 300 tokens           c1 c2 c3 c4 | c5 c6 ...       batches that fill the window
level 2   bullets written per batch       p1  p2  p3 |  p4  p5         edges p -> c: attention while writing
level 3   bullets over bullets ...        until one call held the whole level

A_ij = mean over layers, heads, tokens of i and j of attention(i -> j)
e_ij = A_ij / sum over j' in the batch of i of A_ij'
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.errors import QuestionError
from harness.llm.base import MeteredModel, Session, Span
from harness.method import Index, Tools
from harness.types import Document
from methods.chunks import fixed_chunks
from methods.pecan.config import PecanConfig
from methods.pecan.points import parse_points
from methods.pecan.prompts import BULLET, SUMMARY_HEAD, SUMMARY_TAIL

__all__ = ["Graph", "build_graph", "feed_nodes", "pack"]


@dataclass
class Graph:
    """Nodes in order of creation, chunks first. Edges go from a higher node to lower ones.

    text[i] is on one line; level[i] >= 1; span[i] = (start, end) of a chunk in the document, None for a point;
    edges: rows (higher, lower, weight), weights of one higher node sum to 1; log: one line a level.
    """

    text: list[str] = field(default_factory=list)
    level: list[int] = field(default_factory=list)
    span: list[tuple[int, int] | None] = field(default_factory=list)
    edges: list[tuple[int, int, float]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def top(self) -> list[int]:
        """Nodes of the highest level, in order."""
        highest = max(self.level, default=0)
        return [i for i, level in enumerate(self.level) if level == highest]

    def to_index(self) -> Index:
        """JSON values and arrays for the cache."""
        higher, lower, weight = zip(*self.edges, strict=True) if self.edges else ((), (), ())
        return {
            "text": self.text,
            "level": self.level,
            "span": [list(s) if s else None for s in self.span],
            "log": self.log,
            "higher": np.asarray(higher, dtype=np.int32),
            "lower": np.asarray(lower, dtype=np.int32),
            "weight": np.asarray(weight, dtype=np.float64),
        }

    @classmethod
    def from_index(cls, index: Index) -> Graph:
        """The inverse of `to_index`."""
        rows = zip(index["higher"].tolist(), index["lower"].tolist(), index["weight"].tolist(), strict=True)
        spans: list[tuple[int, int] | None] = [(s[0], s[1]) if s else None for s in index["span"]]
        return cls(list(index["text"]), list(index["level"]), spans, list(rows), list(index["log"]))


def pack(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Fill batches in order; the node that would cross `room` opens the next one (points 4 and 5).

    A single node longer than `room` gets a batch of its own, which the model then refuses by its window.
    """
    batches: list[list[int]] = []
    used = 0
    for i, n in enumerate(lengths):
        if not batches or used + n > room:
            batches.append([])
            used = 0
        batches[-1].append(i)
        used += n
    return batches


def build_graph(document: Document, config: PecanConfig, tools: Tools) -> Graph:
    """Build the graph of `document` with the builder; question-independent.

    Raises QuestionError when a summary has no text at all, or a node does not fit the window.
    """
    model = tools.model("builder")
    graph = Graph()
    for start, end in fixed_chunks(document.text, config.chunk_tokens, model):
        graph.text.append(" ".join(document.text[start:end].split()))
        graph.level.append(1)
        graph.span.append((start, end))
    window = min(config.window, model.window)
    frame = model.turn_tokens() + model.count(SUMMARY_HEAD) + model.count(SUMMARY_TAIL)
    room = window - frame - config.reserve
    if config.batch_tokens is not None:
        room = min(room, config.batch_tokens)
    if room <= 0:
        raise QuestionError(
            f"a window of {window} tokens leaves no room for text beside the prompt ({frame}) and the summary "
            f"({config.reserve}); lower method.reserve or raise method.window and model.window"
        )
    nodes = [i for i, text in enumerate(graph.text) if text]
    for level in range(2, config.max_levels + 1):
        if not nodes:
            break
        written = _level(graph, nodes, level, room, config, tools)
        lone = len(written) == 1
        before, nodes = nodes, _append(graph, level, written)
        if lone and level - 1 >= config.min_ip_levels:
            break
        if not lone and len(nodes) >= len(before) and _tokens(graph, nodes, model) >= _tokens(graph, before, model):
            graph.log.append(f"level {level} has neither fewer nodes nor fewer tokens than {level - 1}: building ends")
            break
    return graph


def _tokens(graph: Graph, nodes: list[int], model: MeteredModel) -> int:
    return sum(model.count(graph.text[i]) for i in nodes)


@dataclass(frozen=True)
class _Batch:
    """One call: its nodes, and what came of it: point texts and weights [points, nodes]."""

    nodes: list[int]
    points: list[str]
    weights: np.ndarray
    how: str


def _level(graph: Graph, nodes: list[int], level: int, room: int, config: PecanConfig, tools: Tools) -> list[_Batch]:
    model = tools.model("builder")
    mark = 0 if level == 2 else model.count(BULLET)
    newline = model.count("\n")
    lengths = [model.count(graph.text[i]) + mark + newline for i in nodes]
    batches = [[nodes[i] for i in batch] for batch in pack(lengths, room)]
    done = [0]

    def run(batch: list[int]) -> _Batch:
        texts = [graph.text[i] for i in batch]
        name = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        kept = tools.keep(f"level{level}-{name}", lambda: _summarise(texts, level, model, config))
        done[0] += 1
        tools.progress(done[0], len(batches), f"level {level} summaries")
        return _Batch(batch, list(kept["points"]), np.asarray(kept["weights"]), str(kept["how"]))

    written = tools.map(run, batches)
    counts = ", ".join(f"{len(b.points)} ({b.how})" for b in written)
    graph.log.append(f"level {level}: {len(nodes)} nodes in {len(batches)} calls -> points {counts}")
    return written


def _append(graph: Graph, level: int, written: list[_Batch]) -> list[int]:
    added = []
    for batch in written:
        for text, row in zip(batch.points, batch.weights, strict=True):
            i = len(graph.text)
            graph.text.append(text)
            graph.level.append(level)
            graph.span.append(None)
            graph.edges += [(i, j, float(w)) for j, w in zip(batch.nodes, row, strict=True) if w > 0]
            added.append(i)
    return added


def feed_nodes(s: Session, texts: Sequence[str], level: int) -> list[Span]:
    """Put the request for points of `level` into an empty context; returns the span of each text."""
    s.user(SUMMARY_HEAD)
    spans = []
    for i, text in enumerate(texts):
        s.feed("\n" if i else "")
        # The mark is fed apart, so that a point's span holds its text only (point 7).
        s.feed("" if level == 2 else BULLET)
        spans.append(s.feed(text))
    s.feed(SUMMARY_TAIL)
    return spans


def _summarise(texts: list[str], level: int, model: MeteredModel, config: PecanConfig) -> dict[str, Any]:
    """One call: the points of `texts` and their normalised edge weights [points, texts]."""
    with model.session() as s:
        spans = feed_nodes(s, texts, level)
        out = s.write(min(config.reserve, s.room() - model.turn_tokens()), watch=spans)
    parsed = parse_points(out.text, out.finish == "length")
    if not parsed.points:
        raise QuestionError(f"the builder wrote no summary for {len(texts)} nodes of level {level - 1}")
    rows = np.stack([out.attention_between(p.start, p.end) for p in parsed.points])
    if config.token_mean == "sum":
        # A sum over the higher node's tokens cancels in the normalisation; over the lower node's it does not.
        rows = rows * np.array([len(span) for span in spans])
    return {"points": [p.text for p in parsed.points], "weights": normalise_rows(rows), "how": parsed.how}


def normalise_rows(rows: np.ndarray) -> np.ndarray:
    """Rows that sum to 1 (S000 3.1); a row without any attention becomes uniform, so that no point is cut off."""
    total = rows.sum(axis=1, keepdims=True)
    uniform = np.full_like(rows, 1 / rows.shape[1])
    return np.where(total > 0, rows / np.where(total > 0, total, 1), uniform)
