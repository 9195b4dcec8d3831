"""What other maxima of trials would have answered, and for how many requests, out of one stored search.

    told = recorded(run)                Recorded(own=2, most=3); None where no search has trials
    stop(record, 1, told)               Stop(step=6, own=False, answer="Kelford", requests=4, ...)
    wanted(run, told, range(4))         what has to be scored: (question, step) -> Stop

    updates   0    1    2 │ 3      of the entity set; max_trials = 2, recorded up to 3: one run holds the maxima 0 to 3
    answer    a    b   own│ c

Which step another maximum ends at is the method's to say (Method.replay); an answer that was not recorded
(--record-stops) is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.cost.flops import DEFAULT
from harness.method import Method
from reports.figures.replay import STUDY, method_of
from reports.figures.requests import spent
from reports.step_flops import spent_flops, stop_flops

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


Key = tuple[str, int]
"""A question's id and the step that it was stopped at."""


@dataclass(frozen=True)
class Recorded:
    """The maximum of trials of a run, the highest one that its searches went on to, and the method that replays."""

    own: int
    most: int
    method: Method = field(compare=False)


@dataclass(frozen=True, slots=True)
class Stop:
    """What a maximum makes of one question.

    step: place in the record's steps; own: whether the answer is that of the run itself; requests, flops: of search and
    answer; flops is None where they are unknown.
    """

    step: int
    own: bool
    answer: str
    requests: int
    flops: float | None


def recorded(run: StoredRun) -> Recorded | None:
    """The trials of a run; None for a method without any. Raises as reports.figures.replay.method_of."""
    params: dict[str, Any] = run.config["method"].get("params") or {}
    if not isinstance(params.get("max_trials"), int) or all(_own_place(record) is None for record in run.records):
        return None
    method = method_of(run)
    own, most = method.stop_rule(), method.recorded_rule()
    return Recorded(own["max_trials"], most["max_trials"], method) if own.keys() == {"max_trials"} else None


def _own_place(record: Mapping[str, Any]) -> int | None:
    """The place of the last step of the last trial that the run itself made."""
    steps = enumerate(record["steps"])
    own = [i for i, step in steps if "updates" in (step.get("scores") or {}) and step["action"] != STUDY]
    return own[-1] if own else None


def stop(record: Mapping[str, Any], trials: int, told: Recorded, convention: str = DEFAULT) -> Stop | None:
    """What a search with at most `trials` updates would have come to; None where the answered record does not say."""
    own = _own_place(record)
    place = own if trials == told.own else told.method.replay(record["steps"], max_trials=trials)
    if place is None:
        return None
    if place == own:
        return Stop(place, True, record["prediction"], spent(record), spent_flops(record, convention))
    return _other(record, place, convention)


def _other(record: Mapping[str, Any], place: int, convention: str) -> Stop | None:
    """A stop that was recorded; None where no answer was written there."""
    step = record["steps"][place]
    if step.get("answer") is None:
        return None
    asked = sum(int(s["scores"].get("replies", 0)) for s in record["steps"][: place + 1])
    read = 0 if step["scores"].get("answers") else 1
    known = not any(usage.get("uncounted") for usage in record["usage"].values())
    flops = stop_flops(step, convention) if known else None
    return Stop(place, False, str(step["answer"]), asked + read, flops)


def shown(record: Mapping[str, Any], place: int) -> list[dict[str, Any]]:
    """What the reader had seen at a stop: the segments that were added and did not leave again."""
    seen: dict[int, dict[str, Any]] = {}
    for step in record["steps"][: place + 1]:
        if step.get("shown") is not None:
            seen[int(step["node"])] = step["shown"]
        elif "segment" in step["scores"]:
            seen.pop(int(step["scores"]["segment"]), None)
    return [part for number in sorted(seen) for part in _parts(seen[number])]


def _parts(told: dict[str, Any]) -> list[dict[str, Any]]:
    """A segment over several documents is stored as one without a place of its own; its parts again."""
    if told["document_id"] or not told["sources"]:
        return [told]
    return [{**told, "document_id": d, "start": a, "end": b, "sources": []} for d, a, b in told["sources"]]


def wanted(run: StoredRun, told: Recorded, trials: Iterable[int]) -> dict[Key, Stop]:
    """The stops at these maxima that are not the run's own, whose answers have no score yet."""
    records = [record for record in run.records if record["error"] is None]
    stops = [(record, stop(record, most, told)) for most in trials for record in records]
    return {(r["question_id"], found.step): found for r, found in stops if found is not None and not found.own}
