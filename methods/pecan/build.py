"""Builds PECAN's graph, level by level, until one call held a whole level (PECAN 3.1, GARLIC 3.1).

nodes of a level ──pack──► batches ──one call each──► points (or one summary) and edge weights ──► the next level

A_ij = mean over layers, heads, tokens of i and j of attention(i -> j), while i is written
e_ij = A_ij / sum over j' in the batch of i of A_ij'
"""

import math
from collections.abc import Sequence
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
class Level:
    """The nodes that one round of calls summarises.

    Attributes:
        number: The number of the level that the calls write.
        nodes: Their numbers in the graph.
        counts: Their tokens.
    """

    number: int
    nodes: list[int]
    counts: list[int]


@dataclass(frozen=True)
class Batch:
    """One call of the builder.

    Attributes:
        nodes: Those that it read.
        texts: What it wrote.
        weights: The weights of the edges between the two, [texts, nodes].
        parser: How the output was read.
        cut: Whether the output ended at its limit.
        repeated: How many repeated points were dropped.
    """

    nodes: list[int]
    texts: list[str]
    weights: np.ndarray
    parser: str
    cut: bool
    repeated: int


class StoredCall(TypedDict):
    """A call as a stopped index stores it.

    Attributes:
        texts: The texts of the new nodes.
        weights: The weights of their edges, [new nodes, nodes that were read].
        how: How the output was parsed.
        cut: Whether the output ended at its limit.
        again: How many repeated points were dropped.
    """

    texts: list[str]
    weights: np.ndarray
    how: str
    cut: bool
    again: int


