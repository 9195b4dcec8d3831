"""PECAN: a second reading of the paper, move by move.

The authors' program cannot be had, so `pecan_paper` stands in: written from the paper alone, before
ours was read.
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import numpy as np
from pocket.world.sample import sample

from bench.parity import Found
from bench.parity.pecan_paper import Model, build, search
from bench.parity.rows import Rows
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.llm.backend import load_model
from harness.llm.model_info import find_or_download
from harness.types import Document, Question
from harness.words import words
from methods.graph import Graph
from methods.pecan.build import build_graph
from methods.pecan.config import PecanConfig
from methods.pecan.search import Search
from tests.methods.conftest import FakeTools

PROGRAM = "transformers"
METHODS = "`pecan` with the small model of this project, float32; made-up papers and stories"
GRAPHS, VISITED = (
    "graphs: levels and texts of all nodes (documents)",
    "nodes visited, in order (searches)",
)
MOVES = "moves: node, score and P(Yes) within 1e-5"
REASONS = {
    GRAPHS: "runs of spaces become one",
    VISITED: "in a full window ours keeps two tokens more for the second turn; kept: no answer changes",
    MOVES: "as above",
}
SAMPLES = 40  # whose questions are asked
PARAMS = {"chunk_tokens": 60, "window": 440, "reserve": 160}
SETTINGS = {"t_p": 0.6, "window": 640}  # of a search


def compare(
    _code: Path | None,
    _rows: Rows,
    found: Found,
    documents: int = 5,
    questions: int = 40,
    tokens: int = 250,
) -> None:
    """Compare the graphs of `documents` made-up texts of `tokens`, then searches for `questions` of
    all in each."""
    config = resolve_model(Choices(model="default", sets={"model.dtype": "float32"})).value
    model = load_model(config)
    reading, tools = (
        Model(find_or_download(config).folder),
        FakeTools(reader=model, builder=model, searcher=model),
    )
    made = [
        sample(("qasper", "narrativeqa")[n % 2], n, tokens=tokens, purpose="evaluation")
        for n in range(SAMPLES)
    ]
    asked = [example.question.text for one in made for example in one.examples]
    settings, searching = PecanConfig(**PARAMS), PecanConfig(**SETTINGS)
    for n, one in enumerate(made[:documents]):
        (document,) = one.documents[:1]
        theirs, ours = (
            build(reading, document.text, **PARAMS),
            build_graph(document, settings, tools),
        )
        nodes = [(node.level, node.text) for node in theirs]
        found.add(GRAPHS, nodes, list(zip(ours.level, ours.text, strict=True)))
        edges = [(i, j, w) for i, node in enumerate(theirs) for j, w in node.edges.items()]
        found.each("edges: higher, lower, weight within 1e-5", edges, map(tuple, ours.edges), 1e-5)
        for question in (asked[(n * 5 + k) % len(asked)] for k in range(questions)):
            read = search(
                reading, theirs, question, _alike, most=tools.task.max_answer_tokens, **SETTINGS
            )
            answer, moves = _ours(ours, document, question, searching, tools)
            found.add(VISITED, [move[0] for move in read.moves], [move[0] for move in moves])
            for pair in zip_longest(read.moves, moves):
                found.add(MOVES, *pair, 1e-5)
            found.add("answers (searches)", read.answer, answer)


def _alike(question: str, text: str) -> float:
    """The share of the question's words that a text has, in place of an encoder."""
    asked = set(words(question))
    return len(asked & set(words(text))) / len(asked)


def _ours(
    graph: Graph, document: Document, question: str, config: PecanConfig, tools: FakeTools
) -> tuple[str, list[tuple[float, ...]]]:
    """Our answer, and its moves as `pecan_paper.Found` has them."""
    cosine = np.array([_alike(question, text) for text in graph.text])
    answer = Search(graph, cosine, document, config, tools, tools.model()).run(
        Question("q", question, (document.id,))
    )
    return answer.text, [
        (s.node or 0, s.scores.get("total", 0.0), s.p_yes or 0.0) for s in answer.steps
    ]
