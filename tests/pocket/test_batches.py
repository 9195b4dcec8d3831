"""Batches: recipes by their weights, a function of the dice alone, what is left out, and what counts as a right reply."""

from itertools import chain, cycle

import pytest
import torch

from harness.errors import UserError
from harness.stats.rng import Dice
from harness.training.token_rows import Branch, Tree
from pocket.tasks.recipes import Recipe
from pocket.train import batches
from pocket.train.batches import make_batch, share_right, take_trees
from tests.pocket.trainings import stage


def test_recipes_are_drawn_by_their_weights(teacher, drills):
    recipes = (
        Recipe(skill="recall", pairs=(1, 1), size=32, weight=3),
        Recipe(skill="recall", pairs=(1, 1), size=64),
    )
    one = stage(0.9, None).model_copy(update={"recipes": recipes, "tokens": 256})
    numbers = [make_batch(one, Dice("weights", n), teacher, drills)[0] for n in range(200)]
    assert 0.65 < numbers.count(0) / 200 < 0.85


def test_a_batch_is_a_function_of_seed_stage_and_step(teacher, drills):
    recipe = Recipe(skill="answer", facts=(1, 4), size=128)
    one = stage(0.9, None).model_copy(update={"recipes": (recipe,), "tokens": 512})
    first, again, other = (make_batch(one, Dice("training", 0, 1, n), teacher, drills)[1] for n in (5, 5, 6))
    assert first == again != other
    assert 512 <= sum(len(tree) for trees in first.passes for tree in trees) < 512 + 128


def test_a_pass_has_trees_of_similar_length(monkeypatch):
    monkeypatch.setattr(batches, "_AREA", 24)
    batch = take_trees(cycle([Tree([1] * 10, [9], []), Tree([1] * 3, [2], []), Tree([1] * 4, [3], [])]), 40, 64)
    assert [[len(tree) for tree in trees] for trees in batch.passes] == [[3, 3, 4, 4], [10, 10], [10]]


LEFT_OUT = [
    # 50 + 9 of 64 tokens: a row has one of three branches
    ("branches without room", [Tree([1] * 50, [], [Branch(50, [2] * 9, [8])] * 3)], 2, 4),
    ("room for all", [Tree([1] * 40, [38, 39], [Branch(40, [2], [0])])], 6, 0),
    ("a text too long", [Tree([1] * 65, [64], [Branch(60, [2] * 2, [1])] * 2), Tree([1] * 60, [59], [])], 2, 6),
    ("no branch that fits", [Tree([1] * 60, [], [Branch(60, [1] * 9, [8])]), Tree([1] * 60, [59], [])], 2, 2),
]


@pytest.mark.parametrize(("trees", "kept", "dropped"), [c[1:] for c in LEFT_OUT], ids=[c[0] for c in LEFT_OUT])
def test_replies_that_are_left_out_are_counted(trees, kept, dropped):
    batch = take_trees(cycle(trees), 118, 64)
    assert (batch.kept, batch.dropped) == (kept, dropped)


def test_nothing_that_fits_is_an_error_that_says_what_to_do():
    short, long = Tree([1] * 64, [63], []), Tree([1] * 65, [64], [])
    with pytest.raises(UserError, match="no text of this recipe fits a row of 64 tokens; give the recipe a larger"):
        take_trees(chain([short], cycle([long])), 128, 64)


@pytest.mark.parametrize(
    ("right", "share"),
    [([1, 1, 1], 1.0), ([1, 0, 1], 0.5), ([0, 0, 0], 0.0)],
)
def test_a_reply_is_right_when_all_of_it_is(right, share):
    tree = Tree([1, 2, 3], [1, 2], [Branch(3, [4, 5], [1])])
    assert share_right(torch.tensor(right, dtype=torch.bool), [tree]) == share


def test_a_recipe_that_makes_nothing_is_named(teacher, drills, monkeypatch):
    monkeypatch.setattr(batches, "scenes", lambda *a: iter(()))
    one = stage(0.9, None).model_copy(update={"recipes": (Recipe(skill="answer", facts=(1, 2)),)})
    with pytest.raises(UserError, match="the recipe of 'answer' makes no scene: no text allows what it asks"):
        make_batch(one, Dice("none"), teacher, drills)
