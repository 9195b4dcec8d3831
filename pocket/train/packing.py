"""Rows of training: several scenes about one text become a tree of tokens, packed into rows of one size.

The document is the trunk, read once; every question about it with its answer is a branch, and so is every probe.
A token sees its own branch and the trunk before the branch, nothing else:

    own[i] == own[j]                              the same branch (or trunk)
    own[j] == root[i] and j < attach[i]           the trunk that i's branch hangs on, up to where it hangs

A batch of a stage: a recipe is drawn by its weight, its texts are made, their scenes played and packed.

    number, batch = make_batch(stage, Dice("training", seed, 3, 120), teacher, drills)
    share_right(right, batch)                                                       0.75
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import UserError
from harness.stats.rng import Dice
from harness.training.teacher import Teacher
from harness.training.token_rows import Branch, Tree, grow
from pocket.tasks.catalog import skills
from pocket.tasks.catalog import stage as scenes
from pocket.tasks.recall import DRILLS, PLAYED, Drill
from pocket.tasks.recipes import Recipe, Stage

IGNORED = -100
_TARGETS = 8  # a place for one target to so many tokens of a batch
# Scenes whose replies are nearly as long as their texts.
_LONG = frozenset(
    {"points", "gathered", "summary", "shortened", "outline", "entities", "relations", "doubts", "fusion", "followed"}
)


@dataclass
class Batch:
    """Arrays of shape [rows, size]; `predict`: flat indices of the tokens before the targets, `targets`: these [most].

    `group`: the reply that each target belongs to, counted from 0, -1 for none: a reply is right when all its
    targets are. Unused places have target IGNORED. `kept`, `dropped`: replies that are trained on, and those that are
    not, because their text or branch did not fit, or the batch was full of targets.
    """

    ids: np.ndarray
    position: np.ndarray
    own: np.ndarray
    root: np.ndarray
    attach: np.ndarray
    predict: np.ndarray
    targets: np.ndarray
    group: np.ndarray
    kept: int = 0
    dropped: int = 0


class _Row:
    """One row while it is filled."""

    def __init__(self, batch: Batch, number: int) -> None:
        self.batch, self.number, self.at, self.segment = batch, number, 0, 0

    def room(self) -> int:
        return int(self.batch.ids.shape[1]) - self.at

    def _put(self, ids: Sequence[int], start: int, own: int, root: int, attach: int) -> int:
        b, row, here = self.batch, self.number, slice(self.at, self.at + len(ids))
        b.ids[row, here] = ids
        b.position[row, here] = np.arange(start, start + len(ids))
        b.own[row, here], b.root[row, here], b.attach[row, here] = own, root, attach
        self.at += len(ids)
        return here.start

    def add(self, tree: Tree, marks: list[tuple[list[int], list[int]]]) -> None:
        """Put the tree into the row; `marks` gets (flat index before, token) of the targets of each reply."""
        self.segment += 1
        root, size = self.segment, self.batch.ids.shape[1]
        base = self._put(tree.trunk, 0, root, root, 0)
        flat = self.number * size
        if tree.targets:
            marks.append(([flat + base + t - 1 for t in tree.targets], [tree.trunk[t] for t in tree.targets]))
        for branch in tree.branches:
            self.segment += 1
            start = self._put(branch.ids, branch.at, self.segment, root, base + branch.at)
            places = [flat + start + t - 1 for t in branch.targets]
            marks.append((places, [branch.ids[t] for t in branch.targets]))


def _cut(tree: Tree, size: int) -> Tree | None:
    """The tree with as many branches as a row holds; None where the trunk alone is too long."""
    room = size - len(tree.trunk)
    if room < 0:
        return None
    kept: list[Branch] = []
    for branch in tree.branches:
        if len(branch.ids) <= room:
            kept.append(branch)
            room -= len(branch.ids)
    return Tree(tree.trunk, tree.targets, kept) if kept or tree.targets else None


def _places(most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`predict`, `targets` and `group` of a batch in which nothing is marked yet."""
    return np.zeros(most, np.int64), np.full(most, IGNORED, np.int64), np.full(most, -1, np.int64)


def fill(trees: Iterator[Tree], rows: int, size: int, most: int) -> Batch:
    """Take trees until rows / 8 of them (two at least) did not fit any row.

    At most `most` targets are kept: a reply that goes beyond stays in its row, but is not trained on; where no reply
    is that short, the shortest is kept all the same, for a batch without a target has no loss. Raises UserError where
    text after text is too long for a row.
    """
    # What is not used sees only what is not used either: no tree has the number -1.
    ids, position, own, root, attach = (np.full((rows, size), value, np.int32) for value in (0, 0, -1, 0, 0))
    batch = Batch(ids, position, own, root, attach, *_places(most))
    open_rows = [_Row(batch, i) for i in range(rows)]
    marks: list[tuple[list[int], list[int]]] = []
    misses = long = 0
    while misses < max(2, rows // 8):
        whole = next(trees)
        tree = _cut(whole, size)
        if tree is None:
            batch.dropped += whole.replies
            long += 1
            if long > 50 * rows:
                raise UserError(f"no text of this recipe fits a row of {size} tokens; give the recipe a larger size")
            continue
        row = next((r for r in open_rows if r.room() >= len(tree)), None)
        if row is None:  # the batch is full: another one may draw its like
            misses += 1
        else:
            row.add(tree, marks)
            batch.dropped += whole.replies - tree.replies
    _mark(batch, marks, most)
    return batch


def _mark(batch: Batch, marks: Sequence[tuple[list[int], list[int]]], most: int) -> None:
    """Put the targets into their places; the arrays grow where `most` is too small for the shortest reply."""
    shortest = min(len(tokens) for _, tokens in marks)
    if shortest > most:
        most = shortest
        batch.predict, batch.targets, batch.group = _places(most)
    at = 0
    for number, (places, tokens) in enumerate(marks):
        if at + len(tokens) > most:
            batch.dropped += 1
            continue
        here = slice(at, at + len(tokens))
        batch.predict[here], batch.targets[here], batch.group[here] = places, tokens, number
        batch.kept += 1
        at += len(tokens)


# --- batches of a stage -----------------------------------------------------------------------------------------------


def _trees(recipe: Recipe, dice: Dice, teacher: Teacher, drills: Drill) -> Iterator[Tree]:
    """Trees of a recipe without end."""
    if recipe.skill in DRILLS:
        assert recipe.pairs is not None  # the curriculum checks that
        while True:
            yield DRILLS[recipe.skill](drills, dice, recipe.pairs, recipe.between)
    skill, number = skills()[recipe.skill], 0
    while True:
        inner = Dice("text", dice.between(0, 2**31), number)
        if recipe.pairs is not None:
            played = PLAYED[skill.scene]
            plays = [teacher.play(skill, scene) for scene in played(drills, inner, recipe.pairs, recipe.between)]
        else:
            plays = [teacher.play(skill, scene) for scene in scenes(recipe, skill.scene, inner)]
        number += 1
        if plays:
            yield from grow(plays)
        elif number > 10_000:
            raise UserError(f"the recipe of '{recipe.skill}' makes no scene: no text allows what it asks")


def make_batch(stage: Stage, dice: Dice, teacher: Teacher, drills: Drill) -> tuple[int, Batch]:
    """The number of the recipe that was drawn, and a batch of it."""
    number = dice.weighted([(n, recipe.weight) for n, recipe in enumerate(stage.recipes)])
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
