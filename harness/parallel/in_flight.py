"""Several items in flight: each is worked on in its own thread, and finished in the calling thread.

in_flight(items, n_at_once, work, finish)
    member thread    work(item) ──┐
    member thread    work(item) ──┼─► queue ──► calling thread: finish([outcome, ...]) of all that are there
    member thread    work(item) ──┘

tools.map with several items at work at once: order kept, the first failure in order raised, costs
booked in order.

    map_together(scheduler, fn, items, meter) -> [fn(item), ...]

The calling thread works too; for every item that begins, one more member starts while the scheduler
has a free place. So a map inside a map, or in a run whose places are all taken, runs in the calling
thread alone.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from harness.cost.meter import Meter
from harness.parallel.members import Stopped
from harness.parallel.scheduler import Scheduler

T = TypeVar("T")
R = TypeVar("R")


def map_together(
    scheduler: Scheduler, fn: Callable[[T], R], items: Sequence[T], meter: Meter
) -> list[R]:
    """Call a function on items, in several threads where places are free, and return its results in
    order.

    When one call raises, no further item is begun, those that have begun are waited for (their cost
    is counted, the parts they stored stay), and the exception of the first failed item in order is
    raised.

    Args:
        scheduler: Its threads that have a free place help.
        fn: The function.
        items: What it is called with, one at a time.
        meter: Counts what the calls cost, in the order of the items.
    """
    mapping = _Map(scheduler, fn, items, meter)
    mapping.work()  # in this thread; it also starts others
    if mapping.n_other_threads:
        with scheduler.without_slot():
            mapping.wait()  # for the others
    meter.join(mapping.branches)
    if mapping.errors:
        first_failed = min(mapping.errors)
        raise mapping.errors[first_failed]
    return [mapping.results[index] for index in range(len(items))]


class _Map(Generic[T, R]):
    """The state of one `map_together`.

    Attributes:
        branches: A branch of the meter for each item, which counts its cost.
        results: Position of an item -> what the function returned.
        errors: Position of an item -> what the function raised.
        n_other_threads: How many threads beside the calling one are at work on this map.
    """

    def __init__(
        self, scheduler: Scheduler, fn: Callable[[T], R], items: Sequence[T], meter: Meter
    ) -> None:
        """Begin with no item taken; `_n_begun` counts those that a thread has taken, and
        `branches[i]` counts what the call on item i costs.

        Args:
            scheduler: Its threads that have a free place help.
            fn: The function that is called on each item.
            items: The items.
            meter: Counts what the calls cost.
        """
        self._scheduler = scheduler
        self._fn = fn
        self._items = items
        self.branches = meter.fork(len(items))
        self.results: dict[int, R] = {}
        self.errors: dict[int, BaseException] = {}
        self.n_other_threads = 0
        self._n_begun = 0
        self._changed = threading.Condition()

    def work(self) -> None:
        """Call fn on items in order, in the calling thread, until none is left or one has
        failed."""
        index = self._take_next_index()
        while index is not None:
            try:
                with self.branches[index]:
                    self.results[index] = self._fn(self._items[index])
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that called map
                self.errors[index] = error
            index = self._take_next_index()

    def _take_next_index(self) -> int | None:
        """Take the next item, and return its position; None where no item is left or one has
        failed, which ends the thread's work. Also starts another thread if more items are left and
        a place is free."""
        with self._changed:
            if self.errors or self._n_begun == len(self._items):
                return None
            index = self._n_begun
            self._n_begun += 1
            has_more = self._n_begun < len(self._items)
            if has_more:
                was_started = self._scheduler.start_thread_if_free(
                    self.work, self._count_ended_thread
                )
                self.n_other_threads += int(was_started)
        return index

    def _count_ended_thread(self) -> None:
        """Count a thread less at work on this map, and wake the calling thread, which may wait for
        that."""
        with self._changed:
            self.n_other_threads -= 1
            self._changed.notify()

    def wait(self) -> None:
        """Wait for the other threads that still work on an item."""
        with self._changed:
            while self.n_other_threads:
                self._changed.wait()


E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 - outcome
_MAX_WAIT_SECONDS = 0.5  # an interrupted run waits so long for members which run no forward pass
Note = Callable[[str], None]


def in_flight(
    examples: Sequence[E],
    n_at_once: int,
    answer: Callable[[E], O],
    finish: Callable[[Sequence[O]], None],
    choose_next: Callable[[Iterable[E]], int] = lambda _: 0,
) -> None:
    """Answer all examples, `n_at_once` at a time, and finish their outcomes in this thread as they
    come.

    After an error or an interrupt no further example starts. The threads end first (an interrupt
    gives them a moment), then the outcomes that they had are finished.

    Args:
        examples: The examples.
        n_at_once: How many are answered at a time.
        answer: Answers one example; called in threads.
        finish: Called in this thread with the outcomes that have come meanwhile, in that order.
        choose_next: Position of the next example among those left (by default 0); called by one
            thread at a time.

    Raises:
        BaseException: An interrupt, the error of `finish` (then outcomes are dropped), or, of the
            errors of `answer`, that of the first example.
    """
    flight = _Flight(examples, n_at_once, answer, finish, choose_next)
    try:
        flight.start()
        if flight.finish_until_error():
            flight.scheduler.wait()  # for the threads, which end by themselves: nothing is left
            return
    except BaseException as error:  # an interrupt, or what `finish` raised
        if isinstance(error, KeyboardInterrupt):
            flight.stop_threads(max_seconds=_MAX_WAIT_SECONDS)
            flight.finish_waiting()
        else:
            flight.stop_threads()
        raise
    flight.stop_threads()
    flight.finish_waiting()
    first_failed = min(flight.errors)
    raise flight.errors[first_failed]


@dataclass(frozen=True)
class _Failed:
    """The error of `answer` for the example at `position`."""

    position: int
    error: BaseException


@dataclass(frozen=True)
class _Answered(Generic[O]):
    """What `answer` returned."""

    answer: O


class _Flight(Generic[E, O]):
    """The state of one `in_flight`.

    Attributes:
        scheduler: Runs the threads.
        errors: Position of an example -> what `answer` raised for it.
    """

    def __init__(
        self,
        examples: Sequence[E],
        n_at_once: int,
        answer: Callable[[E], O],
        finish: Callable[[Sequence[O]], None],
        choose_next: Callable[[Iterable[E]], int],
    ) -> None:
        """Begin with all examples left, as (position, example); no thread runs yet.

        Args:
            examples: The examples.
            n_at_once: How many are answered at a time.
            answer: Answers one example; called in threads.
            finish: Called in the calling thread with outcomes that have come.
            choose_next: Position of the next example among those left.
        """
        self.scheduler = Scheduler(n_at_once)
        self.errors: dict[int, BaseException] = {}
        self._answer = answer
        self._finish = finish
        self._choose_next = choose_next
        self._examples_left = list(enumerate(examples))
        self._n_threads = min(n_at_once, len(examples))
        self._n_unfinished = len(examples)
        self._choosing = threading.Lock()
        self._outcomes: queue.SimpleQueue[_Answered[O] | _Failed] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the threads."""
        self.scheduler.start_threads(*[self._work] * self._n_threads)

    def _work(self) -> None:
        """What each thread does: answer examples until none is left, or one fails."""
        while True:
            self.scheduler.raise_if_stopped()
            with self._choosing:
                if not self._examples_left:
                    return
                index = self._choose_next(example for _, example in self._examples_left)
                position, example = self._examples_left.pop(index)
            try:
                self._outcomes.put(_Answered(self._answer(example)))
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - raised in the thread that runs the run
                self._outcomes.put(_Failed(position, error))
                return

    def finish_until_error(self) -> bool:
        """Finish outcomes as they come, until all examples are finished, or one ends in an error.
        Returns whether all are finished."""
        while self._n_unfinished:
            first_outcome = self._outcomes.get()
            self._finish_all([first_outcome, *self._waiting_outcomes()])
            if self.errors:
                return False
        return True

    def finish_waiting(self) -> None:
        """Finish the outcomes that have come and are not finished yet, without waiting for more."""
        self._finish_all(self._waiting_outcomes())

    def _waiting_outcomes(self) -> list[_Answered[O] | _Failed]:
        """Remove the outcomes that have come by now from the queue, and return them, without
        waiting for more.
        """
        outcomes: list[_Answered[O] | _Failed] = []
        with contextlib.suppress(queue.Empty):
            while True:
                outcomes.append(self._outcomes.get_nowait())
        return outcomes

    def _finish_all(self, outcomes: Sequence[_Answered[O] | _Failed]) -> None:
        """Finish these outcomes, all at once. Errors are put into `errors` instead."""
        self._n_unfinished -= len(outcomes)
        answers: list[O] = []
        for outcome in outcomes:
            if isinstance(outcome, _Failed):
                self.errors[outcome.position] = outcome.error
            else:
                answers.append(outcome.answer)
        if answers:
            self._finish(answers)

    def stop_threads(self, max_seconds: float | None = None) -> None:
        """Stop all threads and wait for them.

        Args:
            max_seconds: Seconds to wait at most after the current pass, as a thread may wait for a
                server's reply; None for as long as it takes.
        """
        self.scheduler.stop()
        self.scheduler.wait(max_seconds)


