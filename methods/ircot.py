"""IRCoT (Trivedi et al. 2022, arXiv 2212.10509): retrieve, reason a sentence, retrieve by that
sentence, and so on.

    question ──► 6 paragraphs ──► "Velindra is by Toren." ──► 6 more ──► "So the answer is: Kelford." ──► the reader
                                  the next sentence of the reasoning, read over all paragraphs so far

A sentence that only concludes ("So ...", "Therefore ...") is no query; the last one before it is,
or the question. The reasoning ends with the sentence that gives an answer, with an empty one, or
after `max_sentences`. Source: docs/methods/searching.md#ircot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.method import Indexes, MethodConfig, Tools, Traits
from harness.method.settings import setting
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Step
from methods.packing import sentences
from methods.reading import (
    PROMPTS,
    Reading,
    ReadingMethod,
    ask_fitting,
    how_many_fit,
    question_text,
)
from methods.retry import require_room, window_of
from methods.searching import FoundPassages, with_separators

REASON = Prompt(
    "next sentence",
    "Read the passages below, then answer a question by reasoning step by step, one short "
    "sentence a step, with what the passages say. When the answer is known, the last sentence is: "
    "So the answer is: ...\n\n"
    "Passages:\n"
    "{text}\n\n"
    "The passages end here.\n\n"
    "Question: {question}\n\n"
    "Reasoning so far: {reasoning}\n\n"
    "Write the next sentence of the reasoning and nothing else.\n\n"
    "Next sentence:",
)
# As in the released code: what ends the reasoning, what only concludes, and words that are left out
# of a query.
_ANSWER = re.compile(r".*\banswer is:?\s+(\S.*)", re.DOTALL | re.IGNORECASE)
_CONCLUDES = re.compile(
    r"(thus|so)[ ,]|that is,|therefore|hence|.*\d [+-] \d[\d,.]* = \d", re.IGNORECASE
)
_QUESTION_WORDS = frozenset({"who", "what", "when", "where", "why", "which", "how", "does", "is"})


@dataclass
class _Search:
    """What one question has found, and the reasoning so far."""

    passages: FoundPassages = field(default_factory=FoundPassages)
    reasoning: list[str] = field(default_factory=list)


class IRCoT(ReadingMethod):
    """Paragraphs found by the sentences of a reasoning that is written over them."""

    class Config(MethodConfig):
        """Settings of this method."""

        k: int = setting(6, gt=0, help="Paragraphs that a query asks for.")
        most: int = setting(15, gt=0, help="Most paragraphs in all.")
        max_sentences: int = setting(10, gt=0, help="Most sentences of the reasoning.")
        sentence_tokens: int = setting(
            200,
            gt=0,
            help="Tokens written for the next sentence, of which the first sentence counts.",
        )
        answer_from: Literal["reader", "reasoning"] = setting(
            "reader",
            help=(
                'The answer: "reader": of the shared prompt over the paragraphs; "reasoning": '
                "the sentence that gives an answer, else the whole reasoning."
            ),
        )
        window: int | None = setting(
            None, gt=0, help="Most tokens of a request, reply included; None = the model's window."
        )

    summary = "retrieve, reason a sentence, retrieve by that sentence (IRCoT)"
    traits = Traits(one_document=False, draws=False, searches=True, takes_retriever=True)
    own_prompts = (REASON,)

    def templates(self) -> Sequence[Prompt]:
        """The prompts that it sends. The one that asks for the answer is marked as such: the shared
        ones, or the reasoning where the answer is taken from it."""
        if self.config.answer_from == "reasoning":
            shared = [replace(prompt, answers=False) for prompt in PROMPTS]
            return (replace(REASON, answers=True), *shared)
        return super().templates()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Retrieve and write a sentence in turn, until one gives an answer, one is empty, or there
        are `max_sentences`; then answer as `answer_from` says.

        "reader": read what was found, as much as fits. Else the answer is the one that the last
        sentence gives, without its full stop, or all sentences where it gives none.
        """
        del documents, indexes  # it reads what it finds
        config = self.config
        search = _Search()
        answer_line: re.Match[str] | None = None
        with tools.phase("search"):
            while len(search.reasoning) < config.max_sentences:
                self._retrieve(question, search, tools)
                sentence = self._write_sentence(question, search, tools)
                search.reasoning.append(sentence)
                answer_line = _ANSWER.match(sentence)
                if answer_line or not sentence:
                    break
        reason = f"{len(search.reasoning)} sentences"
        if answer_line is None:
            reason += ", none gives an answer"
        shown_count = len(search.passages.hits)
        if config.answer_from == "reader":
            request = Reading(tools.task, window=config.window, config=config)
            text, shown_count = ask_fitting(question, search.passages.texts(), tools, request)
        elif answer_line:
            text = answer_line.group(1).strip().removesuffix(".")
        else:
            text = " ".join(search.reasoning).strip()
        return Answer(
            text, search.passages.shown(shown_count), reason, tuple(search.passages.steps)
        )

    def _retrieve(self, question: Question, search: _Search, tools: Tools) -> None:
        """Search by the last sentence of the reasoning, or the question, and add new paragraphs to
        `search`."""
        query = next_query(question.text, search.reasoning)
        if query:
            search.passages.add(query, tools.search(query, self.config.k), tools, self.config.most)

    def _write_sentence(self, question: Question, search: _Search, tools: Tools) -> str:
        """Write the next sentence of the reasoning over the paragraphs found.

        The paragraphs that were found last are left out where the window is short.

        Args:
            question: The question.
            search: What is found and reasoned so far; a "reason" step is added.
            tools: The engine's tools.

        Returns:
            The sentence; "" where the model writes none.

        Raises:
            WindowExceeded: The question with the reasoning so far does not fit.
        """
        config = self.config
        model = tools.model()
        texts = search.passages.texts()
        used_tokens = (
            prompt_tokens(self._request(question, [], search), model) + config.sentence_tokens
        )
        require_room(used_tokens, model, config.window)
        shown_count = how_many_fit(texts, window_of(config.window, model) - used_tokens, model)
        with model.session() as session:
            feed(session, self._request(question, texts[:shown_count], search))
            request_tokens = session.length()
            written = session.write(config.sentence_tokens, stop=("\n",)).text
        sentence = _first_sentence(written)
        note = sentence
        if shown_count < len(texts):
            note = f"{sentence} ({shown_count} of {len(texts)} paragraphs fit)"
        search.passages.steps.append(
            Step("reason", tokens=request_tokens, flops=tools.meter.flops(), note=note)
        )
        return sentence

    def _request(self, question: Question, texts: Sequence[str], search: _Search) -> Pieces:
        """The request for the next sentence over some paragraphs."""
        so_far = " ".join(search.reasoning) or "(none)"
        return REASON.with_replacements(self.config).fill(
            text=with_separators(texts), question=[question_text(question)], reasoning=[so_far]
        )


def next_query(question: str, reasoning: Sequence[str]) -> str:
    """The next query: the last sentence that does not only conclude, else the question; without
    question words.

        "Who wrote it?", ["Velindra is by Toren.", "So it is Toren."] -> "Velindra by Toren."

    Args:
        question: The text of the question.
        reasoning: The sentences so far.
    """
    query = question
    for sentence in reasoning:
        if not _CONCLUDES.match(sentence):
            query = sentence
    return " ".join(word for word in query.split() if word.lower() not in _QUESTION_WORDS)


def _first_sentence(text: str) -> str:
    """The first sentence of a text, "" where the text has none."""
    spans = sentences(text)
    if not spans:
        return ""
    start, end = spans[0]
    return text[start:end]
