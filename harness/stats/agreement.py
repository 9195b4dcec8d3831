"""How far two raters agree on yes or no.

>>> agreement([True, True, False, False], [True, False, False, False])
Agreement(n=4, share=0.75, kappa=0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """n: items; share: those that both rated alike, 0..1 (None without items).

    kappa: Cohen's kappa, 1 for full agreement and 0 for that of chance; None where chance alone agrees always, because
    both raters gave every item the same one rating.
    """

    n: int
    share: float | None
    kappa: float | None


def agreement(a: Sequence[bool], b: Sequence[bool]) -> Agreement:
    """Agreement of two raters, a[i] and b[i] being their ratings of item i.

    kappa = (share - chance) / (1 - chance), where chance is the share expected of independent raters who say yes as
    often as these do (J. Cohen 1960). Raises ValueError where the lengths differ.
    """
    n = len(a)
    if len(b) != n:
        raise ValueError(f"ratings differ in length: {n} and {len(b)}")
    if not n:
        return Agreement(0, None, None)
    alike = sum(bool(x) == bool(y) for x, y in zip(a, b, strict=True))
    yes_a, yes_b = sum(map(bool, a)), sum(map(bool, b))
    chance = yes_a * yes_b + (n - yes_a) * (n - yes_b)  # in units of 1 / n^2, so that 1 is met exactly
    kappa = None if chance == n * n else (alike * n - chance) / (n * n - chance)
    return Agreement(n, alike / n, kappa)
