"""Batches of a stage: a recipe is drawn by its weight, its texts are made, their scenes played and
grown to trees.

    number, batch = make_batch(stage, Dice("training", seed, 3, 120), teacher, drills)
    batch.passes                     lists of trees of similar length, each for one pass forward and backward
    share_of_right_replies(right, trees)        0.75

The document is the trunk, read once; every question about it with its answer is a branch, and so is
every probe.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from harness_training.teacher import Teacher
from harness_training.token_rows import Branch, Tree, build_trees
from torch import Tensor

from harness.errors import UserError
from harness.stats.rng import Dice
from pocket.tasks.catalog import make_scenes as scenes
from pocket.tasks.catalog import skills
from pocket.tasks.recall import DRILLS, PLAYED, DrillTokens
from pocket.tasks.recipes import Recipe, Stage

_MAX_TOKENS_OF_PASS = 4096  # most tokens of a pass, with its padding, unless one tree has more
_MAX_MISSES = 200  # trees in a row that are too long before a recipe is given up


@dataclass
class Batch:
    """What one step trains on.

    Args:
        passes: The trees of each forward pass.
        n_left_out: How many replies were left out, as their text or branch is too long.
    """

    passes: list[list[Tree]]
    n_left_out: int = 0

    @property
    def n_trained_on(self) -> int:
        """How many replies are trained on."""
        trees = chain.from_iterable(self.passes)
        return sum(len(tree.reply_lengths) for tree in trees)


def take_trees(trees: Iterator[Tree], n_tokens: int, max_tokens_per_tree: int) -> Batch:
    """Take trees until they have enough tokens together, each without the branches that do not fit
    into a row, and divide them into forward passes; with the number of replies that were left out.

    Args:
        trees: The trees, without end.
        n_tokens: How many tokens all trees should have together.
        max_tokens_per_tree: Most tokens of a tree.

    Raises:
        UserError: None of many trees in a row fits.
    """
    taken: list[Tree] = []
    n_left_out = 0
    n_misses = 0  # in a row
    while sum(map(len, taken)) < n_tokens:
        drawn_tree = next(trees)
        tree = _without_branches_that_do_not_fit(drawn_tree, max_tokens_per_tree)
        if tree is None:
            n_left_out += len(drawn_tree.reply_lengths)
            n_misses += 1
        else:
            n_left_out += len(drawn_tree.reply_lengths) - len(tree.reply_lengths)
            n_misses = 0
            taken.append(tree)
        if n_misses > _MAX_MISSES:
            raise UserError(
                f"no text of this recipe fits a row of {max_tokens_per_tree} tokens; give the "
                "recipe a larger size"
            )
    return Batch(_divided_into_passes(taken), n_left_out)


def _divided_into_passes(trees: Sequence[Tree]) -> list[list[Tree]]:
    """Trees in groups of similar length, the shortest first; padded to the longest of it, a group
    has no more tokens than a forward pass may have, unless a single tree has more."""
    passes: list[list[Tree]] = [[]]
    for tree in sorted(trees, key=len):
        padded_tokens = (len(passes[-1]) + 1) * len(tree)  # with this tree, the longest so far
        if passes[-1] and padded_tokens > _MAX_TOKENS_OF_PASS:
            passes.append([])
        passes[-1].append(tree)
    return passes


def _without_branches_that_do_not_fit(tree: Tree, max_tokens: int) -> Tree | None:
    """The tree with its branches in order, but for those that do not fit into `max_tokens` tokens
    any more; None if its trunk does not, or nothing is left to learn.

    Args:
        tree: The tree.
        max_tokens: Most tokens of the trunk and all branches.
    """
    tokens_left = max_tokens - len(tree.trunk)
    branches: list[Branch] = []
    for branch in tree.branches:
        if len(branch.ids) <= tokens_left:
            branches.append(branch)
            tokens_left -= len(branch.ids)
    has_something_to_learn = bool(branches or tree.targets)
    if tokens_left < 0 or not has_something_to_learn:
        return None
    return Tree(tree.trunk, tree.targets, branches)


def make_batch(
    stage: Stage, dice: Dice, teacher: Teacher, drills: DrillTokens
) -> tuple[int, Batch]:
    """Draw a recipe of a stage, and make a batch of it.

    Args:
        stage: The stage, whose recipes are drawn by weight.
        dice: Draws recipe and texts.
        teacher: Lays out the scenes as tokens.
        drills: What exercises are made of.

    Returns:
        (number of the recipe in the stage, batch).
    """
    recipe_number = dice.weighted([(n, recipe.weight) for n, recipe in enumerate(stage.recipes)])
    recipe = stage.recipes[recipe_number]
    trees = _draw_trees(recipe, dice, teacher, drills)
    batch = take_trees(trees, n_tokens=stage.tokens, max_tokens_per_tree=recipe.size)
    return recipe_number, batch


def _draw_trees(
    recipe: Recipe, dice: Dice, teacher: Teacher, drills: DrillTokens
) -> Iterator[Tree]:
    """Yield the token trees that a recipe makes, without end: exercises (of a skill in DRILLS), or
    scenes about one text after the other, either about pairs of names or about texts of the world.

    Args:
        recipe: The recipe.
        dice: Draws the texts.
        teacher: Lays out the scenes as tokens.
        drills: What exercises are made of.

    Raises:
        UserError: There was a text without a scene, and 10,000 texts are used up.
    """
    if recipe.skill in DRILLS:
        assert recipe.pairs is not None  # the curriculum checks that
        while True:
            yield DRILLS[recipe.skill](drills, dice, recipe.pairs, recipe.between)
    skill = skills()[recipe.skill]
    text_number = 0
    while True:
        dice_of_text = Dice("text", dice.between(0, 2**31), text_number)
        if recipe.pairs is not None:
            scenes_of_text = PLAYED[skill.scene](drills, dice_of_text, recipe.pairs, recipe.between)
        else:
            scenes_of_text = scenes(recipe, skill.scene, dice_of_text)
        transcripts = [teacher.play(skill, scene) for scene in scenes_of_text]
        text_number += 1
        if transcripts:
            yield from build_trees(transcripts)
        elif text_number > 10_000:
            raise UserError(
                f"the recipe of '{recipe.skill}' makes no scene: no text allows what it asks"
            )


def share_of_right_replies(right: Tensor, trees: Sequence[Tree]) -> float:
    """The share of replies whose tokens were all the likeliest ones.

    Args:
        right: [targets], for each target token of all trees whether it was the likeliest.
        trees: The trees, which know how many tokens each reply has.
    """
    lengths = list(chain.from_iterable(tree.reply_lengths for tree in trees))
    all_right = [reply.all() for reply in torch.split(right, lengths)]
    return float(torch.stack(all_right).float().mean())
