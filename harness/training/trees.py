"""Scenes about one text as a tree of tokens: the text is the trunk, read once; each question and probe is a branch.

grow([teacher.play(skill, scene) for scene in scenes])       [Tree(trunk, targets, branches), ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.training.teacher import Told


@dataclass
class Branch:
    """Tokens behind the first `at` of the trunk; `targets`: indices of those that are to be predicted."""

    at: int
    ids: Sequence[int]
    targets: Sequence[int]


@dataclass
class Tree:
    """A trunk with its own targets, and the branches."""

    trunk: Sequence[int]
    targets: Sequence[int]
    branches: list[Branch]

    def __len__(self) -> int:
        return len(self.trunk) + sum(len(b.ids) for b in self.branches)

    @property
    def replies(self) -> int:
        """How many replies it has: one on the trunk, where there are targets, and one a branch."""
        return bool(self.targets) + len(self.branches)


def grow(told: Sequence[Told]) -> list[Tree]:
    """One tree of all that share their beginning (asides: one tree each).

    The last shared token stays in the branches, so that every target has its predecessor in its own branch.
    """
    if any(t.asides for t in told):
        return [_single(t) for t in told]
    if len(told) < 2:
        return [Tree(t.ids, t.targets, []) for t in told]
    shared = min(min(t.targets) for t in told) - 1
    first = told[0].ids
    for other in told[1:]:
        shared = next((i for i in range(shared) if other.ids[i] != first[i]), shared)
    shared -= 1
    branches = [Branch(shared, t.ids[shared:], [i - shared for i in t.targets]) for t in told]
    return [Tree(first[:shared], [], branches)]


def _single(told: Told) -> Tree:
    return Tree(told.ids, told.targets, [Branch(a.at, a.ids, [len(a.ids) - 1]) for a in told.asides])
