"""LongRefiner as the engine sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Needs, Tools, Traits
from harness.method.abilities import AdapterUse
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.longrefiner import prompts
from methods.longrefiner.asking import ask_for_global_weight, ask_for_titles, build_tree_of_document
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.scores import global_scores, local_scores, normalised
from methods.longrefiner.select import Choice, choose_by_code, choose_nodes
from methods.longrefiner.shown import ShownText
from methods.longrefiner.tree import Tree
from methods.passage_scores import ENCODERS_OF_SCORING, distinct_documents, score_passages


@dataclass(frozen=True)
class _Page:
    """A document with the text that its tree is of."""

    document: Document
    tree: Tree

    def leaf_texts(self) -> list[str]:
        """The texts of the tree's leaves, in order."""
        nodes = [self.tree.nodes[leaf] for leaf in self.tree.leaves()]
        return [self.document.text[node.start : node.end] for node in nodes]


@dataclass(frozen=True)
class _Scores:
    """Local, global and total scores of each document, [nodes]."""

    local_scores: list[np.ndarray]
    global_scores: list[np.ndarray]
    total_scores: list[np.ndarray]

    def scores_of_node(self, document: int, node: int) -> dict[str, float]:
        """The scores of a node that its step records: {"local": ..., "global": ..., "total": ...}.

        Args:
            document: The place of the document among all.
            node: The number of the node in the document's tree.
        """
        return {
            "local": float(self.local_scores[document][node]),
            "global": float(self.global_scores[document][node]),
            "total": float(self.total_scores[document][node]),
        }


class LongRefiner(reading.ReadingMethod):
    """Documents as trees; the nodes that score best for the question are read, up to a budget."""

    Config = LongRefinerConfig
    summary = "documents structured by a model, their best parts and paragraphs read up to a budget (LongRefiner)"
    traits = Traits(one_document=False, draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset(), "refiner": frozenset({"probe"})}
    scope = "document"
    index_roles = ("refiner",)
    index_version = "5"
    own_prompts = prompts.PROMPTS
    without_adapters = "use longrefiner-no-adapters, which runs on the model as it is"

    def __init__(self, config: MethodConfig) -> None:
        """Keep the settings, and need the encoder or reranker that the setting `scoring` uses."""
        super().__init__(config)
        # What scores paragraphs is a parameter, so that all rows of table 4 share their trees.
        self.encoders = ENCODERS_OF_SCORING[self.config.scoring]  # type: ignore[misc]

    def indexes_by_model(self) -> bool:
        """Whether a model writes the index: its outline; without structuring a rule cuts the
        text."""
        config: LongRefinerConfig = self.config
        return config.structuring

    def adapters(self) -> dict[str, dict[str, AdapterUse]]:
        """Role -> task -> adapter: those of the refiner's tasks; none without structuring."""
        config: LongRefinerConfig = self.config
        if not config.structuring:
            return {"refiner": {}}
        return {"refiner": config.adapters()}

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: its tree (`Tree.to_index`)."""
        return build_tree_of_document(
            document, self.config, tools.model("refiner"), tools.keep
        ).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Score the nodes of all documents, choose the best up to the budget, and answer from
        these.

        If nothing fits, the answer is given without a text. The stop reason says what ended the
        choice ("window" instead of "budget" where the window holds less), or why there is no text.
        """
        config: LongRefinerConfig = self.config
        pages = _distinct_pages(documents, indexes)
        steps = [_start_step(pages, len(indexes) - len(pages), tools)]
        with tools.phase("search"):
            scores = self._score_nodes(question, pages, tools, steps)
        shown_text = ShownText(
            documents=[page.document for page in pages],
            trees=[page.tree for page in pages],
            model=tools.model(config.budget_of),
            titles=config.titles,
            part_titles=config.part_titles,
        )
        request = reading.Reading(tools.task, config=config)
        max_tokens_by_window = reading.room_for_text(question, tools, tools.model(), request)
        choice = self._choose_nodes(shown_text, scores.total_scores, max_tokens_by_window)
        steps += _steps_of_choice(choice, shown_text, scores, tools)
        texts = [shown_text.text(piece) for piece in choice.pieces]
        text = reading.ask(question, texts, tools, tools.model(), request)
        reason = choice.reason
        if reason == "budget" and max_tokens_by_window < config.budget:
            reason = "window"
        n_nodes = sum(len(scores_of_document) for scores_of_document in scores.total_scores)
        if n_nodes == 0:
            reason = "no text"
        elif not texts:
            reason = f"{reason}: not even one node fits"
        return Answer(text, shown_text.shown(choice.pieces), reason, tuple(steps))

    def _choose_nodes(
        self, shown_text: ShownText, total_scores: list[np.ndarray], max_tokens_by_window: int
    ) -> Choice:
        """Choose the nodes that are read, by the rule of the settings.

        Args:
            shown_text: The documents and their trees.
            total_scores: The scores of the nodes of each document, [nodes].
            max_tokens_by_window: Tokens that the reader's window has left.
        """
        config: LongRefinerConfig = self.config
        max_tokens = min(config.budget, max_tokens_by_window)
        if config.selection_rule == "code":
            return choose_by_code(shown_text, total_scores, max_tokens)
        return choose_nodes(
            shown_text, total_scores, max_tokens, skips_long_paragraphs=config.overflow == "skip"
        )

    def _score_nodes(
        self, question: Question, pages: Sequence[_Page], tools: Tools, steps: list[Step]
    ) -> _Scores:
        """The local, global and total scores of all nodes: total = local + R * global, by the
        weight R of the question.

        Args:
            question: The question.
            pages: The documents with their trees.
            tools: The engine's tools.
            steps: The steps of the requests are added to this list.
        """
        local_scores_of_documents = self._local_scores(question, pages, tools)
        weight, global_scores_of_documents = self._global_scores(question, pages, tools, steps)
        total_scores_of_documents: list[np.ndarray] = []
        for document_local, document_global in zip(
            local_scores_of_documents, global_scores_of_documents, strict=True
        ):
            total_scores_of_documents.append(document_local + weight * document_global)
        return _Scores(
            local_scores=local_scores_of_documents,
            global_scores=global_scores_of_documents,
            total_scores=total_scores_of_documents,
        )

    def _local_scores(
        self, question: Question, pages: Sequence[_Page], tools: Tools
    ) -> list[np.ndarray]:
        """Local scores LS of each document [nodes]; the leaves of all documents are scored in one
        call.

        With `sigmoid` the leaves' scores are put through a sigmoid first; with `normalise` all
        nodes' scores are scaled to 0 to 1 at the end, over all documents.

        Args:
            question: The question.
            pages: The documents with their trees.
            tools: The engine's tools.
        """
        config: LongRefinerConfig = self.config
        texts: list[str] = []
        for page in pages:
            texts += page.leaf_texts()
        scores = score_passages(config.scoring, question.text, texts, tools)
        if config.sigmoid:
            scores = 1 / (1 + np.exp(-scores))
        scores_of_pages: list[np.ndarray] = []
        first_leaf = 0
        for page in pages:
            n_leaves = len(page.tree.leaves())
            leaf_scores = scores[first_leaf : first_leaf + n_leaves].tolist()
            scores_of_pages.append(local_scores(page.tree, leaf_scores, config.local_rule))
            first_leaf += n_leaves
        if not config.normalise:
            return scores_of_pages
        return normalised(scores_of_pages)

    def _global_scores(
        self, question: Question, pages: Sequence[_Page], tools: Tools, steps: list[Step]
    ) -> tuple[float, list[np.ndarray]]:
        """The weight R, and the global scores GS of each document [nodes]; all 0 where they are not
        used.

        Args:
            question: The question.
            pages: The documents with their trees.
            tools: The engine's tools.
            steps: The steps of the requests are added to this list.
        """
        config: LongRefinerConfig = self.config
        if not (config.refinement and config.structuring):
            return 0.0, [np.zeros(len(page.tree.nodes)) for page in pages]
        weight = config.weight
        if weight is None:
            weight, step = ask_for_global_weight(question, config, tools)
            steps.append(step)
        selections = tools.map(
            lambda page: ask_for_titles(question, page.document, page.tree, config, tools), pages
        )
        steps += [selection.step for selection in selections]
        scores_of_pages: list[np.ndarray] = []
        for page, selection in zip(pages, selections, strict=True):
            scores_of_pages.append(global_scores(page.tree, selection.titles, config.global_rule))
        return weight, scores_of_pages