@dataclass(frozen=True)
class Written:
    """What a call wrote.

    Attributes:
        texts: The texts.
        attention: The attention of each text to each node that was read, [texts, nodes].
        parser: How the output was parsed.
        cut: Whether the output ended at its limit.
    """

    texts: list[str]
    attention: np.ndarray
    parser: str
    cut: bool


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
        below, until one batch holds all or `max_levels` are there."""
        self._add_chunks(document)
        room = tokens_for_nodes(self._config, self._model)
        nodes = [i for i, text in enumerate(self._graph.text) if text]
        if not nodes:
            self._graph.notes.append("the document has no text, so there is nothing to search")
        below = self._level(2, nodes)
        while below.nodes and below.number <= self._config.max_levels:
            batches = self._write_level(below, room)
            above = self._add_level(below, batches)
            if self._is_top(below, above, batches):
                break
            below = above
        return self._graph

    def _add_chunks(self, document: Document) -> None:
        """Add the chunks of the document as nodes of level 1, each on one line."""
        cut = fixed_chunks
        if self._config.chunk_boundaries == "sentences":
            cut = packed_chunks
        for start, end in cut(document.text, self._config.chunk_tokens, self._model):
            self._graph.add(" ".join(document.text[start:end].split()), 1, (start, end))

    def _level(self, number: int, nodes: list[int]) -> Level:
        """The nodes that level `number` is written over, with their tokens."""
        counts = list(map(self._model.count, self._graph.texts_of(nodes)))
        return Level(number, nodes, counts)

    def _write_level(self, below: Level, room: int) -> list[Batch]:
        """Group the nodes below, call the builder for each group, and log what it wrote.

        Args:
            below: The nodes that are read.
            room: Most tokens of nodes in one call.
        """
        packed = pack_batches(self._shown_counts(below), room, self._config.batch_nodes)
        groups = [[below.nodes[place] for place in places] for places in packed]
        calls = summary.write_groups(
            below.number,
            list(map(self._graph.texts_of, groups)),
            lambda texts: _call_builder(texts, below.number, self._model, self._config),
            self._tools,
        )
        batches = list(map(_batch_of_call, groups, calls))
        log_level(self._graph, below, batches, self._config)
        return batches

    def _shown_counts(self, below: Level) -> list[int]:
        """How many tokens each node of a level takes in a prompt: its text, its bullet where it has
        one, and a line break."""
        counts = below.counts
        if below.number > 2 and self._config.graph == "points":
            bullet = self._model.count(BULLET)
            texts = self._graph.texts_of(below.nodes)
            counts = [bullet + self._model.count(f" {text}") for text in texts]
        newline = self._model.count("\n")
        return [count + newline for count in counts]

    def _add_level(self, below: Level, batches: list[Batch]) -> Level:
        """Add what the calls wrote to the graph; return the new nodes, over which the next level is
        written."""
        written = [NewNodes(batch.texts, batch.nodes, batch.weights) for batch in batches]
        return self._level(below.number + 1, self._graph.add_level(below.number, written))

    def _is_top(self, below: Level, above: Level, batches: list[Batch]) -> bool:
        """Whether the graph is complete: one batch held the level below, or the new level is no
        smaller. The latter is also logged.

        Args:
            below: The level that was read.
            above: The level that was written.
            batches: The calls that wrote it.
        """
        if len(batches) == 1:
            return below.number - 1 >= self._config.min_ip_levels
        has_as_many_nodes = len(above.nodes) >= len(below.nodes)
        if has_as_many_nodes and sum(above.counts) >= sum(below.counts):
            self._graph.log.append(
                f"level {below.number} has neither fewer nodes nor fewer tokens than "
                f"{below.number - 1}: building ends"
            )
            return True
        return False


def pack_batches(
    lengths: Sequence[int], room: int, max_nodes: int | None = None
) -> list[list[int]]:
    """Pack nodes into batches, in order; the node that would cross `room` starts the next batch.

    A single node longer than `room` gets a batch of its own, which the model then refuses by its
    window (docs/methods/pecan.md#pecan-batches).

    Args:
        lengths: Tokens of each node.
        room: Most tokens of a batch.
        max_nodes: Most nodes of a batch; they are spread evenly, so 11 nodes in batches of 10 are 5
            and 6 (docs/methods/pecan.md#pecan-tree).

    Returns:
        The numbers of the nodes of each batch.
    """
    n_batches = 1
    if max_nodes:
        n_batches = math.ceil(len(lengths) / max_nodes)
    starts = {len(lengths) * k // n_batches for k in range(n_batches)}
    batches: list[list[int]] = []
    used = 0
    for i, n in enumerate(lengths):
        if i in starts or used + n > room:
            batches.append([])
            used = 0
        batches[-1].append(i)
        used += n
    return batches


def tokens_for_nodes(config: PecanConfig, model: MeteredModel) -> int:
    """How many tokens of nodes one call may hold. Raises QuestionError where the window leaves
    none."""
    window = min(config.window, model.window)
    if config.graph == "tree":
        frame = summary.frame_tokens(model, summary.DETAILED.with_replacements(config))
    else:
        frame = prompt_tokens(POINTS.with_replacements(config).fill(nodes=[]), model)
    room = window - frame - config.reserve
    if room <= 0:
        raise QuestionError(
            f"a window of {window} tokens leaves no room for text beside the prompt ({frame}) and "
            f"the summary ({config.reserve}); lower method.reserve or raise method.window and "
            "model.window"
        )
    if config.batch_tokens is None:
        return room
    return min(room, config.batch_tokens)


def _batch_of_call(nodes: list[int], call: StoredCall) -> Batch:
    """A stored call as a Batch, with the numbers of the nodes that it read."""
    return Batch(
        nodes=nodes,
        texts=call["texts"],
        weights=np.asarray(call["weights"], np.float64),
        parser=call["how"],
        cut=call["cut"],
        repeated=call["again"],
    )


def log_level(graph: Graph, below: Level, batches: list[Batch], config: PecanConfig) -> None:
    """Log a new level, and note the calls whose output did not have the form that was asked for.

    Args:
        graph: The graph, which gets one line of log and at most three notes.
        below: The level that was read.
        batches: The calls that wrote the new level.
        config: The method's settings.
    """
    name = f"level {below.number}"
    counts = ", ".join(f"{len(batch.texts)} ({batch.parser})" for batch in batches)
    graph.log.append(f"{name}: {len(below.nodes)} nodes in {len(batches)} calls -> points {counts}")
    without_bullets = sum(batch.parser.startswith("lines") for batch in batches)
    if without_bullets:
        graph.notes.append(
            f"{name}: {without_bullets} of {len(batches)} summaries had no bullet: its lines were "
            "taken"
        )
    cut = sum(batch.cut for batch in batches)
    if cut:
        graph.notes.append(
            f"{name}: {cut} of {len(batches)} summaries were cut at {config.reserve} tokens"
        )
    repeated = sum(batch.repeated for batch in batches)
    if repeated:
        graph.notes.append(f"{name}: {repeated} points that a call had written before were dropped")


def feed_nodes(
    s: Session, texts: Sequence[str], level: int, config: PecanConfig, model: MeteredModel
) -> list[Span]:
    """Put the request for points into an empty session, tokenised as one text.

    Args:
        s: An empty session of `model`.
        texts: The nodes to summarise.
        level: The level that is written; nodes of level 2 and above are shown with a bullet.
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
    places: list[tuple[int, int]] = []
    for i, text in enumerate(texts):
        if i > 0:
            prompt += "\n"
        prompt += prefix
        places.append((len(prompt), len(prompt) + len(text)))
        prompt += text
    prompt += "".join(after)
    if before.system:
        s.system(before.system)
    first = s.user(prompt).start
    starts, ends = np.array(model.offsets(prompt)).T
    spans: list[Span] = []
    for start, end in places:
        first_token = int((ends <= start).sum())
        last_token = int((starts < end).sum())
        spans.append(Span(first + first_token, first + last_token))
    return spans


def _call_builder(
    texts: list[str], level: int, model: MeteredModel, config: PecanConfig
) -> StoredCall:
    """Let the builder write points, or a summary, over some nodes, and weigh the edges to these.

    Args:
        texts: The texts of the nodes that it reads, of the level below `level`.
        level: The number of the level that it writes.
        model: The builder.
        config: The method's settings.

    Raises:
        QuestionError: The builder wrote nothing.
    """
    if config.graph == "tree":
        written = _write_summary(texts, model, config)
    else:
        written = _write_points(texts, level, model, config)
    kept = list(range(len(written.texts)))
    if config.repeated_points == "drop":
        kept = _first_copies(written.texts)
    if not kept:
        raise QuestionError(
            f"the builder wrote no summary for {len(texts)} nodes of level {level - 1}"
        )
    attention = written.attention[kept]
    if config.token_mean == "sum":
        # A sum over the higher node's tokens cancels in the normalisation; over the lower node's it
        # does not.
        attention = attention * np.array([model.count(text) for text in texts])
    return {
        "texts": [written.texts[i] for i in kept],
        "weights": normalise_rows(attention),
        "how": written.parser,
        "cut": written.cut,
        "again": len(written.texts) - len(kept),
    }


def _first_copies(texts: Sequence[str]) -> list[int]:
    """The places of the texts that are not there before, capitals aside: ["Ann.", "Bob.", "ann."]
    -> [0, 1].

    The first copy was written with the text in view, the later ones mostly with the copies before
    them.
    """
    numbers: dict[str, int] = {}
    for i, text in enumerate(texts):
        numbers.setdefault(text.casefold(), i)
    return list(numbers.values())


def _write_points(
    texts: list[str], level: int, model: MeteredModel, config: PecanConfig
) -> Written:
    """Let the builder write Information Points over some nodes.

    Args:
        texts: The texts of the nodes that it reads, of the level below `level`.
        level: The number of the level that it writes.
        model: The builder.
        config: The method's settings.

    Raises:
        WindowExceeded: The window has no room to write.
    """
    with model.session() as s:
        spans = feed_nodes(s, texts, level, config, model)
        left = min(config.reserve, s.room() - model.turn_tokens())
        if left < 1:
            raise WindowExceeded(
                f"{len(texts)} nodes of level {level - 1} with their prompt take {s.length()} "
                f"tokens, which leaves no room to write in the window of {model.window}; raise "
                "model.window or lower method.chunk_tokens"
            )
        out = s.write(left, watch=spans)
    cut = out.finish == "length"
    parsed = parse_points(out.text, cut)
    rows = [out.attention_between(point.start, point.end) for point in parsed.points]
    return Written(
        texts=[point.text for point in parsed.points],
        attention=np.array(rows).reshape(len(rows), len(texts)),
        parser=parsed.parser,
        cut=cut,
    )


def _write_summary(texts: list[str], model: MeteredModel, config: PecanConfig) -> Written:
    """Let the builder write one summary of some nodes, on one line, also if it was cut
    (docs/methods/raptor.md#raptor-defaults).

    Args:
        texts: The texts of the nodes that it reads.
        model: The builder.
        config: The method's settings.
    """
    reply = summary.summarise_watched(
        texts, model, config.reserve, summary.DETAILED.with_replacements(config)
    )
    line = " ".join(reply.text.split())
    if not line:
        return Written([], np.zeros((0, len(texts))), "summary", reply.cut)
    assert reply.attention is not None  # `summarise_watched` watches the texts
    return Written([line], reply.attention[None, :], "summary", reply.cut)


def normalise_rows(rows: np.ndarray) -> np.ndarray:
    """Rows [points, nodes] scaled so that each sums to 1 (PECAN 3.1).

    A row of zeros becomes uniform, so that no point is cut off.
    """
    total = rows.sum(axis=1, keepdims=True)
    uniform = np.full_like(rows, 1 / rows.shape[1])
    scaled = rows / np.where(total > 0, total, 1)
    return np.where(total > 0, scaled, uniform)
