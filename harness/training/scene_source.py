"""Scenes of a synthetic world, which training looks up in the registry.

The module that section `scenes` of configs/registry.yaml names has a pydantic model `RecipeModel` and a function
`stage(recipe, kind, dice, purpose)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from harness.config import registry
from harness.method import Scene
from harness.stats.rng import Dice

Purpose = Literal["evaluation", "training"]


class Recipe(Protocol):
    """One line of a training's settings: which texts to make for a skill, and how often (weight)."""

    skill: str
    weight: float

    def recipe(self) -> Any:
        """The recipe that `stage` takes."""

    def model_dump(self, *, mode: str = ...) -> dict[str, Any]:
        """Its values, to identify the training data."""


def recipe_model() -> type[BaseModel]:
    """The pydantic model of a `Recipe`."""
    model: type[BaseModel] = _world().RecipeModel
    return model


def scenes(recipe: Recipe, kind: str, dice: Dice, purpose: Purpose = "training") -> Iterator[Scene]:
    """The scenes of one text that `dice` draws. Raises UnknownName for an unknown kind of scene."""
    yield from _world().stage(recipe.recipe(), kind, dice, purpose)


def _world() -> Any:
    return importlib.import_module(registry.shipped("scenes")["world"])
