"""What the reader adapter is examined on: rows of other splits, and unseen texts of the synthetic world.

    for part in parts(rows, recipes, skills, questions=100, world=10, seed=0): examine(part, ...)

For each data set: token F1 with the gold passages alone and with four others, the area under the ROC curve of P(Yes)
between searches with all gold passages and searches that lack one, and the other kinds of harness/training/lessons.py.
For each skill of the recipes: token F1 of its replies, or accuracy of its probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from harness.method.hooks import Scene, SceneOutcome, Skill
from harness.scorers.longbench import qa_f1_score
from harness.stats.rng import Dice
from harness.training.data import Recipe, scenes
from harness.training.exam import Part, Value
from harness.training.lessons import KINDS, SKILLS, answer_scene, probe_scene
from harness.training.real_rows import RealRow

_BESIDE = 4  # passages beside the gold ones


def parts(
    rows: Sequence[RealRow],
    recipes: Sequence[Recipe],
    skills: Mapping[str, Skill],
    questions: int,
    world: int,
    seed: int,
) -> Iterator[Part]:
    """The parts, in order. questions: most for each data set and kind; world: scenes of the world for each skill."""
    for dataset in dict.fromkeys(row.dataset for row in rows):
        yield from _of_dataset(dataset, [row for row in rows if row.dataset == dataset], skills, questions, seed)
    for name in dict.fromkeys(recipe.skill for recipe in recipes):
        recipe = next(r for r in recipes if r.skill == name)
        made = list(islice(_of_world(recipe, skills[name], world, seed), world))
        yield _exam_part(
            f"made-up world: {name}", "accuracy" if made and made[0].verdicts else "token F1", skills[name], made
        )


def _of_dataset(
    dataset: str, rows: Sequence[RealRow], skills: Mapping[str, Skill], questions: int, seed: int
) -> Iterator[Part]:
    usable = [row for row in Dice("exam", seed, dataset).shuffled(rows) if row.questions[0].needs][:questions]
    for beside, text in ((0, "gold passages"), (_BESIDE, f"gold passages and {_BESIDE} others")):
        answers = [answer_scene(row, beside, Dice("exam", row.id, beside)) for row in usable]
        yield _exam_part(dataset, f"token F1, {text}", skills["answer"], answers)
    several = [row for row in usable if len(row.questions[0].needs) > 1]
    pairs = [probe_scene(row, full, Dice("exam", row.id, "probe")) for row in several for full in (True, False)]
    if pairs:
        name = f"{dataset}: AUC of P(Yes), full against lacking"
        yield Part("reader", skills[SKILLS["probe"]], pairs, lambda _, told: {name: _area(told)}, 0.5)
    for kind in ("choose", "unanswerable"):
        made = (KINDS[kind](row, rows, Dice("exam", row.id, kind)) for row in usable)
        yield _exam_part(dataset, f"token F1, {kind}", skills[SKILLS[kind]], [of_row[0] for of_row in made if of_row])


def _of_world(recipe: Recipe, skill: Skill, count: int, seed: int) -> Iterator[Scene]:
    for number in range(20 * count):
        made = list(scenes(recipe, skill.scene, Dice("exam", seed, skill.name, number), "evaluation"))
        yield from made[:1]


def _exam_part(about: str, name: str, skill: Skill, made: Sequence[Scene]) -> Part:
    def measure(played: Sequence[Scene], outcomes: Sequence[SceneOutcome]) -> dict[str, Value]:
        return {f"{about}: {name}": Value.of([_scene_score(*pair) for pair in zip(played, outcomes, strict=True)])}

    return Part("reader", skill, made, measure)


def _area(outcomes: Sequence[SceneOutcome]) -> Value:
    """By the last probe of each; scenes come in pairs (full, lacking) of one row."""
    probes = [(n // 2, outcome.p_first[-1], n % 2 == 0) for n, outcome in enumerate(outcomes)]
    return replace(Value.area(probes), n=len(probes) // 2)


def _scene_score(scene: Scene, outcome: SceneOutcome) -> float:
    if scene.verdicts:
        return float(np.mean([(p > 0.5) == v for p, v in zip(outcome.p_first, scene.verdicts, strict=True)]))
    scores = [qa_f1_score(text, [right]) for text, right in zip(outcome.written, scene.replies, strict=True)]
    return float(np.mean(scores))
