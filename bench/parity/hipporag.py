"""HippoRAG 2: the graph and the walk from the same triples and similarities."""

from __future__ import annotations

import ast
import time
import typing
from collections import defaultdict
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import igraph
import numpy as np

from bench.parity import Found
from bench.parity.rows import QUESTIONS, Rows
from harness.entities.recogniser import load_recogniser
from harness.words import as_phrase
from methods.hipporag import HippoRAG, _phrases, min_max, passage_ranks
from methods.retrieval import best_first

PROGRAM = "OSU-NLP-Group/HippoRAG"
METHODS = (
    "`hipporag-2` (triples: a paragraph's title, names in it; the five most similar ones are kept)"
)
RANKS, ORDER = (
    "passages' PageRank within 1e-4 (questions)",
    "the five best passages, in order (questions)",
)
REASONS = {
    RANKS: "of equal phrases at the fifth place the released program takes another one each time; kept: ours takes the "
    "first triple's",
    ORDER: "as above, or two passages within 1e-4 of each other; kept",
}
GRAPHS = 100
USED = (
    "add_fact_edges",
    "add_passage_edges",
    "add_new_edges",
    "get_top_k_weights",
    "graph_search_with_fact_entities",
    "run_ppr",
)


def _program(code: Path) -> Any:
    """The class with the methods that are compared, compiled from its file: the module imports
    servers and GPUs."""
    path = code / "src" / "hipporag" / "HippoRAG.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (kind,) = [
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "HippoRAG"
    ]
    kind.body = [
        node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name in USED
    ]
    names: dict[str, Any] = {
        **vars(typing),
        "np": np,
        "time": time,
        "defaultdict": defaultdict,
        "tqdm": lambda rows, **_: rows,
        "logger": mock.MagicMock(),
        "compute_mdhash_id": lambda content, prefix="": prefix + md5(content.encode()).hexdigest(),
        "min_max_normalize": min_max,
    }
    exec(compile(ast.Module([kind], []), str(path), "exec"), names)
    return names["HippoRAG"]


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare ranks of passages in graphs of HotpotQA's documents, whose triples are made by
    rule."""
    kind, method, data = _program(code), HippoRAG(HippoRAG.Config()), rows.dataset(limit=GRAPHS)
    names = load_recogniser("rules")
    shown: list[list[str]] = [[], []]

    def triples(_method: HippoRAG, text: str, _model: Any) -> list[tuple[str, str, str]]:
        """The triples of a passage by rule: its title "has" each name in it."""
        title, *_ = text.splitlines()
        found = [
            (as_phrase(title), "has", as_phrase(name)) for name in dict.fromkeys(names.names(text))
        ]
        return [fact for fact in found if all(fact)]

    for number, example in enumerate(data.examples):
        document, tools = data.documents[example.question.document_ids[0]], rows.tools()
        with mock.patch.object(HippoRAG, "_ask_for_triples", triples):
            index = method.index(document, tools)
        (query,) = rows.encoder.encode([example.question.text], "query")
        fit = min_max(rows.encoder.similarity(query, index["fact_vectors"]))
        similarity = min_max(rows.encoder.similarity(query, index["passage_vectors"]))
        kept = best_first(fit)[:5]
        ranks = [
            _ranked(kind(), index, fit, kept, similarity),
            passage_ranks(index, fit, kept, similarity, method.config),
        ]
        found.add(RANKS, *(scores.tolist() for scores in ranks), 1e-4)
        orders = [best_first(scores)[:5] for scores in ranks]
        found.add(ORDER, *orders)
        if number < QUESTIONS:
            for texts, order in zip(shown, orders, strict=True):
                texts.append(
                    "\n\n".join(document.text[slice(*index["passages"][i])] for i in order)
                )
    rows.answers(found, ORDER, *map(rows.read, shown))


def _ranked(
    program: Any, index: Any, fit: np.ndarray, kept: list[int], similarity: np.ndarray
) -> np.ndarray:
    """The released program's PageRank [passages] from our index. fit: scores of the facts; kept:
    indices of facts."""
    facts = [tuple(fact) for fact in index["facts"]]
    of = [[facts[i] for i in passage] for passage in index["of"]]
    program.graph = igraph.Graph(directed=False)
    program.node_to_node_stats, program.ent_node_to_chunk_ids = {}, {}
    chunks = [f"chunk-{i}" for i in range(len(of))]
    keys = ["entity-" + md5(phrase.encode()).hexdigest() for phrase in _phrases(facts)]
    program.add_fact_edges(chunks, of)
    program.add_passage_edges(
        chunks, [[p for s, _, o in passage for p in (s, o)] for passage in of]
    )
    program.node_to_node_stats |= {(keys[a], keys[b]): score for a, b, score in index["synonyms"]}
    program.graph.add_vertices([*keys, *chunks])
    program.add_new_edges()
    program.node_name_to_vertex_idx = {name: i for i, name in enumerate(program.graph.vs["name"])}
    program.passage_node_keys = chunks
    program.passage_node_idxs = [program.node_name_to_vertex_idx[c] for c in chunks]
    program.global_config = SimpleNamespace(damping=0.5)
    order = np.argsort(similarity)[::-1]
    program.dense_passage_retrieval = lambda _: (order, similarity[order])
    program.chunk_embedding_store = SimpleNamespace(get_row=lambda key: {"content": key})
    program.ppr_time = 0.0
    ids, scores = program.graph_search_with_fact_entities(
        "Q", 5, fit, [facts[i] for i in kept], kept
    )
    ranks = np.zeros(len(of))
    ranks[ids] = scores
    return ranks
