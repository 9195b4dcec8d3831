"""What the reader adapter changes: real rows of other splits and texts of the made-up world that no training saw.

    found = examine(before, after, rows, recipes, Exam(questions=60, world=10), tell)       [Measure, ...]

Of each data set: token F1 with the gold passages alone and with four others, the area under the ROC curve of P(Yes)
between searches that have all they need and searches that lack a gold passage, and the other kinds of
harness/training/lessons.py. Of each skill of the recipes: token F1 of its replies, or accuracy of its probes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from harness.method import Heard, Scene, Skill
from harness.models import LanguageModel
from harness.scorers.longbench import qa_f1_score
from harness.stats import bootstrap
from harness.stats.rng import Dice
from harness.training.evaluate import Measure, Value
from harness.training.lessons import KINDS, SKILLS, answer_scene, probe_scene
from harness.training.real_rows import RealRow
from harness.training.recorded_session import listen
from harness.training.scene_source import Recipe, scenes

NAME = "reader"
BESIDE = 4
_RESAMPLES = 1000


@dataclass(frozen=True)
class Exam:
    """questions: of each data set and kind at most; world: scenes of each skill of the made-up world."""

    questions: int
    world: int
    seed: int = 0


@dataclass(frozen=True)
class Part:
    """Scenes that are measured together; rank: by AUC of the last probe, its scenes in pairs are (full, lacking)."""

    about: str
    measure: str
    skill: Skill
    scenes: tuple[Scene, ...]
    auc: bool = False


def examine(models: Sequence[LanguageModel], parts: Sequence[Part], tell: Callable[[str], None]) -> list[Measure]:
    """Every part asked of the model without the adapter, then of the one with it. Raises what the models raise."""
    found = []
    for part in parts:
        before, after = (_value(part, [listen(model, part.skill, scene) for scene in part.scenes]) for model in models)
        found.append(Measure(NAME, f"{part.about}: {part.measure}", before, after, 0.5 if part.auc else None))
        tell(f"{part.about}: {part.measure} {_short(before)} -> {_short(after)} of {after.n}")
    return found


def parts(
    rows: Sequence[RealRow], recipes: Sequence[Recipe], skills: Mapping[str, Skill], exam: Exam
) -> Iterator[Part]:
    """What is examined, in order."""
    for dataset in dict.fromkeys(row.dataset for row in rows):
        yield from _real(dataset, [row for row in rows if row.dataset == dataset], skills, exam)
    for name in dict.fromkeys(recipe.skill for recipe in recipes):
        recipe = next(one for one in recipes if one.skill == name)
        scenes = tuple(islice(_world(recipe, skills[name], exam), exam.world))
        measure = "accuracy" if scenes and scenes[0].verdicts else "token F1"
        yield Part(f"made-up world: {name}", measure, skills[name], scenes)


def _real(dataset: str, rows: Sequence[RealRow], skills: Mapping[str, Skill], exam: Exam) -> Iterator[Part]:
    chosen = Dice("exam", exam.seed, dataset).shuffled(rows)
    asked = [row for row in chosen if row.asked[0].needs][: exam.questions]
    for beside, text in ((0, "gold passages"), (BESIDE, f"gold passages and {BESIDE} others")):
        scenes = tuple(answer_scene(row, beside, Dice("exam", row.id, beside)) for row in asked)
        yield Part(dataset, f"token F1, {text}", skills["answer"], scenes)
    several = [row for row in asked if len(row.asked[0].needs) > 1]
    pairs = [probe_scene(row, full, Dice("exam", row.id, "probe")) for row in several for full in (True, False)]
    if pairs:
        yield Part(dataset, "AUC of P(Yes), full against lacking", skills[SKILLS["probe"]], tuple(pairs), auc=True)
    for kind in ("choose", "unanswerable"):
        made = (KINDS[kind](row, rows, Dice("exam", row.id, kind)) for row in asked)
        scenes = tuple(scenes[0] for scenes in made if scenes)
        yield Part(dataset, f"token F1, {kind}", skills[SKILLS[kind]], scenes)


def _world(recipe: Recipe, skill: Skill, exam: Exam) -> Iterator[Scene]:
    for number in range(20 * exam.world):
        made = list(scenes(recipe, skill.scene, Dice("exam", exam.seed, skill.name, number), "evaluation"))
        yield from made[:1]


def _value(part: Part, heard: Sequence[Heard]) -> Value:
    if part.auc:
        return auc([one.p_first[-1] for one in heard[::2]], [one.p_first[-1] for one in heard[1::2]])
    values = [_score(scene, one) for scene, one in zip(part.scenes, heard, strict=True)]
    found = bootstrap.interval(values, [str(i) for i in range(len(values))])
    return Value(found.mean, found.low, found.high, found.n)


def _short(value: Value) -> str:
    return "-" if value.mean is None else f"{100 * value.mean:.1f}"


def _score(scene: Scene, heard: Heard) -> float:
    if scene.verdicts:
        return float(np.mean([(p > 0.5) == v for p, v in zip(heard.p_first, scene.verdicts, strict=True)]))
    scores = [qa_f1_score(text, [right]) for text, right in zip(heard.written, scene.replies, strict=True)]
    return float(np.mean(scores))


def auc(full: Sequence[float], lacking: Sequence[float]) -> Value:
    """Area under the ROC curve (Mann and Whitney 1947), ties count half; 95 % bootstrap over pairs of one row."""
    pairs = np.array([full, lacking], dtype=float)
    if not pairs.size:
        return Value(None, None, None, 0)
    draw = np.random.default_rng(0).integers(0, pairs.shape[1], (_RESAMPLES, pairs.shape[1]))
    low, high = np.percentile([_area(*pairs[:, one]) for one in draw], (2.5, 97.5))
    return Value(_area(*pairs), float(low), float(high), pairs.shape[1])


def _area(full: np.ndarray, lacking: np.ndarray) -> float:
    above = full[:, None] - lacking[None, :]
    return float(((above > 0) + 0.5 * (above == 0)).mean())
