"""Tree construction, layer by layer (docs/methods/raptor.md#raptor).

level 1   chunks of 100 tokens       c1 c2 c3 c4 c5 ...      embedded
level 2   a summary of each cluster  s1 s2 ...               embedded, clustered again, and so on
stops at a level of 11 nodes or fewer, or after 5 levels of summaries

A node may be in several clusters, so it may have several parents. The prompt asks for what the released code's asks
for (docs/methods/raptor.md#raptor-summary), at temperature 0 (released: the API's default); nodes stand on a line each
(released: with an empty line between).
"""

from __future__ import annotations

import hashlib

import numpy as np

from harness.errors import QuestionError
from harness.method import Tools
from harness.models import MeteredModel
from harness.types import Document
from methods import summary
from methods.graph import Graph
from methods.raptor.cluster import clusters
from methods.raptor.config import RaptorConfig
from methods.segments import packed


def build_tree(document: Document, config: RaptorConfig, tools: Tools) -> tuple[Graph, np.ndarray]:
    """The tree of `document` alone, and an embedding of every node [nodes, width].

    Raises QuestionError where the builder's window leaves no room for text, CannotRun where UMAP is missing.
    """
    model, encoder = tools.model("builder"), tools.encoder()
    most = _most(config, model)
    graph = Graph()
    if most < config.cluster_tokens:
        graph.log.append(f"clusters hold {most} tokens at most, which is what the window of '{model.name}' leaves")
    for start, end in packed(document.text, config.chunk_tokens, model):
        graph.add(" ".join(document.text[start:end].split()), 1, (start, end))
    if not graph.text:
        graph.notes.append("the document has no text, so there is nothing to retrieve")
    vectors = encoder.encode(graph.text, "passage")
    nodes = list(range(len(graph.text)))
    newline = model.count("\n")
    for level in range(2, config.layers + 2):
        if len(nodes) <= config.dimensions + 1:
            break
        tokens = [model.count(graph.text[i]) + newline for i in nodes]
        groups = [[nodes[row] for row in rows] for rows in clusters(vectors[nodes], tokens, most, config)]
        graph.log.append(f"level {level}: {len(nodes)} nodes in {len(groups)} clusters")
        nodes = _append(graph, level, groups, _summaries(graph, level, groups, config, tools))
        new = encoder.encode([graph.text[i] for i in nodes], "passage")
        vectors = np.concatenate([vectors, new]) if nodes else vectors
    return graph, vectors


def _most(config: RaptorConfig, model: MeteredModel) -> int:
    """Tokens of nodes that a cluster may hold: the method's cap, or what the builder's window leaves."""
    frame = summary.frame_tokens(model, summary.DETAILED.of(config))
    room = model.window - frame - config.summary_tokens
    if room < config.chunk_tokens:
        raise QuestionError(
            f"the window of '{model.name}' ({model.window} tokens) does not hold a chunk of {config.chunk_tokens} "
            f"tokens beside the prompt ({frame}) and the summary ({config.summary_tokens}); lower "
            "method.chunk_tokens or method.summary_tokens, or raise model.window"
        )
    return min(config.cluster_tokens, room)


def _summaries(graph: Graph, level: int, groups: list[list[int]], config: RaptorConfig, tools: Tools) -> list[str]:
    """The summary of each group, on one line; "" where the builder wrote none."""
    model, most, prompt = tools.model("builder"), config.summary_tokens, summary.DETAILED.of(config)
    done = [0]

    def write(group: list[int]) -> str:
        texts = [graph.text[i] for i in group]
        name = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        text = tools.keep(f"level{level}-{name}", lambda: summary.summarise(texts, model, most, prompt))
        done[0] += 1
        tools.progress(done[0], len(groups), f"level {level} summaries")
        return " ".join(str(text).split())

    return tools.map(write, groups)


def _append(graph: Graph, level: int, groups: list[list[int]], summaries: list[str]) -> list[int]:
    """Add the summaries as nodes over their groups; returns the nodes. An empty one is left out, and that is noted."""
    blocks = [
        ([graph.add(text, level)], group, np.full((1, len(group)), 1 / len(group)))
        for group, text in zip(groups, summaries, strict=True)
        if text
    ]
    graph.connect(blocks)
    if empty := len(groups) - len(blocks):
        graph.notes.append(f"level {level}: {empty} of {len(groups)} summaries were empty and are left out")
    return [node for above, _, _ in blocks for node in above]
