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


def walk_down_the_tree(graph: Graph, similarity: np.ndarray, top_k: int) -> list[int]:
    """Walk down the tree: on each level take the nodes that are most similar to the question, then
    go on to the nodes below them.

    Args:
        graph: The tree.
        similarity: The similarity of each node to the question [nodes].
        top_k: How many nodes of a level are taken.

    Returns:
        The numbers of the nodes in the order of the walk.
    """
    nodes_taken: list[int] = []
    nodes_of_level = graph.highest_nodes()
    while nodes_of_level:
        nearest_nodes = [
            nodes_of_level[number] for number in best_first(similarity[nodes_of_level])[:top_k]
        ]
        nodes_taken += nearest_nodes
        nodes_below: dict[int, None] = {}  # a set in order
        for node in nearest_nodes:
            children, _ = graph.edges_below(node)
            nodes_below.update(dict.fromkeys(children.tolist()))
        nodes_of_level = list(nodes_below)
    return nodes_taken


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
        these.

        The stop reason is the limit that cut the list, else why no more were chosen. The notes of
        the tree's building stand in a step "start".
        """
        (document,) = documents
        (index,) = indexes
        graph = Graph.from_index(index)
        with tools.phase("search"):
            similarity = similarity_to(question.text, index["embeddings"], tools)
        nodes_in_order, reason = self._choose_nodes(graph, similarity)
        texts = [graph.text[node] for node in nodes_in_order]
        shown_count, limit_reached = self._count_fitting(question, texts, tools)
        steps: list[Step] = []
        if graph.notes:
            steps.append(Step(action="start", note="; ".join(graph.notes)))
        shown_nodes = nodes_in_order[:shown_count]
        shown = [graph.shown(node, document.id) for node in shown_nodes]
        for node, shown_node in zip(shown_nodes, shown, strict=True):
            steps.append(
                Step(
                    action="select",
                    node=node,
                    level=graph.level[node],
                    scores={"similarity": float(similarity[node])},
                    tokens=tools.model().count(graph.text[node]),
                    flops=tools.meter.flops(),
                    shown=shown_node,
                )
            )
        request = reading.Reading(tools.task, config=self.config)
        text = reading.ask(question, texts[:shown_count], tools, tools.model(), request)
        return Answer(text, tuple(shown), limit_reached or reason, tuple(steps))

    def _choose_nodes(self, graph: Graph, similarity: np.ndarray) -> tuple[list[int], str]:
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
            return walk_down_the_tree(graph, similarity, top_k), "traversed"
        nodes_in_order = best_first(similarity)
        if len(nodes_in_order) > top_k:
            return nodes_in_order[:top_k], "k"
        return nodes_in_order, "exhausted"

    def _count_fitting(self, question: Question, texts: list[str], tools: Tools) -> tuple[int, str]:
        """How many of the texts are shown: the first one that would pass the budget or the window
        ends the list (docs/methods/raptor.md#raptor-retrieval).

        Args:
            question: The question.
            texts: The texts of nodes, the most similar first.
            tools: The engine's tools.

        Returns:
            The number of texts, and the limit that ended the list, "budget" or "window", with ": not
            even one node fits" where no text is shown; "" where all are.
        """
        model = tools.model()
        request = reading.Reading(tools.task, config=self.config)
        max_tokens_by_window = reading.room_for_text(question, tools, model, request)
        separator_tokens = model.count(reading.SEPARATOR)
        max_tokens = self.config.max_tokens
        tokens = 0
        for number, text in enumerate(texts):
            tokens += model.count(text)
            limit_reached = ""
            if max_tokens is not None and tokens > max_tokens:
                limit_reached = "budget"
            elif tokens + number * separator_tokens > max_tokens_by_window:
                limit_reached = "window"
            if limit_reached and number == 0:
                return 0, f"{limit_reached}: not even one node fits"
            if limit_reached:
                return number, limit_reached
        return len(texts), ""
