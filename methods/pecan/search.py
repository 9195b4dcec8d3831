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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.cost.flops import Flops
from harness.errors import WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel, Session, Span
from harness.prompts import feed
from harness.storage.records import StoredStep
from harness.types import Answer, Document, Question, Shown, Step
from methods.graph import Graph
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import BULLET, PROBES, second_turn

GREEDY_YES = "greedy_yes"
"""Among a step's scores: 1 where Yes was the likeliest of all tokens, so that GARLIC's rule can be
replayed too."""


def counts_as_yes(p_yes: float, yes_is_likeliest: bool, t_p: float | None) -> bool:
    """Whether a probe counts as Yes.

    Args:
        p_yes: P(Yes) of the reply.
        yes_is_likeliest: Whether Yes was the likeliest of all tokens.
        t_p: P(Yes) must be above it; None: `yes_is_likeliest` decides.
    """
    if t_p is None:
        return yes_is_likeliest
    return p_yes > t_p


@dataclass(frozen=True)
class StopRule:
    """When a search ends.

    Attributes:
        t_n: How many Yes end the search.
        t_p: A probe counts as Yes above this; None: where Yes was its likeliest token.
    """

    t_n: int
    t_p: float | None


def replay(steps: Sequence[StoredStep], rule: StopRule, recorded_rule: StopRule) -> int | None:
    """Find where a recorded search would have ended by another rule.

    A search ends with its t_n-th probe that counts as Yes (P(Yes) above t_p), or where no node is
    left or fits.

    Args:
        steps: The steps of a record.
        rule: The other rule.
        recorded_rule: The rule up to which the search was recorded.

    Returns:
        The index of the step whose probe ends the search; None where the recording ends before.
    """
    yes_steps = _steps_that_count_as_yes(steps, rule.t_p)
    if len(yes_steps) >= rule.t_n:
        return yes_steps[rule.t_n - 1]
    probed_steps = [number for number, step in enumerate(steps) if step.get("p_yes") is not None]
    if not probed_steps or _recording_failed(steps):
        return None
    # It went on to the window or the end of the graph unless it had all its Yes.
    had_all_yes = len(_steps_that_count_as_yes(steps, recorded_rule.t_p)) >= recorded_rule.t_n
    if had_all_yes:
        return None
    return probed_steps[-1]


def _steps_that_count_as_yes(steps: Sequence[StoredStep], t_p: float | None) -> list[int]:
    """The indices of the steps of a record whose probe counts as Yes.

    Args:
        steps: The steps of a record.
        t_p: A probe counts as Yes above this; None: where Yes was its likeliest token.
    """
    yes_steps: list[int] = []
    for number, step in enumerate(steps):
        p_yes = step.get("p_yes")
        if p_yes is None:
            continue
        scores = step.get("scores") or {}
        if counts_as_yes(float(p_yes), bool(scores.get(GREEDY_YES)), t_p):
            yes_steps.append(number)
    return yes_steps


def may_stop(reason: str, steps: Sequence[StoredStep], rule: StopRule) -> bool:
    """Whether a search with these steps ends here for this reason: "yes" exactly where the probe of
    its last step is the t_n-th Yes.

    Args:
        reason: The stop reason of a record.
        steps: The steps of the record; those past the stop have the action "study".
        rule: The rule by which the search ends.
    """
    steps_up_to_stop = [step for step in steps if step.get("action") != "study"]
    yes_steps = _steps_that_count_as_yes(steps_up_to_stop, rule.t_p)
    if reason != "yes":
        return len(yes_steps) < rule.t_n
    return len(yes_steps) == rule.t_n and yes_steps[-1] == len(steps_up_to_stop) - 1


def _recording_failed(steps: Sequence[StoredStep]) -> bool:
    """Whether an error ended the recording of a record with these steps: then the last one has no
    probe (recording.py)."""
    last = steps[-1]
    return last["action"] == "study" and last.get("p_yes") is None


# A chunk counts as a source of a point from this edge weight on; the papers' figures draw edges
# above it.
SOURCE_WEIGHT = 0.05


