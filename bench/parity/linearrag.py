"""LinearRAG: weights of names and passages, and the walk, from the same names and vectors."""

from __future__ import annotations

import ast
import math
import re
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import igraph
import numpy as np

from bench.parity import Found
from bench.parity.rows import Rows
from methods.hipporag import min_max
from methods.linearrag import LinearRAG, NameGraph
from methods.retrieval import best_first

PROGRAM = "DEEP-PolyU/LinearRAG"
METHODS = "`linearrag` (HotpotQA's documents and questions, names by rules, MiniLM)"
WEIGHTS = "weights of names (names)"
STARTS = "weights of passages (passages)"
RANKS = "passages' PageRank within 1e-6 (passages)"
ORDER = "the five best passages, in order (questions)"
REASONS: dict[str, str] = {}
SETTINGS = (
    {},
    {"least": 0.1, "sentences": 4, "rounds": 5},
    {"passage_ratio": 0.05, "sentences": 1},
)
USED = (
    "calculate_entity_scores",
    "calculate_passage_scores",
    "dense_passage_retrieval",
    "run_ppr",
    "add_entity_to_passage_edges",
    "add_adjacent_passage_edges",
    "add_edges",
)


def _program(code: Path) -> Any:
    """The class with the methods that are compared, whose module imports spaCy."""
    path = code / "src" / "LinearRAG.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (kind,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    kind.body = [
        node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name in USED
    ]
    names: dict[str, Any] = {
        "np": np,
        "math": math,
        "re": re,
        "defaultdict": defaultdict,
        "min_max_normalize": lambda scores: min_max(np.asarray(scores)),
    }
    exec(compile(ast.Module([kind], []), str(path), "exec"), names)
    return names["LinearRAG"]


def _store(prefix: str, texts: list[str]) -> SimpleNamespace:
    """A store of texts, whose hashes are their numbers."""
    keys = [f"{prefix}{number}" for number in range(len(texts))]
    by_key = dict(zip(keys, texts, strict=True))
    return SimpleNamespace(
        hash_ids=keys,
        texts=texts,
        hash_id_to_text=by_key,
        hash_id_to_idx={key: number for number, key in enumerate(keys)},
        text_to_hash_id={text: key for key, text in by_key.items()},
        get_hash_id_to_text=lambda: dict(by_key),
    )


def _unit(vectors: Any) -> np.ndarray:
    """Rows of length 1."""
    rows = np.asarray(vectors, dtype=float)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def _theirs(kind: Any, graph: NameGraph, index: Any, config: Any) -> Any:
    """Their object for one document."""
    program = kind.__new__(kind)
    passages = [f"{number}:{text}" for number, text in enumerate(graph.passages)]
    program.passage_embedding_store = _store("p", passages)
    program.entity_embedding_store = _store("e", list(graph.names))
    program.sentence_embedding_store = _store(
        "s", [str(number) for number in range(len(graph.names_of_sentences))]
    )
    program.passage_embeddings = _unit(index["passage_vectors"])
    program.sentence_embeddings = _unit(index["sentence_vectors"])
    program.sentence_hash_id_to_entity_hash_ids = {
        f"s{number}": [f"e{name}" for name in names]
        for number, names in enumerate(graph.names_of_sentences)
    }
    program.entity_hash_id_to_sentence_hash_ids = {
        f"e{name}": [f"s{number}" for number in numbers]
        for name, numbers in graph.sentences_of_names.items()
    }
    program.config = SimpleNamespace(
        max_iterations=config.rounds,
        iteration_threshold=config.least,
        top_k_sentence=config.sentences,
        passage_ratio=config.passage_ratio,
        passage_node_weight=config.passage_weight,
        damping=config.damping,
        enable_hybrid_attribute_fallback=False,
    )
    nodes = [*program.entity_embedding_store.hash_ids, *program.passage_embedding_store.hash_ids]
    program.graph = igraph.Graph(directed=False)
    program.graph.add_vertices(len(nodes), {"name": nodes})
    program.node_name_to_vertex_idx = {name: number for number, name in enumerate(nodes)}
    program.vertex_idx_to_node_name = dict(enumerate(nodes))
    program.passage_node_indices = list(range(len(graph.names), len(nodes)))
    program.node_to_node_stats = defaultdict(dict)
    program.add_entity_to_passage_edges(
        {
            f"p{number}": [graph.names[name] for name in names]
            for number, names in enumerate(graph.names_of_passages)
            if any(graph.passages[number].count(graph.names[name]) for name in names)
        }
    )
    program.add_adjacent_passage_edges()
    program.add_edges()
    return program


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare all questions with three settings."""
    kind = _program(code)
    tools = rows.tools()
    data = rows.dataset()
    for example in data.examples:
        document = data.documents[example.question.document_ids[0]]
        method = LinearRAG(LinearRAG.Config())
        index = method.index(document, tools)
        texts = [document.text[start:end].strip() for start, end in index["passages"]]
        graph = NameGraph(texts, index["names"], index["of_sentences"], index["of_passages"])
        (query,) = _unit(tools.encoder().encode([example.question.text], "query"))
        seeds = {name: 0.9 - 0.1 * place for place, name in enumerate(_asked(example, graph))}
        for changed in SETTINGS:
            config = LinearRAG.Config(**changed)
            program = _theirs(kind, graph, index, config)
            _compare_one(program, graph, (index, query, seeds), config, found)


def _asked(example: Any, graph: NameGraph) -> list[int]:
    """The names that the question has, at most three; the first name where it has none."""
    inside = [n for n, name in enumerate(graph.names) if name in example.question.text]
    return inside[:3] or [0]


def _compare_one(
    program: Any,
    graph: NameGraph,
    asked: tuple[Any, np.ndarray, dict[int, float]],
    config: Any,
    found: Found,
) -> None:
    """Compare one question with one setting."""
    index, query, seeds = asked
    count = len(graph.names)
    keys = [f"e{name}" for name in seeds]
    weights, reached = program.calculate_entity_scores(
        query, list(seeds), [graph.names[name] for name in seeds], keys, list(seeds.values())
    )
    starts = program.calculate_passage_scores("", query, reached)
    sorted_keys, scores = program.run_ppr(weights + starts)
    fit = _unit(index["sentence_vectors"]) @ query
    similarity = _unit(index["passage_vectors"]) @ query
    our_weights, our_reached = graph.activate(seeds, fit, config)
    our_starts = graph.passage_start_weights(similarity, our_reached, config)
    ranks = graph.rank_by_walk(our_weights, our_starts, config.damping)
    found.each(WEIGHTS, weights[:count].tolist(), our_weights.tolist())
    found.each(STARTS, starts[count:].tolist(), our_starts.tolist())
    theirs = dict(zip(sorted_keys, scores, strict=True))
    in_order = [theirs[f"p{number}"] for number in range(len(ranks))]
    found.each(RANKS, in_order, ranks.tolist(), near=1e-6)
    found.add(ORDER, sorted_keys[:5], [f"p{number}" for number in best_first(ranks)[:5]])
