"""Builds PECAN's graph, level by level, until one call held a whole level (PECAN 3.1, GARLIC 3.1).

nodes of a level ──pack──► batches ──one call each──► points (or one summary) and edge weights ──► the next level

A_ij = mean over layers, heads, tokens of i and j of attention(i -> j), while i is written
e_ij = A_ij / sum over j' in the batch of i of A_ij'
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from harness.errors import QuestionError, WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel, Session, Span
from harness.prompts import prompt_tokens
from harness.types import Document
from methods import summary
from methods.chunks import fixed_chunks
from methods.graph import Graph, NewNodes
from methods.packing import packed_chunks
from methods.pecan.config import PecanConfig
from methods.pecan.points import parse_points
from methods.pecan.prompts import BULLET, POINTS


@dataclass(frozen=True)
class NodesToRead:
    """The nodes that one round of calls summarises.

    Attributes:
        level_written: The number of the level that the calls write.
        nodes: Their numbers in the graph.
        token_counts: Their tokens.
    """

    level_written: int
    nodes: list[int]
    token_counts: list[int]

    def nodes_at(self, indices: Sequence[int]) -> list[int]:
        """The nodes at some indices of `nodes`."""
        return [self.nodes[index] for index in indices]


@dataclass(frozen=True)
class BuilderCall:
    """One call of the builder.

    Attributes:
        nodes_read: Those that it read.
        texts: What it wrote.
        weights: The weights of the edges between the two, [texts, nodes].
        parser: How the output was read.
        is_cut_off: Whether the output ended at its limit.
        n_repeated: How many repeated points were dropped.
    """

    nodes_read: list[int]
    texts: list[str]
    weights: np.ndarray
    parser: str
    is_cut_off: bool
    n_repeated: int


class StoredCall(TypedDict):
    """A call as a stopped index stores it.

    Attributes:
        texts: The texts of the new nodes.
        weights: The weights of their edges, [new nodes, nodes that were read].
        how: How the output was parsed.
        is_cut_off: Whether the output ended at its limit.
        again: How many repeated points were dropped.
    """

    texts: list[str]
    weights: np.ndarray
    how: str
    cut: bool
    again: int


@dataclass(frozen=True)
class WrittenTexts:
    """What a call wrote.

    Attributes:
        texts: The texts.
        attention: The attention of each text to each node that was read, [texts, nodes].
        parser: How the output was parsed.
        is_cut_off: Whether the output ended at its limit.
    """

    texts: list[str]
    attention: np.ndarray
    parser: str
    is_cut_off: bool


def build_graph(document: Document, config: PecanConfig, tools: Tools) -> Graph:
    """Build the graph of a document with the builder; it is the same for every question.

    Raises:
        QuestionError: A summary has no text at all, or a node does not fit the window.
    """
    return _GraphBuilder(config, tools).build(document)


class _GraphBuilder:
    """Builds one graph."""

    def __init__(self, config: PecanConfig, tools: Tools) -> None:
        """Begin with an empty graph, to be built with the builder's model."""
        self._config = config
        self._tools = tools
        self._model = tools.model("builder")
        self._graph = Graph()

    def build(self, document: Document) -> Graph:
        """Build the graph level by level: chunks, then what is written over batches of the level
        below, until one batch holds all, a level is no smaller than the one below it, or
        `max_levels` are there."""
        self._add_chunks(document)
        max_tokens_per_call = max_tokens_of_nodes(self._config, self._model)
        nodes = [node for node, text in enumerate(self._graph.text) if text]
        if not nodes:
            self._graph.notes.append("the document has no text, so there is nothing to search")
        lower_level = self._nodes_to_read(level_written=2, nodes=nodes)
        while lower_level.nodes and lower_level.level_written <= self._config.max_levels:
            calls = self._call_builder_for_level(lower_level, max_tokens_per_call)
            higher_level = self._add_level(lower_level, calls)
            if self._check_if_complete(lower_level, higher_level, calls):
                break
            lower_level = higher_level
        return self._graph

    def _add_chunks(self, document: Document) -> None:
        """Add the chunks of the document as nodes of level 1, each on one line."""
        cut_into_chunks: Callable[[str, int, MeteredModel], list[tuple[int, int]]] = fixed_chunks
        if self._config.chunk_boundaries == "sentences":
            cut_into_chunks = packed_chunks
        for start, end in cut_into_chunks(document.text, self._config.chunk_tokens, self._model):
            self._graph.add_node(" ".join(document.text[start:end].split()), 1, (start, end))

    def _nodes_to_read(self, level_written: int, nodes: list[int]) -> NodesToRead:
        """The nodes that level `level_written` is written over, with their tokens."""
        token_counts = list(map(self._model.count, self._graph.texts_of(nodes)))
        return NodesToRead(level_written, nodes, token_counts)

    def _call_builder_for_level(
        self, lower_level: NodesToRead, max_tokens_per_call: int
    ) -> list[BuilderCall]:
        """Group the nodes below, call the builder for each group, and log what it wrote.

        Args:
            lower_level: The nodes that are read.
            max_tokens_per_call: Most tokens of nodes in one call.
        """
        packed_indices = pack_nodes(
            self._prompt_tokens_of_nodes(lower_level), max_tokens_per_call, self._config.batch_nodes
        )
        groups = [lower_level.nodes_at(indices) for indices in packed_indices]

        def ask_builder(texts: list[str]) -> StoredCall:
            return _ask_builder(texts, lower_level.level_written, self._model, self._config)

        texts_of_groups = [self._graph.texts_of(group) for group in groups]
        stored_calls = summary.write_each_group_and_store(
            lower_level.level_written, texts_of_groups, ask_builder, self._tools
        )
        calls = []
        for group, stored_call in zip(groups, stored_calls, strict=True):
            calls.append(_call_from_store(group, stored_call))
        log_level(self._graph, lower_level, calls, self._config)
        return calls

    def _prompt_tokens_of_nodes(self, lower_level: NodesToRead) -> list[int]:
        """How many tokens each node of a level takes in a prompt: its text, its bullet where it has
        one, and a line break."""
        token_counts = lower_level.token_counts
        if lower_level.level_written > 2 and self._config.graph == "points":
            bullet_tokens = self._model.count(BULLET)
            texts = self._graph.texts_of(lower_level.nodes)
            token_counts = [bullet_tokens + self._model.count(f" {text}") for text in texts]
        newline_tokens = self._model.count("\n")
        return [count + newline_tokens for count in token_counts]

    def _add_level(self, lower_level: NodesToRead, calls: list[BuilderCall]) -> NodesToRead:
        """Add what the calls wrote to the graph; return the new nodes, over which the next level is
        written."""
        nodes_by_call = [
            NewNodes(texts=call.texts, lower_nodes=call.nodes_read, weights=call.weights)
            for call in calls
        ]
        return self._nodes_to_read(
            lower_level.level_written + 1,
            self._graph.add_level(lower_level.level_written, nodes_by_call),
        )

    def _check_if_complete(
        self, lower_level: NodesToRead, higher_level: NodesToRead, calls: list[BuilderCall]
    ) -> bool:
        """Whether the graph is complete: one batch held the level below and there are
        `min_ip_levels` levels, or several batches made a level that is no smaller.

        The latter is also logged.

        Args:
            lower_level: The level that was read.
            higher_level: The level that was written.
            calls: The calls that wrote it.
        """
        if len(calls) == 1:
            return lower_level.level_written - 1 >= self._config.min_ip_levels
        has_as_many_nodes = len(higher_level.nodes) >= len(lower_level.nodes)
        if has_as_many_nodes and sum(higher_level.token_counts) >= sum(lower_level.token_counts):
            self._graph.log.append(
                f"level {lower_level.level_written} has neither fewer nodes nor fewer tokens than "
                f"{lower_level.level_written - 1}: building ends"
            )
            return True
        return False


