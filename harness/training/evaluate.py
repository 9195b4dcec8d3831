"""Measure a model without and with an adapter, on scenes that were not trained on.

    compare(model, task, scenes, tell)        [Measure("accuracy", before=Value(...), after=Value(...)), ...]

Each scene has a text of its own, so the bootstrap resamples scenes; see harness.stats.bootstrap.
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
from harness.stats.rng import Dice
from harness.training.data import world_scenes
from harness.training.recorded_session import record_scene
from harness.training.scene_source import Recipe


@dataclass(frozen=True)
class Value:
    """A mean over scenes with its 95 % interval (None for a single scene)."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Measure:
    """A measure without (before) and with (after) the adapter.

    floor: expected value for guessing, where that is known; failed: scenes that failed without the adapter or with it.
    """

    task: str
    name: str
    before: Value
    after: Value
    floor: float | None = None
    failed: int = 0


def evaluation_scenes(task: TrainingTask, recipes: Sequence[Recipe], count: int, seed: int) -> list[Scene]:
    """A scene of each of `count` evaluation texts."""
    texts = islice(world_scenes(task, recipes, seed, "evaluation"), count)
    return [one_of(scenes, Dice("exam", seed, number)) for number, (_, scenes) in enumerate(texts)]


def one_of(scenes: Sequence[Scene], dice: Dice) -> Scene:
    """The text's first scene; of two in which the question alone tells Yes from No, either, so that both are asked."""
    paired = len({scene.texts for scene in scenes[:2]}) < len({scene.verdicts for scene in scenes[:2]})
    return dice.pick(scenes[:2]) if paired else scenes[0]


def compare(
    model: LanguageModel, task: TrainingTask, scenes: Sequence[Scene], tell: Callable[[str], None]
) -> list[Measure]:
    """Every measure of the task without its adapter and with it; the headline first. Raises what the model raises."""
    results: dict[str, dict[str, Value]] = {}
    failed: set[int] = set()
    for state, adapter in (("before", None), ("after", task.name)):
        values: dict[str, list[float]] = {}
        for number, scene in enumerate(scenes):
            outcome = record_scene(WithAdapter(model, adapter), task.skill, scene)
            failed |= {number} if outcome.failed else set()
            for name, value in task.measure(scene, outcome).items():
                values.setdefault(name, []).append(value)
        results[state] = {name: _value(per_scene) for name, per_scene in values.items()}
        head = results[state].get(task.headline)
        shown = "-" if head is None or head.mean is None else f"{100 * head.mean:.1f} % of {head.n}"
        tell(f"{task.name}, {'without its adapter' if adapter is None else 'with it'}: {task.headline} {shown}")
    floor = task.floor(scenes) if task.floor is not None and scenes else None
    names = sorted(results["after"], key=lambda name: name != task.headline)
    rows = [(name, results["before"][name], results["after"][name]) for name in names]
    return [Measure(task.name, n, b, a, floor if n == task.headline else None, len(failed)) for n, b, a in rows]


def _value(values: Sequence[float]) -> Value:
    mean = stats.interval(values, [str(i) for i in range(len(values))])
    return Value(mean.mean, mean.low, mean.high, mean.n)


class WithAdapter(LanguageModel):
    """A model whose sessions all use one adapter, or none."""

    def __init__(self, model: LanguageModel, adapter: str | None) -> None:
        self._inner, self._adapter = model, adapter
        self.name, self.capabilities, self.window = model.name, model.capabilities, model.window
        self.shape, self.identity, self.first_prompts = model.shape, model.identity, {}

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> Session:
        """A session with that adapter, whatever the caller names."""
        return self._inner.session(meter, role, self._adapter)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """See the model."""
        return self._inner.offsets(text)

    def count(self, text: str) -> int:
        """See the model."""
        return self._inner.count(text)

    def turn_tokens(self) -> int:
        """See the model."""
        return self._inner.turn_tokens()


def rows_of(measures: Sequence[Measure]) -> Iterator[tuple[str, ...]]:
    """The rows of a table, the header first: task, measure, before, after, floor, scenes."""
    yield "task", "measure", "base alone", "with its adapter", "floor", "scenes"
    for measure in measures:
        floor = "" if measure.floor is None else f"{100 * measure.floor:.1f}"
        before, after = measure.before, measure.after
        yield measure.task, measure.name, _percent(before), _percent(after), floor, str(after.n)


def _percent(value: Value) -> str:
    if value.mean is None:
        return "-"
    ends = "" if value.low is None or value.high is None else f" [{100 * value.low:.1f}, {100 * value.high:.1f}]"
    return f"{100 * value.mean:.1f}{ends}"


def as_json(measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """The measures as JSON values, for a card."""
    return [asdict(measure) for measure in measures]


def from_json(rows: Sequence[dict[str, Any]]) -> list[Measure]:
    """The measures of a card."""
    return [Measure(**{**row, "before": Value(**row["before"]), "after": Value(**row["after"])}) for row in rows]
