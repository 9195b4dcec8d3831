"""Dynamic search on the graph (PECAN 3.2 and appendices B, C; GARLIC 3.2 and table 5).

    visited <- top level; context <- question, then one bullet a node
    loop:  p_yes = P(Yes) / (P(Yes) + P(No)) as if the turn ended here;  stop at the t_n-th p_yes > t_p (patience)
           z = E^T r,  r_i = rank of i in the prompt x mean attention of node i to the question (0 if unvisited)
           next = argmax over unvisited of  z / sum z  +  max(cos, 0) / sum max(cos, 0);  append it
    answer in a second turn, from the same context

The question stands before the nodes, so r_i is fixed when node i is read, and every token is read
once.

A probe counts as Yes when p_yes > t_p (PECAN, section 3.2) or, where t_p is None, when Yes was the
likeliest of all tokens (GARLIC, section 3.2). The search ends at the t_n-th Yes, counted
cumulatively, or where the window or the graph ends. Which node comes next does not depend on the
rule, so a search that goes on past its stop holds the stops of all rules that are not stricter.

    p_yes      0.2   0.6   0.4   0.9   0.7     t_p = 0.5: stops of t_n = 1, 2, 3 are at the 2nd, 4th and 5th probe
    answer      a     b     b     c     c      t_p = 0.8: t_n = 1 at the 4th
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from harness.cost.flops import Flops
from harness.errors import WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel, Session, Span
from harness.prompts import feed
from harness.types import Answer, Document, Question, Shown, Step
from methods.graph import Graph
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import BULLET, PROBES, second_turn

GREEDY_YES = "greedy_yes"
"""Among a step's scores: 1 where Yes was the likeliest of all tokens, so that GARLIC's rule can be
replayed too."""


def counts_as_yes(p_yes: float, greedy: bool, t_p: float | None) -> bool:
    """Whether a probe counts as Yes: p_yes > t_p, or where t_p is None, `greedy`: Yes was its
    likeliest token."""
    return greedy if t_p is None else p_yes > t_p


def replay(
    steps: Sequence[Mapping[str, Any]],
    t_n: int,
    t_p: float | None,
    recorded_t_n: int,
    recorded_t_p: float | None,
) -> int | None:
    """The index of the step whose probe ends a search by (t_n, t_p); None where the recording ends
    before.

    recorded_t_n, recorded_t_p: the rule up to which the search was recorded.
    """
    probes = [place for place, step in enumerate(steps) if step.get("p_yes") is not None]

    def yes_probes(threshold: float | None) -> list[int]:
        """The places in `steps` of the probes that count as Yes."""
        values = (
            (place, steps[place]["p_yes"], (steps[place].get("scores") or {}).get(GREEDY_YES))
            for place in probes
        )
        return [
            place
            for place, p_yes, greedy in values
            if counts_as_yes(float(p_yes), bool(greedy), threshold)
        ]

    if len(reached := yes_probes(t_p)) >= t_n:
        return reached[t_n - 1]
    # An error that ended the recording left a last step without a probe (recording.py).
    failed = bool(steps) and steps[-1]["action"] == "study" and steps[-1].get("p_yes") is None
    # Otherwise it went on to the window or the end of the graph unless it had all its Yes.
    return (
        probes[-1]
        if probes and not failed and len(yes_probes(recorded_t_p)) < recorded_t_n
        else None
    )


# A chunk counts as a source of a point from this edge weight on; the papers' figures draw edges
# above it.
SOURCE_WEIGHT = 0.05

_Next = tuple[int | None, dict[str, float], str]


def score_nodes(
    z: np.ndarray, cosine: np.ndarray, unvisited: np.ndarray, config: PecanConfig
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score every node: (total, attention part, similarity part), each [nodes]; visited nodes get
    total -inf.

    z [nodes]: attention that visited nodes pass on to those below them; cosine [nodes]: similarity
    to the question, negative counts 0 (docs/methods/pecan.md#pecan-similarity); unvisited [nodes]:
    nodes still to be read.
    """
    clipped = np.maximum(cosine, 0.0)
    attention = z / z.sum() if config.attention_scale == "sum" and z.sum() > 0 else z.copy()
    similarity = clipped
    if config.similarity_scale != "raw":
        base = clipped.sum() if config.similarity_scale == "all" else clipped[unvisited].sum()
        similarity = clipped / base if base > 0 else clipped
    attention = attention * config.attention
    similarity = similarity * config.similarity
    return np.where(unvisited, attention + similarity, -np.inf), attention, similarity


