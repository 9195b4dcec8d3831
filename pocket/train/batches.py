"""Batches of a stage: draw a recipe by its weight, make its texts, play their scenes, pack until the rows are full.

number, batch = make_batch(stage, Dice("training", seed, 3, 120), teacher, drills)
share_right(right, batch)                                                       0.75
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.errors import UserError
from harness.stats.rng import Dice
from harness.training.teacher import Teacher
from harness.training.token_rows import Tree, grow
from pocket.tasks.catalog import stage as scenes
from pocket.tasks.recall import DRILLS, PLAYED, Drill
from pocket.tasks.recipes import RecipeModel, Stage
from pocket.tasks.skills import skills
from pocket.train.packing import IGNORED, Batch, fill

_TARGETS = 8  # a place for one target to so many tokens of a batch
# Scenes whose replies are nearly as long as their texts.
_LONG = frozenset(
    {"points", "gathered", "summary", "shortened", "outline", "entities", "relations", "doubts", "fusion", "followed"}
)


def _trees(recipe: RecipeModel, dice: Dice, teacher: Teacher, drills: Drill) -> Iterator[Tree]:
    """Trees of a recipe without end."""
    if recipe.skill in DRILLS:
        assert recipe.pairs is not None  # the curriculum checks that
        while True:
            yield DRILLS[recipe.skill](drills, dice, recipe.pairs, recipe.between)
    made, skill = recipe.recipe(), skills()[recipe.skill]
    number = 0
    while True:
        inner = Dice("text", dice.between(0, 2**31), number)
        if recipe.pairs is not None:
            played = PLAYED[skill.scene]
            plays = [teacher.play(skill, scene) for scene in played(drills, inner, recipe.pairs, recipe.between)]
        else:
            plays = [teacher.play(skill, scene) for scene in scenes(made, skill.scene, inner)]
        number += 1
        if plays:
            yield from grow(plays)
        elif number > 10_000:
            raise UserError(f"the recipe of '{recipe.skill}' makes no scene: no text allows what it asks")


def make_batch(stage: Stage, dice: Dice, teacher: Teacher, drills: Drill) -> tuple[int, Batch]:
    """The number of the recipe that was drawn, and a batch of it."""
    left = dice.random() * sum(r.weight for r in stage.recipes)
    number = 0
    for number, recipe in enumerate(stage.recipes):  # noqa: B007 - the last one takes what rounding leaves
        left -= recipe.weight
        if left < 0:
            break
    recipe = stage.recipes[number]
    rows = max(1, stage.tokens // recipe.size)
    long = recipe.skill in DRILLS or skills()[recipe.skill].scene in _LONG
    whole = recipe.skill not in DRILLS and skills()[recipe.skill].scene == "guessed"  # every token is a target
    most = rows * recipe.size // (1 if whole else 3 if long else _TARGETS)
    return number, fill(_trees(recipe, dice, teacher, drills), rows, recipe.size, most)


def share_right(right: np.ndarray, batch: Batch) -> float:
    """Share of replies all of whose tokens were the likeliest."""
    counted = batch.targets != IGNORED
    groups = batch.group[counted]
    wrong = np.bincount(groups, weights=~right[counted], minlength=1)
    there = np.bincount(groups, minlength=1) > 0
    return float((wrong[there] == 0).mean()) if there.any() else 0.0