def questions_that_fit(
    models: Sequence[Any],
    requested: int,
    note: Note,
    longest_context_tokens: Callable[[], int] | None = None,
) -> int:
    """How many questions may be in flight.

    Also tells the models that share a GPU's memory how many contexts to expect, and notes why
    questions run one after the other.

    Args:
        models: The loaded models of the run.
        requested: How many are wanted.
        note: Called with a sentence if the number is lower, and for each model that cannot run
            several contexts in one pass.
        longest_context_tokens: Gives about how many tokens the longest context of a question has;
            called for a model whose waiting contexts make room for others, as on a GPU. Any other
            model has room for whole windows.

    Returns:
        `requested`, or fewer where fewer contexts of a model fit into memory.
    """
    n_questions = requested
    sharing = [model for model in models if getattr(model, "contexts_make_room", False)]
    for model in sharing:
        model.share_memory(sharing)
    context_tokens: dict[Any, int] = {}
    for model in models:
        tokens = getattr(model, "window", 0)
        if longest_context_tokens is not None and model in sharing:
            tokens = min(longest_context_tokens(), tokens)
        context_tokens[model] = tokens
        n_questions = _questions_that_fit_model(model, tokens, n_questions, requested, note)
        _note_if_one_at_a_time(model, note)
    for model in sharing:
        model.pool.make_buffers_for(n_questions, context_tokens[model])
    return n_questions


