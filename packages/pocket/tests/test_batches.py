"""Batches: recipes by their weights, a function of the dice alone, what is left out, what is right;
exercises in them."""

import re
from itertools import chain, cycle

import pytest
import torch
from harness_training.token_rows import Branch, Tree
from pocket.tasks.recall import MAX_PARTS, pair_drill, parts_drill
from pocket.tasks.recipes import Recipe
from pocket.train import batches
from pocket.train.batches import make_batch, share_of_right_replies, take_trees
from pocket.world.names import ENDINGS, short_names

from harness.errors import UserError
from harness.stats.rng import Dice
from packages.pocket.tests.trainings import stage


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
    first, again, other = (
        make_batch(one, Dice("training", 0, 1, n), teacher, drills)[1] for n in (5, 5, 6)
    )
    assert first == again != other
    assert 512 <= sum(len(tree) for trees in first.passes for tree in trees) < 512 + 128


def test_a_pass_has_trees_of_similar_length(monkeypatch):
    monkeypatch.setattr(batches, "_MAX_TOKENS_OF_PASS", 24)
    batch = take_trees(
        cycle([Tree([1] * 10, [9], []), Tree([1] * 3, [2], []), Tree([1] * 4, [3], [])]), 40, 64
    )
    assert [[len(tree) for tree in trees] for trees in batch.passes] == [
        [3, 3, 4, 4],
        [10, 10],
        [10],
    ]


LEFT_OUT = [
    # 50 + 9 of 64 tokens: a row has one of three branches
    ("branches without room", [Tree([1] * 50, [], [Branch(50, [2] * 9, [8])] * 3)], 2, 4),
    ("room for all", [Tree([1] * 40, [38, 39], [Branch(40, [2], [0])])], 6, 0),
    (
        "a text too long",
        [Tree([1] * 65, [64], [Branch(60, [2] * 2, [1])] * 2), Tree([1] * 60, [59], [])],
        2,
        6,
    ),
    (
        "no branch that fits",
        [Tree([1] * 60, [], [Branch(60, [1] * 9, [8])]), Tree([1] * 60, [59], [])],
        2,
        2,
    ),
]


@pytest.mark.parametrize(
    ("trees", "kept", "n_left_out"), [c[1:] for c in LEFT_OUT], ids=[c[0] for c in LEFT_OUT]
)
def test_replies_that_are_left_out_are_counted(trees, kept, n_left_out):
    batch = take_trees(cycle(trees), 118, 64)
    assert (batch.n_trained_on, batch.n_left_out) == (kept, n_left_out)


def test_nothing_that_fits_is_an_error_that_says_what_to_do():
    short, long = Tree([1] * 64, [63], []), Tree([1] * 65, [64], [])
    with pytest.raises(
        UserError, match="no text of this recipe fits a row of 64 tokens; give the recipe a larger"
    ):
        take_trees(chain([short], cycle([long])), 128, 64)


@pytest.mark.parametrize(
    ("right", "share"),
    [([1, 1, 1], 1.0), ([1, 0, 1], 0.5), ([0, 0, 0], 0.0)],
)
def test_a_reply_is_right_when_all_of_it_is(right, share):
    tree = Tree([1, 2, 3], [1, 2], [Branch(3, [4, 5], [1])])
    assert share_of_right_replies(torch.tensor(right, dtype=torch.bool), [tree]) == share


def test_a_recipe_that_makes_nothing_is_named(teacher, drills, monkeypatch):
    monkeypatch.setattr(batches, "scenes", lambda *a: iter(()))
    one = stage(0.9, None).model_copy(update={"recipes": (Recipe(skill="answer", facts=(1, 2)),)})
    with pytest.raises(
        UserError, match="the recipe of 'answer' makes no scene: no text allows what it asks"
    ):
        make_batch(one, Dice("none"), teacher, drills)


def test_things_are_single_tokens(teacher, drills):
    words = drills.one_token_words
    assert len(set(words)) == len(words) == sum(len(short_names(kind)) for kind in ENDINGS) + 900
    small = {token for ids in (*drills.fillers, *drills.after) for token in ids}
    assert not small & set(drills.one_token_words)
    assert teacher.plain("Toren")[0] in drills.one_token_words


@pytest.mark.parametrize("between", [0, 2])
@pytest.mark.parametrize("pairs", [(1, 1), (2, 5), (4, 4), (12, 30)])
def test_each_pair_is_asked_for_once(drills, pairs, between):
    things, counts = set(drills.one_token_words), set()
    for n in range(60):
        tree = pair_drill(drills, Dice("drill", n), pairs, between)
        named = [token for token in tree.trunk if token in things]
        counts.add(len(named) // 2)
        assert len(set(named)) == len(named) == 2 * len(tree.branches)  # nothing stands there twice
        assert not tree.targets
        for at, branch in enumerate(tree.branches):
            assert branch.at == len(tree.trunk)
            assert branch.targets == [len(branch.ids) - 1]
            assert [token for token in branch.ids if token in things] == named[2 * at : 2 * at + 2]
            assert between or list(branch.ids) == named[2 * at : 2 * at + 2]
    assert min(counts) >= pairs[0]
    assert max(counts) <= pairs[1]
    assert len(counts) > 1 or pairs[0] == pairs[1]


def test_a_name_is_asked_for_the_number_of_its_part(drills, teacher):
    things, counts = set(drills.one_token_words), set()
    numbers = [teacher.plain(f"Action: {n}")[-1] for n in range(MAX_PARTS)]
    for n in range(60):
        tree = parts_drill(drills, Dice("parts", n), (2, 6), 5)
        text = teacher.text.tokenizer.decode(tree.trunk)
        heads = list(re.finditer(r"\n(?:Summary |Page |Part )?(\d): ", text))
        assert [int(h.group(1)) for h in heads] == list(range(len(heads)))
        counts.add(len(heads))
        ends = [*(h.start() for h in heads[1:]), len(text)]
        parts = [text[h.end() : end] for h, end in zip(heads, ends, strict=True)]
        assert len(tree.branches) == min(24, sum(token in things for token in tree.trunk))
        for branch in tree.branches:
            (name,) = (token for token in branch.ids if token in things)
            right = numbers.index(branch.ids[-1])
            assert branch.targets == [len(branch.ids) - 1]
            assert teacher.text.tokenizer.decode([name]) in parts[right]
    assert (min(counts), max(counts)) == (2, 6)
