"""Measure a model without and with an adapter, on scenes that were not trained on.

    compare(model, task, scenes, tell)        [Measure("accuracy", before=Value(...), after=Value(...)), ...]
    outcome = record_scene(model, skill, scene)
    outcome.written        the text of each reply
    outcome.p_first        the probability of the first label, for each probe
    outcome.scored         the mean log-probability (nats) of the tokens of each scored text

Each scene has a text of its own, so the bootstrap resamples scenes; see harness.stats.bootstrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Self, cast

from harness.errors import QuestionError
from harness.method.hooks import Scene, SceneOutcome, Skill, TrainingTask
from harness.models import LanguageModel, MeteredModel, Probe, Session, Written
from harness.stats import bootstrap as stats
from harness.stats.rng import Dice
from harness.training.data import Recipe, world_scenes
from harness.training.teacher import SceneTools

_MARGIN = 16  # tokens that a reply may have beyond twice those of the right one


@dataclass(frozen=True)
class Value:
    """A mean over scenes with its 95 % interval (None for a single scene)."""

    mean: float | None
    low: float | None
    high: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Value:
        """The mean of a value for each scene."""
        mean = stats.interval(values, [str(i) for i in range(len(values))])
        return cls(mean.mean, mean.low, mean.high, mean.n)

    def text(self) -> str:
        """ "97.1 [95.0, 99.0]" in percent, "-" for no value."""
        if self.mean is None:
            return "-"
        ends = "" if self.low is None or self.high is None else f" [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{100 * self.mean:.1f}{ends}"


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
            outcome = record_scene(model, task.skill, scene, adapter)
            failed |= {number} if outcome.failed else set()
            for name, value in task.measure(scene, outcome).items():
                values.setdefault(name, []).append(value)
        results[state] = {name: Value.of(per_scene) for name, per_scene in values.items()}
        head = results[state].get(task.headline)
        shown = "-" if head is None or head.mean is None else f"{100 * head.mean:.1f} % of {head.n}"
        tell(f"{task.name}, {'without its adapter' if adapter is None else 'with it'}: {task.headline} {shown}")
    floor = task.floor(scenes) if task.floor is not None and scenes else None
    names = sorted(results["after"], key=lambda name: name != task.headline)
    rows = [(name, results["before"][name], results["after"][name]) for name in names]
    return [Measure(task.name, n, b, a, floor if n == task.headline else None, len(failed)) for n, b, a in rows]


# --- replies ----------------------------------------------------------------------------------------------------------


def record_scene(model: LanguageModel, skill: Skill, scene: Scene, adapter: str | None = None) -> SceneOutcome:
    """Run `skill` in `scene` on `model`, with its adapter of that name where the skill names none.

    After a QuestionError (window exceeded, NaN) missing replies are empty and missing probabilities 0.5. Replies are
    limited to about twice the tokens of the right one: longer ones are wrong, and a bad model fills its window.
    """
    outcome = SceneOutcome()
    longest = max((model.count(reply) for reply in scene.replies), default=0)
    try:
        skill.play(scene, _RecordingTools(model, scene, outcome, 2 * longest + _MARGIN, adapter))
    except QuestionError:
        outcome.failed = True
    outcome.written += [""] * (len(scene.replies) - len(outcome.written))
    outcome.p_first += [0.5] * (len(scene.verdicts) - len(outcome.p_first))
    return outcome


class _RecordingTools(SceneTools):
    """The scene's tools, whose one model is recorded."""

    def __init__(
        self, model: LanguageModel, scene: Scene, outcome: SceneOutcome, most: int, adapter: str | None
    ) -> None:
        super().__init__(model, scene)
        self._outcome, self._most, self._adapter = outcome, most, adapter

    def model(self, role: str = "reader") -> MeteredModel:
        """The one model, recorded."""
        recorded = _RecordedModel(self._model, self.meter, role, self._adapter)
        recorded.outcome, recorded.most = self._outcome, self._most
        return recorded


class _RecordedModel(MeteredModel):
    """A model whose sessions are recorded in `outcome`, and write `most` tokens at most."""

    outcome: SceneOutcome
    most: int

    def session(self, adapter: str | None = None) -> Session:
        """A session that is recorded."""
        return cast("Session", _RecordedSession(super().session(adapter), self.outcome, self.most))


class _RecordedSession:
    """A session that records what it writes, probes and scores; all else is the inner session's."""

    def __init__(self, inner: Session, outcome: SceneOutcome, most: int) -> None:
        self._inner, self._outcome, self._most = inner, outcome, most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        probe = self._inner.probe(labels, after)
        self._outcome.p_first.append(probe.p[labels[0]])
        return probe

    def write(self, max_tokens: int, stop: Sequence[str] = (), **how: Any) -> Written:
        written = self._inner.write(min(max_tokens, self._most), stop, **how)
        self._outcome.written.append(written.text.strip())
        return written

    def score(self, text: str) -> list[float]:
        scores = self._inner.score(text)
        if scores:  # an empty text has no token, so no mean
            self._outcome.scored.append(sum(scores) / len(scores))
        return scores


# --- tables -----------------------------------------------------------------------------------------------------------


def rows_of(measures: Sequence[Measure]) -> Iterator[tuple[str, ...]]:
    """The rows of a table, the header first: task, measure, before, after, floor, scenes."""
    yield "task", "measure", "base alone", "with its adapter", "floor", "scenes"
    for measure in measures:
        floor = "" if measure.floor is None else f"{100 * measure.floor:.1f}"
        before, after = measure.before, measure.after
        yield measure.task, measure.name, before.text(), after.text(), floor, str(after.n)


def as_json(measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """The measures as JSON values, for a card."""
    return [asdict(measure) for measure in measures]


def from_json(rows: Sequence[dict[str, Any]]) -> list[Measure]:
    """The measures of a card."""
    return [Measure(**{**row, "before": Value(**row["before"]), "after": Value(**row["after"])}) for row in rows]
