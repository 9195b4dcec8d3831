"""The first thing to learn: pairs of random names, then the first of a pair again; the second is to follow.

    Velford is Toren, Kirax of 212. ... | Kirax the -> 212

Straight from language, small models stay at guessing by type for millions of tokens. A name and its value stand at
varied distances, or they would be matched by place. The words between them are drawn anew for the question: when they
were repeated, the words were matched instead of the name, and training stayed at 0.66 right.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.pocket import names
from harness.pocket.dice import Dice
from harness.pocket.lessons import Branch, Tree
from harness.pocket.teacher import Teacher

__all__ = ["Drill", "drill"]

_BETWEEN = (" is", " of ", " was ", " the", " in ", " for", " by ", " to")
_AFTER = (".", ",", "\n", ";", "\n\n")


class Drill:
    """The tokens that exercises are made of."""

    def __init__(self, teacher: Teacher) -> None:
        told = [name for kind in names.ENDINGS for name in names.core(kind)] + [str(n) for n in range(100, 1000)]
        self.things = [ids[0] for ids in map(teacher.plain, told) if len(ids) == 1]
        self.between = [teacher.plain(word) for word in _BETWEEN]
        self.after = [teacher.plain(word) for word in _AFTER]


def _some(dice: Dice, items: Sequence[Sequence[int]], most: int) -> list[int]:
    return [token for _ in range(dice.below(most + 1)) for token in dice.pick(items)]


def drill(tokens: Drill, dice: Dice, pairs: tuple[int, int], between: int = 0) -> Tree:
    """One exercise: as many pairs as `pairs` allows, each asked for in a branch of its own; `between`: words at most."""
    count = dice.between(*pairs)
    drawn: dict[int, None] = {}
    while len(drawn) < 2 * count:
        drawn[dice.pick(tokens.things)] = None
    things = list(drawn)
    trunk: list[int] = []
    asked: list[tuple[int, int]] = []
    for key, value in zip(things[::2], things[1::2], strict=True):
        link = _some(dice, tokens.between, between)
        trunk += [key, *link, value, *_some(dice, tokens.after, min(1, between))]
        asked.append((key, value))
    return Tree(trunk, [], [_question(tokens, dice, len(trunk), pair, min(1, between)) for pair in asked])


def _question(tokens: Drill, dice: Dice, at: int, pair: tuple[int, int], more: int) -> Branch:
    key, value = pair
    ids = [*_some(dice, tokens.after, more), key, *_some(dice, tokens.between, more), value]
    return Branch(at, ids, [len(ids) - 1])
