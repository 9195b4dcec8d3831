"""DECOM: a question is simplified into sub-questions that are answered one after the other.

Source: QRMeM 3.1; docs/methods/qrmem.md#decom.

    question ──► "Who wrote Velindra?"  "Where was #1 born?"
    each     ──► the 3 segments nearest by BM25 ──► a short answer, inserted where a later one has "#1"
    at last  ──► the question again, over the sub-questions with their answers

The paper cites trained models (Fu et al. 2021); this is the prompt version that its description
fits. Sub-questions are answered as concisely as possible for every data set; the last request has
the data set's own instruction.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from harness.bm25 import bm25
from harness.method import Index, Indexes, MethodConfig, Needs, Retriever, Task, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span, shown_spans, texts_at
from methods.found import shown_hits, texts_of
from methods.packing import clause_chunks
from methods.retrieval import best_first
from methods.retry import Retry, ask_parsed, parse_list

DECOMPOSE = Prompt(
    "decompose",
    "Simplify a question, so that it can be answered in steps.\n\n"
    "Question: {question}\n\n"
    "Write the questions that have to be answered one after the other, as few as are needed, each "
    "on a line that begins with '* '. Where a question needs the answer of an earlier one, write "
    "# and its number, as in #1.\n\n"
    "Questions:",
)
STEP = Prompt("steps", "{question} {answer}", first=False)
INSTRUCTION = Prompt("sub-answers", "Answer the question as concisely as you can.", first=False)

_ANSWER_REFERENCE = re.compile(r"#(\d{1,3})(?!\d)")


def fill_in_answers(question: str, answers: Sequence[str]) -> str:
    """Replace "#1", "#2" ... in a question by the answers to the first, second ... question; a
    number without an answer stays.

        "Where was #1 born?", ["Toren"] -> "Where was Toren born?"
    """

    def earlier_answer(match: re.Match[str]) -> str:
        """The answer that a reference "#2" stands for; the reference itself where there is none."""
        number = int(match.group(1))
        answer = ""
        if 1 <= number <= len(answers):
            answer = answers[number - 1]
        return answer or match.group()

    return _ANSWER_REFERENCE.sub(earlier_answer, question)


def _passages_and_answers_shown(
    passages_read: Iterable[Shown], solved_questions: str, document: Document
) -> tuple[Shown, ...]:
    """What the reader saw: the pieces that sub-questions were answered from, in document order, and
    the list of these questions with their answers.

    Args:
        passages_read: The pieces, each once.
        solved_questions: The list.
        document: The document.
    """
    passages = sorted(passages_read, key=_place_in_document)
    spans = [passage for passage in passages if passage.kind == "span"]
    sources = tuple((document.id, passage.start, passage.end) for passage in spans)
    list_of_answers = Shown("generated", document.id, text=solved_questions, sources=sources)
    return (*passages, list_of_answers)


def _place_in_document(piece: Shown) -> tuple[int, int]:
    """A sort key: where a piece starts, then where it ends."""
    return piece.start, piece.end


@dataclass(frozen=True)
class _SubAnswer:
    """The answer to a sub-question.

    Attributes:
        reply: The reader's reply.
        passage_texts: Those that were read.
        shown: What the reader saw, as the record has it.
    """

    reply: str
    passage_texts: Sequence[str]
    shown: Sequence[Shown]


@dataclass
class _SolvedQuestions:
    """The sub-questions that are answered so far.

    Attributes:
        steps: The steps of the trace.
        answers: The answers, each on one line.
        lines: The lines of the list that the question is answered from.
        passages_read: What the reader saw, each piece once: the keys are an ordered set.
    """

    steps: list[Step]
    answers: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    passages_read: dict[Shown, None] = field(default_factory=dict)


class Decompose(reading.ReadingMethod):
    """Sub-questions, each with a retrieval of its own."""

    class Config(MethodConfig):
        """Settings of this method."""

        # Index
        segment_tokens: int = index_setting(600, gt=0, help="Most tokens of a retrieved segment.")
        # Search
        k: int = setting(3, gt=0, help="Segments for each sub-question.")
        most: int = setting(5, gt=0, help="Most sub-questions.")
        question_tokens: int = setting(200, gt=0, help="Tokens of the reply that lists them.")
        answer_tokens: int = setting(64, gt=0, help="Tokens of a sub-answer.")
        window: int | None = setting(
            None, gt=0, help="Most tokens of a request, reply included; None = the model's window."
        )
        retries: int = setting(
            4, ge=0, help="Further replies where a list cannot be parsed (methods/retry.py)."
        )
        temperature: float = setting(0.7, gt=0, help="Temperature of these.")

    summary = "sub-questions answered one after the other, each from its own BM25 segments (DECOM)"
    needs: ClassVar[Needs] = {
        "reader": frozenset({"sampling"}),
        "searcher": frozenset({"sampling"}),
    }
    scope = "document"
    traits = Traits(takes_retriever=True)
    index_version = "2"
    index_roles: ClassVar[tuple[str, ...]] = ("reader",)
    own_prompts = (DECOMPOSE, INSTRUCTION, STEP)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: {"segments": [[start, end], ...]} in characters."""
        spans = clause_chunks(document.text, self.config.segment_tokens, tools.model())
        return {"segments": [list(span) for span in spans]}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Ask for sub-questions, answer each from its own segments, then answer the question from
        the list of sub-questions and their answers.

        References to earlier answers ("#1") in a sub-question are filled in before it is asked.
        """
        (document,) = documents
        (index,) = indexes
        config = self.config
        subquestions, step = self._ask_for_subquestions(question, tools)
        solved = _SolvedQuestions(steps=[step])
        for number, subquestion in enumerate(subquestions, 1):
            question_to_answer = Question(
                id=f"{question.id}#{number}",
                text=fill_in_answers(subquestion, solved.answers),
                document_ids=question.document_ids,
            )
            sub_answer = self._answer_subquestion(question_to_answer, document, index, tools)
            self._add_solved(solved, question_to_answer.text, sub_answer, tools)
        list_of_answers = "\n".join(solved.lines)
        request = reading.Reading(tools.task, window=config.window, config=config)
        text = reading.ask(question, [list_of_answers], tools, tools.model(), request)
        shown = _passages_and_answers_shown(solved.passages_read, list_of_answers, document)
        reason = f"{len(subquestions)} sub-questions"
        return Answer(text, shown, reason, tuple(solved.steps))

    def _add_solved(
        self, solved: _SolvedQuestions, question: str, sub_answer: _SubAnswer, tools: Tools
    ) -> None:
        """Add a sub-question with its answer to those that are solved.

        Args:
            solved: Gets the answer, the line of the list, the passages, and a step of the trace.
            question: The text of the sub-question.
            sub_answer: Its answer.
            tools: The engine's tools.
        """
        answer_on_one_line = " ".join(sub_answer.reply.split())
        solved.answers.append(answer_on_one_line)
        line = STEP.with_replacements(self.config).fill(
            question=question, answer=answer_on_one_line
        )
        solved.lines.append("".join(line))
        solved.passages_read.update(dict.fromkeys(sub_answer.shown))
        step = Step(
            "sub-question",
            node=len(solved.answers),
            tokens=sum(map(tools.model().count, sub_answer.passage_texts)),
            flops=tools.meter.flops(),
            note=f"{question} -> {sub_answer.reply}",
        )
        solved.steps.append(step)

    def _ask_for_subquestions(self, question: Question, tools: Tools) -> tuple[list[str], Step]:
        """The sub-questions that the model lists, at most `most`, or the question itself where it
        lists none; and the step "decompose" of the trace, which notes what was cut or missing."""
        config = self.config
        retry = Retry(config.retries, config.temperature, window=config.window, seed=tools.seed)
        with tools.phase("search"):
            pieces = DECOMPOSE.with_replacements(config).fill(question=[question.text])
            response = ask_parsed(
                tools.model("searcher"), pieces, config.question_tokens, parse_list, retry
            )
        listed = response.parsed or []
        notes = list(response.notes)
        if len(listed) > config.most:
            notes.append(f"{config.most} of {len(listed)} sub-questions are asked")
        if not listed:
            notes.append("no sub-questions: the question is asked as it is")
        step = Step(
            "decompose",
            tokens=response.prompt_tokens,
            flops=tools.meter.flops(),
            note="; ".join(notes),
        )
        return listed[: config.most] or [question.text], step

    def _answer_subquestion(
        self, question: Question, document: Document, index: Index, tools: Tools
    ) -> _SubAnswer:
        """Answer a sub-question from the segments that BM25 ranks best, as many as fit.

        Args:
            question: The sub-question.
            document: The document.
            index: The document's index, with the spans of its segments.
            tools: The engine's tools; a retriever of the user's own takes the place of BM25.
        """
        retriever = tools.retriever()
        if retriever is not None:
            return self._answer_from_hits(question, retriever, tools)
        segments: list[Span] = [(start, end) for start, end in index["segments"]]
        texts = texts_at(document.text, segments)
        best_segments = best_first(bm25(question.text, list(map(str.strip, texts))))[
            : self.config.k
        ]
        ranked_texts = [texts[number] for number in best_segments]
        reply, shown_count = self._answer_from_texts(question, ranked_texts, tools)
        spans = [segments[number] for number in best_segments[:shown_count]]
        return _SubAnswer(
            reply=reply,
            passage_texts=ranked_texts[:shown_count],
            shown=shown_spans(document, spans),
        )

    def _answer_from_hits(
        self, question: Question, retriever: Retriever, tools: Tools
    ) -> _SubAnswer:
        """Answer a sub-question from what a retriever of the user's own finds.

        Args:
            question: The sub-question.
            retriever: Searches in place of BM25.
            tools: The engine's tools.
        """
        with tools.phase("search"):
            hits = retriever.search(question.text, self.config.k)
        texts = texts_of(hits)
        reply, shown_count = self._answer_from_texts(question, texts, tools)
        return _SubAnswer(
            reply=reply, passage_texts=texts[:shown_count], shown=shown_hits(hits[:shown_count])
        )

    def _answer_from_texts(
        self, question: Question, texts: Sequence[str], tools: Tools
    ) -> tuple[str, int]:
        """Answer a sub-question from texts, as many of the first as fit.

        Args:
            question: The sub-question.
            texts: The texts, best first.
            tools: The engine's tools.

        Returns:
            The reply, and how many of the texts it was shown.
        """
        config = self.config
        task = Task(
            instruction=INSTRUCTION.with_replacements(config).text,
            max_answer_tokens=config.answer_tokens,
        )
        request = reading.Reading(task, window=config.window, config=config)
        return reading.ask_fitting(question, list(map(str.strip, texts)), tools, request)