def open_search(s: Session, question: Question, config: PecanConfig) -> Span:
    """Begin the first turn; returns the span of the question."""
    before, behind = PROBES[config.probe_wording].of(config).around("question", nodes=[])
    feed(s, before)
    span = s.feed(question.text)
    for piece in behind:
        s.feed(piece)
    return span


def node_line(text: str, bullet: bool = True) -> tuple[str, str]:
    """A node's line in the prompt as it is fed: the text before it, and the node's own tokens."""
    return ("\n" + BULLET, " " + text) if bullet else ("\n", text)


def feed_node(s: Session, text: str, question: Span, bullet: bool = True) -> Span:
    """Show one more node; its span has the attention to the question."""
    before, line = node_line(text, bullet)
    s.feed(before)
    return s.feed(line, watch=[question])


def finish(s: Session, yes: str, turn: str, max_tokens: int) -> str:
    """Close the first turn with the reply `yes`, open the second with `turn`, and return its
    answer, stripped."""
    s.reply(yes)
    s.user(turn)
    return s.write(max_tokens).text.strip()


@dataclass(frozen=True)
class Context:
    """The session with the question's span `asked`; limit: tokens it may hold before the second
    turn `turn`."""

    session: Session
    asked: Span
    limit: int
    turn: str

    def room(self) -> int:
        """Tokens left for nodes."""
        return self.limit - self.session.length()