def _questions_that_fit_model(
    model: Any, context_tokens: int, n_questions: int, requested: int, note: Note
) -> int:
    """The lower of `n_questions` and the number of contexts of a model that fit into memory, at
    least 1.

    Args:
        model: A loaded model; one without `contexts_that_fit` sets no limit.
        context_tokens: Tokens of the longest context.
        n_questions: How many questions fit the models before.
        requested: How many were wanted at first, for the note.
        note: Called with a sentence if this model lowers the number.
    """
    n_contexts: int | None = None
    if hasattr(model, "contexts_that_fit"):
        n_contexts = model.contexts_that_fit(context_tokens)
    if n_contexts is None or n_contexts >= n_questions:
        return n_questions
    n_fitting = max(n_contexts, 1)
    note(
        f"{n_fitting} instead of {requested} questions in flight: the memory that is "
        f"free holds {n_contexts} contexts of "
        f"{context_tokens} tokens of '{model.name}' (a smaller model.window leaves room for more)"
    )
    return n_fitting


def _note_if_one_at_a_time(model: Any, note: Note) -> None:
    """Note why a model cannot run several contexts in one pass, if it cannot."""
    one_at_a_time_reason = getattr(model, "pack_problem", None)
    if one_at_a_time_reason:
        note(
            f"'{model.name}' runs the questions in flight one after the other: "
            f"{one_at_a_time_reason}"
        )
