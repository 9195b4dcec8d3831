"""What every reader of another tool's files gives: the answers of one run as they stand there.

    run = read(Path("log.json"))       harness/exchange/read_*.py, one for each form of file
    run.tool, run.model                "inspect_ai 0.3.285", "openai/gpt-4o"
    run.answers[0].place.error(...)    an error that names the file and the line

A reader parses data; it never imports the other tool. What the file does not say is None or absent, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.datasets.files import Broken, Place
from harness.errors import DataError

COSTS = {"tokens_in": int, "tokens_out": int, "tokens_cached": int, "seconds": float}
"""The costs that a file may tell of a question, named as in a run's usage."""


@dataclass(frozen=True)
class Told:
    """A mean that the other tool printed, and its standard error where it printed one."""

    mean: float
    stderr: float | None = None


@dataclass(frozen=True)
class ForeignAnswer:
    """A question with its answer. id, question, answers: None, None and () where the file does not say.

    question may be a prompt that contains the question; scores: the tool's own, by its names; extra: further columns;
    costs: of the whole question, by the names in COSTS; error: why it has no answer.
    """

    place: Place
    id: str | None
    question: str | None
    answers: tuple[str, ...]
    prediction: str
    scores: Mapping[str, float] = field(default_factory=dict)
    options: tuple[str, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True)
class ForeignRun:
    """A file of another tool. tool: with its version, if the file says it; dataset: its name there.

    files: all that were read; form: the format of the tool's own data sets, where one of ours may have the same name;
    told: what the tool printed, by its names of scores; asked: questions that it was to ask; state: as in a run's
    summary; lost: sentences on what cannot be taken over.
    """

    tool: str
    model: str
    method: str
    dataset: str
    answers: Sequence[ForeignAnswer]
    files: Sequence[Path]
    form: str | None = None
    told: Mapping[str, Told] = field(default_factory=dict)
    asked: int | None = None
    state: str = "finished"
    started: str | None = None
    lost: Sequence[str] = ()


def whole(place: Place, row: Mapping[str, Any] | Broken, needed: Sequence[str], tool: str) -> Mapping[str, Any]:
    """The row, checked to be one of `tool`'s. Raises DataError for a broken line and a missing key."""
    if isinstance(row, Broken):
        raise place.error(None, f"{row.problem}; is the file cut?")
    if lacking := [key for key in needed if key not in row]:
        raise place.error(lacking[0], f"is missing; this is no file of {tool}, or one of another version")
    return row


def text(place: Place, name: str, value: Any) -> str:
    """A text, or a number as one. Raises DataError for anything else."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise place.error(name, f"should be a text, is {type(value).__name__}")
    return str(value)


def texts(value: Any) -> tuple[str, ...]:
    """The answers in a text, a number or a list of such, without repeats and blanks; those of {"text": [...]} too."""
    if isinstance(value, Mapping):
        value = value.get("text") or value.get("aliases")
    values = value if isinstance(value, list) else [value]
    kept = (str(one) for one in values if isinstance(one, str | int | float))
    return tuple(dict.fromkeys(one for one in kept if one.strip()))


def each(rows: Iterable[tuple[Place, Any]], make: Callable[[Place, Any], ForeignAnswer]) -> list[ForeignAnswer]:
    """`make` of every row. Raises DataError, naming the row, where it cannot be made of what stands there."""
    found = []
    for place, row in rows:
        try:
            found.append(make(place, row))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise place.error(None, f"a value is not of the form that is read ({error}); another version?") from None
    return found


def columns(row: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """The short values of a row by which questions can be divided (harness compare --by), but for some."""
    return {
        key: value
        for key, value in row.items()
        if key not in without and isinstance(value, str | int | bool) and len(str(value)) <= 100
    }


def one_of(places: Sequence[tuple[Place, str]], what: str) -> str:
    """The value that all lines share. Raises DataError, naming the first line with another one."""
    for place, value in places:
        if value != places[0][1]:
            raise place.error(None, f"the {what} is '{value}', and '{places[0][1]}' before; split the file by {what}")
    return places[0][1]


def checked(read: Callable[[Path], ForeignRun], path: Path) -> ForeignRun:
    """What `read` makes of a file, without scores that are not from 0 to 1.

    Raises DataError for what is of no form that is read, and for a run that must not be imported: without questions,
    with a question that comes twice, with an answer to nobody knows what, with a cost that is none.
    """
    try:
        run = read(path)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(path, None, None, f"is not of the form that is read ({error}); another version?") from None
    if not run.answers:
        raise DataError(path, None, None, "holds no answered question")
    seen: dict[str, Place] = {}
    for answer in run.answers:
        if wrong_costs := [name for name, cost in answer.costs.items() if not (math.isfinite(cost) and cost >= 0)]:
            raise answer.place.error(wrong_costs[0], "should be a number from 0 on")
        if answer.id is None and not answer.question and not answer.answers:
            raise answer.place.error(None, "an answer without id, question and right answer: nobody knows to what")
        key = answer.id or answer.question
        if key is not None and (earlier := seen.setdefault(key, answer.place)) is not answer.place:
            raise answer.place.error(None, f"question '{key[:80]}' is answered at {earlier} too; keep one of them")
    names = dict.fromkeys(name for answer in run.answers for name in answer.scores)
    wrong = {n for n in names for a in run.answers if n in a.scores and not _is_share(a.scores[n])}
    lost = [*run.lost, *(f"{name} has values outside 0 to 1, so it is left out" for name in names if name in wrong)]
    kept = [replace(a, scores={n: v for n, v in a.scores.items() if n not in wrong}) for a in run.answers]
    return replace(run, answers=kept, lost=lost)


def _is_share(value: float) -> bool:
    return math.isfinite(value) and 0.0 <= value <= 1.0
