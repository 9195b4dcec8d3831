"""Chance that comes out the same on any machine: everything is drawn from
`random.Random(text).random()`.

    dice = Dice("musique", 7, 0)
    dice.pick(["a", "b"]), dice.below(10), dice.chance(0.3), dice.shuffled([1, 2, 3])

Python promises only that one stream to stay as it is from version to version, not `choice`,
`sample` or `shuffle`.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A source of random choices. parts: joined they are its seed (purpose, number, id); equal
    parts choose alike."""

    def __init__(self, *parts: object) -> None:
        """Seed the dice with the parts, joined: equal parts give the same numbers.

        `random` returns the next number, from 0 to below 1.
        """
        self.random = random.Random("pocket/" + "/".join(map(str, parts))).random

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self.random() * n)

    def between(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return low + int(self.random() * (high - low + 1))

    def chance(self, p: float) -> bool:
        """True with probability p."""
        return self.random() < p

    def pick(self, items: Sequence[T]) -> T:
        """One of the items. Raises IndexError when there is none."""
        return items[int(self.random() * len(items))]

    def weighted(self, weighted_items: Sequence[tuple[T, float]]) -> T:
        """Pick one item of (item, weight) pairs, with a probability proportional to its weight.

        [("a", 3.0), ("b", 1.0)] -> "a" in three of four picks
        """
        remaining = self.random() * sum(weight for _, weight in weighted_items)
        for item, weight in weighted_items:
            remaining -= weight
            if remaining < 0:
                return item
        return weighted_items[-1][0]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order (Fisher and Yates), as a new list."""
        shuffled_items = list(items)
        for i in range(len(shuffled_items) - 1, 0, -1):
            j = int(self.random() * (i + 1))
            shuffled_items[i], shuffled_items[j] = shuffled_items[j], shuffled_items[i]
        return shuffled_items


def derived_seed(seed: int, *parts: str) -> int:
    """A seed in [0, 2**32) that follows from the run's seed and names, whatever was drawn before.

    Args:
        seed: The run's seed.
        *parts: Ids and names; others give another seed.
    """
    text = json.dumps([seed, *parts])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