def _distinct_pages(documents: Sequence[Document], indexes: Indexes) -> list[_Page]:
    """Each different document once, with its tree; the document has only the text that the tree
    covers."""
    pages: list[_Page] = []
    for number in distinct_documents(documents):
        tree = Tree.from_index(indexes[number])
        document = tree.kept_document(documents[number])
        pages.append(_Page(document, tree))
    return pages


def _start_step(pages: Sequence[_Page], n_duplicates: int, tools: Tools) -> Step:
    """The step "start" of the trace, which says how the documents are structured.

    Args:
        pages: The documents with their trees.
        n_duplicates: How many documents are left out, as another one has their text.
        tools: The engine's tools.
    """
    notes: list[str] = []
    if n_duplicates:
        notes.append(f"{n_duplicates} documents are there twice and read once")
    for page in pages:
        name = page.document.title or page.document.id
        notes += [f"{name}: {note}" for note in page.tree.notes]
    n_nodes = sum(len(page.tree.nodes) for page in pages)
    sum_of_shares = sum(page.tree.structured for page in pages)  # of the text under a title
    scores = {
        "documents": float(len(pages)),
        "nodes": float(n_nodes),
        "structured": sum_of_shares / max(len(pages), 1),
    }
    return Step("start", scores=scores, flops=tools.meter.flops(), note="; ".join(notes))


def _steps_of_choice(
    choice: Choice, shown_text: ShownText, scores: _Scores, tools: Tools
) -> list[Step]:
    """A step "select" of the trace for each chosen node.

    Args:
        choice: The chosen nodes, in order of choice.
        shown_text: The documents and their trees.
        scores: The scores of all nodes.
        tools: The engine's tools.

    Returns:
        The steps; their nodes are numbered through all documents.
    """
    node_counts = [len(tree.nodes) for tree in shown_text.trees]
    first_numbers = np.cumsum([0, *node_counts])
    steps: list[Step] = []
    for document_number, node_number in choice.nodes:
        tree = shown_text.trees[document_number]
        document = shown_text.documents[document_number]
        node = tree.nodes[node_number]
        spans = tree.spans_in_document(node.start, node.end)
        steps.append(
            Step(
                "select",
                node=int(first_numbers[document_number]) + node_number,
                level=tree.level(node_number),
                scores=scores.scores_of_node(document_number, node_number),
                tokens=shown_text.model.count(document.text[node.start : node.end]),
                flops=tools.meter.flops(),
                shown=Shown("span", document.id, start=spans[0][0], end=spans[-1][1]),
                note=f"{node.kind} {node.title}".strip(),
            )
        )
    return steps
