"""Who has the questions of a run answered: one after the other, several in flight, or a batch of
requests after the other; Ray's workers are in harness/scale/ray_engine.py.

    executor = executor_for(plan, parallel)
    executor.in_flight()                          for the manifest
    executor.ask(examples, answer, record)        each is answered and recorded when this returns
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence

from harness.engine.answer_question import AnswerQuestion, Unscored
from harness.engine.batch_rounds import BatchRounds
from harness.engine.draws_in_flight import warn_of_global_draws
from harness.engine.open_run import OpenRun
from harness.engine.plan import PlannedRun
from harness.engine.record_answer import RecordAnswer
from harness.engine.scoring import unanswered_verdict
from harness.llm.backend import backend_of
from harness.parallel.heap import keep_heap_out_of_collections
from harness.parallel.in_flight import in_flight, questions_that_fit
from harness.parallel.phases import phase
from harness.stats.rng import derived_seed
from harness.types import Example

# Questions in flight on a GPU, where --parallel says nothing: a document's construction took 39.7 s
# at 1, 3.0 at 16 and 1.0 at 64 (bench/README.md).
IN_FLIGHT_ON_A_GPU = 64

AnswerFunction = Callable[[Example], Unscored | None]
"""Answers a question, in any thread; None where it is not asked now."""


class Executor(abc.ABC):
    """Has questions answered and recorded."""

    @abc.abstractmethod
    def in_flight(self) -> int:
        """Questions in flight at most."""

    @abc.abstractmethod
    def ask(
        self, examples: Sequence[Example], answer: AnswerQuestion, record: RecordAnswer
    ) -> None:
        """Answer the questions and record each; once a limit of the command is reached, those that
        are left are not asked.

        Args:
            examples: The questions, none of which is recorded.
            answer: Answers one, in any thread.
            record: Records answers, in the calling thread.

        Raises:
            UserError, SaveError, FirstFailure: The run cannot go on.
        """


class InTurn(Executor):
    """One question after the other."""

    def in_flight(self) -> int:
        """Questions in flight at most: one."""
        return 1

    def ask(
        self, examples: Sequence[Example], answer: AnswerQuestion, record: RecordAnswer
    ) -> None:
        """Answer and record each question before the next one; arguments as of Executor.ask."""
        self.ask_by(examples, answer, record)

    def ask_by(
        self, examples: Sequence[Example], answer: AnswerFunction, record: RecordAnswer
    ) -> None:
        """Answer each question by a function, and record it before the next one. Loads the models
        first, and exempts what was loaded from garbage collections, so that these stay short.

        Args:
            examples: The questions.
            answer: Answers one.
            record: Records answers.
        """
        record.run.models.load_all()
        keep_heap_out_of_collections()
        for number, example in enumerate(examples):
            record([answer(example)])
            if number == 0:  # the first question loads encoders, and what scorers import
                keep_heap_out_of_collections()


class InFlight(InTurn):
    """Several questions at once, each in a thread; changes no prediction in float32."""

    def __init__(self, max_in_flight: int) -> None:
        """max_in_flight: how many questions are answered at once, if memory has room for as many.
        How many it has room for is found out when the models are loaded."""
        self._max_in_flight = max_in_flight
        self._n_that_fit: int | None = None  # None until the models are loaded

    def in_flight(self) -> int:
        """Questions in flight at most: as many as were asked for; the models' memory may allow fewer
        once they are loaded."""
        return self._max_in_flight

    def ask_by(
        self, examples: Sequence[Example], answer: AnswerFunction, record: RecordAnswer
    ) -> None:
        """Answer the questions in threads, and record answers as they are finished. Loads the models
        first, keeps as many indexes in memory as questions are in flight, and warns where something
        drew from the global random generators.

        Args:
            examples: The questions.
            answer: Answers one, in any thread.
            record: Records answers, in this thread.
        """
        if not examples:
            return
        run = record.run
        n_in_flight = self._load_models_and_count_places(run)
        config = run.plan.config
        # Called for its effect: a scorer imports its packages with its first score, which would
        # stall the requests in flight.
        unanswered_verdict(config.dataset, examples[0].gold)
        run.indexer.max_in_memory = max(run.indexer.max_in_memory, n_in_flight)
        keep_heap_out_of_collections()
        seed = derived_seed(config.seed, "in flight")
        with warn_of_global_draws(run.progress.note, seed):
            in_flight(examples, n_in_flight, answer, record, run.indexer.reserve_next)

    def _load_models_and_count_places(self, run: OpenRun) -> int:
        """Load the models, at the first call alone; returns how many questions may be in flight:
        those that were asked for, or fewer where the models' memory has no room for so many."""
        if self._n_that_fit is None:
            self._n_that_fit = questions_that_fit(
                run.models.load_all(),
                self._max_in_flight,
                run.progress.note,
                run.longest_context_tokens,
            )
        return self._n_that_fit


class BatchFiles(Executor):
    """Requests go as batch files to a server: questions are asked until their requests are known,
    and again with the replies."""

    def __init__(self, round_executor: InTurn) -> None:
        """round_executor: Asks the questions of a round."""
        self._round_executor = round_executor

    def in_flight(self) -> int:
        """Questions in flight at most, within a round."""
        return self._round_executor.in_flight()

    def ask(
        self, examples: Sequence[Example], answer: AnswerQuestion, record: RecordAnswer
    ) -> None:
        """Ask rounds of questions until none waits for a reply; arguments as of Executor.ask."""
        rounds = BatchRounds(answer)

        def ask_and_record(questions: Sequence[Example]) -> None:
            """Have the questions of a round answered and recorded, but for those that wait for the
            next batch."""
            self._round_executor.ask_by(questions, rounds.answer, record)

        rounds.ask(examples, ask_and_record)


def executor_for(plan: PlannedRun, parallel: int | None) -> Executor:
    """The executor of a run in this process: it asks one question after the other, or several at
    once. Where requests go in batch files, that one asks the questions of each round.

    Args:
        plan: The run.
        parallel: Questions in flight at once; None: 1, or many where a model runs on a GPU or in an
            engine that computes many together.
    """
    max_in_flight = parallel or _default_in_flight(plan)
    executor: InTurn = InTurn()
    if max_in_flight > 1:
        executor = InFlight(max_in_flight)
    if plan.config.model.batch:
        return BatchFiles(round_executor=executor)
    return executor


def _default_in_flight(plan: PlannedRun) -> int:
    """How many questions are answered at once where --parallel is not given: many for a model on a
    GPU or in an engine that computes many together, else 1. May take the import of torch."""
    models = plan.models.values()
    if any(backend_of(model).runs_many_at_once for model in models):
        return IN_FLIGHT_ON_A_GPU
    runs_in_transformers = any(model.backend == "hf" for model in models)
    if not runs_in_transformers:
        return 1
    with phase("imports"):
        import torch

    if torch.cuda.is_available():
        return IN_FLIGHT_ON_A_GPU
    return 1
