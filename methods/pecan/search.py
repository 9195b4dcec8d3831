"""Dynamic search on the graph (S000 3.2 and appendices B, C; S001 3.2 and table 5).

    visited <- top level; context <- question, then one bullet a node
    loop:  p_yes = P(Yes) / (P(Yes) + P(No)) as if the turn ended here;  stop at the t_n-th p_yes > t_p
           z = E^T r,  r_i = rank of i in the prompt x mean attention of node i to the question (0 if unvisited)
           next = argmax over unvisited of  z / sum z  +  max(cos, 0) / sum max(cos, 0);  append it
    answer in a second turn, from the same context

The question stands before the nodes, so r_i is fixed when node i is read, and every token is read once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from harness.llm.base import MeteredModel, Session, Span
from harness.method import Tools
from harness.types import Answer, Document, Question, Shown, Step
from methods.pecan.config import PecanConfig
from methods.pecan.graph import Graph
from methods.pecan.prompts import BULLET, SEARCH_HEAD, SEARCH_MIDDLE, second_turn

__all__ = ["Search", "choose", "feed_node", "finish", "open_search"]

# A chunk counts as a source of a point from this edge weight on; the papers' figures draw edges above it.
SOURCE_WEIGHT = 0.05


def choose(
    z: np.ndarray, cosine: np.ndarray, unvisited: np.ndarray, config: PecanConfig
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score every node: (total, attention part, similarity part), each [nodes]; visited nodes get total -inf.

    z: E^T r; cosine: similarity of question and node; negative similarity counts 0 (point 15).
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


def open_search(s: Session, question: Question) -> Span:
    """Begin the first turn; returns the span of the question."""
    s.user(SEARCH_HEAD)
    asked = s.feed(question.text)
    s.feed(SEARCH_MIDDLE)
    return asked


def feed_node(s: Session, text: str, asked: Span) -> Span:
    """Show one more node; its span has the attention to the question."""
    s.feed("\n" + BULLET)
    return s.feed(text, watch=[asked])


def finish(s: Session, yes: str, turn: str, max_tokens: int) -> str:
    """Close the first turn with `yes` and answer in the second."""
    s.reply(yes)
    s.user(turn)
    return s.write(max_tokens).text.strip()


@dataclass
class Search:
    """One question's walk over one document's graph."""

    graph: Graph
    cosine: np.ndarray
    document: Document
    config: PecanConfig
    tools: Tools
    model: MeteredModel
    steps: list[Step] = field(default_factory=list)
    visited: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._z = np.zeros(len(self.graph.text))
        self._readable = np.array([bool(t) for t in self.graph.text], dtype=bool)
        self._down: dict[int, list[tuple[int, float]]] = {}
        for higher, lower, weight in self.graph.edges:
            self._down.setdefault(higher, []).append((lower, weight))
        self._mark = self.model.count("\n" + BULLET)

    def run(self, question: Question) -> Answer:
        """Search, then answer."""
        turn = second_turn(self.tools.task.instruction)
        with self.model.session() as s:
            with self.tools.phase("search"):
                asked = open_search(s, question)
                # What the end of the search still needs: closing the turn, "Yes", the second turn, the answer.
                tail = 2 * self.model.turn_tokens() + self.model.count(self.config.yes) + self.model.count(turn)
                limit = min(self.config.window, self.model.window) - tail - self.tools.task.max_answer_tokens
                self._start(s, asked, limit)
                reason = self._walk(s, asked, limit)
            # A forced stop says "Yes" too, so that the second turn always follows the same words (point 23).
            text = finish(s, self.config.yes, turn, self.tools.task.max_answer_tokens)
        return Answer(text, tuple(self._shown(i) for i in self.visited), reason, tuple(self.steps))

    def _start(self, s: Session, asked: Span, limit: int) -> None:
        """Visit the top level; where it does not fit, its nodes nearest to the question, in order (point 12)."""
        top = self.graph.top()
        most = len(top) if self.config.max_nodes is None else self.config.max_nodes
        fits: list[int] = []
        room = limit - s.length()
        for i in sorted(top, key=lambda i: -self.cosine[i]) if self._over(top, room, most) else top:
            cost = self._cost(i)
            if len(fits) < most and cost <= room:
                fits.append(i)
                room -= cost
        note = f"{len(top) - len(fits)} top nodes left out" if len(fits) < len(top) else ""
        if not fits:
            self.steps.append(Step(action="start", note=note))
        spans = [(i, self._append(s, i, asked)) for i in sorted(fits)]
        for i, span in spans:
            self._visit(i, span, "start", {}, note if i == spans[-1][0] else "")

    def _over(self, top: list[int], room: int, most: int) -> bool:
        return len(top) > most or sum(map(self._cost, top)) > room

    def _cost(self, node: int) -> int:
        """Tokens that appending `node` takes; counted for the nodes in question only, not for the whole graph."""
        return self._mark + self.model.count(self.graph.text[node])

    def _append(self, s: Session, node: int, asked: Span) -> Span:
        return feed_node(s, self.graph.text[node], asked)

    def _visit(self, node: int, span: Span, action: str, scores: dict[str, float], note: str = "") -> None:
        """Relevance r = rank in the prompt x mean attention to the question; the question's rank is 1 (S000 app. C)."""
        self.visited.append(node)
        rank = len(self.visited) + 1 if self.config.position_factor else 1
        attention = span.attention[0] if span.attention else 0.0
        if self.config.token_mean == "sum":
            attention *= len(span)
        for lower, weight in self._down.get(node, []):
            self._z[lower] += rank * attention * weight
        self.steps.append(
            Step(
                action=action,
                node=node,
                level=self.graph.level[node],
                scores={**scores, "relevance": rank * attention},
                tokens=len(span),
                flops=self.tools.meter.flops(),
                shown=self._shown(node),
                note=note,
            )
        )

    def _walk(self, s: Session, asked: Span, limit: int) -> str:
        """Probe and append until a stop rule holds; returns its name."""
        count = 0
        while True:
            count += self._probe(s) > self.config.t_p
            if count >= self.config.t_n:
                return "yes"
            if self.config.max_nodes is not None and len(self.visited) >= self.config.max_nodes:
                return "max-nodes"
            node, scores, reason = self._next(limit - s.length())
            if node is None:
                return reason
            self._visit(node, self._append(s, node, asked), "visit", scores)

    def _probe(self, s: Session) -> float:
        p = s.probe([self.config.yes, self.config.no]).p[self.config.yes]
        seen = Step(action="probe", p_yes=p, flops=self.tools.meter.flops())
        if self.steps:
            # The probe belongs to the move before it.
            last = self.steps.pop()
            seen = Step(
                last.action, last.node, last.level, last.scores, last.tokens, p, seen.flops, last.shown, last.note
            )
        self.steps.append(seen)
        return p

    def _next(self, room: int) -> tuple[int | None, dict[str, float], str]:
        unvisited = self._readable.copy()
        unvisited[self.visited] = False
        if not unvisited.any():
            return None, {}, "exhausted"
        total, attention, similarity = choose(self._z, self.cosine, unvisited, self.config)
        # Ties go to the lowest node id (point 29): the sort is stable.
        for node in np.argsort(-total, kind="stable").tolist():
            if total[node] == -np.inf:
                break
            if self._cost(node) <= room:
                parts = {"attention": attention[node], "similarity": similarity[node], "total": total[node]}
                return node, {k: float(v) for k, v in parts.items()}, ""
            if self.config.window_full == "stop":
                break
        return None, {}, "window"

    def _shown(self, node: int) -> Shown:
        span = self.graph.span[node]
        if span is not None:
            return Shown("span", self.document.id, *span)
        return Shown("generated", self.document.id, text=self.graph.text[node], sources=self._sources(node))

    def _sources(self, node: int) -> tuple[tuple[str, int, int], ...]:
        found: set[tuple[int, int]] = set()
        open_nodes = [node]
        while open_nodes:
            for lower, weight in self._down.get(open_nodes.pop(), []):
                if weight >= SOURCE_WEIGHT:
                    span = self.graph.span[lower]
                    if span is None:
                        open_nodes.append(lower)
                    else:
                        found.add(span)
        return tuple((self.document.id, a, b) for a, b in sorted(found))
