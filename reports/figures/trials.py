"""What other maxima of trials would have answered, and for how many requests, out of one stored search.

    told = recorded(run)                Recorded(own=2, most=3); None where no search has trials
    stop(record, 1, told)               Stop(step=6, own=False, answer="Kelford", requests=4, ...)
    wanted(run, told, range(4))         what has to be scored: (question, step) -> Stop

    updates   0    1    2 │ 3      of the entity set; max_trials = 2, recorded up to 3: one run holds the maxima 0 to 3
    answer    a    b   own│ c

A search with fewer trials is the beginning of the same search (methods/qrmem/trials.py), so every one that answered, or
ended by itself, within a maximum is known without a recording. What is read at the maximum itself is known only where
it was recorded (--record-stops). Nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cost.flops import DEFAULT
from reports.figures.replay import STUDY
from reports.figures.requests import spent
from reports.step_flops import spent_flops, stop_flops

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


Key = tuple[str, int]
"""A question's id and the step that it was stopped at."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The maximum of trials of a run, and the highest one that its searches went on to."""

    own: int
    most: int


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
    """What the run's configuration says of its trials; None for a method without any."""
    params: dict[str, Any] = run.config["method"].get("params") or {}
    own = params.get("max_trials")
    if not isinstance(own, int) or not any(_marks(record) for record in run.records):
        return None
    return Recorded(own, max(own, int(params.get("record_stops") or 0)))


def _marks(record: Mapping[str, Any]) -> list[tuple[int, int, Mapping[str, Any]]]:
    """(updates, place, step) of the last step of each trial."""
    found = [(i, step) for i, step in enumerate(record["steps"]) if "updates" in (step.get("scores") or {})]
    return [(int(step["scores"]["updates"]), i, step) for i, step in found]


def stop(record: Mapping[str, Any], trials: int, told: Recorded, convention: str = DEFAULT) -> Stop | None:
    """What a search with at most `trials` updates would have come to; None where the answered record does not say."""
    marks = _marks(record)
    if not marks:
        return None
    mine = [mark for mark in marks if mark[2]["action"] != STUDY]
    last, place, step = mine[-1]
    if trials == told.own or (trials >= last and "ended" in step["scores"]):
        return Stop(place, True, record["prediction"], spent(record), spent_flops(record, convention))
    found = next((mark for mark in marks if mark[0] == trials), None)
    if found is None and trials > marks[-1][0] and "ended" in marks[-1][2]["scores"]:
        found = marks[-1]  # the search that went on ended by itself before this maximum
    return None if found is None else _other(record, found[1], convention)


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
