"""RAPTOR as the engine sees it: which nodes of a tree are shown
(docs/methods/raptor.md#raptor-retrieval).

collapsed (CT)   all nodes of all levels together, the nearest first; the first `top_k` of them
traversal (TT)   the `top_k` nearest of the highest level, then those of their children, and so on down to the chunks
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Needs, Tools
from harness.types import Answer, Document, Question, Step
from methods import reading
from methods.graph import Graph
from methods.raptor.config import RaptorConfig
from methods.raptor.tree import build_tree
from methods.retrieval import best_first, similarity_to
from methods.summary import DETAILED


def traversal(graph: Graph, similarity: np.ndarray, top_k: int) -> list[int]:
    """Walk down the tree: on each level take the nodes that are most similar to the question, then
    go on to the nodes below them.

    Args:
        graph: The tree.
        similarity: The similarity of each node to the question [nodes].
        top_k: How many nodes of a level are taken.

    Returns:
        The numbers of the nodes in the order of the walk.
    """
    kept: list[int] = []
    nodes = graph.top()
    while nodes:
        chosen = [nodes[i] for i in best_first(similarity[nodes])[:top_k]]
        kept += chosen
        below: dict[int, None] = {}  # a set in order
        for node in chosen:
            children, _ = graph.below(node)
            below.update(dict.fromkeys(children.tolist()))
        nodes = list(below)
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
        """Keep the settings; with "traversal", top_k cannot be taken from another run, as it counts
        the nodes of each level."""
        super().__init__(config)
        if self.config.retrieval == "traversal":
            self.from_other_runs = {}  # top_k counts the nodes of each level

    def index_packages(self) -> tuple[str, ...]:
        """The packages that reduce and cluster vectors; the index depends on their versions, as
        another one may build another tree."""
        if self.config.reduction == "umap":
            return "scikit-learn", "umap-learn"
        return ("scikit-learn",)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: its tree (`Graph.to_index`), and "embeddings" of its nodes
        [nodes, width]."""
        graph, vectors = build_tree(document, self.config, tools)
        return {**graph.to_index(), "embeddings": vectors}

    def most_shown(self) -> int | None:
        """The most nodes that a reader is shown: the setting top_k; None with "traversal", where it
        counts the nodes of each level."""
        if self.config.retrieval == "traversal":
            return None
        top_k: int = self.config.top_k
        return top_k

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Choose nodes by similarity, show as many as fit in the order of choice, and answer from
        these."""
        (document,) = documents
        (index,) = indexes
        graph = Graph.from_index(index)
        with tools.phase("search"):
            similarity = similarity_to(question.text, index["embeddings"], tools)
        order, reason = self._chosen_nodes(graph, similarity)
        texts = [graph.text[node] for node in order]
        count, limit = self._fitting(question, texts, tools)
        steps: list[Step] = []
        if graph.notes:
            steps.append(Step(action="start", note="; ".join(graph.notes)))
        shown = [graph.shown(node, document.id) for node in order[:count]]
        for node, place in zip(order, shown, strict=False):
            steps.append(
                Step(
                    action="select",
                    node=node,
                    level=graph.level[node],
                    scores={"similarity": float(similarity[node])},
                    tokens=tools.model().count(graph.text[node]),
                    flops=tools.meter.flops(),
                    shown=place,
                )
            )
        request = reading.Reading(tools.task, config=self.config)
        text = reading.ask(question, texts[:count], tools, tools.model(), request)
        return Answer(text, tuple(shown), limit or reason, tuple(steps))

    def _chosen_nodes(self, graph: Graph, similarity: np.ndarray) -> tuple[list[int], str]:
        """Choose the nodes to show, by the setting `retrieval`.

        Args:
            graph: The tree.
            similarity: The similarity of each node to the question [nodes].

        Returns:
            Their numbers in the order of choice, and why no more were chosen: "k", "exhausted" (all
            were) or "traversed".
        """
        top_k = self.config.top_k
        if self.config.retrieval == "traversal":
            return traversal(graph, similarity, top_k), "traversed"
        order = best_first(similarity)
        if len(order) > top_k:
            return order[:top_k], "k"
        return order, "exhausted"

    def _fitting(self, question: Question, texts: list[str], tools: Tools) -> tuple[int, str]:
        """How many of the texts are shown: the first one that would pass the budget or the window
        ends the list (docs/methods/raptor.md#raptor-retrieval).

        Args:
            question: The question.
            texts: The texts of nodes, the most similar first.
            tools: The engine's tools.

        Returns:
            The number of texts, and the limit that ended the list, "budget" or "window"; "" where
            all are shown.
        """
        model = tools.model()
        request = reading.Reading(tools.task, config=self.config)
        room = reading.room_for_text(question, tools, model, request)
        separator = model.count(reading.SEPARATOR)
        budget = self.config.max_tokens
        tokens = 0
        for i, text in enumerate(texts):
            tokens += model.count(text)
            limit = ""
            if budget is not None and tokens > budget:
                limit = "budget"
            elif tokens + i * separator > room:
                limit = "window"
            if limit and i == 0:
                return 0, f"{limit}: not even one node fits"
            if limit:
                return i, limit
        return len(texts), ""
