"""Several questions in flight: each is answered in a thread of its own, and finished in the thread that runs the run.

in_flight(examples, places, answer, finish)
    member thread    answer(example) ──┐
    member thread    answer(example) ──┼─► queue ──► calling thread: finish(outcome), one after the other
    member thread    answer(example) ──┘
"""

from __future__ import annotations

import contextlib
import queue
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from harness.engine.tools import seed_everything
from harness.parallel.scheduler import Crew, Stopped

E = TypeVar("E")
O = TypeVar("O")  # noqa: E741 - outcome
_LONGEST_WAIT = 0.5  # seconds that an interrupted run waits for members which run no forward pass
Note = Callable[[str], None]


def in_flight(examples: Sequence[E], places: int, answer: Callable[[E], O], finish: Callable[[O], None]) -> None:
    """Call answer(example) for every example, `places` at once, and finish(outcome) here for each as it comes.

    What ends the run is raised here: an interrupt, what `finish` raises, and what `answer` raises (of several, that of
    the first example). Before that the members are waited for, and the outcomes they still had are finished; a second
    interrupt does not wait.
    """
    came: queue.SimpleQueue[tuple[int, O | None, BaseException | None]] = queue.SimpleQueue()
    waiting = iter(enumerate(examples))
    turn = threading.Lock()

    def work() -> None:
        while True:
            crew.check()
            with turn:
                n, example = next(waiting, (-1, None))
            if example is None:
                return
            try:
                came.put((n, answer(example), None))
            except Stopped:
                raise
            except BaseException as error:  # noqa: BLE001 - raised in the thread that runs the run
                came.put((n, None, error))
                return

    crew = Crew(places)
    errors: dict[int, BaseException] = {}

    def take(block: bool) -> bool:
        n, outcome, error = came.get(block)
        if error is not None:
            errors[n] = error
        elif outcome is not None:
            finish(outcome)
        return error is None

    try:
        crew.start(*[work] * min(places, len(examples)))
        if all(take(block=True) for _ in examples):
            crew.wait()
            return
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        _end(crew, take if interrupted else None, interrupted=interrupted)
        raise
    _end(crew, take)
    raise errors[min(errors)]


def _end(crew: Crew, take: Callable[[bool], bool] | None, *, interrupted: bool = False) -> None:
    """Stop the members, wait for them, and take what they had finished.

    interrupted: leave those that do not end soon, as one that waits for a server's reply; no forward pass is left.
    """
    crew.stop()
    crew.wait(_LONGEST_WAIT if interrupted else None)
    with contextlib.suppress(queue.Empty):
        while take is not None:
            take(False)


def places_for(models: Sequence[Any], requested: int, note: Note) -> int:
    """How many questions can be in flight: as many as wanted, or as contexts of every model fit into memory.

    `note` is told when it is fewer than wanted, and of models that cannot run several contexts in one pass.
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


@contextlib.contextmanager
def draws_watched(note: Note, seed: int) -> Iterator[None]:
    """Say so when something inside drew from the global generators, which the questions in flight share."""
    seed_everything(seed)
    before = _states()
    yield
    after = _states()
    if changed := [name for name, state in before.items() if state != after[name]]:
        note(
            f"something drew from the global random generator of {' and '.join(changed)} while several questions were "
            "in flight: such draws depend on which question was faster; --parallel 1 gives the same ones every time"
        )


def _states() -> dict[str, object]:
    name, keys, *rest = np.random.get_state()
    states: dict[str, object] = {"Python": random.getstate(), "NumPy": (name, np.asarray(keys).tobytes(), *rest)}
    if torch := sys.modules.get("torch"):
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states
