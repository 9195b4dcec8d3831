"""MemWalker as the engine sees it.

The memory tree (docs/methods/memwalker.md#memwalker-tree), the same for every question.

level 1   segments of 1,000 tokens, each with its summary    s1 s2 s3 s4 s5 ...
level 2   a summary of up to 8 consecutive summaries          p1          p2
...       until one node is left, the root

A text of one segment is its own root.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from harness.errors import QuestionError
from harness.method import Index, Indexes, Needs, Tools
from harness.models import MeteredModel
from harness.prompts import feed, prompt_tokens
from harness.types import Answer, Document, Question
from methods import reading, summary
from methods.graph import Graph, NewNodes, equal_weights
from methods.memwalker import prompts
from methods.memwalker.config import MemWalkerConfig
from methods.memwalker.prompts import PROMPTS, SEGMENT
from methods.memwalker.walk import Walk
from methods.packing import clause_chunks
from methods.retry import window_of


def even_groups(nodes: list[int], max_size: int) -> list[list[int]]:
    """Consecutive groups of at most `max_size` nodes, as few and as even as can be: 9 nodes in
    groups of at most 8 are groups of 4 and 5."""
    n_groups = math.ceil(len(nodes) / max_size)
    cuts = [len(nodes) * number // n_groups for number in range(n_groups + 1)]
    return [nodes[start:end] for start, end in pairwise(cuts)]


def build_tree(document: Document, config: MemWalkerConfig, tools: Tools) -> Graph:
    """Build the tree of summaries of a document, level by level from its segments.

    In the graph the text of a node is its summary, and its span, at level 1, the segment.

    Args:
        document: The document.
        config: The method's settings.
        tools: The engine's tools.

    Raises:
        QuestionError: The builder's window is too short for a segment, or for the summaries of one
            node.
    """
    model = tools.model("builder")
    max_child_tokens = _max_tokens_of_children(config, model)
    graph = Graph()
    nodes = _summarise_segments(graph, document, config, tools)
    if not nodes:
        graph.notes.append("the document has no text, so there is nothing to read")
    level = 1
    while len(nodes) > 1:
        level += 1
        groups = even_groups(nodes, config.children)
        summaries = summary.write_each_group_and_store(
            level,
            list(map(graph.texts_of, groups)),
            lambda texts: _write_parent_summary(texts, max_child_tokens, model, config),
            tools,
        )
        parents: list[NewNodes] = []
        for text, group in zip(summaries, groups, strict=True):
            weights = equal_weights(group)
            parents.append(NewNodes(texts=[text], lower_nodes=group, weights=weights))
        nodes = graph.add_level(level, parents)
        graph.log.append(f"level {level}: {len(nodes)} nodes")
    n_empty = graph.text.count("")
    if n_empty:
        graph.notes.append(
            f"{n_empty} of {len(graph.text)} summaries are empty, so the walk passes these parts "
            "blindly"
        )
    return graph


def _summarise_segments(
    graph: Graph, document: Document, config: MemWalkerConfig, tools: Tools
) -> list[int]:
    """Cut the document into segments, and add a node with the summary of each, on one line, to the
    tree.

    Args:
        graph: The tree, to which the nodes are added.
        document: The document.
        config: The method's settings.
        tools: The engine's tools.

    Returns:
        The numbers of the nodes.
    """
    model = tools.model("builder")
    prompt = SEGMENT.with_replacements(config)
    spans = clause_chunks(document.text, config.segment_tokens, model)
    segments = [[document.text[start:end].strip()] for start, end in spans]
    summaries = summary.write_each_group_and_store(
        1,
        segments,
        lambda texts: summary.summarise(texts, model, config.summary_limit(), prompt),
        tools,
    )
    nodes: list[int] = []
    for text, span in zip(summaries, spans, strict=True):
        line = " ".join(text.split())
        nodes.append(graph.add_node(line, 1, span))
    return nodes


def _max_tokens_of_children(config: MemWalkerConfig, model: MeteredModel) -> int:
    """How many tokens of summaries the request for their parent may hold. Also checks that a segment
    fits its request.

    Raises:
        QuestionError: The window is too short for a segment, or for the summaries of one node.
    """
    window_tokens = window_of(config.window, model)
    segment_room = (
        window_tokens
        - summary.prompt_tokens_without_texts(model, SEGMENT.with_replacements(config))
        - config.summary_limit()
    )
    if segment_room < config.segment_tokens:
        raise QuestionError(
            f"the window of '{model.name}' ({window_tokens} tokens) leaves {max(segment_room, 0)} "
            f"tokens for a segment of {config.segment_tokens} beside its prompt and summary; lower "
            "method.segment_tokens or method.summary_tokens, or raise method.window or model.window"
        )
    children_room = (
        window_tokens
        - prompt_tokens(prompts.parent_request([], config), model)
        - config.summary_limit()
    )
    max_tokens_each = children_room // config.children
    if children_room < config.summary_limit() or max_tokens_each <= model.count("\n"):
        raise QuestionError(
            f"the window of '{model.name}' ({window_tokens} tokens) is too short for the summaries "
            f"of {config.children} parts; lower method.summary_tokens or method.children, or raise "
            "method.window or model.window"
        )
    return children_room


def _write_parent_summary(
    texts: list[str], max_child_tokens: int, model: MeteredModel, config: MemWalkerConfig
) -> str:
    """Summarise the summaries under one node; where they do not fit together, each is shortened
    first.

    Args:
        texts: The summaries.
        max_child_tokens: Tokens of them that fit a request.
        model: The builder.
        config: The method's settings.
    """
    newline_tokens = model.count("\n")
    if sum(model.count(text) + newline_tokens for text in texts) > max_child_tokens:
        max_tokens_each = min(
            config.summary_limit(), max_child_tokens // len(texts) - newline_tokens
        )
        texts = [_ask_parent_summary([text], max_tokens_each, model, config) for text in texts]
    return _ask_parent_summary(texts, config.summary_limit(), model, config)


def _ask_parent_summary(
    texts: list[str], max_tokens: int, model: MeteredModel, config: MemWalkerConfig
) -> str:
    """Ask for one short summary of summaries; it is put on one line.

    Args:
        texts: The summaries.
        max_tokens: Most tokens of the new one.
        model: The builder.
        config: The method's settings.
    """
    with model.session() as session:
        feed(session, prompts.parent_request(texts, config))
        return " ".join(session.write(max_tokens).text.split())


class MemWalker(reading.ReadingMethod):
    """A tree of summaries, walked down by the model's own choices to a segment that answers."""

    Config = MemWalkerConfig
    summary = (
        "tree of summaries that the model walks down to the part with the answer (arXiv 2310.05029)"
    )
    needs: ClassVar[Needs] = {
        "reader": frozenset({"sampling"}),
        "searcher": frozenset({"sampling"}),
        "builder": frozenset(),
    }
    scope = "document"
    index_version = "2"
    index_roles = ("builder",)
    # Of the tree and of the walk; the shared reading prompts are the fallback's.
    own_prompts = PROMPTS

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: its tree of summaries (`Graph.to_index`)."""
        return build_tree(document, self.config, tools).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Walk the document's tree of summaries for the question (`Walk.run`)."""
        (document,) = documents
        (index,) = indexes
        return Walk(Graph.from_index(index), document, question, self.config, tools).run()
