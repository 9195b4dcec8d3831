"""The questions of a run whose requests go in batches: asked until their requests are known, again
with the replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cost.usage import Usage, add_sent, all_sent
from harness.engine.answer_question import AnswerQuestion, Attempt, Unscored
from harness.models import WaitsForBatch
from harness.storage.run_files import BATCHES
from harness.types import Example

Ask = Callable[[Sequence[Example]], None]
"""Has questions answered by `BatchRounds.answer`, and recorded."""


@dataclass(frozen=True)
class Waiting:
    """A question whose request goes with the next batch.

    Attributes:
        example: The question.
        expected: The most that its request may cost; counted as spent until its reply is here.
    """

    example: Example
    expected: Usage


class BatchRounds:
    """The rounds in which the questions of one run are asked: in each, requests that are not
    answered yet are collected, sent as one batch, and their questions are asked again with the
    replies."""

    def __init__(self, answer_question: AnswerQuestion) -> None:
        """Begin with no question waiting. answer_question: answers a question once its reply is
        here."""
        self._answer_question = answer_question
        self._run = answer_question.run
        self._paid: set[str] = set()  # questions whose requests a batch has answered
        self._waiting: list[Waiting] = []

    def ask(self, examples: Sequence[Example], ask: Ask) -> None:
        """Call `ask` with the examples, send the requests that it left as a batch, wait for the
        replies, and call it again with the questions of these, until no question waits.

        Args:
            examples: The questions.
            ask: Answers questions by `answer` and records them.

        Raises what sending or reading a batch raises, as CannotRun.
        """
        if not examples:
            return
        model: Any = self._run.models.model("reader")
        batches = model.in_batches(self._run.store.folder / BATCHES, self._run.progress)
        while examples:
            ask(examples)
            batches.send()
            examples = [waiting.example for waiting in self._waiting]
            for waiting in self._waiting:
                self._run.budget.spend(waiting.expected, sign=-1)
            self._paid.update(example.question.id for example in examples)
            self._waiting.clear()
        if not self._run.budget.hit:  # else replies may be left for a higher limit
            batches.forget()

    def answer(self, example: Example) -> Unscored | None:
        """Answer a question; None where its request goes into the next batch, or a limit of the
        command is reached.

        A question whose reply a batch has brought is answered whatever the limits: it is paid for.
        """
        if example.question.id not in self._paid and not self._run.budget.may_continue():
            return None
        attempt = self._answer_question.attempt(example)
        try:
            return self._answer_question.finish(attempt)
        except WaitsForBatch as request:
            self._wait(attempt, request)
            return None

    def _wait(self, attempt: Attempt, request: WaitsForBatch) -> None:
        """Put a question among those that wait for the next batch. Also counts as spent the most
        that its request may cost, and what this try has sent already (to an encoder, for example),
        which is kept in the run's `earlier`, as the question will be asked anew."""
        budget = self._run.budget
        self._waiting.append(Waiting(attempt.example, budget.spend(request.expected)))
        before = all_sent(budget.spend(attempt.meter.usage()))
        if before["tokens"]:
            add_sent(self._run.earlier.setdefault(attempt.example.question.id, {}), before)
