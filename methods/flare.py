"""FLARE (Jiang et al. 2023, arXiv 2305.06983): write the next sentence, and where the model is not
sure of it, search with it and write it again.

    so far: "Velindra is by Toren."
    next:   "He lives in Brem."   P(Brem) = .2 < .8 ──► search "He lives in" ──► "He lives in Kelford."

The query is the sentence without its tokens below `mask_below`. The probabilities are those that the
model gives the sentence it wrote, in one more pass over it. Source: docs/methods/searching.md#flare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from harness.method import Indexes, Method, MethodConfig, Needs, Tools, Traits
from harness.method.settings import setting
from harness.prompts import Pieces, Prompt, feed
from harness.types import Answer, Document, Question, Step
from methods.packing import sentences
from methods.reading import question_text
from methods.searching import FoundPassages, how_many_fit_request, with_separators

CONTINUE = Prompt(
    "next sentence",
    "Answer a question by reasoning in short sentences, with the passages below and with what you "
    "know. When the answer is known, the last sentence is: So the answer is: ...\n{instruction}\n\n"
    "Passages:\n{text}\n\nThe passages end here.\n\nQuestion: {question}\n\nSo far: {so_far}\n\n"
    "Write the next sentences and nothing else.\n\nNext:",
    answers=True,
)
_ANSWER = re.compile(r"\banswer is:?\s+(\S.*)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class _Sentence:
    """A sentence that was written.

    Attributes:
        text: The sentence.
        query: Its sure words, to search with.
        is_sure: Whether all its tokens are sure.
    """

    text: str
    query: str
    is_sure: bool


@dataclass
class _Progress:
    """The answer so far, all passages found, and those of the newest search, which are read."""

    sentences: list[str] = field(default_factory=list)
    passages: FoundPassages = field(default_factory=FoundPassages)
    shown_passages: FoundPassages = field(default_factory=FoundPassages)


class Flare(Method):
    """Sentences one after another, each written again with a search where the model is unsure of
    it."""

    class Config(MethodConfig):
        """Settings of this method."""

        k: int = setting(2, gt=0, help="Passages of a search.")
        search_below: float = setting(
            0.8, ge=0, le=1, help="A sentence with a token below this probability is searched for."
        )
        mask_below: float = setting(
            0.4, ge=0, le=1, help="Tokens below this probability are left out of the query."
        )
        sentence_tokens: int = setting(64, gt=0, help="Tokens written for the next sentence.")
        max_sentences: int = setting(10, gt=0, help="Most sentences.")

    summary = (
        "write a sentence; where its tokens are unlikely, search with it and write it again (FLARE)"
    )
    needs: ClassVar[Needs] = {"reader": frozenset({"score"})}
    traits = Traits(one_document=False, draws=False, searches=True, takes_retriever=True)

    def templates(self) -> Sequence[Prompt]:
        """The one prompt that it sends; it does not use the shared reading prompts."""
        return (CONTINUE,)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Search for the question, then write sentences until one gives the answer, one is empty,
        or there are `max_sentences`; the stop reason says which. All of it counts as search.

        The answer is what follows "So the answer is:", without a full stop; where that is missing,
        all sentences.
        """
        del documents, indexes  # it reads what it finds
        progress = _Progress()
        reason = "max_sentences"
        with tools.phase("search"):
            self._search(question.text, progress, tools)
            for _ in range(self.config.max_sentences):
                sentence = self._next_sentence(question, progress, tools)
                if not sentence:
                    reason = "an empty sentence"
                    break
                progress.sentences.append(sentence)
                if _ANSWER.search(sentence):
                    reason = "answered"
                    break
        text = " ".join(progress.sentences)
        named_answer = _ANSWER.search(text)
        if named_answer:
            text = named_answer.group(1).strip().removesuffix(".")
        passages = progress.passages
        return Answer(tools.task.answer_in(text), passages.shown(), reason, tuple(passages.steps))

    def _search(self, query: str, progress: _Progress, tools: Tools) -> None:
        """Search, and let the next requests show what was found instead of what they showed before.

        Args:
            query: What is looked for.
            progress: What is found and read, which is changed: `passages` gets the passages in
                addition, `shown_passages` is replaced by them.
            tools: The engine's tools.
        """
        hits = tools.search(query, self.config.k)
        progress.passages.add(query, hits, tools)
        progress.shown_passages = FoundPassages(list(hits))

    def _next_sentence(self, question: Question, progress: _Progress, tools: Tools) -> str:
        """Write the next sentence; where the model is unsure of it, search with its sure words and
        write it again. Returns "" where the model writes none."""
        sentence = self._write_sentence(question, progress, tools)
        if sentence.text and not sentence.is_sure:
            self._search(sentence.query or question.text, progress, tools)
            sentence = self._write_sentence(question, progress, tools)
        return sentence.text

    def _write_sentence(self, question: Question, progress: _Progress, tools: Tools) -> _Sentence:
        """Write the next sentence, and measure how sure the model is of each of its tokens.

        Of what the model writes the first sentence counts. The passages that are shown are as many
        as fit.

        Args:
            question: The question.
            progress: What is read and written so far; a step "write" is added to it.
            tools: The engine's tools.

        Returns:
            The sentence; its tokens of at least `mask_below` as a query; and whether all of its
            tokens have at least `search_below`.
        """
        config = self.config
        model = tools.model()
        passage_texts = progress.shown_passages.texts()
        request_without_texts = self._request(question, [], progress, tools)
        shown_count = how_many_fit_request(
            passage_texts, request_without_texts, config.sentence_tokens, model
        )
        with model.session() as session:
            feed(session, self._request(question, passage_texts[:shown_count], progress, tools))
            with session.branch():  # what is written there is forgotten at its end
                written = session.write(config.sentence_tokens).text
            text = _first_sentence(written)
            log_probabilities: list[float] = []
            if text:
                log_probabilities = session.score(text)
        probabilities = [math.exp(value) for value in log_probabilities]
        is_sure = all(probability >= config.search_below for probability in probabilities)
        query = _likely_text(text, model.offsets(text), probabilities, config.mask_below)
        step = Step(
            "write",
            scores={"least": min(probabilities, default=1.0)},
            flops=tools.meter.flops(),
            note=text,
        )
        progress.passages.steps.append(step)
        return _Sentence(text, query, is_sure)

    def _request(
        self, question: Question, texts: Sequence[str], progress: _Progress, tools: Tools
    ) -> Pieces:
        """The prompt for the next sentence.

        Args:
            question: The question.
            texts: The passages that are shown.
            progress: What is written so far.
            tools: The engine's tools.
        """
        return CONTINUE.with_replacements(self.config).fill(
            instruction=tools.task.instruction,
            text=with_separators(texts),
            question=question_text(question),
            so_far=" ".join(progress.sentences) or "(nothing)",
        )


def _first_sentence(text: str) -> str:
    """The first sentence of a text without the white space around it, "" where it has none."""
    spans = sentences(text)
    if not spans:
        return ""
    start, end = spans[0]
    return text[start:end].strip()


def _likely_text(
    text: str,
    offsets: Sequence[tuple[int, int]],
    probabilities: Sequence[float],
    min_probability: float,
) -> str:
    """A text without its unlikely tokens, white space as single spaces.

    Args:
        text: The text.
        offsets: (start, end) of each token in characters.
        probabilities: The probability of each token.
        min_probability: A token of a lower probability is left out.
    """
    parts: list[str] = []
    # An endpoint may count other tokens than the offsets, which can be estimates: the rest is left out.
    for (start, end), probability in zip(offsets, probabilities, strict=False):
        if probability >= min_probability:
            parts.append(text[start:end])
        else:
            parts.append(" ")
    return " ".join("".join(parts).split())
