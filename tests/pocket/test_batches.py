"""Batches: recipes by their weights, a function of the dice alone, and what counts as a right reply."""

import numpy as np
import pytest

from harness.errors import UserError
from harness.stats.rng import Dice
from harness.training.teacher import Teacher
from pocket.tasks.recall import Drill
from pocket.tasks.recipes import Recipe
from pocket.train import packing as batches
from pocket.train.packing import Batch, make_batch, share_right
from tests.pocket.trainings import stage


def test_recipes_are_drawn_by_their_weights(teacher: Teacher, drills: Drill) -> None:
    recipes = (
        Recipe(skill="recall", pairs=(1, 1), size=32, weight=3),
        Recipe(skill="recall", pairs=(1, 1), size=64),
    )
    one = stage(0.9, None).model_copy(update={"recipes": recipes, "tokens": 256})
    found = [make_batch(one, Dice("weights", n), teacher, drills) for n in range(200)]
    assert 0.65 < np.mean([number == 0 for number, _ in found]) < 0.85
    assert all(batch.ids.shape == ((8, 32) if number == 0 else (4, 64)) for number, batch in found)


def test_a_batch_is_a_function_of_seed_stage_and_step(teacher: Teacher, drills: Drill) -> None:
    recipe = Recipe(skill="answer", facts=(1, 4), size=128)
    one = stage(0.9, None).model_copy(update={"recipes": (recipe,), "tokens": 512})
    first, again, other = (make_batch(one, Dice("training", 0, 1, n), teacher, drills)[1] for n in (5, 5, 6))
    assert all(np.array_equal(getattr(first, k), getattr(again, k)) for k in ("ids", "predict", "targets", "own"))
    assert not np.array_equal(first.ids, other.ids)


RIGHT = [
    ([0, 0, 1, -1], [1, 1, 1, 0], 1.0),
    ([0, 0, 1, -1], [1, 0, 1, 0], 0.5),
    ([0, 0, 1, -1], [0, 0, 0, 0], 0.0),
    ([5, 5, 9, 9], [1, 1, 1, 0], 0.5),
    ([-1, -1, -1, -1], [0, 0, 0, 0], 0.0),
]


@pytest.mark.parametrize(("group", "right", "share"), RIGHT)
def test_a_reply_is_right_when_all_of_it_is(group: list[int], right: list[int], share: float) -> None:
    none = np.zeros((1, 1), np.int32)
    targets = np.where(np.array(group) < 0, -100, 7)
    batch = Batch(none, none, none, none, none, np.zeros(4, np.int64), targets, np.array(group))
    assert share_right(np.array(right, bool), batch) == share


def test_a_recipe_that_makes_nothing_is_named(teacher: Teacher, drills: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "scenes", lambda *a: iter(()))
    one = stage(0.9, None).model_copy(update={"recipes": (Recipe(skill="answer", facts=(1, 2)),)})
    with pytest.raises(UserError, match="the recipe of 'answer' makes no scene: no text allows what it asks"):
        make_batch(one, Dice("none"), teacher, drills)
