"""The one-turn prompt that all methods without a turn structure of their own share, "longbench-style".

Its layout follows LongBench (facts 8.1: instruction, context, instruction again, question); the words are this
project's, so no byte parity with LongBench is claimed. The answer instruction is the data set's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import WindowExceeded
from harness.llm.base import MeteredModel
from harness.method import Scene, Skill, Task, Tools
from harness.types import Question

__all__ = ["PROMPTS", "SKILLS", "Reading", "ask", "frame", "options", "room_for_text"]

HEAD = "Read the text below, then answer a question about it. {instruction}\n\nText:\n"
TAIL = "\n\nThe text ends here. {instruction}\n\nQuestion: {question}{options}\nAnswer:"
CLOSED = "Answer a question from what you know. {instruction}\n\nQuestion: {question}{options}\nAnswer:"
SEPARATOR = "\n\n"
PROMPTS = {"longbench-style head": HEAD, "longbench-style tail": TAIL, "closed-book": CLOSED}


@dataclass(frozen=True)
class Reading:
    """What one request may differ in: its task, and a window (prompt and answer included) below the model's own."""

    task: Task
    window: int | None = None


def options(question: Question) -> str:
    """The question's options as the shared prompt shows them, "" where it has none."""
    if not question.options:
        return ""
    return "\nOptions:" + "".join(f"\n({chr(65 + i)}) {o}" for i, o in enumerate(question.options))


def _tail(question: Question, task: Task) -> str:
    return TAIL.format(instruction=task.instruction, question=question.text, options=options(question))


def frame(question: Question, task: Task) -> str:
    """The shared prompt without a text."""
    return HEAD.format(instruction=task.instruction) + _tail(question, task)


def room_for_text(question: Question, tools: Tools, model: MeteredModel, reading: Reading | None = None) -> int:
    """Tokens of text that fit beside the prompt, the question and the answer.

    Raises WindowExceeded when the question alone does not fit.
    """
    reading = reading or Reading(tools.task)
    task, window = reading.task, model.window
    frame = model.turn_tokens() + model.count(HEAD.format(instruction=task.instruction))
    used = frame + model.count(_tail(question, task)) + task.max_answer_tokens
    if reading.window is not None and used > reading.window <= window:
        raise WindowExceeded(
            f"the question with its prompt and answer takes {used} tokens, more than method.window={reading.window}; "
            "raise it"
        )
    if used > window:
        raise WindowExceeded(
            f"the question with its prompt and answer takes {used} tokens, more than the window of {window} of "
            f"'{model.name}'; raise model.window or use a model with a longer one"
        )
    return min(window, reading.window or window) - used


def ask(
    question: Question, texts: Sequence[str], tools: Tools, model: MeteredModel, reading: Reading | None = None
) -> str:
    """Show `texts` in order (none: closed book), ask, and return the answer, stripped."""
    task = tools.task if reading is None else reading.task
    with model.session() as s:
        if texts:
            s.user(HEAD.format(instruction=task.instruction))
            for i, text in enumerate(texts):
                s.feed(SEPARATOR if i else "")
                s.feed(text)
            s.feed(_tail(question, task))
        else:
            s.user(CLOSED.format(instruction=task.instruction, question=question.text, options=options(question)))
        return s.write(task.max_answer_tokens).text.strip()


def _answer(scene: Scene, tools: Tools) -> None:
    ask(scene.question, scene.texts, tools, tools.model())


SKILLS = [Skill("answer", "question", _answer), Skill("choose", "choice", _answer)]
