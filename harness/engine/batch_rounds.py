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

AskAndRecord = Callable[[Sequence[Example]], None]
"""Has questions answered by `BatchRounds.answer`, and recorded."""


@dataclass(frozen=True)
class WaitingQuestion:
    """A question whose request goes with the next batch.

    Attributes:
        example: The question.
        max_cost: The most that its request may cost; counted as spent until its reply is here.
    """

    example: Example
    max_cost: Usage


class BatchRounds:
    """The rounds in which the questions of one run are asked: in each, requests that are not
    answered yet are collected, sent as one batch, and their questions are asked again with the
    replies."""

    def __init__(self, answer_question: AnswerQuestion) -> None:
        """Begin with no question waiting. answer_question: answers a question once its reply is
        here."""
        self._answer_question = answer_question
        self._run = answer_question.run
        self._answered_by_batch: set[str] = set()  # ids of questions
        self._waiting: list[WaitingQuestion] = []

    def ask(self, examples: Sequence[Example], ask_and_record: AskAndRecord) -> None:
        """Call `ask_and_record` with the questions, send the requests that it left as a batch, wait
        for the replies, and call it again with the questions of these, until no question waits.

        The most that a waiting request may cost, which was counted as spent when it was put into
        the batch, is taken back once its reply is here: the next round counts the real cost.

        Args:
            examples: The questions.
            ask_and_record: Answers questions by `answer` and records them.

        Raises what sending or reading a batch raises, as CannotRun.
        """
        if not examples:
            return
        model: Any = self._run.models.model("reader")
        batches = model.send_in_batches(self._run.store.folder / BATCHES, self._run.progress)
        while examples:
            ask_and_record(examples)
            batches.send()  # returns when the replies are here
            examples = [waiting.example for waiting in self._waiting]
            for waiting in self._waiting:
                self._run.budget.take_back(waiting.max_cost)
            self._answered_by_batch.update(example.question.id for example in examples)
            self._waiting.clear()
        # Once a limit is reached, replies may be left that the command uses with a higher one.
        if not self._run.budget.reached_limit:
            batches.delete_state_file()

    def answer(self, example: Example) -> Unscored | None:
        """Answer a question; None where its request goes into the next batch, or a limit of the
        command is reached.

        A question whose reply a batch has brought is answered whatever the limits: it is paid for.
        """
        is_paid = example.question.id in self._answered_by_batch
        if not is_paid and not self._run.budget.may_continue():
            return None
        attempt = self._answer_question.new_attempt(example)
        try:
            return self._answer_question.answer_and_store(attempt)
        except WaitsForBatch as request:
            self._add_to_next_batch(attempt, request)
            return None

    def _add_to_next_batch(self, attempt: Attempt, request: WaitsForBatch) -> None:
        """Put a question among those that wait for the next batch. Also counts as spent the most
        that its request may cost, and what this try has sent already (to an encoder, for example),
        which is added to the run's `earlier_tries`, as the question will be asked anew."""
        max_cost = request.expected
        self._run.budget.spend(max_cost)
        self._waiting.append(WaitingQuestion(attempt.example, max_cost))
        usage = attempt.meter.usage()
        self._run.budget.spend(usage)
        sent_already = all_sent(usage)
        if sent_already["tokens"]:
            question_id = attempt.example.question.id
            sent_by_tries = self._run.earlier_tries.setdefault(question_id, {})
            add_sent(sent_by_tries, sent_already)
