"""What an adapter changes: the same scenes, which no training saw, asked of the base alone and with the adapter.

    found = compare(model, task, scenes, seed=0)       [Measure("accuracy", before=Value(...), after=Value(...)), ...]

Scenes are of texts of their own in the synthetic world, so they are resampled one by one; see harness.stats.bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from harness.cost.meter import Meter
from harness.method import Scene, TrainingTask
from harness.models import LanguageModel, Session
from harness.stats import bootstrap as stats
from harness.training.data import drawn
from harness.training.recorded_session import listen
from harness.training.scene_source import Recipe


@dataclass(frozen=True)
class Value:
    """A mean over scenes with its 95 % interval (None where one scene alone gives none)."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Measure:
    """floor: what guessing would reach, where that is known.

    failed: scenes that could not be asked to the end, without the adapter or with it.
    """

    task: str
    name: str
    before: Value
    after: Value
    floor: float | None = None
    failed: int = 0


def fresh(task: TrainingTask, recipes: Sequence[Recipe], count: int, seed: int) -> list[Scene]:
    """The first scene of each of `count` evaluation texts."""
    return [found[0] for _, found in islice(drawn(task, recipes, seed, "evaluation"), count)]


def compare(
    model: LanguageModel, task: TrainingTask, scenes: Sequence[Scene], tell: Callable[[str], None]
) -> list[Measure]:
    """Every measure of the task without its adapter and with it; the headline first. Raises what the model raises."""
    told: dict[str, dict[str, Value]] = {}
    failed: set[int] = set()
    for state, adapter in (("before", None), ("after", task.name)):
        values: dict[str, list[float]] = {}
        for number, scene in enumerate(scenes):
            heard = listen(With(model, adapter), task.skill, scene)
            failed |= {number} if heard.failed else set()
            for name, value in task.measure(scene, heard).items():
                values.setdefault(name, []).append(value)
        told[state] = {name: _value(one) for name, one in values.items()}
        head = told[state].get(task.headline)
        shown = "-" if head is None or head.mean is None else f"{100 * head.mean:.1f} % of {head.n}"
        tell(f"{task.name}, {'without its adapter' if adapter is None else 'with it'}: {task.headline} {shown}")
    floor = task.floor(scenes) if task.floor is not None and scenes else None
    names = sorted(told["after"], key=lambda name: name != task.headline)
    found = [(name, told["before"][name], told["after"][name]) for name in names]
    return [Measure(task.name, n, b, a, floor if n == task.headline else None, len(failed)) for n, b, a in found]


def _value(values: Sequence[float]) -> Value:
    found = stats.interval(values, [str(i) for i in range(len(values))])
    return Value(found.mean, found.low, found.high, found.n)


class With(LanguageModel):
    """A model all of whose sessions are opened with one adapter, or with none."""

    def __init__(self, model: LanguageModel, adapter: str | None) -> None:
        self._inner, self._adapter = model, adapter
        self.name, self.capabilities, self.window = model.name, model.capabilities, model.window
        self.shape, self.identity, self.first_prompts = model.shape, model.identity, {}

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> Session:
        """With the one adapter, whatever the caller names."""
        return self._inner.session(meter, role, self._adapter)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """As the model's."""
        return self._inner.offsets(text)

    def count(self, text: str) -> int:
        """As the model's."""
        return self._inner.count(text)

    def turn_tokens(self) -> int:
        """As the model's."""
        return self._inner.turn_tokens()


def rows_of(found: Sequence[Measure]) -> Iterator[tuple[str, ...]]:
    """The lines of a table: task, measure, before, after, floor, scenes."""
    yield "task", "measure", "base alone", "with its adapter", "floor", "scenes"
    for one in found:
        floor = "" if one.floor is None else f"{100 * one.floor:.1f}"
        yield one.task, one.name, _shown(one.before), _shown(one.after), floor, str(one.after.n)


def _shown(value: Value) -> str:
    if value.mean is None:
        return "-"
    ends = "" if value.low is None or value.high is None else f" [{100 * value.low:.1f}, {100 * value.high:.1f}]"
    return f"{100 * value.mean:.1f}{ends}"


def as_json(found: Sequence[Measure]) -> list[dict[str, Any]]:
    """For a card."""
    return [asdict(one) for one in found]


def from_json(rows: Sequence[dict[str, Any]]) -> list[Measure]:
    """The measures of a card."""
    return [Measure(**{**row, "before": Value(**row["before"]), "after": Value(**row["after"])}) for row in rows]