@dataclass(frozen=True)
class NextNode:
    """The node to visit next with the parts of its score; node None: the search ends, for a reason."""

    node: int | None
    scores: dict[str, float] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True)
class _UnreadNode:
    """A node in the context that the next probe reads, with its rank in the prompt and its step."""

    node: int
    span: Span
    rank: int
    step: Step


@dataclass(frozen=True)
class NodeScores:
    """Scores of all nodes, each [nodes]: the sum of two parts; -inf for visited nodes."""

    total: np.ndarray
    attention: np.ndarray
    similarity: np.ndarray

    def parts(self, node: int) -> dict[str, float]:
        """The scores of one node as its step records them: {"attention": ..., "similarity": ...,
        "total": ...}."""
        return {
            "attention": float(self.attention[node]),
            "similarity": float(self.similarity[node]),
            "total": float(self.total[node]),
        }


def score_nodes(
    attention_passed_on: np.ndarray, cosine: np.ndarray, unvisited: np.ndarray, config: PecanConfig
) -> NodeScores:
    """Score every node by the attention that visited nodes pass on to it, and by its similarity to
    the question.

    Args:
        attention_passed_on: Attention that visited nodes pass on to those below them, [nodes].
        cosine: The similarity of each node to the question, [nodes]; negative counts 0
            (docs/methods/pecan.md#pecan-similarity).
        unvisited: Whether each node is still to be read, [nodes].
        config: The method's settings, which may leave one of the two parts out.
    """
    attention = attention_passed_on.copy()
    if config.attention_scale == "sum" and attention_passed_on.sum() > 0:
        attention = attention_passed_on / attention_passed_on.sum()
    similarity_from_zero = np.maximum(cosine, 0.0)
    attention = attention * config.attention
    similarity = _scaled_similarity(similarity_from_zero, unvisited, config) * config.similarity
    total = np.where(unvisited, attention + similarity, -np.inf)
    return NodeScores(total, attention, similarity)


def _scaled_similarity(
    similarity: np.ndarray, unvisited: np.ndarray, config: PecanConfig
) -> np.ndarray:
    """The nodes' similarities to the question, divided by their sum as `similarity_scale` says.

    Args:
        similarity: The similarity of each node, at least 0 [nodes].
        unvisited: Whether each node is still to be visited [nodes].
        config: Its `similarity_scale`: "raw" (as they are), "unvisited" (by the sum over these
            nodes) or "all" (by the sum over all).
    """
    if config.similarity_scale == "raw":
        return similarity
    divisor = similarity.sum()
    if config.similarity_scale == "unvisited":
        divisor = similarity[unvisited].sum()
    if divisor <= 0:
        return similarity
    return np.asarray(similarity / divisor)


def open_search(session: Session, question: Question, config: PecanConfig) -> Span:
    """Feed the first turn up to the place of the nodes; return the span of the question in the
    session."""
    before, after = (
        PROBES[config.probe_wording].with_replacements(config).around("question", nodes=[])
    )
    feed(session, before)
    span = session.feed(question.text)
    for piece in after:
        session.feed(piece)
    return span


def node_line(text: str, has_bullet: bool = True) -> tuple[str, str]:
    r"""A node's line in the prompt as it is fed: the text before the node, and the node's own text.

    "Ann left." -> ("\n*", " Ann left.")        without a bullet: ("\n", "Ann left.")
    """
    if has_bullet:
        return "\n" + BULLET, " " + text
    return "\n", text


def feed_node(session: Session, text: str, question_span: Span, has_bullet: bool = True) -> Span:
    """Show one more node in the prompt.

    Args:
        session: The session, in its first turn.
        text: The text of the node.
        question_span: The span of the question in the session.
        has_bullet: Whether the node is a line of a list.

    Returns:
        The span of the node, with the attention between it and the question.
    """
    before, line = node_line(text, has_bullet)
    session.feed(before)
    return session.feed(line, watch=[question_span])


