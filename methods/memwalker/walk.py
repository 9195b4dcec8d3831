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
from typing import TypeVar

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

EMPTY = "(empty)"  # stands for a summary that was not written
_FORM = "Action: -2\nAnswer:\n"
_REASONS = "Reasoning:\n"
_SPARE = 8  # tokens of a reply beside its form, the reasons and the answer

T = TypeVar("T")


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
        self._visited: dict[int, None] = {}  # in the order of the first visit: the working memory
        self._given_up: set[int] = set()
        self._read: list[int] = []
        self._calls = self._invalid = self._reverts = self._depth = 0
        self._why = ""

    def run(self) -> Answer:
        """Walk; "no answer" where no segment gave one, and the last step says why."""
        text = self._walk()
        reason = "answered" if text else "no answer"
        if not text and self.config.fallback:
            text = self._answer_from_memory()
            self._why += "; answered from the working memory" if text else ""
        lengths = {
            i: span[1] - span[0] for i, span in enumerate(self.graph.span) if span is not None
        }
        counts = {  # read: the share, by characters, of the segments; depth: of nodes, the root counted
            "calls": self._calls,
            "invalid": self._invalid,
            "reverts": self._reverts,
            "depth": self._depth,
            "read": sum(lengths[i] for i in self._read) / max(sum(lengths.values()), 1),
        }
        note = "; ".join(filter(None, [*self.graph.notes, self._why]))
        scores = {name: float(count) for name, count in counts.items()}
        self.steps.append(Step("stop", scores=scores, flops=self.tools.meter.flops(), note=note))
        return Answer(text, tuple(self.shown), reason, tuple(self.steps))

    def _walk(self) -> str:
        """Go down, and back up from what is given up, until a segment answers; "" where none does,
        and `_why` why."""
        path = [len(self.graph.text) - 1] if self.graph.text else []
        while path:
            node = path[-1]
            self._depth = max(self._depth, len(path))
            untried = [
                int(child) for child in self.graph.below(node)[0] if child not in self._given_up
            ]
            if self.graph.span[node] is not None:
                verdict = self._read_segment(node)
                if verdict is None:
                    return ""
                if verdict.answer is not None:
                    return verdict.answer
            elif untried:
                child = self._choose_part(
                    node, untried, back=self.config.inner_revert and len(path) > 1
                )
                if child is None:
                    return ""
                if child != replies.BACK:
                    self._visited.setdefault(node)
                    path.append(child)
                    continue
            # Read in vain, all its parts tried, or the reply chose to go back.
            self._visited.setdefault(node)
            self._given_up.add(path.pop())
            if path:
                self._reverts += 1
                self._step("revert", path[-1])
        self._why = "every part was tried" if self.graph.text else ""
        return ""

    def _choose_part(self, node: int, untried: list[int], back: bool) -> int | None:
        """Ask which child to go down to: one of `untried`, or replies.BACK; None where the walk
        ends."""
        if len(untried) == 1 and not back:
            self._step(
                "choose", node, {"child": float(untried[0])}, Step("", note="the only part left")
            )
            return untried[0]
        texts = [self.graph.text[child] or EMPTY for child in untried]
        with self.tools.phase("search"):
            number, _, asked = self._ask(
                self.tools.model("searcher"),
                lambda memory: prompts.triage(self.question, memory, texts, self.config, back=back),
                lambda reply: replies.parse_choice(reply, len(untried), back),
            )
        child = number if number is None or number == replies.BACK else untried[number]
        scores = {} if child is None or child == replies.BACK else {"child": float(child)}
        self._step("choose", node, scores, asked)
        return child

    def _read_segment(self, node: int) -> replies.Verdict | None:
        """The verdict on the segment under `node`, the answer cut to the task's length; None if the
        walk ends."""
        start, end = self.graph.span[node] or (0, 0)
        text = self.document.text[start:end].strip()
        model, task = self.tools.model("reader"), self.tools.task
        verdict, memory, asked = self._ask(
            model,
            lambda memory: prompts.leaf(self.question, memory, text, task.instruction, self.config),
            replies.parse_verdict,
            task.max_answer_tokens,
        )
        self._read.append(node)
        self._show(memory)
        self.shown.append(Shown("span", self.document.id, start, end))
        if verdict is not None and verdict.answer is not None:
            offsets = model.offsets(verdict.answer)[: task.max_answer_tokens]
            verdict = replies.Verdict(verdict.answer[: offsets[-1][1]].strip())
        scores = {} if verdict is None else {"answers": float(verdict.answer is not None)}
        self._step("read", node, scores, replace(asked, shown=self.shown[-1]))
        return verdict

    def _ask(
        self,
        model: MeteredModel,
        build: Callable[[list[str]], Pieces],
        parse: Callable[[str], T | None],
        answer_tokens: int = 0,
    ) -> tuple[T | None, list[int], Step]:
        """Ask until the reply is understood, or the walk ends: None, and `_why` then says why.

        build: the prompt's pieces for a working memory; parse: reads a reply, None if its form is
        wrong. Returns what is read, the nodes of the working memory that fit, the newest ones, and
        a step with tokens and notes. Raises WindowExceeded where not even an empty memory makes the
        request fit.
        """
        config, calls, question = self.config, self._calls, self.question.id

        def seed_of(attempt: int) -> int:
            return derived_seed(self.tools.seed, "memwalker", question, str(calls + 1 + attempt))

        limit = model.count(_FORM) + _SPARE + answer_tokens
        if config.reasoning:
            limit += model.count(_REASONS) + config.reasoning_tokens
        memory = [*self._visited] if config.working_memory else []
        texts = [self.graph.text[i] or EMPTY for i in memory]
        room = window_of(config.window, model) - limit
        pieces, n = fit_lines(lambda n: build(texts[len(texts) - n :]), len(texts), room, model)
        response: ParsedReply[T] = ParsedReply(prompt_tokens(pieces, model))
        sizes = "method.segment_tokens, method.summary_tokens or method.children"
        require_room(response.tokens + limit, model, config.window, sizes)
        retry = Retry(
            min(config.strikes, config.max_calls - calls) - 1, config.temperature, config.top_p
        )
        with model.session() as s:
            feed(s, pieces)
            sample_until_parsed(s, response, limit, parse, retry, seed_of)
        self._calls += response.replies
        self._invalid += len(response.refused)
        if response.found is None:
            whole = response.replies == config.strikes
            self._why = (
                f"{config.strikes} invalid replies"
                if whole
                else f"the walk took {config.max_calls} replies"
            )
        cut = (
            [f"{len(memory) - n} of {len(memory)} summaries in the working memory did not fit"]
            if n < len(memory)
            else []
        )
        note = "; ".join([*cut, *response.notes])
        return (
            response.found,
            memory[len(memory) - n :],
            Step("", tokens=response.tokens, note=note),
        )

    def _show(self, nodes: list[int]) -> None:
        """Note the summaries that the reader saw, each once."""
        for node in nodes:
            span, name = self.graph.span[node], self.document.id
            spans = self.graph.sources(node, 0.0) if span is None else [span]
            shown = Shown(
                "generated",
                name,
                text=self.graph.text[node],
                sources=tuple((name, a, b) for a, b in spans),
            )
            if shown.text and shown not in self.shown:
                self.shown.append(shown)

    def _answer_from_memory(self) -> str:
        """An answer from the newest summaries of the working memory; "" without any."""
        model = self.tools.model("reader")
        request = reading.Reading(self.tools.task, self.config.window, self.config)
        room = reading.room_for_text(self.question, self.tools, model, request) - model.count(
            reading.SEPARATOR
        )
        newest = [i for i in reversed(self._visited) if self.graph.text[i]]
        kept = newest[: reading.how_many_fit([self.graph.text[i] for i in newest], room, model)][
            ::-1
        ]
        if not kept:
            return ""
        self._show(kept)
        return reading.ask(
            self.question, [self.graph.text[i] for i in kept], self.tools, model, request
        )

    def _step(
        self,
        action: str,
        node: int,
        scores: dict[str, float] | None = None,
        detail: Step | None = None,
    ) -> None:
        """Record one move at `node`; `detail` has the tokens, the shown text and the note of its
        request."""
        flops, level = self.tools.meter.flops(), self.graph.level[node]
        step = detail or Step("")
        self.steps.append(
            replace(step, action=action, node=node, level=level, scores=scores or {}, flops=flops)
        )
