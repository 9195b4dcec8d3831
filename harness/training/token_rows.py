"""Scenes as rows of tokens: the prompt as the method feeds it, then the reply, whose tokens alone are targets.

found = rows(skill, scenes, teacher, length)      Rows; left_out: those that are too long
batches(found.rows, 8, Dice("order", seed, 0))    lists of numbers, rows of like length together
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.method import Scene, Skill
from harness.stats.rng import Dice
from harness.training.teacher import Teacher, Told

_NEAR = 16  # batches whose rows are sorted by length together


@dataclass(frozen=True)
class Row:
    """targets: places in `ids` of the tokens that are learnt; each has a token before it.

    branches: (start, at) of each part that hangs on the tokens before `at`, sees those and itself alone, and ends where
    the next one starts; weights: of the targets, () for 1 each.
    """

    ids: tuple[int, ...]
    targets: tuple[int, ...]
    branches: tuple[tuple[int, int], ...] = ()
    weights: tuple[float, ...] = ()

    def positions(self) -> list[int]:
        """Of the tokens in their context: a branch goes on where it hangs."""
        found = list(range(len(self.ids)))
        for (start, at), end in zip(self.branches, self._ends(), strict=True):
            found[start:end] = range(at, at + end - start)
        return found

    def _ends(self) -> list[int]:
        return [*(start for start, _ in self.branches[1:]), len(self.ids)][: len(self.branches)]

    def hidden(self) -> list[tuple[int, int, int, int]]:
        """(row from, row to, column from, column to) of what tokens must not see, beside what comes behind them."""
        trunk = self.branches[0][0] if self.branches else len(self.ids)
        found = []
        for (start, at), end in zip(self.branches, self._ends(), strict=True):
            found += [(start, end, at, trunk), (start, end, trunk, start)]
        return found


@dataclass
class Rows:
    """left_out: replies and probes whose row is longer than asked for."""

    rows: list[Row] = field(default_factory=list)
    left_out: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(len(row.ids) for row in self.rows)


def rows(skill: Skill, scenes: Iterable[Scene], teacher: Teacher, length: int) -> Rows:
    """One row for the replies of each scene, one for each of its probes."""
    found = Rows()
    for scene in scenes:
        for row in _of(teacher.play(skill, scene)):
            if len(row.ids) <= length:
                found.rows.append(row)
            else:
                found.left_out += 1
    return found


def _of(told: Told) -> list[Row]:
    made = [Row(tuple(told.ids), tuple(told.targets))] if told.targets else []
    for aside in told.asides:
        ids = (*told.ids[: aside.at], *aside.ids)
        made.append(Row(ids, (len(ids) - 1,)))
    return made


def batches(found: Sequence[Row], size: int, dice: Dice) -> list[list[int]]:
    """All rows once, `size` at a time. Rows of one batch have like lengths, so little is padded; the order of the
    batches, and what meets in one, are drawn.
    """
    order = dice.shuffled(range(len(found)))
    near: list[int] = []
    for start in range(0, len(order), size * _NEAR):
        near += sorted(order[start : start + size * _NEAR], key=lambda i: (len(found[i].ids), i))
    return dice.shuffled([near[start : start + size] for start in range(0, len(near), size)])
