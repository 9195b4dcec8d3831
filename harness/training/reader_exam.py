"""Evaluate the reader adapter on rows of other splits and on unseen texts of the synthetic world.

    measures = examine([without, with_adapter], list(parts(rows, recipes, skills, exam)), tell)      [Measure, ...]

For each data set: token F1 with the gold passages alone and with four others, the area under the ROC curve of P(Yes)
between searches with all gold passages and searches that lack one, and the other kinds of harness/training/lessons.py.
For each skill of the recipes: token F1 of its replies, or accuracy of its probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from harness.method.hooks import Scene, SceneOutcome, Skill
from harness.models import LanguageModel
from harness.scorers.longbench import qa_f1_score
from harness.stats.rng import Dice
from harness.training.data import Recipe, scenes
from harness.training.evaluate import Measure, Value, record_scene
from harness.training.lessons import KINDS, SKILLS, answer_scene, probe_scene
from harness.training.real_rows import RealRow

NAME = "reader"
BESIDE = 4
_RESAMPLES = 1000


@dataclass(frozen=True)
class Exam:
    """questions: most for each data set and kind; world: scenes of the synthetic world for each skill."""

    questions: int
    world: int
    seed: int = 0


@dataclass(frozen=True)
class Part:
    """Scenes that are measured together; auc: by the last probe, where scenes come in pairs (full, lacking)."""

    about: str
    measure: str
    skill: Skill
    scenes: tuple[Scene, ...]
    auc: bool = False


def examine(models: Sequence[LanguageModel], parts: Sequence[Part], tell: Callable[[str], None]) -> list[Measure]:
    """Measure every part with the model without the adapter and the one with it. Raises what the models raise."""
    measures = []
    for part in parts:
        before, after = (
            _value(part, [record_scene(model, part.skill, scene) for scene in part.scenes]) for model in models
        )
        measures.append(Measure(NAME, f"{part.about}: {part.measure}", before, after, 0.5 if part.auc else None))
        tell(f"{part.about}: {part.measure} {_short(before)} -> {_short(after)} of {after.n}")
    return measures


def parts(
    rows: Sequence[RealRow], recipes: Sequence[Recipe], skills: Mapping[str, Skill], exam: Exam
) -> Iterator[Part]:
    """The parts of the evaluation, in order."""
    for dataset in dict.fromkeys(row.dataset for row in rows):
        yield from _real(dataset, [row for row in rows if row.dataset == dataset], skills, exam)
    for name in dict.fromkeys(recipe.skill for recipe in recipes):
        recipe = next(r for r in recipes if r.skill == name)
        scenes = tuple(islice(_world(recipe, skills[name], exam), exam.world))
        measure = "accuracy" if scenes and scenes[0].verdicts else "token F1"
        yield Part(f"made-up world: {name}", measure, skills[name], scenes)


def _real(dataset: str, rows: Sequence[RealRow], skills: Mapping[str, Skill], exam: Exam) -> Iterator[Part]:
    chosen = Dice("exam", exam.seed, dataset).shuffled(rows)
    usable = [row for row in chosen if row.questions[0].needs][: exam.questions]
    for beside, text in ((0, "gold passages"), (BESIDE, f"gold passages and {BESIDE} others")):
        scenes = tuple(answer_scene(row, beside, Dice("exam", row.id, beside)) for row in usable)
        yield Part(dataset, f"token F1, {text}", skills["answer"], scenes)
    several = [row for row in usable if len(row.questions[0].needs) > 1]
    pairs = [probe_scene(row, full, Dice("exam", row.id, "probe")) for row in several for full in (True, False)]
    if pairs:
        yield Part(dataset, "AUC of P(Yes), full against lacking", skills[SKILLS["probe"]], tuple(pairs), auc=True)
    for kind in ("choose", "unanswerable"):
        made = (KINDS[kind](row, rows, Dice("exam", row.id, kind)) for row in usable)
        scenes = tuple(scenes[0] for scenes in made if scenes)
        yield Part(dataset, f"token F1, {kind}", skills[SKILLS[kind]], scenes)


def _world(recipe: Recipe, skill: Skill, exam: Exam) -> Iterator[Scene]:
    for number in range(20 * exam.world):
        made = list(scenes(recipe, skill.scene, Dice("exam", exam.seed, skill.name, number), "evaluation"))
        yield from made[:1]


def _value(part: Part, outcomes: Sequence[SceneOutcome]) -> Value:
    if part.auc:
        return auc([o.p_first[-1] for o in outcomes[::2]], [o.p_first[-1] for o in outcomes[1::2]])
    return Value.of([_score(scene, outcome) for scene, outcome in zip(part.scenes, outcomes, strict=True)])


def _short(value: Value) -> str:
    return "-" if value.mean is None else f"{100 * value.mean:.1f}"


def _score(scene: Scene, outcome: SceneOutcome) -> float:
    if scene.verdicts:
        return float(np.mean([(p > 0.5) == v for p, v in zip(outcome.p_first, scene.verdicts, strict=True)]))
    scores = [qa_f1_score(text, [right]) for text, right in zip(outcome.written, scene.replies, strict=True)]
    return float(np.mean(scores))


def auc(full: Sequence[float], lacking: Sequence[float]) -> Value:
    """Area under the ROC curve (Mann and Whitney 1947), ties count half; 95 % bootstrap over pairs of one row."""
    pairs = np.array([full, lacking], dtype=float)
    if not pairs.size:
        return Value(None, None, None, 0)
    draw = np.random.default_rng(0).integers(0, pairs.shape[1], (_RESAMPLES, pairs.shape[1]))
    low, high = np.percentile([_area(*pairs[:, sample]) for sample in draw], (2.5, 97.5))
    return Value(_area(*pairs), float(low), float(high), pairs.shape[1])


def _area(full: np.ndarray, lacking: np.ndarray) -> float:
    above = full[:, None] - lacking[None, :]
    return float(((above > 0) + 0.5 * (above == 0)).mean())
