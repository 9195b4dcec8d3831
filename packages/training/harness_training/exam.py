"""The exam of a model: scenes that were not trained on, played without an adapter and with it, and
what was right.

    examine(task_part(task, scenes), [(model, None), (model, "analysis")], tell)      [Measure("accuracy", ...), ...]
    outcome = record_scene(model, skill, scene)
    outcome.written        the text of each reply
    outcome.p_first        the probability of the first label, for each probe
    outcome.scored         the mean log-probability (nats) of the tokens of each scored text

Each scene has a text of its own, so the bootstrap resamples scenes; see harness.stats.bootstrap.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Self, cast

import numpy as np

from harness.cost.meter import Meter
from harness.errors import QuestionError
from harness.models import LanguageModel, MeteredModel, Probe, Session, Written
from harness.stats.bootstrap import NOTHING, Interval, interval, with_interval
from harness.stats.rng import Dice
from harness_training.example_files import Recipe, world_scenes
from harness_training.tasks import Scene, SceneOutcome, Skill, TrainingTask
from harness_training.teacher import SceneTools

_REPLY_MARGIN = 16  # tokens that a reply may have beyond twice those of the right one
_RESAMPLES = 1000


def mean_over_scenes(values: Sequence[float], scenes: Sequence[object] | None = None) -> Interval:
    """The mean of values, with an interval.

    Args:
        values: The values.
        scenes: The scene of each value, where one scene has several; None: each has its own.
    """
    if scenes is None:
        scenes = range(len(values))
    return interval(list(map(float, values)), list(map(str, scenes)))


class ScoredProbe(NamedTuple):
    """A value that is to tell right from wrong.

    Attributes:
        scene: The number of the scene that it is of.
        value: The value, such as the probability of the first label.
        is_right: Whether the first label is right.
    """

    scene: int
    value: float
    is_right: bool


def area_under_roc(probes: Sequence[ScoredProbe]) -> Interval:
    """Area under the ROC curve (Mann and Whitney 1947), with a 95 % interval by resampling scenes.

    It is the share of pairs of a right and a wrong probe in which the right one has the larger
    value, a tie counting half. Without a right or a wrong probe there is no value. In a resample
    each probe counts as often as its scene was drawn. An area of 0 or 1, of which all resamples are
    alike, gets the exact half-width 1 - 0.025 ** (1 / scenes).

    Args:
        probes: The probes of all scenes.
    """
    scene_of_probe = np.array([probe.scene for probe in probes], dtype=np.int64)
    values = np.array([probe.value for probe in probes])
    is_right = np.array([probe.is_right for probe in probes], dtype=bool)
    if not is_right.any() or is_right.all():
        return replace(NOTHING, n=len(probes))
    values_of_right = values[is_right][:, None]
    values_of_wrong = values[~is_right][None, :]
    is_larger = values_of_right > values_of_wrong
    is_tie = values_of_right == values_of_wrong
    ordered_share = is_larger + 0.5 * is_tie  # [right probes, wrong probes]
    area = float(ordered_share.mean())
    n_scenes = len(np.unique(scene_of_probe))
    if area in (0.0, 1.0):  # as harness.stats.bootstrap.interval does it
        half_width = 1 - 0.025 ** (1 / n_scenes)
        low = max(0.0, area - half_width)
        high = min(1.0, area + half_width)
        return Interval(area, low, high, n=len(probes), clusters=n_scenes)
    has_probes = np.bincount(scene_of_probe) > 0  # [scene numbers]; some may have none
    # [resamples, scene numbers]: how often each scene is drawn.
    draws_of_scene = np.random.default_rng(0).multinomial(
        n_scenes, has_probes / n_scenes, size=_RESAMPLES
    )
    weights_of_right = draws_of_scene[:, scene_of_probe[is_right]].astype(float)
    weights_of_wrong = draws_of_scene[:, scene_of_probe[~is_right]].astype(float)
    n_pairs = weights_of_right.sum(1) * weights_of_wrong.sum(1)
    # Of each resample: the sum over all pairs of weight x share x weight.
    n_ordered_pairs = np.einsum(
        "ri,ij,rj->r", weights_of_right, ordered_share, weights_of_wrong, optimize=True
    )
    has_pairs = n_pairs > 0
    areas = n_ordered_pairs[has_pairs] / n_pairs[has_pairs]
    low, high = map(float, np.quantile(areas, [0.025, 0.975]))
    return Interval(area, low, high, n=len(probes), clusters=n_scenes)


@dataclass(frozen=True)
class Measure:
    """A measure without and with an adapter.

    Args:
        task: The adapter.
        name: The name of the measure.
        before: Its value without the adapter.
        after: Its value with the adapter.
        floor: Expected value for guessing, where that is known.
        failed: Scenes that failed without the adapter or with it.
    """

    task: str
    name: str
    before: Interval
    after: Interval
    floor: float | None = None
    failed: int = 0


@dataclass(frozen=True)
class ExamPart:
    """Scenes that are measured together.

    Args:
        task: The adapter.
        skill: Plays the scenes.
        scenes: The scenes.
        measure: Scenes and their outcomes -> named values, the headline first.
        floor: Expected value of the headline for guessing, where that is known.
    """

    task: str
    skill: Skill
    scenes: Sequence[Scene]
    measure: Callable[[Sequence[Scene], Sequence[SceneOutcome]], Mapping[str, Interval]]
    floor: float | None = None


def examine(
    part: ExamPart, models: Sequence[tuple[LanguageModel, str | None]], tell: Callable[[str], None]
) -> list[Measure]:
    """Measure a part of an exam before and after a training.

    Args:
        part: The scenes and what is measured.
        models: Two of (model, name of its adapter or None): before the training, and after it.
        tell: Called with the headline, "analysis: accuracy 71.0 -> 93.0 of 100".

    Returns:
        A Measure for each name that the part measures, the headline first. Each counts the scenes
        that failed with either model.

    Raises:
        HarnessError: What the models raise, but for errors of a single scene.
    """
    values_before_and_after: list[Mapping[str, Interval]] = []
    failed_scenes: set[int] = set()  # the numbers of the scenes
    for model, adapter in models:
        outcomes = [record_scene(model, part.skill, scene, adapter) for scene in part.scenes]
        failed_scenes |= {number for number, outcome in enumerate(outcomes) if outcome.failed}
        values_before_and_after.append(part.measure(part.scenes, outcomes))
    before, after = values_before_and_after
    headline = next(iter(after))
    change = f"{_percent_number(before[headline].mean)} -> {_percent_number(after[headline].mean)}"
    tell(f"{part.task}: {headline} {change} of {after[headline].n}")
    measures: list[Measure] = []
    for name in after:
        measure = Measure(part.task, name, before[name], after[name], failed=len(failed_scenes))
        if name == headline:  # guessing is known for this one only
            measure = replace(measure, floor=part.floor)
        measures.append(measure)
    return measures


def _percent_number(share: float | None) -> str:
    """A share in percent as text: 0.971 -> "97.1", None -> "-"."""
    if share is None:
        return "-"
    return f"{100 * share:.1f}"


def task_part(task: TrainingTask, scenes: Sequence[Scene]) -> ExamPart:
    """The part of an exam about a task's adapter: each measure of the task, averaged over the
    scenes that have it, the headline first."""

    def measure(scenes: Sequence[Scene], outcomes: Sequence[SceneOutcome]) -> dict[str, Interval]:
        """Name -> mean of each measure of the task over the scenes."""
        values_of_measure: dict[str, list[float]] = {task.headline: []}
        for scene, outcome in zip(scenes, outcomes, strict=True):
            for name, value in task.measure(scene, outcome).items():
                values_of_measure.setdefault(name, []).append(value)
        return {name: mean_over_scenes(values) for name, values in values_of_measure.items()}

    floor = None
    if task.floor is not None and scenes:
        floor = task.floor(scenes)
    return ExamPart(task.name, task.skill, scenes, measure, floor)


def evaluation_scenes(
    task: TrainingTask, recipes: Sequence[Recipe], count: int, seed: int
) -> list[Scene]:
    """One scene of each of some evaluation texts of the synthetic world.

    Args:
        task: The task whose scenes they are.
        recipes: What the texts should be like.
        count: How many texts.
        seed: The seed of texts and choice.
    """
    picked: list[Scene] = []
    for _, scenes in islice(world_scenes(task, recipes, seed, "evaluation"), count):
        dice = Dice("exam", seed, len(picked))
        picked.append(pick_scene(scenes, dice))
    return picked


def pick_scene(scenes: Sequence[Scene], dice: Dice) -> Scene:
    """Choose one scene of a text: either of the first two where they differ only in question and
    verdict, else the first."""
    first_two = scenes[:2]
    has_one_text = len({scene.texts for scene in first_two}) == 1
    has_two_verdicts = len({scene.verdicts for scene in first_two}) == 2
    if has_one_text and has_two_verdicts:
        return dice.pick(first_two)
    return scenes[0]


def record_scene(
    model: LanguageModel, skill: Skill, scene: Scene, adapter: str | None = None
) -> SceneOutcome:
    """Play a scene with a model, and record what it replies.

    After a QuestionError (window exceeded, NaN) missing replies are empty and missing probabilities
    0.5. Replies are limited to about twice the tokens of the right one: longer ones are wrong, and
    a bad model fills its window.

    Args:
        model: The model that replies.
        skill: Makes the requests.
        scene: The texts, and the right replies.
        adapter: The model's adapter to use where the skill names none.
    """
    outcome = SceneOutcome()
    longest_reply_tokens = max((model.count(reply) for reply in scene.replies), default=0)
    max_reply_tokens = 2 * longest_reply_tokens + _REPLY_MARGIN
    # Makes a model that adds to `outcome` what it replies.
    make_recording_model = partial(_RecordingModel, outcome, max_reply_tokens, adapter)
    try:
        skill.play(scene, SceneTools(model, scene, bound=make_recording_model))
    except QuestionError:
        outcome.failed = True
    outcome.written += [""] * (len(scene.replies) - len(outcome.written))
    outcome.p_first += [0.5] * (len(scene.verdicts) - len(outcome.p_first))
    return outcome


class _RecordingModel(MeteredModel):
    """A model whose sessions add what they do to an outcome."""

    def __init__(
        self,
        outcome: SceneOutcome,
        max_tokens: int,
        adapter: str | None,
        model: LanguageModel,
        meter: Meter,
        role: str,
    ) -> None:
        """Record a model.

        Args:
            outcome: The replies, probes and scores are added to it.
            max_tokens: Most tokens of a reply.
            adapter: The adapter that is used where a session names none.
            model: The model.
            meter: Counts its requests.
            role: The role under which they are counted.
        """
        super().__init__(model, meter, role, adapter)
        self._outcome = outcome
        self._max_tokens = max_tokens

    def session(self, adapter: str | None = None, chat: bool = True) -> Session:
        """A session that adds its replies, probes and scores to the outcome."""
        inner = super().session(adapter, chat)
        return cast("Session", _RecordingSession(inner, self._outcome, self._max_tokens))


class _RecordingSession:
    """A session that records what it writes, probes and scores; all else is the inner session's."""

    def __init__(self, inner: Session, outcome: SceneOutcome, max_tokens: int) -> None:
        """Record a session.

        Args:
            inner: The session.
            outcome: The replies, probes and scores are added to it.
            max_tokens: Most tokens of a reply.
        """
        self._inner = inner
        self._outcome = outcome
        self._max_tokens = max_tokens

    def __getattr__(self, name: str) -> Any:
        """All else is the inner session's."""
        return getattr(self._inner, name)

    def __enter__(self) -> Self:
        """The session itself; the inner one is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the inner session."""
        self._inner.close()

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        """Probe as Session.probe does. Also records the probability of the first label."""
        probe = self._inner.probe(labels, after)
        self._outcome.p_first.append(probe.p[labels[0]])
        return probe

    def write(self, max_tokens: int, stop: Sequence[str] = (), **options: Any) -> Written:
        """Write as Session.write does, at most `max_tokens` of the recording. Also records the
        text."""
        written = self._inner.write(min(max_tokens, self._max_tokens), stop, **options)
        self._outcome.written.append(written.text.strip())
        return written

    def score(self, text: str) -> list[float]:
        """Score as Session.score does. Also records the mean of the tokens' log-probabilities."""
        scores = self._inner.score(text)
        if scores:  # an empty text has no token, so no mean
            self._outcome.scored.append(sum(scores) / len(scores))
        return scores


def table_rows(measures: Iterable[Measure]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of a table of measures as texts, the header first."""
    yield "task", "measure", "base alone", "with its adapter", "floor", "scenes"
    for measure in measures:
        base_alone = _percent_with_interval(measure.before)
        with_adapter = _percent_with_interval(measure.after)
        floor = ""
        if measure.floor is not None:
            floor = _percent_number(measure.floor)
        scenes = str(measure.after.n)
        yield measure.task, measure.name, base_alone, with_adapter, floor, scenes


def _percent_with_interval(value: Interval) -> str:
    """A value in percent with its interval, "97.1 [95.0, 99.0]"; "-" for no value."""
    if value.mean is None:
        return "-"
    return with_interval(_percent_number, value.mean, value.low, value.high)
