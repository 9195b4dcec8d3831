"""Graph construction (PECAN 3.1, GARLIC 3.1): level by level, until one call held a whole level.

nodes of a level ──pack──► batches ──one call each──► points (or one summary) and edge weights ──► the next level

A_ij = mean over layers, heads, tokens of i and j of attention(i -> j), while i is written
e_ij = A_ij / sum over j' in the batch of i of A_ij'

A written summary into Information Points (docs/methods/pecan.md#pecan-points).

"* Ann met Bob\\n  in Rome.\\n* Bob left."  ──►  [(2, 24, "Ann met Bob in Rome."), (27, 36, "Bob left.")]
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.errors import QuestionError, WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel, Session, Span
from harness.prompts import prompt_tokens
from harness.types import Document
from methods import summary
from methods.chunks import fixed_chunks, trimmed
from methods.graph import Graph
from methods.packing import packed_chunks, sentences
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import BULLET, POINTS

# "*", a bullet sign, "-" or "1." / "1)" at the start of a line; the last two need a space, or -5
# and 3.5 were marks. "**Points**" is a heading in bold: no bullet, and no part of the one before
# it.
_MARK = re.compile(
    r"[ \t]*(?:(?:\*(?!\*)|[\u2022\u2023\u25aa\u25cf])[ \t]*|(?:-|\d{1,3}[.)])[ \t]+)"
)
_HEADING = re.compile(r"[ \t]*\*\*[^*\n]+\*\*:?[ \t]*")


class Point(NamedTuple):
    """One bullet: characters [start, end) of the written text, its mark left out, and its text on
    one line."""

    start: int
    end: int
    text: str


class Parsed(NamedTuple):
    """The points, and how they were parsed: "bullets" or "lines", with " cut" for a dropped last
    one."""

    points: list[Point]
    parser: str


def parse_points(text: str, truncated: bool) -> Parsed:
    """Find the bullets of `text`; wrapped lines join the bullet before them, empty ones are
    dropped.

    `truncated`: the text was cut by the token limit, so its last bullet is unfinished and dropped
    if there are others. Without any bullet each line is a point (a single line: each sentence).
    """
    bullets: list[list[int]] = []
    for line in re.finditer(r"[^\n]+", text):
        mark = _MARK.match(line.group())
        if mark:
            bullets.append([line.start() + mark.end(), line.end()])
        elif bullets and line.group().strip() and not _HEADING.fullmatch(line.group()):
            bullets[-1][1] = line.end()
    points = [p for a, b in bullets if (p := _trimmed_point(text, a, b))]
    parser = "bullets" if points else "lines"
    if not points:
        lines = [
            match.span()
            for match in re.finditer(r"[^\n]+", text)
            if re.search(r"\w", match.group())
        ]
        spans = lines if len(lines) > 1 else sentences(text)
        points = [p for a, b in spans if (p := _trimmed_point(text, a, b))]
    if truncated and len(points) > 1:
        return Parsed(points[:-1], parser + " cut")
    return Parsed(points, parser)


def _trimmed_point(text: str, start: int, end: int) -> Point | None:
    """The point text[start:end] without white space around it; None where it has no word."""
    start, end = trimmed(text, start, end)
    # A mark or an ellipsis alone says nothing.
    if not re.search(r"\w", text[start:end]):
        return None
    return Point(start, end, " ".join(text[start:end].split()))


def pack_batches(
    lengths: Sequence[int], room: int, max_nodes: int | None = None
) -> list[list[int]]:
    """Batches of node numbers, in order; the node that would cross `room` tokens opens the next
    batch.

    `lengths`: tokens of each node; `max_nodes`: nodes of a batch at most; they are spread evenly,
    so 11 nodes in batches of 10 are 5 and 6 (docs/methods/pecan.md#pecan-tree). A single node
    longer than `room` gets a batch of its own, which the model then refuses by its window
    (docs/methods/pecan.md#pecan-batches).
    """
    n_batches = -(-len(lengths) // max_nodes) if max_nodes else 1
    opens = {len(lengths) * k // n_batches for k in range(n_batches)}
    batches: list[list[int]] = []
    used = 0
    for i, n in enumerate(lengths):
        if i in opens or used + n > room:
            batches.append([])
            used = 0
        batches[-1].append(i)
        used += n
    return batches


def build_graph(document: Document, config: PecanConfig, tools: Tools) -> Graph:
    """Build the graph of `document` with the builder; question-independent.

    Raises QuestionError when a summary has no text at all, or a node does not fit the window.
    """
    model = tools.model("builder")
    graph = Graph()
    cut = packed_chunks if config.chunk_boundaries == "sentences" else fixed_chunks
    for start, end in cut(document.text, config.chunk_tokens, model):
        graph.add(" ".join(document.text[start:end].split()), 1, (start, end))
    room = _room(config, model)
    nodes = [i for i, text in enumerate(graph.text) if text]
    if not nodes:
        graph.notes.append("the document has no text, so there is nothing to search")
    counts = [model.count(graph.text[i]) for i in nodes]
    for level in range(2, config.max_levels + 1):
        if not nodes:
            break
        written = _build_level(graph, level, nodes, counts, room, config, tools)
        before, before_tokens = len(nodes), sum(counts)
        nodes = graph.add_level(level, [(b.texts, b.nodes, b.weights) for b in written])
        counts = [model.count(graph.text[i]) for i in nodes]
        if len(written) == 1 and level - 1 >= config.min_ip_levels:
            break
        if len(written) > 1 and len(nodes) >= before and sum(counts) >= before_tokens:
            graph.log.append(
                f"level {level} has neither fewer nodes nor fewer tokens than {level - 1}: "
                "building ends"
            )
            break
    return graph


def _room(config: PecanConfig, model: MeteredModel) -> int:
    """Tokens of nodes that a call may hold. Raises QuestionError where the window leaves none."""
    window = min(config.window, model.window)
    if config.graph == "tree":
        frame = summary.frame_tokens(model, summary.DETAILED.of(config))
    else:
        frame = prompt_tokens(POINTS.of(config).fill(nodes=[]), model)
    room = window - frame - config.reserve
    if room <= 0:
        raise QuestionError(
            f"a window of {window} tokens leaves no room for text beside the prompt ({frame}) and "
            "the summary "
            f"({config.reserve}); lower method.reserve or raise method.window and model.window"
        )
    return room if config.batch_tokens is None else min(room, config.batch_tokens)


@dataclass(frozen=True)
class _Batch:
    """One call: its nodes, the texts it wrote, weights [texts, nodes], and how the output was
    parsed.

    cut: the output ended at its limit; repeated: how many points were dropped as repeated.
    """

    nodes: list[int]
    texts: list[str]
    weights: np.ndarray
    parser: str
    cut: bool
    repeated: int


def _build_level(
    graph: Graph,
    level: int,
    nodes: list[int],
    counts: list[int],
    room: int,
    config: PecanConfig,
    tools: Tools,
) -> list[_Batch]:
    """Group the nodes below `level`, call the builder for each group, return what it wrote; counts:
    their tokens."""
    model = tools.model("builder")
    newline = model.count("\n")
    if level > 2 and config.graph == "points":
        counts = [model.count(BULLET) + model.count(" " + graph.text[i]) for i in nodes]
    packed = pack_batches([n + newline for n in counts], room, config.batch_nodes)
    batches = [[nodes[i] for i in batch] for batch in packed]
    texts = [[graph.text[i] for i in batch] for batch in batches]
    calls = summary.write_groups(
        level, texts, lambda t: _call_builder(t, level, model, config), tools
    )
    written = [
        _Batch(
            batch,
            call["texts"],
            np.asarray(call["weights"], np.float64),
            call["how"],
            call["cut"],
            call["again"],
        )
        for batch, call in zip(batches, calls, strict=True)
    ]
    _log_level(graph, level, len(nodes), written, config)
    return written


def _log_level(
    graph: Graph, level: int, n_nodes: int, written: list[_Batch], config: PecanConfig
) -> None:
    """Log the level, and note the calls whose output needed another parser than the prompt's
    form."""
    counts = ", ".join(f"{len(b.texts)} ({b.parser})" for b in written)
    name = f"level {level}"
    graph.log.append(f"{name}: {n_nodes} nodes in {len(written)} calls -> points {counts}")
    if plain := sum(b.parser.startswith("lines") for b in written):
        graph.notes.append(
            f"{name}: {plain} of {len(written)} summaries had no bullet: its lines were taken"
        )
    if cut := sum(b.cut for b in written):
        graph.notes.append(
            f"{name}: {cut} of {len(written)} summaries were cut at {config.reserve} tokens"
        )
    if again := sum(b.repeated for b in written):
        graph.notes.append(f"{name}: {again} points that a call had written before were dropped")


def feed_nodes(
    s: Session, texts: Sequence[str], level: int, config: PecanConfig, model: MeteredModel
) -> list[Span]:
    """Put the request for points of `level` into an empty context; returns the span of each text.

    The prompt is tokenised whole. A span holds its text's tokens, without bullet and line break
    (docs/methods/pecan.md#pecan-spans).
    """
    before, behind = POINTS.of(config).around("nodes")
    prompt, characters = "".join(before), []
    for i, text in enumerate(texts):
        prompt += ("\n" if i else "") + ("" if level == 2 else BULLET + " ")
        characters.append((len(prompt), len(prompt) + len(text)))
        prompt += text
    prompt += "".join(behind)
    if before.system:
        s.system(before.system)
    first = s.user(prompt).start
    begins, ends = np.array(model.offsets(prompt)).T
    return [
        Span(first + int((ends <= a).sum()), first + int((begins < b).sum())) for a, b in characters
    ]


def _call_builder(
    texts: list[str], level: int, model: MeteredModel, config: PecanConfig
) -> dict[str, Any]:
    """One call: "texts" of new nodes, "weights" [new nodes, texts], "how" parsed, if "cut", points
    dropped: "again"."""
    write = _write_summary if config.graph == "tree" else _write_points
    written, rows, parser, cut = write(texts, level, model, config)
    again = 0
    if config.repeated_points == "drop":
        # The first copy was written with the text in view, the later ones mostly with the copies
        # before them.
        first = [
            i
            for i, text in enumerate(written)
            if text.casefold() not in map(str.casefold, written[:i])
        ]
        again = len(written) - len(first)
        written, rows = [written[i] for i in first], rows[first]
    if not written:
        raise QuestionError(
            f"the builder wrote no summary for {len(texts)} nodes of level {level - 1}"
        )
    if config.token_mean == "sum":
        # A sum over the higher node's tokens cancels in the normalisation; over the lower node's it
        # does not.
        rows = rows * np.array([model.count(text) for text in texts])
    return {
        "texts": written,
        "weights": normalise_rows(rows),
        "how": parser,
        "cut": cut,
        "again": again,
    }


_Written = tuple[list[str], np.ndarray, str, bool]
"""(texts, their attention to the nodes [texts, nodes], how they were parsed, whether the output was
cut)."""


def _write_points(
    texts: list[str], level: int, model: MeteredModel, config: PecanConfig
) -> _Written:
    """One call for Information Points of `texts`, which are nodes of the level below `level`."""
    with model.session() as s:
        spans = feed_nodes(s, texts, level, config, model)
        left = min(config.reserve, s.room() - model.turn_tokens())
        if left < 1:
            raise WindowExceeded(
                f"{len(texts)} nodes of level {level - 1} with their prompt take {s.length()} "
                "tokens, which leaves no "
                f"room to write in the window of {model.window}; raise model.window or lower "
                "method.chunk_tokens"
            )
        out = s.write(left, watch=spans)
    cut = out.finish == "length"
    parsed = parse_points(out.text, cut)
    rows = [out.attention_between(p.start, p.end) for p in parsed.points]
    return (
        [p.text for p in parsed.points],
        np.array(rows).reshape(len(rows), len(texts)),
        parsed.parser,
        cut,
    )


def _write_summary(
    texts: list[str], _build_level: int, model: MeteredModel, config: PecanConfig
) -> _Written:
    """One call for one summary of `texts`, on one line, also if it was cut
    (docs/methods/raptor.md#raptor-defaults)."""
    reply = summary.summarise_watched(texts, model, config.reserve, summary.DETAILED.of(config))
    line = " ".join(reply.text.split())
    rows = (
        np.zeros((0, len(texts)))
        if reply.attention is None or not line
        else reply.attention[None, :]
    )
    return [line] if line else [], rows, "summary", reply.cut


def normalise_rows(rows: np.ndarray) -> np.ndarray:
    """`rows` [points, nodes] scaled to sum to 1 (PECAN 3.1); one of zeros becomes uniform, so no
    point is cut off."""
    total = rows.sum(axis=1, keepdims=True)
    uniform = np.full_like(rows, 1 / rows.shape[1])
    return np.where(total > 0, rows / np.where(total > 0, total, 1), uniform)
