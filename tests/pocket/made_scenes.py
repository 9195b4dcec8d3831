"""Texts of every kind of data set, and the scenes that a module makes of them."""

from collections.abc import Iterable, Iterator
from types import ModuleType

import pytest

from harness.method.hooks import Scene
from harness.stats.rng import Dice
from pocket.tasks.recipes import SCHEMAS, Recipe
from pocket.tasks.scenes import make_text
from pocket.tasks.shown_text import Shown
from pocket.world.fact_graph import Asked

KINDS = [*SCHEMAS]
ASK = {"one": 1.0, "two": 2.0, "compare": 1.0, "same": 1.0, "nothing": 0.5}

Made = tuple[Recipe, Shown, Dice]


def shows(seed: str, count: int, facts: tuple[int, int], tokens: tuple[int, int], pieces: int) -> Iterator[Made]:
    """Recipes for each kind in turn, sized by facts and by tokens, with the text of each and dice for its scenes."""
    for n in range(count):
        size = {"facts": facts} if n % 2 else {"tokens": tokens}
        recipe = Recipe(skill="x", kinds=(KINDS[n % len(KINDS)],), ask=ASK, questions=4, pieces=pieces, **size)
        dice = Dice(seed, n)
        yield recipe, make_text(recipe, dice), dice


def told(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, kind: str, texts: Iterable[Made]
) -> Iterator[tuple[Shown, Asked | None, Scene]]:
    """Scenes of `kind`, each with its text and the question that it was made for."""
    asked: list[Asked] = []
    question = module.question_of
    monkeypatch.setattr(module, "question_of", lambda a: (asked.append(a), question(a))[1])
    for recipe, shown, dice in texts:
        for scene in getattr(module, kind)(recipe, shown, dice):
            yield shown, asked[-1] if asked else None, scene
