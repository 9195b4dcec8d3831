"""Several items in flight: each is worked on in its own thread, and finished in the calling thread.

in_flight(items, places, work, finish)
    member thread    work(item) ──┐
    member thread    work(item) ──┼─► queue ──► calling thread: finish(outcome), one after the other
    member thread    work(item) ──┘
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from harness.parallel.scheduler import Scheduler, Stopped

E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 - outcome
_LONGEST_WAIT = 0.5  # seconds that an interrupted run waits for members which run no forward pass
Note = Callable[[str], None]


def in_flight(
    examples: Sequence[E],
    places: int,
    answer: Callable[[E], O],
    finish: Callable[[O], None],
    choose: Callable[[Iterable[E]], int] = lambda _: 0,
) -> None:
    """Call answer(example) for every example, `places` at once, and finish(outcome) in this thread for each.

    choose: the place of the next example among those that are left, one call at a time; the first by default.

    Raises an interrupt, the exception of `finish`, or that of `answer` (of several, that of the first example), after
    all members have ended and the outcomes that they had are finished. A second interrupt does not wait.
    """
    outcomes: queue.SimpleQueue[tuple[int, O | None, BaseException | None]] = queue.SimpleQueue()
    waiting = list(enumerate(examples))
    turn = threading.Lock()

    def work() -> None:
        while True:
            scheduler.check()
            with turn:
                if not waiting:
                    return
                n, example = waiting.pop(choose(example for _, example in waiting))
            try:
                outcomes.put((n, answer(example), None))
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - raised in the thread that runs the run
                outcomes.put((n, None, error))
                return

    scheduler = Scheduler(places)
    errors: dict[int, BaseException] = {}

    def take(block: bool) -> bool:
        n, outcome, error = outcomes.get(block)
        if error is not None:
            errors[n] = error
        elif outcome is not None:
            finish(outcome)
        return error is None

    try:
        scheduler.start(*[work] * min(places, len(examples)))
        if all(take(block=True) for _ in examples):
            scheduler.wait()
            return
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        _end(scheduler, take if interrupted else None, interrupted=interrupted)
        raise
    _end(scheduler, take)
    raise errors[min(errors)]


def _end(scheduler: Scheduler, take: Callable[[bool], bool] | None, *, interrupted: bool = False) -> None:
    """Stop the members, wait for them, and take the outcomes that they had finished.

    interrupted: wait at most _LONGEST_WAIT seconds, because a member may wait for a server's reply.
    """
    scheduler.stop()
    scheduler.wait(_LONGEST_WAIT if interrupted else None)
    with contextlib.suppress(queue.Empty):
        while take is not None:
            take(False)


def places_for(models: Sequence[Any], requested: int, note: Note) -> int:
    """Number of questions in flight: `requested`, or fewer if fewer contexts of a model fit into memory.

    It counts full windows, not what contexts hold: no question declares how long its contexts will become, and on a CPU
    a question admitted on a guess that proves too low could end the process.
    Calls `note` if the number is lower, and for each model that cannot run several contexts in one pass.
    """
    places = requested
    for model in models:
        fit = getattr(model, "contexts", lambda: None)()
        if fit is not None and fit < places:
            places = max(fit, 1)
            note(
                f"{places} instead of {requested} questions in flight: the memory that is free holds {fit} contexts of "
                f"{model.window} tokens of '{model.name}' (a smaller model.window leaves room for more)"
            )
        if why := getattr(model, "pack_problem", None):
            note(f"'{model.name}' runs the questions in flight one after the other: {why}")
    return places
