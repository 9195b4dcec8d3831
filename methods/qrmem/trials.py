"""One search under every maximum of trials: when it ends, what it answers, and what other maxima would have answered.

    moves     a navigation as a generator: after each trial that left the question open it yields the segments read so
              far, and where it ends by itself it returns an End
    updates   0    1    2 │  3    4            of the entity set; max_trials = 2, record_stops = 4
    steps     ask  ask ask│ study ...          the last step of a trial has the score "updates", and "ended" where the
    phase     search, answer │ study           search ended there by itself
    answers   a    a   own│  b    b            the others only with record_stops, booked under "study"

With record_stops the prediction, the stop reason, what was shown, the steps up to the stop (answers apart) and the
usage of the phases "search" and "answer" are those of a run without it. steps[i].flops are those of the search up to
there, without any answer: a run whose maximum ends it at step i spends steps[i].flops + steps[i].answer_flops in search
and answer. Of equal segments the answer is written once, as the likeliest reply is the same. A recording that fails is
left out, and a step says so; it never costs the question.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import QuestionError
from harness.types import Answer
from methods.qrmem.desk import Desk

MAX_TRIALS = "max trials"


@dataclass(frozen=True)
class End:
    """How a search ends by itself: the segments read, why, and the answer where the model's verdict holds one."""

    segments: list[int]
    reason: str
    answer: str | None = None


Moves = Generator[list[int], None, End]


def drive(desk: Desk, moves: Moves) -> Answer:
    """The answer at `max_trials`, or where the search ends before."""
    segments: list[int] = []
    for updates in range(desk.config.max_trials + 1):
        move = _next(moves)
        desk.mark(updates, ended=isinstance(move, End))
        if isinstance(move, End):
            if move.answer is not None:
                return desk.answer(move.answer, move.segments, move.reason)
            return desk.read(move.segments, move.reason)
        segments = move
        if updates < desk.config.max_trials and desk.config.record_stops is not None:
            desk.record(segments)
    own = desk.read(segments, MAX_TRIALS)
    if (desk.config.record_stops or 0) > desk.config.max_trials:
        _search_on(desk, moves)
    return replace(own, steps=tuple(desk.steps))


def _next(moves: Moves) -> list[int] | End:
    try:
        return next(moves)
    except StopIteration as ended:
        end: End = ended.value
        return end


def _search_on(desk: Desk, moves: Moves) -> None:
    """Go on behind the stop, up to `record_stops` updates."""
    desk.later = True
    with desk.tools.phase("study"):
        for updates in range(desk.config.max_trials + 1, (desk.config.record_stops or 0) + 1):
            try:
                move = _next(moves)
            except QuestionError as error:
                desk.step("stop", note=f"recording ends: {error}")
                return
            desk.mark(updates, ended=isinstance(move, End))
            if isinstance(move, End):
                desk.record(move.segments, move.answer)
                return
            desk.record(move)


def replay(steps: Sequence[Mapping[str, Any]], max_trials: int) -> int | None:
    """The place in `steps` at which a search with at most `max_trials` updates ends; None where it was not recorded.

    A search with fewer trials is the beginning of the same search, and one that ended by itself ends so under every
    larger maximum.
    """
    marks = {int(s["scores"]["updates"]): i for i, s in enumerate(steps) if "updates" in (s.get("scores") or {})}
    if max_trials in marks or not marks:
        return marks.get(max_trials)
    last = max(marks)
    return marks[last] if max_trials > last and "ended" in steps[marks[last]]["scores"] else None
