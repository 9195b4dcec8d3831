"""The walk down the tree (docs/methods/memwalker.md#memwalker-walk).

    node <- root; working memory <- nothing
    inner node   "which part?"      -> down to one of the children that are not given up
    segment      "does it answer?"  -> -2: the answer, done.  -1: given up, back to the parent
    a node whose children are all given up is given up too; when the root is, there is no answer
    a reply in another form is sampled again; the third one ends the walk

The summaries of all nodes visited before are shown again as working memory, as many as fit. A
choice of one needs no request. Choosing counts as search, reading a segment as answer: whether it
answers is known only afterwards.

The first reply to a request is the likeliest one; further ones are sampled
(docs/methods/memwalker.md#memwalker-retries), each with a seed of its own. The prompt is read once,
however often it is replied to.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import Pieces, feed, prompt_tokens
from harness.stats.rng import derived_seed
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.graph import Graph
from methods.memwalker import prompts, replies
from methods.memwalker.config import MemWalkerConfig
from methods.retry import (
    ParsedReply,
    Retry,
    fit_lines,
    require_room,
    sample_until_parsed,
    window_of,
)

EMPTY_SUMMARY = "(empty)"  # stands for a summary that was not written
_REPLY_FORM = "Action: -2\nAnswer:\n"
_REASONS = "Reasoning:\n"
_SPARE_TOKENS = 8  # tokens of a reply beside its form, the reasons and the answer

T = TypeVar("T")


@dataclass(frozen=True)
class _Outcome(Generic[T]):
    """What a request gave.

    Attributes:
        parsed: What was read in its reply; None if the walk ends.
        memory_nodes: The nodes of the working memory that the request showed, the newest ones.
        step: The tokens and notes of the request, to be completed.
    """

    parsed: T | None
    memory_nodes: list[int]
    step: Step


@dataclass(frozen=True)
class _Request:
    """A request that fits the window.

    Attributes:
        pieces: The prompt.
        memory_nodes: The nodes of the working memory that it shows, the newest ones.
        n_left_out: How many older ones did not fit.
    """

    pieces: Pieces
    memory_nodes: list[int]
    n_left_out: int

    @property
    def notes(self) -> list[str]:
        """A sentence on the summaries that did not fit; none where all did."""
        if not self.n_left_out:
            return []
        n_visited = self.n_left_out + len(self.memory_nodes)
        return [f"{self.n_left_out} of {n_visited} summaries in the working memory did not fit"]


@dataclass
class Walk:
    """One question's walk over one document's tree; `run` once."""

    graph: Graph
    document: Document
    question: Question
    config: MemWalkerConfig
    tools: Tools
    steps: list[Step] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with nothing visited, given up or read, and all counts at 0."""
        self._visited: dict[int, None] = {}  # in the order of the first visit: the working memory
        self._given_up: set[int] = set()
        self._segments_read: list[int] = []
        self._n_replies = 0
        self._n_invalid_replies = 0
        self._times_gone_back = 0
        self._max_depth = 0
        self._why_ended = ""

    def run(self) -> Answer:
        """Walk the tree, and return the answer of a segment.

        Without one the answer is "", or from the working memory (`fallback`), the stop reason "no
        answer", and the last step of the trace says why.
        """
        text = self._walk_until_answer()
        reason = "answered"
        if not text:
            reason = "no answer"
            if self.config.fallback:
                text = self._answer_from_memory()
                if text:
                    self._why_ended += "; answered from the working memory"
        self.steps.append(self._stop_step())
        return Answer(text, tuple(self.shown), reason, tuple(self.steps))

    def _stop_step(self) -> Step:
        """The last step of the trace: what the walk took, and why it ended.

        Its scores:
            calls, invalid: How many replies there were, and how many of them were not understood.
            reverts: How often the walk went back to a parent.
            depth: The most nodes on the way from the root down, the root included.
            read: The share of the segments, by characters, that was read.
        """
        length_of_segment: dict[int, int] = {}
        for node, span in enumerate(self.graph.span):
            if span is not None:
                length_of_segment[node] = span[1] - span[0]
        characters_read = sum(length_of_segment[node] for node in self._segments_read)
        scores = {
            "calls": float(self._n_replies),
            "invalid": float(self._n_invalid_replies),
            "reverts": float(self._times_gone_back),
            "depth": float(self._max_depth),
            "read": characters_read / max(sum(length_of_segment.values()), 1),
        }
        note = "; ".join(filter(None, [*self.graph.notes, self._why_ended]))
        return Step("stop", scores=scores, flops=self.tools.meter.flops(), note=note)

    def _walk_until_answer(self) -> str:
        """Go down the tree, and back up from nodes that are given up, until a segment answers.

        Returns:
            The answer. "" where no segment answers or the replies are used up; `_why_ended` then
            says which. An empty document has no answer and no reason.
        """
        if not self.graph.text:
            return ""
        root = len(self.graph.text) - 1  # the last node that was built
        path = [root]  # from the root down to the node that is visited
        while path:
            node = path[-1]
            self._max_depth = max(self._max_depth, len(path))
            untried = self._untried_children(node)
            is_segment = self.graph.span[node] is not None
            if is_segment:
                verdict = self._read_segment(node)
                if verdict is None:  # no reply was understood, and no further one is allowed
                    return ""
                if verdict.answer is not None:
                    return verdict.answer
            elif untried:
                may_go_back = self.config.inner_revert and len(path) > 1
                child = self._choose_part(node, untried, may_go_back)
                if child is None:  # as above
                    return ""
                if child != replies.BACK:
                    self._visited.setdefault(node)  # into the working memory, if it is new there
                    path.append(child)
                    continue
            # Read in vain, all its parts tried, or the reply chose to go back.
            self._visited.setdefault(node)
            self._given_up.add(path.pop())
            if path:
                self._times_gone_back += 1
                self._record_step("revert", path[-1])
        self._why_ended = "every part was tried"
        return ""

    def _untried_children(self, node: int) -> list[int]:
        """The numbers of a node's children that are not given up."""
        children, _ = self.graph.edges_below(node)
        return [child for child in children.tolist() if child not in self._given_up]

    def _choose_part(self, node: int, untried: list[int], may_go_back: bool) -> int | None:
        """Ask which child to go down to; the only one left is taken without asking. Also adds a
        step to the trace.

        Args:
            node: The node that is visited.
            untried: Its children that are not given up.
            may_go_back: Whether the reply may be to go back.

        Returns:
            One of `untried`, or replies.BACK; None where the walk ends.
        """
        if len(untried) == 1 and not may_go_back:
            step_without_request = Step("", note="the only part left")
            self._record_step("choose", node, {"child": float(untried[0])}, step_without_request)
            return untried[0]
        texts = [self.graph.text[child] or EMPTY_SUMMARY for child in untried]
        with self.tools.phase("search"):
            outcome = self._ask_until_parsed(
                self.tools.model("searcher"),
                lambda memory: prompts.choice_request(
                    self.question, memory, texts, self.config, may_go_back=may_go_back
                ),
                lambda reply: replies.parse_choice(reply, len(untried), may_go_back),
            )
        number = outcome.parsed
        if number is None or number == replies.BACK:
            self._record_step("choose", node, {}, outcome.step)
            return number
        child = untried[number]
        self._record_step("choose", node, {"child": float(child)}, outcome.step)
        return child

    def _read_segment(self, node: int) -> replies.Verdict | None:
        """Ask whether a segment answers, and note that it was read and shown. Also adds a step to
        the trace.

        Args:
            node: The node of the segment.

        Returns:
            The verdict, its answer cut to the task's length; None if the walk ends.
        """
        start, end = self.graph.span[node] or (0, 0)
        text = self.document.text[start:end].strip()
        model = self.tools.model("reader")
        task = self.tools.task
        outcome = self._ask_until_parsed(
            model,
            lambda memory: prompts.segment_request(
                self.question, memory, text, task.instruction, self.config
            ),
            replies.parse_verdict,
            task.max_answer_tokens,
        )
        self._segments_read.append(node)
        self._add_summaries_shown(outcome.memory_nodes)
        self.shown.append(Shown("span", self.document.id, start, end))
        verdict = outcome.parsed
        scores: dict[str, float] = {}
        if verdict is not None:
            scores["answers"] = float(verdict.answer is not None)
            if verdict.answer is not None:
                offsets = model.offsets(verdict.answer)[: task.max_answer_tokens]
                verdict = replies.Verdict(verdict.answer[: offsets[-1][1]].strip())
        self._record_step("read", node, scores, replace(outcome.step, shown=self.shown[-1]))
        return verdict

    def _ask_until_parsed(
        self,
        model: MeteredModel,
        request_for_memory: Callable[[list[str]], Pieces],
        parse: Callable[[str], T | None],
        answer_tokens: int = 0,
    ) -> _Outcome[T]:
        """Send a request until its reply is understood.

        Where none is, or the walk has had all its replies, nothing is found. Also counts the
        replies, and sets `_why_ended` where the walk ends.

        Args:
            model: The model.
            request_for_memory: Makes the prompt of a working memory (its texts, the newest last).
            parse: Reads a reply, None if its form is wrong.
            answer_tokens: Tokens of a reply for an answer.

        Raises:
            WindowExceeded: Not even an empty memory makes the request fit.
        """
        max_reply_tokens = self._reply_tokens(model) + answer_tokens
        request = self._fitting_request(model, request_for_memory, max_reply_tokens)
        n_prompt_tokens = prompt_tokens(request.pieces, model)
        settings_to_lower = "method.segment_tokens, method.summary_tokens or method.children"
        require_room(
            n_prompt_tokens + max_reply_tokens, model, self.config.window, settings_to_lower
        )
        with model.session() as session:
            feed(session, request.pieces)
            response = sample_until_parsed(
                session,
                n_prompt_tokens,
                max_reply_tokens,
                parse,
                self._retry(),
                self._seed_function(),
            )
        self._n_replies += response.replies
        self._n_invalid_replies += len(response.refused_texts)
        if response.parsed is None:
            self._why_ended = self._reason_to_end(response)
        notes = [*request.notes, *response.notes]
        step = Step("", tokens=n_prompt_tokens, note="; ".join(notes))
        return _Outcome(parsed=response.parsed, memory_nodes=request.memory_nodes, step=step)

    def _fitting_request(
        self,
        model: MeteredModel,
        request_for_memory: Callable[[list[str]], Pieces],
        max_reply_tokens: int,
    ) -> _Request:
        """The request with as many of the newest texts of the working memory as the window allows.

        Args:
            model: The model.
            request_for_memory: Makes the prompt of a working memory (its texts, the newest last).
            max_reply_tokens: Most tokens of a reply.

        Returns:
            The request; one that does not fit even with an empty memory is returned as it is.
        """
        memory_nodes: list[int] = []
        if self.config.working_memory:
            memory_nodes = list(self._visited)
        texts = [self.graph.text[node] or EMPTY_SUMMARY for node in memory_nodes]
        max_prompt_tokens = window_of(self.config.window, model) - max_reply_tokens

        def request_with_newest(count: int) -> Pieces:
            """The request with the newest `count` texts of the working memory."""
            return request_for_memory(texts[len(texts) - count :])

        pieces, n_shown = fit_lines(request_with_newest, len(texts), max_prompt_tokens, model)
        n_left_out = len(memory_nodes) - n_shown
        return _Request(
            pieces=pieces, memory_nodes=memory_nodes[n_left_out:], n_left_out=n_left_out
        )

    def _retry(self) -> Retry:
        """How often a reply may be asked for again: until the strikes, or the replies of the whole
        walk, are used up; the first reply is one of them."""
        config = self.config
        replies_left = min(config.strikes, config.max_calls - self._n_replies)
        return Retry(retries=replies_left - 1, temperature=config.temperature, top_p=config.top_p)

    def _reply_tokens(self, model: MeteredModel) -> int:
        """Most tokens of a reply: its form, and its reasons where they are asked for, without an
        answer."""
        tokens = model.count(_REPLY_FORM) + _SPARE_TOKENS
        if self.config.reasoning:
            tokens += model.count(_REASONS) + self.config.reasoning_tokens
        return tokens

    def _reason_to_end(self, response: ParsedReply[T]) -> str:
        """Why the walk ends after replies of which none was understood."""
        if response.replies == self.config.strikes:
            return f"{self.config.strikes} invalid replies"
        return f"the walk took {self.config.max_calls} replies"

    def _seed_function(self) -> Callable[[int], int]:
        """A function: number of a reply to this request, from 0 -> its seed, which follows from
        the reply's number in the walk, from 1."""
        n_replies_before = self._n_replies

        def seed_of(attempt: int) -> int:
            """The seed of the reply with this number, from 0."""
            number_in_walk = n_replies_before + 1 + attempt
            return derived_seed(self.tools.seed, "memwalker", self.question.id, str(number_in_walk))

        return seed_of

    def _add_summaries_shown(self, nodes: list[int]) -> None:
        """Add the summaries of these nodes to what the reader saw, each once, with the spans of the
        document that they were written from."""
        document_id = self.document.id
        for node in nodes:
            span = self.graph.span[node]
            spans = self.graph.source_spans(node)
            if span is not None:
                spans = [span]
            sources = tuple((document_id, start, end) for start, end in spans)
            shown = Shown("generated", document_id, text=self.graph.text[node], sources=sources)
            if shown.text and shown not in self.shown:
                self.shown.append(shown)

    def _answer_from_memory(self) -> str:
        """Ask the question over the newest summaries of the working memory; "" without any that
        fits."""
        model = self.tools.model("reader")
        request = reading.Reading(self.tools.task, window=self.config.window, config=self.config)
        max_tokens = reading.room_for_text(self.question, self.tools, model, request)
        max_tokens -= model.count(reading.SEPARATOR)  # a margin
        newest = [node for node in reversed(self._visited) if self.graph.text[node]]
        texts = [self.graph.text[node] for node in newest]
        n_fitting = reading.how_many_fit(texts, max_tokens, model)
        if n_fitting == 0:
            return ""
        in_order_of_visit = list(reversed(newest[:n_fitting]))
        shown_texts = list(reversed(texts[:n_fitting]))
        self._add_summaries_shown(in_order_of_visit)
        return reading.ask(self.question, shown_texts, self.tools, model, request)

    def _record_step(
        self,
        action: str,
        node: int,
        scores: dict[str, float] | None = None,
        request_step: Step | None = None,
    ) -> None:
        """Add one move to the steps of the trace.

        Args:
            action: What was done, in a word.
            node: The node at which it was done.
            scores: Its numbers by name.
            request_step: Has the tokens, the shown text and the note of its request.
        """
        step = replace(
            request_step or Step(""),
            action=action,
            node=node,
            level=self.graph.level[node],
            scores=scores or {},
            flops=self.tools.meter.flops(),
        )
        self.steps.append(step)
