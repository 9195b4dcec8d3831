"""RAPTOR as the engine sees it: which nodes of a tree are shown
(docs/methods/raptor.md#raptor-retrieval).

collapsed (CT)   all nodes of all levels together, the nearest first; the first `top_k` of them
traversal (TT)   the `top_k` nearest of the highest level, then those of their children, and so on down to the chunks
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Needs, Tools
from harness.method.training import Skill
from harness.types import Answer, Document, Question, Step
from methods import reading, summary
from methods.graph import Graph
from methods.raptor.config import RaptorConfig
from methods.raptor.tree import build_tree
from methods.retrieval import best_first, similarity_to
from methods.summary import DETAILED


def traversal(graph: Graph, similarity: np.ndarray, top_k: int) -> list[int]:
    """The nodes nearest by `similarity` [nodes], level by level from the top, `top_k` of each; a
    node is kept once."""
    kept: list[int] = []
    nodes = graph.top()
    while nodes:
        chosen = [nodes[i] for i in best_first(similarity[nodes])[:top_k]]
        kept += chosen
        nodes = list(dict.fromkeys(int(child) for node in chosen for child in graph.below(node)[0]))
    return kept


class Raptor(reading.ReadingMethod):
    """A tree of summaries; its nodes nearest to the question are read, in the order they were
    chosen."""

    Config = RaptorConfig
    summary = (
        "tree of summaries over clusters of chunks, the nodes nearest to the question read (RAPTOR)"
    )
    needs: ClassVar[Needs] = {"reader": frozenset(), "builder": frozenset()}
    encoders = ("encoder",)
    scope = "document"
    index_roles = ("builder", "encoder")
    index_version = "3"
    from_other_runs: Mapping[str, str] = {"top_k": "summary_tokens"}
    own_prompts = (DETAILED,)  # a summary of a cluster

    def __init__(self, config: MethodConfig) -> None:
        super().__init__(config)
        if self.config.retrieval == "traversal":
            self.from_other_runs = {}  # top_k counts the nodes of each level

    def index_packages(self) -> tuple[str, ...]:
        """The packages that reduce and cluster; another version may build another tree."""
        return (
            ("scikit-learn", "umap-learn") if self.config.reduction == "umap" else ("scikit-learn",)
        )

    def skills(self) -> list[Skill]:
        """What it asks of a model: summaries, short answers, choices."""
        return [*summary.skills(DETAILED.of(self.config)), *reading.skills(self.config)]

    def index(self, document: Document, tools: Tools) -> Index:
        """The tree, and an embedding of every node [nodes, width]."""
        graph, vectors = build_tree(document, self.config, tools)
        return {**graph.to_index(), "embeddings": vectors}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Choose nodes, show as many as fit in their order, answer."""
        (document,), (index,) = documents, indexes
        graph = Graph.from_index(index)
        with tools.phase("search"):
            similarity = similarity_to(question.text, index["embeddings"], tools)
        if self.config.retrieval == "traversal":
            order, reason = traversal(graph, similarity, self.config.top_k), "traversed"
        else:
            order = best_first(similarity)
            reason = "k" if len(order) > self.config.top_k else "exhausted"
            order = order[: self.config.top_k]
        kept, stopped = self._fitting(question, [graph.text[i] for i in order], tools)
        steps = [Step(action="start", note="; ".join(graph.notes))] if graph.notes else []
        steps += [
            Step(
                action="select",
                node=node,
                level=graph.level[node],
                scores={"similarity": float(similarity[node])},
                tokens=tools.model().count(graph.text[node]),
                flops=tools.meter.flops(),
                shown=graph.shown(node, document.id),
            )
            for node in order[:kept]
        ]
        request = reading.Reading(tools.task, config=self.config)
        text = reading.ask(
            question, [graph.text[i] for i in order[:kept]], tools, tools.model(), request
        )
        shown = tuple(step.shown for step in steps if step.shown is not None)
        return Answer(text, shown, stopped or reason, tuple(steps))

    def _fitting(self, question: Question, texts: list[str], tools: Tools) -> tuple[int, str]:
        """How many of the first texts are shown, and the limit that ended it, "" where all are: the
        first that would pass the budget or the window ends the list
        (docs/methods/raptor.md#raptor-retrieval).
        """
        model = tools.model()
        room = reading.room_for_text(
            question, tools, model, reading.Reading(tools.task, config=self.config)
        )
        separator = model.count(reading.SEPARATOR)
        tokens = 0
        for i, text in enumerate(texts):
            tokens += model.count(text)
            for limit, used, name in (
                (self.config.max_tokens, tokens, "budget"),
                (room, tokens + i * separator, "window"),
            ):
                if limit is not None and used > limit:
                    return i, name if i else f"{name}: not even one node fits"
        return len(texts), ""
