"""IRCoT (Trivedi et al. 2022, arXiv 2212.10509): retrieve, reason a sentence, retrieve by that
sentence, and so on.

    question ──► 6 paragraphs ──► "Velindra is by Toren." ──► 6 more ──► "So the answer is: Kelford." ──► the reader
                                  the next sentence of the reasoning, read over all paragraphs so
                                  far

A sentence that only concludes ("So ...", "Therefore ...") is no query; the last one before it is,
or the question. The reasoning ends with the sentence that gives an answer, with an empty one, or
after `max_sentences`. Source: docs/methods/retrieval.md#ircot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods.bm25 import bm25
from methods.chunks import Span, shown_spans
from methods.packing import passage_chunks, sentences
from methods.reading import (
    PROMPTS,
    SEPARATOR,
    Reading,
    ReadingMethod,
    ask_fitting,
    how_many_fit,
    question_text,
)
from methods.retrieval import best_first
from methods.retry import require_room, window_of

REASON = Prompt(
    "next sentence",
    "Read the passages below, then answer a question by reasoning step by step, one short sentence "
    "a step, with what "
    "the passages say. When the answer is known, the last sentence is: So the answer is: "
    "...\n\nPassages:\n{text}\n\n"
    "The passages end here.\n\nQuestion: {question}\n\nReasoning so far: {reasoning}\n\nWrite the "
    "next sentence of the "
    "reasoning and nothing else.\n\nNext sentence:",
)
# As in the released code: what ends the reasoning, what only concludes, and words that are left out
# of a query.
_ANSWER = re.compile(r".*\banswer is:?\s+(\S.*)", re.DOTALL | re.IGNORECASE)
_CONCLUDES = re.compile(
    r"(thus|so)[ ,]|that is,|therefore|hence|.*\d [+-] \d[\d,.]* = \d", re.IGNORECASE
)
_ASKING = frozenset({"who", "what", "when", "where", "why", "which", "how", "does", "is"})


@dataclass
class _Search:
    """What one question has found: paragraphs by their numbers, and the reasoning so far."""

    document: Document
    spans: list[Span]
    found: list[int] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.texts = [self.document.text[start:end].strip() for start, end in self.spans]

    def texts_found(self) -> list[str]:
        return [self.texts[paragraph] for paragraph in self.found]

    def shown(self, paragraphs: Sequence[int]) -> tuple[Shown, ...]:
        return shown_spans(self.document, [self.spans[paragraph] for paragraph in paragraphs])


class IRCoT(ReadingMethod):
    """Paragraphs by BM25, found by the sentences of a reasoning that is written over them."""

    class Config(MethodConfig):
        """Settings of this method."""

        # Index
        chunk_tokens: int = index_setting(
            500, gt=0, help="Most tokens of a paragraph; a longer one is cut."
        )
        # Search
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
    traits = Traits(draws=False)
    scope = "document"
    index_version = "2"
    index_roles: ClassVar[tuple[str, ...]] = ("reader",)
    own_prompts = (REASON,)

    def templates(self) -> Sequence[Prompt]:
        """Its prompts: the reasoning asks for the answer too, where that is taken from it."""
        if self.config.answer_from == "reasoning":
            shared = [replace(prompt, answers=False) for prompt in PROMPTS]
            return (replace(REASON, answers=True), *shared)
        return super().templates()

    def index(self, document: Document, tools: Tools) -> Index:
        """The index: spans of the paragraphs."""
        chunks = passage_chunks(document, self.config.chunk_tokens, tools.model())
        return {"chunks": [list(chunk) for chunk in chunks]}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Retrieve and reason in turn, then read what was found."""
        (document,) = documents
        (index,) = indexes
        config = self.config
        search = _Search(document, [(int(a), int(b)) for a, b in index["chunks"]])
        answer_line: re.Match[str] | None = None
        with tools.phase("search"):
            while len(search.reasoning) < config.max_sentences:
                self._retrieve(question, search, tools)
                sentence = self._reason(question, search, tools)
                search.reasoning.append(sentence)
                answer_line = _ANSWER.match(sentence)
                if answer_line or not sentence:
                    break
        reason = f"{len(search.reasoning)} sentences"
        if answer_line is None:
            reason += ", none gives an answer"
        read = search.found
        if config.answer_from == "reader":
            request = Reading(tools.task, config.window, config)
            text, count = ask_fitting(question, search.texts_found(), tools, request)
            read = read[:count]
        elif answer_line:
            text = answer_line.group(1).strip().removesuffix(".")
        else:
            text = " ".join(search.reasoning).strip()
        return Answer(text, search.shown(read), reason, tuple(search.steps))

    def _retrieve(self, question: Question, search: _Search, tools: Tools) -> None:
        """Add the paragraphs that the next query finds."""
        query = query_of(question.text, search.reasoning)
        best: list[int] = []
        if query:
            best = best_first(bm25(query, search.texts))[: self.config.k]
        left = self.config.most - len(search.found)
        new = [paragraph for paragraph in best if paragraph not in search.found][:left]
        search.found += new
        for paragraph, shown in zip(new, search.shown(new), strict=True):
            search.steps.append(
                Step(
                    "retrieve",
                    paragraph,
                    tokens=tools.model().count(search.texts[paragraph]),
                    flops=tools.meter.flops(),
                    shown=shown,
                    note=query,
                )
            )

    def _reason(self, question: Question, search: _Search, tools: Tools) -> str:
        """The next sentence of the reasoning over the paragraphs found, "" where the model writes
        none; adds its step.

        Paragraphs found last go where the window is short. Raises WindowExceeded where the question
        with the reasoning so far does not fit.
        """
        config = self.config
        model = tools.model()
        texts = search.texts_found()
        used = prompt_tokens(self._request(question, [], search), model) + config.sentence_tokens
        require_room(used, model, config.window)
        count = how_many_fit(texts, window_of(config.window, model) - used, model)
        with model.session() as s:
            feed(s, self._request(question, texts[:count], search))
            tokens = s.length()
            written = s.write(config.sentence_tokens, stop=("\n",)).text
        sentence = _first_sentence(written)
        note = sentence
        if count < len(texts):
            note = f"{sentence} ({count} of {len(texts)} paragraphs fit)"
        search.steps.append(Step("reason", tokens=tokens, flops=tools.meter.flops(), note=note))
        return sentence

    def _request(self, question: Question, texts: Sequence[str], search: _Search) -> Pieces:
        """The request for the next sentence over some paragraphs."""
        pieces: list[str] = []
        for text in texts:
            pieces += [SEPARATOR, text]
        so_far = " ".join(search.reasoning) or "(none)"
        return REASON.of(self.config).fill(
            text=pieces[1:], question=[question_text(question)], reasoning=[so_far]
        )


def query_of(question: str, reasoning: Sequence[str]) -> str:
    """The next query: the last sentence that does not only conclude, else the question, without
    question words."""
    query = question
    for sentence in reasoning:
        if not _CONCLUDES.match(sentence):
            query = sentence
    return " ".join(word for word in query.split() if word.lower() not in _ASKING)


def _first_sentence(text: str) -> str:
    """The first sentence of a text, "" where it has none."""
    spans = sentences(text)
    if not spans:
        return ""
    start, end = spans[0]
    return text[start:end]
