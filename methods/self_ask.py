"""Self-Ask with search (Press et al. 2022, arXiv 2210.03350): the model asks itself follow-up
questions, which a search answers.

    question ──► Follow up: Who wrote Velindra?     ──► search ──► Intermediate answer: Toren.
             ──► Follow up: Where does Toren live?  ──► search ──► Intermediate answer: In Kelford.
             ──► So the final answer is: Kelford

The paper's search gives a short answer; one over passages gives passages, from which the model
writes the intermediate answer. Source: docs/methods/searching.md#self-ask.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.method import Indexes, Method, MethodConfig, Tools, Traits
from harness.method.settings import setting
from harness.prompts import Pieces, Prompt, feed
from harness.types import Answer, Document, Question, Step
from methods.reading import question_text
from methods.searching import FoundPassages, how_many_fit_request, with_separators

ASK_NEXT_LINE = Prompt(
    "follow-up question",
    "Answer a question by asking simpler ones. Write one line. If a simpler question has to be "
    "answered first, the line is: Follow up: ...\nIf what was found gives the answer, the line is: "
    "So the final answer is: ...\n{instruction}\n\nQuestion: {question}\n\nSo far:\n{so_far}\n\n"
    "Next line:",
    answers=True,
)
ASK_INTERMEDIATE_ANSWER = Prompt(
    "intermediate answer",
    "Read the passages below, then answer a question about them with one short sentence.\n\n"
    "Passages:\n{text}\n\nThe passages end here.\n\nQuestion: {question}\n\nAnswer:",
)
ASK_FINAL_ANSWER = Prompt(
    "final answer",
    "Answer a question with what was found. {instruction}\n\nQuestion: {question}\n\nFound:\n"
    "{so_far}\n\nSo the final answer is:",
    answers=True,
)
_FOLLOW_UP = re.compile(r"follow[ -]?up:\s*(\S.*)", re.IGNORECASE)
_FINAL = re.compile(r"final answer is:?\s*(\S.*)", re.IGNORECASE)


@dataclass
class _FollowUps:
    """The follow-up questions with their answers so far, a line each, and the passages found."""

    lines: list[str] = field(default_factory=list)
    passages: FoundPassages = field(default_factory=FoundPassages)

    @property
    def text(self) -> str:
        """The lines as the prompt shows them, "(nothing)" where there are none."""
        return "\n".join(self.lines) or "(nothing)"


class SelfAsk(Method):
    """Follow-up questions, each with a search and an intermediate answer, until the model names the
    final one."""

    class Config(MethodConfig):
        """Settings of this method."""

        k: int = setting(5, gt=0, help="Passages of a search.")
        most: int = setting(5, gt=0, help="Most follow-up questions.")
        line_tokens: int = setting(64, gt=0, help="Most tokens of a line and of an answer to it.")

    summary = "the model asks itself follow-up questions, which a search answers (Self-Ask)"
    traits = Traits(one_document=False, draws=False, searches=True, takes_retriever=True)

    def templates(self) -> Sequence[Prompt]:
        """The three prompts that it sends; it does not use the shared reading prompts."""
        return (ASK_NEXT_LINE, ASK_INTERMEDIATE_ANSWER, ASK_FINAL_ANSWER)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Ask, search and answer in turn until a line names the final answer.

        A line that is neither a follow-up question nor the final answer ends the asking, as does
        the limit: the model is then told to answer. The stop reason says how it ended.
        """
        del documents, indexes  # it reads what it finds
        follow_ups = _FollowUps()
        final_answer: str | None = None
        reason = "told to answer: most"
        with tools.phase("search"):
            for number in range(self.config.most):
                line = self._write_next_line(question, follow_ups, tools)
                final_match = _FINAL.search(line)
                follow_up_match = _FOLLOW_UP.search(line)
                if final_match:
                    final_answer = final_match.group(1).strip().removesuffix(".")
                    reason = f"answered after {number} follow-up questions"
                    break
                if follow_up_match is None:
                    reason = "told to answer: no follow-up question"
                    break
                self._answer_follow_up(follow_up_match.group(1).strip(), follow_ups, tools)
        if final_answer is None:
            final_answer = self._send(
                self._filled(ASK_FINAL_ANSWER, question, follow_ups, tools),
                tools.task.max_answer_tokens,
                tools,
            )
        answer = tools.task.answer_in(final_answer)
        return Answer(answer, follow_ups.passages.shown(), reason, tuple(follow_ups.passages.steps))

    def _write_next_line(self, question: Question, follow_ups: _FollowUps, tools: Tools) -> str:
        """Let the model write the next line: a follow-up question, or the final answer.

        Args:
            question: The question.
            follow_ups: What was asked so far; a step "ask" is added to its trace.
            tools: The engine's tools.
        """
        request = self._filled(ASK_NEXT_LINE, question, follow_ups, tools)
        line = self._send(request, self.config.line_tokens, tools, stop_texts=("\n",))
        follow_ups.passages.steps.append(Step("ask", flops=tools.meter.flops(), note=line))
        return line

    def _answer_follow_up(self, follow_up: str, follow_ups: _FollowUps, tools: Tools) -> None:
        """Search for a follow-up question, and answer it in one line from the passages, as many as
        fit.

        Args:
            follow_up: The text of the question.
            follow_ups: The passages, and the question with its answer, are added to it.
            tools: The engine's tools.
        """
        hits = tools.search(follow_up, self.config.k)
        follow_ups.passages.add(follow_up, hits, tools)
        texts = [hit.titled_text for hit in hits]
        model = tools.model()
        max_tokens = self.config.line_tokens
        request_without_texts = ASK_INTERMEDIATE_ANSWER.with_replacements(self.config).fill(
            text=[], question=follow_up
        )
        shown_count = how_many_fit_request(texts, request_without_texts, max_tokens, model)
        request = ASK_INTERMEDIATE_ANSWER.with_replacements(self.config).fill(
            text=with_separators(texts[:shown_count]), question=follow_up
        )
        reply = self._send(request, max_tokens, tools, stop_texts=("\n",))
        follow_ups.lines += [f"Follow up: {follow_up}", f"Intermediate answer: {reply}"]
        follow_ups.passages.steps.append(Step("reply", flops=tools.meter.flops(), note=reply))

    def _filled(
        self, prompt: Prompt, question: Question, follow_ups: _FollowUps, tools: Tools
    ) -> Pieces:
        """Fill a prompt with the instruction, the question, and the follow-up questions so far."""
        return prompt.with_replacements(self.config).fill(
            instruction=tools.task.instruction,
            question=question_text(question),
            so_far=follow_ups.text,
        )

    def _send(
        self, request: Pieces, max_tokens: int, tools: Tools, stop_texts: tuple[str, ...] = ()
    ) -> str:
        """The reply to a request of one turn, without white space around it.

        Args:
            request: The request.
            max_tokens: Most tokens of the reply.
            tools: The engine's tools.
            stop_texts: Texts that end the reply.
        """
        with tools.model().session() as session:
            feed(session, request)
            return session.write(max_tokens, stop=stop_texts).text.strip()
