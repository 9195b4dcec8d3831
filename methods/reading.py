"""The one-turn prompt that all methods without a turn structure of their own share,
"longbench-style".

Its words are in harness/method/reading_prompt.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import WindowExceeded
from harness.method import Method, MethodConfig, Task, Tools
from harness.method.reading_prompt import ANSWER
from harness.method.tools import EXAMPLES_HEADING
from harness.models import MeteredModel
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Question

CLOSED = Prompt(
    "answer without text",
    "Answer a question from what you know. {instruction}\n\nQuestion: {question}{options}\nAnswer:",
    answers=True,
)
SEPARATOR = "\n\n"
PROMPTS = (ANSWER, CLOSED)


@dataclass(frozen=True)
class Reading:
    """The settings of one request.

    Attributes:
        task: What is asked: the instruction, and the length of the answer.
        window: Most tokens of the request, prompt and answer included; None: the model's window.
        config: The method's, for prompts that it replaces.
    """

    task: Task
    window: int | None = None
    config: MethodConfig | None = None

    def pieces(self, question: Question, texts: Sequence[str]) -> Pieces:
        """The prompt that shows `texts` in order, then asks; without texts it asks for what the
        model knows.

        It is in pieces, ["... {instruction} ...", TEXT, SEPARATOR, TEXT, "... {question} ..."], so
        that a model can cache what it has read. The solved examples of the instruction stand in
        the last piece only, at the question; a solved example of the question stands first of all.
        """
        if not texts:
            return self._filled(CLOSED, question, [])
        texts_and_separators = [texts[0]]
        for text in texts[1:]:
            texts_and_separators += [SEPARATOR, text]
        pieces = self._filled(ANSWER, question, texts_and_separators)
        instruction = self.task.instruction
        without_examples, _, _ = instruction.partition(EXAMPLES_HEADING)
        first_without_examples = pieces[0].replace(instruction, without_examples, 1)
        pieces[0] = question.example + first_without_examples
        return pieces

    def _filled(
        self, prompt: Prompt, question: Question, texts_and_separators: Sequence[str]
    ) -> Pieces:
        """Fill in a prompt, in the wording that the method's settings give it.

        Args:
            prompt: CLOSED, or ANSWER, which has a place for texts.
            question: The question, with its options.
            texts_and_separators: The texts with the separators between them; [] for CLOSED.
        """
        return prompt.with_replacements(self.config).fill(
            instruction=self.task.instruction,
            text=texts_and_separators,
            question=question.text,
            options=options(question),
        )


def options(question: Question) -> str:
    r"""The question's options as the shared prompt shows them, "" where it has none.

    ("Brem", "Kelford") -> "\nOptions:\n(A) Brem\n(B) Kelford"
    """
    if not question.options:
        return ""
    lines = ["\nOptions:"]
    for number, option in enumerate(question.options):
        letter = chr(ord("A") + number)
        lines.append(f"({letter}) {option}")
    return "\n".join(lines)


def question_text(question: Question) -> str:
    """The question with its lettered options, as the shared prompt shows them."""
    return question.text + options(question)


def room_for_text(
    question: Question, tools: Tools, model: MeteredModel, reading: Reading | None = None
) -> int:
    """How many tokens of text fit into one request, beside the prompt, the question and the answer.

    Args:
        question: The question.
        tools: The engine's tools.
        model: The model that reads.
        reading: Settings of the request; None: those of the task.

    Raises:
        WindowExceeded: The question alone does not fit.
    """
    reading = reading or Reading(tools.task)
    model_window = model.window
    max_answer_tokens = reading.task.max_answer_tokens
    used_tokens = prompt_tokens(reading.pieces(question, [""]), model) + max_answer_tokens
    if question.begins:  # the words that the reply is to begin with
        used_tokens += model.count(f" {question.begins}")
    own_window = reading.window
    if own_window is not None and own_window <= model_window and used_tokens > own_window:
        raise WindowExceeded(
            f"the question with its prompt and answer takes {used_tokens} tokens, more than "
            f"method.window={own_window}; raise it"
        )
    if used_tokens > model_window:
        raise WindowExceeded(
            f"the question with its prompt and answer takes {used_tokens} tokens, more than the "
            f"window of {model_window} of '{model.name}'; raise model.window or use a model with a "
            "longer one"
        )
    return min(model_window, own_window or model_window) - used_tokens


def how_many_fit(
    texts: Sequence[str], max_tokens: int, model: MeteredModel, separator: str = SEPARATOR
) -> int:
    """Count the texts that fit, from the first on without a gap.

    Args:
        texts: The texts, in order.
        max_tokens: Most tokens of all together.
        model: The model whose tokens are counted.
        separator: What stands between two of them.
    """
    separator_tokens = model.count(separator)
    used_tokens = -separator_tokens  # none before the first
    for number, text in enumerate(texts):
        used_tokens += separator_tokens + model.count(text)
        if used_tokens > max_tokens:
            return number
    return len(texts)


def ask(
    question: Question,
    texts: Sequence[str],
    tools: Tools,
    model: MeteredModel,
    reading: Reading | None = None,
) -> str:
    """Show texts to a model, ask the question, and return the answer that is in its reply.

    Where the question says how the reply begins, the model's reply is begun so, or, where the model
    cannot have its reply begun, the prompt ends so.

    Args:
        question: The question.
        texts: The texts, in order; none: the model answers from what it knows.
        tools: The engine's tools.
        model: The model that reads.
        reading: Settings of the request; None: those of the task.
    """
    reading = reading or Reading(tools.task)
    with model.session(chat=reading.task.chat) as session:
        feed(session, reading.pieces(question, texts))
        reply_start = ""
        if session.can_begin_replies:
            reply_start = question.begins
        elif question.begins:
            session.feed(f" {question.begins}")
        written = session.write(
            reading.task.max_answer_tokens, begin=reply_start, schema=reading.task.reply_schema
        )
    return reading.task.answer_in(written.text)


def ask_fitting(
    question: Question, texts: Sequence[str], tools: Tools, reading: Reading
) -> tuple[str, int]:
    """Ask a question over the first texts, as many as fit beside it.

    Args:
        question: The question.
        texts: The texts, best first.
        tools: The engine's tools.
        reading: How the answer is asked for.

    Returns:
        The answer, and how many of the texts were shown.
    """
    model = tools.model()
    shown_count = how_many_fit(texts, room_for_text(question, tools, model, reading), model)
    return ask(question, texts[:shown_count], tools, model, reading), shown_count


class ReadingMethod(Method):
    """A method that answers with the shared reading prompts. own_prompts: the others that it
    sends."""

    own_prompts: ClassVar[Sequence[Prompt]] = ()

    def templates(self) -> Sequence[Prompt]:
        """Its own prompts, and the shared reading prompts."""
        return (*self.own_prompts, *PROMPTS)