def pack_nodes(
    token_counts: Sequence[int], max_tokens: int, max_nodes: int | None = None
) -> list[list[int]]:
    """Pack nodes into batches, in order; the node that would cross `max_tokens` starts the next
    batch.

    A single node longer than `max_tokens` gets a batch of its own, which the model then refuses by
    its window (docs/methods/pecan.md#pecan-batches).

    Args:
        token_counts: Tokens of each node.
        max_tokens: Most tokens of a batch.
        max_nodes: Most nodes of a batch; they are spread evenly, so 11 nodes in batches of 10 are 5
            and 6 (docs/methods/pecan.md#pecan-tree).

    Returns:
        The numbers of the nodes of each batch.
    """
    n_batches = 1
    if max_nodes:
        n_batches = math.ceil(len(token_counts) / max_nodes)
    # Where batches of equal size start; the first one starts with node 0.
    batch_starts = {len(token_counts) * batch // n_batches for batch in range(n_batches)}
    batches: list[list[int]] = []
    tokens_in_batch = 0
    for node, n_tokens in enumerate(token_counts):
        if node in batch_starts or tokens_in_batch + n_tokens > max_tokens:
            batches.append([])
            tokens_in_batch = 0
        batches[-1].append(node)
        tokens_in_batch += n_tokens
    return batches


def max_tokens_of_nodes(config: PecanConfig, model: MeteredModel) -> int:
    """How many tokens of nodes one call may hold: what the window leaves beside the prompt and the
    `reserve`, at most `batch_tokens`. Raises QuestionError where the window leaves none."""
    window_tokens = min(config.window, model.window)
    if config.graph == "tree":
        prompt_tokens_alone = summary.prompt_tokens_without_texts(
            model, summary.DETAILED.with_replacements(config)
        )
    else:
        prompt_tokens_alone = prompt_tokens(POINTS.with_replacements(config).fill(nodes=[]), model)
    tokens_left = window_tokens - prompt_tokens_alone - config.reserve
    if tokens_left <= 0:
        raise QuestionError(
            f"a window of {window_tokens} tokens leaves no room for text beside the prompt "
            f"({prompt_tokens_alone}) and the summary ({config.reserve}); lower method.reserve or "
            "raise method.window and model.window"
        )
    if config.batch_tokens is None:
        return tokens_left
    return min(tokens_left, config.batch_tokens)


def _call_from_store(nodes: list[int], call: StoredCall) -> BuilderCall:
    """A stored call as a BuilderCall, with the numbers of the nodes that it read."""
    return BuilderCall(
        nodes_read=nodes,
        texts=call["texts"],
        weights=np.asarray(call["weights"], np.float64),
        parser=call["how"],
        is_cut_off=call["cut"],
        n_repeated=call["again"],
    )


def log_level(
    graph: Graph, lower_level: NodesToRead, calls: list[BuilderCall], config: PecanConfig
) -> None:
    """Log a new level, and note the calls whose output did not have the form that was asked for.

    Args:
        graph: The graph, which gets one line of log and at most three notes.
        lower_level: The level that was read.
        calls: The calls that wrote the new level.
        config: The method's settings.
    """
    name = f"level {lower_level.level_written}"
    points_by_call = ", ".join(f"{len(call.texts)} ({call.parser})" for call in calls)
    graph.log.append(
        f"{name}: {len(lower_level.nodes)} nodes in {len(calls)} calls -> points {points_by_call}"
    )
    # "lines", or "lines cut" where the last line was dropped as unfinished.
    without_bullets = sum(call.parser.startswith("lines") for call in calls)
    if without_bullets:
        graph.notes.append(
            f"{name}: {without_bullets} of {len(calls)} summaries had no bullet: its lines were "
            "taken"
        )
    n_cut_off = sum(call.is_cut_off for call in calls)
    if n_cut_off:
        graph.notes.append(
            f"{name}: {n_cut_off} of {len(calls)} summaries were cut at {config.reserve} tokens"
        )
    n_repeated = sum(call.n_repeated for call in calls)
    if n_repeated:
        graph.notes.append(
            f"{name}: {n_repeated} points that a call had written before were dropped"
        )


def feed_nodes(
    session: Session, texts: Sequence[str], level: int, config: PecanConfig, model: MeteredModel
) -> list[Span]:
    """Put the request for points into an empty session, tokenised as one text.

    Args:
        session: An empty session of `model`.
        texts: The nodes to summarise.
        level: The level that is written. Written nodes, which are those read for level 3 and above,
            are shown with a bullet; chunks are not.
        config: The method's settings.
        model: The builder.

    Returns:
        The span of each node's tokens in the session, without bullet and line break
        (docs/methods/pecan.md#pecan-spans).
    """
    before, after = POINTS.with_replacements(config).around("nodes")
    prefix = ""
    if level > 2:
        prefix = BULLET + " "
    prompt = "".join(before)
    places_in_prompt: list[tuple[int, int]] = []
    for number, text in enumerate(texts):
        if number > 0:
            prompt += "\n"
        prompt += prefix
        places_in_prompt.append((len(prompt), len(prompt) + len(text)))
        prompt += text
    prompt += "".join(after)
    if before.system:
        session.system(before.system)
    first_token_of_prompt = session.user(prompt).start
    token_starts, token_ends = np.array(model.offsets(prompt)).T
    spans: list[Span] = []
    for start, end in places_in_prompt:
        tokens_before_node = int((token_ends <= start).sum())
        tokens_up_to_node_end = int((token_starts < end).sum())
        span = Span(
            first_token_of_prompt + tokens_before_node,
            first_token_of_prompt + tokens_up_to_node_end,
        )
        spans.append(span)
    return spans


def _ask_builder(
    texts: list[str], level: int, model: MeteredModel, config: PecanConfig
) -> StoredCall:
    """Let the builder write points, or a summary, over some nodes, and weigh the edges to these.

    Args:
        texts: The texts of the nodes that it reads, of the level below `level`.
        level: The number of the level that it writes.
        model: The builder.
        config: The method's settings.

    Returns:
        "texts": what it wrote, without repeated points where these are dropped; "weights": of the
        edges [texts, nodes read], each row with the sum 1; "how": how the output was read; "cut":
        whether it ended at its limit; "again": how many repeated points were dropped.

    Raises:
        QuestionError: The builder wrote nothing.
    """
    if config.graph == "tree":
        written = _write_summary(texts, model, config)
    else:
        written = _write_points(texts, level, model, config)
    texts_to_keep = list(range(len(written.texts)))
    if config.repeated_points == "drop":
        texts_to_keep = _first_copies(written.texts)
    if not texts_to_keep:
        raise QuestionError(
            f"the builder wrote no summary for {len(texts)} nodes of level {level - 1}"
        )
    attention = written.attention[texts_to_keep]
    if config.token_mean == "sum":
        # A sum over the higher node's tokens cancels in the normalisation; over the lower node's it
        # does not.
        attention = attention * np.array([model.count(text) for text in texts])
    return {
        "texts": [written.texts[text_number] for text_number in texts_to_keep],
        "weights": normalise_rows(attention),
        "how": written.parser,
        "cut": written.is_cut_off,
        "again": len(written.texts) - len(texts_to_keep),
    }


def _first_copies(texts: Sequence[str]) -> list[int]:
    """The places of the texts that are not there before, capitals aside: ["Ann.", "Bob.", "ann."]
    -> [0, 1].

    The first copy was written with the text in view, the later ones mostly with the copies before
    them.
    """
    first_place: dict[str, int] = {}
    for place, text in enumerate(texts):
        first_place.setdefault(text.casefold(), place)
    return list(first_place.values())


def _write_points(
    texts: list[str], level: int, model: MeteredModel, config: PecanConfig
) -> WrittenTexts:
    """Let the builder write Information Points over some nodes, at most `reserve` tokens, and measure
    the attention that each point pays each node.

    Args:
        texts: The texts of the nodes that it reads, of the level below `level`.
        level: The number of the level that it writes.
        model: The builder.
        config: The method's settings.

    Raises:
        WindowExceeded: The window has no room to write.
    """
    with model.session() as session:
        spans = feed_nodes(session, texts, level, config, model)
        max_reply_tokens = min(config.reserve, session.room() - model.turn_tokens())
        if max_reply_tokens < 1:
            raise WindowExceeded(
                f"{len(texts)} nodes of level {level - 1} with their prompt take "
                f"{session.length()} tokens, which leaves no room to write in the window of "
                f"{model.window}; raise model.window or lower method.chunk_tokens"
            )
        reply = session.write(max_reply_tokens, watch=spans)
    is_cut_off = reply.finish == "length"
    parsed = parse_points(reply.text, is_cut_off)
    attention_rows = [reply.attention_between(point.start, point.end) for point in parsed.points]
    return WrittenTexts(
        texts=[point.text for point in parsed.points],
        attention=np.array(attention_rows).reshape(len(attention_rows), len(texts)),
        parser=parsed.parser,
        is_cut_off=is_cut_off,
    )


def _write_summary(texts: list[str], model: MeteredModel, config: PecanConfig) -> WrittenTexts:
    """Let the builder write one summary of some nodes, on one line
    (docs/methods/raptor.md#raptor-defaults).

    A summary that is cut off at its limit of tokens is used as it is; a blank one gives no text.

    Args:
        texts: The texts of the nodes that it reads.
        model: The builder.
        config: The method's settings.
    """
    reply = summary.summarise_with_attention(
        texts, model, config.reserve, summary.DETAILED.with_replacements(config)
    )
    summary_line = " ".join(reply.text.split())
    written_texts: list[str] = []
    attention = np.zeros((0, len(texts)))
    if summary_line:
        assert reply.attention_to_texts is not None  # `summarise_with_attention` watches the texts
        written_texts = [summary_line]
        attention = reply.attention_to_texts[None, :]
    return WrittenTexts(
        texts=written_texts, attention=attention, parser="summary", is_cut_off=reply.is_cut_off
    )


def normalise_rows(rows: np.ndarray) -> np.ndarray:
    """Rows [points, nodes] scaled so that each sums to 1 (PECAN 3.1).

    A row of zeros becomes uniform, so that no point is cut off.
    """
    row_sums = rows.sum(axis=1, keepdims=True)
    uniform = np.full_like(rows, 1 / rows.shape[1])
    scaled = rows / np.where(row_sums > 0, row_sums, 1)
    return np.where(row_sums > 0, scaled, uniform)