@dataclass
class Search:
    """One question's walk over a document's graph; cosine: similarity of the question to nodes
    [nodes]."""

    graph: Graph
    cosine: np.ndarray
    document: Document
    config: PecanConfig
    tools: Tools
    model: MeteredModel
    steps: list[Step] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._z = np.zeros(len(self.graph.text))
        self._unvisited = np.array([bool(t) for t in self.graph.text], dtype=bool)
        self._unread: list[
            tuple[int, Span, int, Step]
        ] = []  # nodes, their ranks and steps: read with a probe
        self._yes_count = 0
        self._answer_flops = Flops()  # FLOPs spent on answers that no later step depends on

    def run(self, question: Question) -> Answer:
        """Search the graph, then answer the question."""
        with self.model.session() as s:
            with self.tools.phase("search"):
                context = self._open(s, question)
                reason = self._walk(context)
            text = self._finish(context)
        return Answer(text, tuple(self.shown), reason, tuple(self.steps))

    def _open(self, s: Session, question: Question) -> Context:
        """Begin the prompt and show the top level. Raises WindowExceeded where not even the
        question fits."""
        turn = second_turn(self.tools.task.instruction, question, self.config)
        span = open_search(s, question, self.config)
        # What the end of the search still needs: closing the turn, "Yes", the second turn, the
        # answer.
        tail = (
            2 * self.model.turn_tokens()
            + self.model.count(self.config.yes)
            + self.model.count(turn)
        )
        tail += self.tools.task.max_answer_tokens
        window = min(self.config.window, self.model.window)
        context = Context(s, span, window - tail, turn)
        if context.room() < 0:
            raise WindowExceeded(
                f"the question with its prompts and answer takes {s.length() + tail} tokens, more "
                "than the searcher's "
                f"window of {window}; raise method.window and the window of '{self.model.name}'"
            )
        self._visit_top_level(context)
        return context

    def _finish(self, context: Context) -> str:
        # A forced stop says "Yes" too, so that the second turn always follows the same words
        # (docs/methods/pecan.md#pecan-second-turn).
        return finish(
            context.session, self.config.yes, context.turn, self.tools.task.max_answer_tokens
        )

    def _visit_top_level(self, context: Context) -> None:
        """Visit the top level, if too large its nodes nearest the question
        (docs/methods/pecan.md#pecan-top-level)."""
        top = self.graph.top()
        max_nodes = len(top) if self.config.max_nodes is None else self.config.max_nodes
        if self.config.max_nodes is not None and not self.config.progress_control:
            max_nodes = max(1, max_nodes // max(self.graph.level, default=1))
        costs = {i: self._cost(i) for i in top}
        room = context.room()
        over = len(top) > max_nodes or sum(costs.values()) > room
        fits: list[int] = []
        for i in sorted(top, key=lambda i: -self.cosine[i]) if over else top:
            if len(fits) < max_nodes and costs[i] <= room:
                fits.append(i)
                room -= costs[i]
        left_out = [f"{len(top) - len(fits)} top nodes left out"] if len(fits) < len(top) else []
        note = "; ".join([*self.graph.notes, *left_out])
        if not fits:
            self.steps.append(Step(action="start", note=note, flops=self._flops()))
        for n, i in enumerate(sorted(fits), 1):
            self._visit(context, i, "start", {}, note if n == len(fits) else "")

    def _cost(self, node: int) -> int:
        """Tokens that appending `node` takes; counted for the nodes in question only, not for the
        whole graph."""
        return sum(map(self.model.count, node_line(self.graph.text[node], self._bullet(node))))

    def _bullet(self, node: int) -> bool:
        return self.config.chunk_mark == "bullet" or self.graph.span[node] is None

    def _visit(
        self, context: Context, node: int, action: str, scores: dict[str, float], note: str = ""
    ) -> None:
        """Append a node to the context, and record it as shown; the next probe reads it
        (`_record_unread`)."""
        span = feed_node(context.session, self.graph.text[node], context.asked, self._bullet(node))
        self._unvisited[node] = False
        rank = len(self.shown) + 2 if self.config.position_factor else 1
        self.shown.append(self.graph.shown(node, self.document.id, SOURCE_WEIGHT))
        level, shown = self.graph.level[node], self.shown[-1]
        step = Step(
            action=action,
            node=node,
            level=level,
            scores=scores,
            tokens=len(span),
            shown=shown,
            note=note,
        )
        self._unread.append((node, span, rank, step))

    def _record_unread(self, probe_flops: Flops) -> None:
        """Record the nodes that are new as steps, and in the scores of the nodes below them.

        A node's relevance is its position in the prompt times the mean attention that the question
        pays it (PECAN app. C); each node below it gains that times the weight of their edge.
        probe_flops: of the probe behind them.
        """
        for node, span, rank, step in self._unread:
            attention = span.attention[0] if span.attention else 0.0
            if self.config.token_mean == "sum":
                attention *= len(span)
            lower, weight = self.graph.below(node)
            self._z[lower] += rank * attention * weight
            scores = {**step.scores, "relevance": rank * attention}
            self.steps.append(replace(step, scores=scores, flops=self._flops() - probe_flops))
        self._unread = []

    def _flops(self) -> Flops:
        return self.tools.meter.flops() - self._answer_flops

    def _walk(self, context: Context) -> str:
        """Probe and append until a stop rule holds; returns its name."""
        while True:
            if self.config.progress_control:
                self._yes_count += self._probe(context)
            if self._yes_count >= self.config.t_n:  # cumulatively: GARLIC's patience
                return "yes"
            node, scores, reason = self._next_node(context)
            if node is None:
                return reason
            self._before_next_node(context)
            self._visit(context, node, "visit", scores)

    def _before_next_node(self, context: Context) -> None:
        """Called when the search goes on past a possible stop; recording.py answers here."""

    def _probe(self, context: Context) -> bool:
        """Ask whether the question can be answered; write it into the last step; return whether it
        counts as Yes."""
        probe = context.session.probe([self.config.yes, self.config.no])
        probe_flops = self.tools.meter.flops_of_newest_event()
        self._record_unread(
            probe_flops
        )  # nodes are read in the probe's pass, so their attention is known only now
        p, greedy = probe.p[self.config.yes], probe.top == self.config.yes
        last = self.steps[-1]
        scores = {**last.scores, GREEDY_YES: float(greedy)}
        self.steps[-1] = replace(
            last, scores=scores, p_yes=p, flops=self._flops(), probe_flops=probe_flops
        )
        return counts_as_yes(p, greedy, self.config.threshold)

    def _next_node(self, context: Context) -> _Next:
        """The next node with the parts of its score, or None and why: max-nodes, exhausted or
        window."""
        self._record_unread(Flops())
        if self.config.max_nodes is not None and len(self.shown) >= self.config.max_nodes:
            return None, {}, "max-nodes"
        if not self._unvisited.any():
            return None, {}, "exhausted"
        total, attention, similarity = score_nodes(
            self._z, self.cosine, self._unvisited, self.config
        )
        # Ties go to the lowest node id (docs/methods/pecan.md#pecan-ties): argmax takes the first,
        # and the sort is stable.
        best = [int(np.argmax(total))]
        if self.config.window_full == "skip":
            best = np.argsort(-total, kind="stable")[: int(self._unvisited.sum())].tolist()
        for node in best:
            if self._cost(node) <= context.room():
                parts = {
                    "attention": attention[node],
                    "similarity": similarity[node],
                    "total": total[node],
                }
                return node, {k: float(v) for k, v in parts.items()}, ""
        return None, {}, "window"