def ask_for_answer(session: Session, yes: str, answer_turn: str, max_tokens: int) -> str:
    """Close the first turn and ask for the answer in a second one.

    Args:
        session: The session.
        yes: The reply that closes the first turn.
        answer_turn: The text of the second turn.
        max_tokens: Most tokens of the answer.

    Returns:
        The answer, without white space around it.
    """
    session.reply(yes)
    session.user(answer_turn)
    return session.write(max_tokens).text.strip()


@dataclass(frozen=True)
class Context:
    """A session that has the question and may get nodes.

    Attributes:
        session: The session.
        question_span: The span of the question in it.
        max_tokens: Tokens that it may hold before the second turn.
        answer_turn: The text of the second turn.
    """

    session: Session
    question_span: Span
    max_tokens: int
    answer_turn: str

    def tokens_left(self) -> int:
        """Tokens left for nodes."""
        return self.max_tokens - self.session.length()


@dataclass
class Search:
    """One question's walk over a document's graph.

    Attributes:
        graph: The document's.
        cosine: The similarity of the question to each node [nodes].
        document: The document.
        config: The method's settings.
        tools: The engine's tools.
        model: The reader.
        steps: The trace so far.
        shown: What the reader has seen so far.
    """

    graph: Graph
    cosine: np.ndarray
    document: Document
    config: PecanConfig
    tools: Tools
    model: MeteredModel
    steps: list[Step] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with no node visited; nodes without a text are never visited."""
        self._attention_passed_on = np.zeros(len(self.graph.text))
        self._unvisited = np.array([bool(text) for text in self.graph.text], dtype=bool)
        self._unread: list[_UnreadNode] = []
        self._yes_count = 0
        self._answer_flops = Flops()  # FLOPs spent on answers that no later step depends on

    def run(self, question: Question) -> Answer:
        """Search the graph, then answer the question from the visited nodes; the stop reason says
        why the search ended."""
        with self.model.session() as session:
            with self.tools.phase("search"):
                context = self._open_context(session, question)
                reason = self._visit_until_stop(context)
            text = self._ask_for_answer(context)
        return Answer(text, tuple(self.shown), reason, tuple(self.steps))

    def _open_context(self, session: Session, question: Question) -> Context:
        """Begin the prompt with the question, and show the nodes of the top level.

        Raises:
            WindowExceeded: Not even the question fits.
        """
        answer_turn = second_turn(self.tools.task.instruction, question, self.config)
        question_span = open_search(session, question, self.config)
        reserved_tokens = self._tokens_after_search(answer_turn)
        window_tokens = min(self.config.window, self.model.window)
        context = Context(
            session=session,
            question_span=question_span,
            max_tokens=window_tokens - reserved_tokens,
            answer_turn=answer_turn,
        )
        if context.tokens_left() < 0:
            raise WindowExceeded(
                "the question with its prompts and answer takes "
                f"{session.length() + reserved_tokens} tokens, more than the searcher's window of "
                f"{window_tokens}; raise method.window and the window of '{self.model.name}'"
            )
        self._visit_top_level(context)
        return context

    def _tokens_after_search(self, answer_turn: str) -> int:
        """How many tokens are reserved for the end: closing the first turn, "Yes", the turn that
        asks for the answer, the answer."""
        turns = 2 * self.model.turn_tokens()
        texts = self.model.count(self.config.yes) + self.model.count(answer_turn)
        return turns + texts + self.tools.task.max_answer_tokens

    def _ask_for_answer(self, context: Context) -> str:
        """Close the first turn of the context, ask for the answer in a second one, and return
        it."""
        # A forced stop says "Yes" too, so that the second turn always follows the same words
        # (docs/methods/pecan.md#pecan-second-turn).
        return ask_for_answer(
            context.session, self.config.yes, context.answer_turn, self.tools.task.max_answer_tokens
        )

    def _visit_top_level(self, context: Context) -> None:
        """Visit the nodes of the top level; where not all fit, those nearest the question
        (docs/methods/pecan.md#pecan-top-level). Also records the "start" steps."""
        top_nodes = self.graph.highest_nodes()
        shown_nodes = self._top_nodes_that_fit(top_nodes, context.tokens_left())
        notes = list(self.graph.notes)
        if len(shown_nodes) < len(top_nodes):
            notes.append(f"{len(top_nodes) - len(shown_nodes)} top nodes left out")
        note = "; ".join(notes)
        if not shown_nodes:
            self.steps.append(Step(action="start", note=note, flops=self._flops()))
            return
        for node in shown_nodes[:-1]:
            self._visit(context, node, "start", {})
        self._visit(context, shown_nodes[-1], "start", {}, note)

    def _top_nodes_that_fit(self, top_nodes: list[int], tokens_left: int) -> list[int]:
        """The nodes of the top level that are shown, in their order; where not all may be, those
        nearest the question.

        Args:
            top_nodes: The nodes of the top level.
            tokens_left: Tokens left for nodes.
        """
        max_nodes = self._max_top_nodes(top_nodes)
        tokens_of_node = {node: self._tokens_in_prompt(node) for node in top_nodes}
        nodes_in_order = top_nodes
        if len(top_nodes) > max_nodes or sum(tokens_of_node.values()) > tokens_left:
            nearest_first = sorted(top_nodes, key=lambda node: -self.cosine[node])
            nodes_in_order = nearest_first
        fitting_nodes: list[int] = []
        for node in nodes_in_order:
            if len(fitting_nodes) < max_nodes and tokens_of_node[node] <= tokens_left:
                fitting_nodes.append(node)
                tokens_left -= tokens_of_node[node]
        return sorted(fitting_nodes)

    def _max_top_nodes(self, top_nodes: list[int]) -> int:
        """How many nodes of the top level may be read: all, `max_nodes`, or, without progress
        control, the share of `max_nodes` for one level."""
        if self.config.max_nodes is None:
            return len(top_nodes)
        if self.config.progress_control:
            return self.config.max_nodes
        n_levels = max(self.graph.level, default=1)  # the level of each node, counted from 1
        return max(1, self.config.max_nodes // n_levels)

    def _tokens_in_prompt(self, node: int) -> int:
        """How many tokens it takes to append a node to the prompt."""
        line_break_and_bullet, text = node_line(self.graph.text[node], self._has_bullet(node))
        return self.model.count(line_break_and_bullet) + self.model.count(text)

    def _has_bullet(self, node: int) -> bool:
        """Whether a node is shown with a bullet: all but chunks, and these where `chunk_mark` says
        so."""
        return self.config.chunk_mark == "bullet" or self.graph.span[node] is None

    def _visit(
        self, context: Context, node: int, action: str, scores: dict[str, float], note: str = ""
    ) -> None:
        """Append a node to the context; the next probe reads it, and only then its step is recorded
        (`_record_unread`).

        Args:
            context: The session.
            node: The node's number.
            action: What its step is called: "start", "visit" or "study".
            scores: The parts of its score.
            note: The note of its step.
        """
        span = feed_node(
            context.session, self.graph.text[node], context.question_span, self._has_bullet(node)
        )
        self._unvisited[node] = False
        rank = 1
        if self.config.position_factor:
            rank = len(self.shown) + 2  # its position: the question is the first, then come nodes
        shown = self.graph.shown(node, self.document.id, SOURCE_WEIGHT)
        self.shown.append(shown)
        step = Step(
            action=action,
            node=node,
            level=self.graph.level[node],
            scores=scores,
            tokens=len(span),
            shown=shown,
            note=note,
        )
        self._unread.append(_UnreadNode(node, span, rank, step))

    def _record_unread(self, probe_flops: Flops) -> None:
        """Record the nodes that are new as steps, and pass their relevance on to the nodes below
        them.

        A node's relevance is its position in the prompt times the mean attention that the question
        pays it (PECAN app. C); each node below it gains that times the weight of their edge.

        Args:
            probe_flops: FLOPs of the probe that read them, which their steps do not count.
        """
        for unread in self._unread:
            relevance = unread.rank * self._attention_to(unread.span)
            lower_nodes, edge_weights = self.graph.edges_below(unread.node)
            self._attention_passed_on[lower_nodes] += relevance * edge_weights
            step = unread.step
            scores = {**step.scores, "relevance": relevance}
            self.steps.append(replace(step, scores=scores, flops=self._flops() - probe_flops))
        self._unread = []

    def _attention_to(self, span: Span) -> float:
        """The attention between a node's span and the question in the last pass: its mean over the
        node's tokens, or its sum (`token_mean`)."""
        if not span.attention:
            return 0.0
        attention = span.attention[0]
        if self.config.token_mean == "sum":
            attention *= len(span)
        return attention

    def _flops(self) -> Flops:
        """FLOPs of the question so far, without those of answers that no later step depends on."""
        return self.tools.meter.flops() - self._answer_flops

    def _visit_until_stop(self, context: Context) -> str:
        """Probe and append nodes in turn until a stop rule holds; nothing is probed without
        `progress_control`.

        Returns:
            "yes" after `t_n` probes counted as Yes, or why there is no next node: "max-nodes",
            "exhausted" or "window".
        """
        while True:
            if self.config.progress_control:
                self._yes_count += self._probe(context)
            if self._yes_count >= self.config.t_n:  # cumulatively: GARLIC's patience
                return "yes"
            choice = self._choose_next_node(context)
            if choice.node is None:
                return choice.reason
            self._before_next_node(context)  # does nothing here, but a recording search records
            self._visit(context, choice.node, "visit", choice.scores)

    def _before_next_node(self, context: Context) -> None:
        """Do nothing; called when the search goes on past a possible stop, where RecordingSearch
        writes an answer."""

    def _probe(self, context: Context) -> bool:
        """Ask whether the question can be answered; return whether the reply counts as Yes.

        Also records the nodes that this pass read, and writes the probe's result into the last
        step.
        """
        probe = context.session.probe([self.config.yes, self.config.no])
        probe_flops = self.tools.meter.flops_of_newest_event()
        # Nodes are read in the probe's pass, so their attention is known only now.
        self._record_unread(probe_flops)
        p_yes = probe.p[self.config.yes]
        yes_is_likeliest = probe.top == self.config.yes
        last_step = self.steps[-1]
        self.steps[-1] = replace(
            last_step,
            scores={**last_step.scores, GREEDY_YES: float(yes_is_likeliest)},
            p_yes=p_yes,
            flops=self._flops(),
            probe_flops=probe_flops,
        )
        return counts_as_yes(p_yes, yes_is_likeliest, self.config.threshold)

    def _choose_next_node(self, context: Context) -> NextNode:
        """Choose the node to visit next, or say why there is none: "max-nodes", "exhausted" or
        "window".

        Also records the nodes that are still unread.
        """
        self._record_unread(probe_flops=Flops())  # there was no probe, or it left none unread
        if self.config.max_nodes is not None and len(self.shown) >= self.config.max_nodes:
            return NextNode(None, reason="max-nodes")
        if not self._unvisited.any():
            return NextNode(None, reason="exhausted")
        scores = score_nodes(self._attention_passed_on, self.cosine, self._unvisited, self.config)
        for node in self._nodes_to_try(scores):
            if self._tokens_in_prompt(node) <= context.tokens_left():
                return NextNode(node, scores.parts(node))
        return NextNode(None, reason="window")

    def _nodes_to_try(self, scores: NodeScores) -> list[int]:
        """The numbers of the nodes to try next, the best first, of ties the lowest number
        (docs/methods/pecan.md#pecan-ties): the best one alone where `window_full` is "stop", else
        all that are unvisited."""
        if self.config.window_full == "stop":
            return [int(np.argmax(scores.total))]
        by_score = np.argsort(-scores.total, kind="stable")
        unvisited: list[int] = by_score[: int(self._unvisited.sum())].tolist()
        return unvisited
