"""IRCoT (Trivedi et al. 2022, arXiv 2212.10509): retrieve, reason a sentence, retrieve by that
sentence, and so on.

    question ──► 6 paragraphs ──► "Velindra is by Toren." ──► 6 more ──► "So the answer is: Kelford." ──► the reader
                                  the next sentence of the reasoning, read over all paragraphs so
                                  far

A sentence that only concludes ("So ...", "Therefore ...") is no query; the last one before it is,
or the question. The reasoning ends with the sentence that gives an answer, with an empty one, or
after `max_sentences`. Source: docs/methods/retrieval.md#ircot.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Literal

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Step
from methods.bm25 import bm25
from methods.chunks import shown_spans
from methods.packing import passage_chunks, sentences
from methods.reading import (
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

    def index(self, document: Document, tools: Tools) -> Index:
        """The index: spans of the paragraphs."""
        return {
            "chunks": [
                list(c) for c in passage_chunks(document, self.config.chunk_tokens, tools.model())
            ]
        }

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Retrieve and reason in turn, then read what was found."""
        (document,), (index,) = documents, indexes
        config, model = self.config, tools.model()
        spans = [(int(a), int(b)) for a, b in index["chunks"]]
        texts = [document.text[a:b].strip() for a, b in spans]
        paragraphs_found: list[int] = []
        reasoning: list[str] = []
        steps: list[Step] = []
        with tools.phase("search"):
            while True:
                query = query_of(question.text, reasoning)
                best = best_first(bm25(query, texts))[: config.k] if query else []
                new = [i for i in best if i not in paragraphs_found][
                    : config.most - len(paragraphs_found)
                ]
                paragraphs_found += new
                for i, shown in zip(
                    new, shown_spans(document, [spans[i] for i in new]), strict=True
                ):
                    tokens, flops = model.count(texts[i]), tools.meter.flops()
                    steps.append(
                        Step("retrieve", i, tokens=tokens, flops=flops, shown=shown, note=query)
                    )
                reasoning.append(
                    self._reason(
                        question, [texts[i] for i in paragraphs_found], reasoning, steps, tools
                    )
                )
                answer_line = _ANSWER.match(reasoning[-1])
                if answer_line or not reasoning[-1] or len(reasoning) == config.max_sentences:
                    break
        reason = f"{len(reasoning)} sentences" + ("" if answer_line else ", none gives an answer")
        if config.answer_from == "reasoning":
            text = (
                answer_line.group(1).strip().removesuffix(".")
                if answer_line
                else " ".join(reasoning).strip()
            )
        else:
            request = Reading(tools.task, config.window, config)
            text, count = ask_fitting(
                question, [texts[i] for i in paragraphs_found], tools, request
            )
            paragraphs_found = paragraphs_found[:count]
        return Answer(
            text, shown_spans(document, [spans[i] for i in paragraphs_found]), reason, tuple(steps)
        )

    def _reason(
        self,
        question: Question,
        texts: list[str],
        reasoning: Sequence[str],
        steps: list[Step],
        tools: Tools,
    ) -> str:
        """The next sentence of the reasoning over `texts`, "" where the model writes none; appends
        its step to `steps`.

        Paragraphs found last go where the window is short. Raises WindowExceeded where the question
        with the reasoning so far does not fit.
        """
        config, model = self.config, tools.model()

        def pieces(shown: Sequence[str]) -> Pieces:
            text = [piece for shown_text in shown for piece in (SEPARATOR, shown_text)][1:]
            so_far = " ".join(reasoning) or "(none)"
            return REASON.of(config).fill(
                text=text, question=[question_text(question)], reasoning=[so_far]
            )

        used = prompt_tokens(pieces([]), model) + config.sentence_tokens
        require_room(used, model, config.window)
        count = how_many_fit(texts, window_of(config.window, model) - used, model)
        with model.session() as s:
            feed(s, pieces(texts[:count]))
            tokens = s.length()
            written = s.write(config.sentence_tokens, stop=("\n",)).text
        first = next(iter(sentences(written)), (0, 0))
        sentence = written[first[0] : first[1]]
        note = (
            sentence
            if count == len(texts)
            else f"{sentence} ({count} of {len(texts)} paragraphs fit)"
        )
        steps.append(Step("reason", tokens=tokens, flops=tools.meter.flops(), note=note))
        return sentence


def query_of(question: str, reasoning: Sequence[str]) -> str:
    """The next query: the last sentence that does not only conclude, else the question, without
    question words."""
    stated = [sentence for sentence in reasoning if not _CONCLUDES.match(sentence)]
    return " ".join(
        word for word in (stated[-1] if stated else question).split() if word.lower() not in _ASKING
    )
