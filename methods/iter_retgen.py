"""Iter-RetGen (Shao et al. 2023, arXiv 2305.15294): retrieve, generate, retrieve by what was
generated, and so on.

    question ──► 5 passages ──► "... So the answer is: Toren." ──► question + that text ──► 5 passages ──► the answer

Each iteration reads the passages of its own search alone. Source: docs/methods/searching.md#iter-retgen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.method import Indexes, Method, MethodConfig, Tools, Traits
from harness.method.settings import setting
from harness.prompts import Pieces, Prompt, feed
from harness.types import Answer, Document, Question, Step
from methods.reading import question_text
from methods.searching import FoundPassages, how_many_fit_request, with_separators

GENERATE = Prompt(
    "reason and answer",
    "Read the passages below, then answer a question. Reason step by step with what the passages "
    "say and with what you know, and end with: So the answer is: ...\n{instruction}\n\nPassages:\n"
    "{text}\n\nThe passages end here.\n\nQuestion: {question}\n\nReasoning:",
    answers=True,
)
ANSWER = re.compile(r"\banswer is:?\s+(\S.*)", re.IGNORECASE)


class IterRetGen(Method):
    """Retrieval by the question and the last reply, a reply over what was retrieved, in turn."""

    class Config(MethodConfig):
        """Settings of this method."""

        k: int = setting(5, gt=0, help="Passages of a search.")
        iterations: int = setting(2, gt=0, help="Searches, each with a reply.")
        reply_tokens: int = setting(256, gt=0, help="Most tokens of a reply.")

    summary = "retrieve, generate, retrieve by what was generated (Iter-RetGen)"
    traits = Traits(one_document=False, draws=False, searches=True, takes_retriever=True)

    def templates(self) -> Sequence[Prompt]:
        """The one prompt that it sends; it does not use the shared reading prompts."""
        return (GENERATE,)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Search and generate in turn; the last reply counts as answer, the others as search.

        Of that reply the answer is the last one that it names, without a full stop, or all of it
        where it names none.
        """
        del documents, indexes  # it reads what it finds
        steps: list[Step] = []
        reply = ""
        with tools.phase("search"):
            for _ in range(self.config.iterations - 1):
                passages = self._search(question, reply, tools, steps)
                reply, _ = self._generate(question, passages, tools)
                steps.append(Step("generate", flops=tools.meter.flops(), note=reply))
            passages = self._search(question, reply, tools, steps)
        reply, shown_count = self._generate(question, passages, tools)
        named_answers = ANSWER.findall(reply)
        text = reply
        reason = "no answer is named"
        if named_answers:
            text = named_answers[-1].strip().removesuffix(".")
            reason = f"{self.config.iterations} iterations"
        return Answer(tools.task.answer_in(text), passages.shown(shown_count), reason, tuple(steps))

    def _search(
        self, question: Question, reply: str, tools: Tools, steps: list[Step]
    ) -> FoundPassages:
        """Search with the last reply and the question together, and return the passages found.

        Args:
            question: The question.
            reply: The last reply; "" in the first round.
            tools: The engine's tools.
            steps: The list to which the steps of this search are added.
        """
        query = question.text
        if reply:
            query = f"{reply} {question.text}"
        passages = FoundPassages()
        passages.add(query, tools.search(query, self.config.k), tools)
        steps += passages.steps
        return passages

    def _generate(
        self, question: Question, passages: FoundPassages, tools: Tools
    ) -> tuple[str, int]:
        """Let the model reason and answer over passages, as many as fit.

        Args:
            question: The question.
            passages: The passages.
            tools: The engine's tools.

        Returns:
            The whole reply, and how many of the passages it was shown.
        """
        model = tools.model()
        max_tokens = self.config.reply_tokens
        texts = passages.texts()
        shown_count = how_many_fit_request(
            texts, self._request(question, [], tools), max_tokens, model
        )
        with model.session() as session:
            feed(session, self._request(question, texts[:shown_count], tools))
            reply = session.write(max_tokens).text
        return reply.strip(), shown_count

    def _request(self, question: Question, texts: Sequence[str], tools: Tools) -> Pieces:
        """The prompt that shows some passages and asks for reasoning that ends with an answer."""
        return GENERATE.with_replacements(self.config).fill(
            instruction=tools.task.instruction,
            text=with_separators(texts),
            question=question_text(question),
        )
