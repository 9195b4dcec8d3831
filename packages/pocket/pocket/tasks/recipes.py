"""What a curriculum file may say: stages, and the recipes in each; every value is checked on its
own.

Recipe(skill="answer", facts=(1, 6), questions=5)

Unknown skills are for pocket.train.curriculum.
"""

from __future__ import annotations

import math
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pocket.world.sample import LEAST_TOKENS

SCHEMAS = {
    "musique": "encyclopedia",
    "hotpotqa": "encyclopedia",
    "2wikimultihopqa": "encyclopedia",
    "retrieved": "encyclopedia",
    "narrativeqa": "story",
    "quality": "story",
    "qasper": "paper",
}
T = TypeVar("T")
_ASKS = ("one", "two", "compare", "same", "nothing")
_READ = ("musique", "narrativeqa", "qasper")


def _not_empty(items: tuple[T, ...]) -> tuple[T, ...]:
    """Return the items; raise ValueError for (). Field(min_length=1) would report a mistake in an
    item again, as a list too short."""
    if not items:
        raise ValueError("should have at least one item")
    return items


def _range_from(least: int) -> AfterValidator:
    """Make a validator of a range (lowest, highest): it raises ValueError unless least <= lowest <=
    highest, and lets None pass."""

    def check(bounds: tuple[int, int] | None) -> tuple[int, int] | None:
        """Refuse a range whose ends are below `least` or in the wrong order."""
        if bounds is not None and not least <= bounds[0] <= bounds[1]:
            raise ValueError(f"should be the lowest and the highest number, {least} or more")
        return bounds

    return AfterValidator(check)


def _check_weights(ask: dict[str, float]) -> dict[str, float]:
    """Return the weights as they are; raise ValueError for an unknown kind of question, a weight
    that is not above 0, or no weight.

    Args:
        ask: Kind of question -> weight, as {"one": 3, "two": 1}.
    """
    unknown = [name for name in ask if name not in _ASKS]
    if unknown:
        raise ValueError(f"unknown '{unknown[0]}'; known: {', '.join(_ASKS)}")
    if not ask or not all(0 < weight < math.inf for weight in ask.values()):
        raise ValueError("should be weights above 0; leave out what is not to be asked")
    return ask


def _check_kinds(kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return kinds of text as they are; raise ValueError for one that is not in SCHEMAS."""
    unknown = [kind for kind in kinds if kind not in SCHEMAS]
    if unknown:
        raise ValueError(f"unknown '{unknown[0]}'; known: {', '.join(SCHEMAS)}")
    return kinds


class Recipe(BaseModel):
    """How to make the scenes of a skill: a line of a stage of the curriculum.

    One of facts, tokens and pairs is given, each as (least, most).

    Args:
        skill: The name of the skill.
        kinds: The kinds of text to choose from.
        facts: How many sentences the text has.
        tokens: How long a whole document is.
        pairs: How many pairs of names there are, without a text (recall.py).
        between: Most words between the names of a pair.
        ask: Kind of question -> weight.
        questions: Most questions about one text.
        pieces: Most parts that the text comes in, points or chunks.
        some: Whether only some of the parts are shown, in random order, as retrieval shows them.
        mixed: Whether some parts are shown as their facts, a line each, as a search over points and
            chunks shows them.
        size: Most tokens of a row of training.
        weight: Share of the stage's steps.
        gate: Where it is another than the stage's (0: the stage does not wait for it).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    skill: str
    kinds: Annotated[tuple[str, ...], AfterValidator(_not_empty), AfterValidator(_check_kinds)] = (
        _READ
    )
    facts: Annotated[tuple[int, int] | None, _range_from(1)] = None
    tokens: Annotated[tuple[int, int] | None, _range_from(LEAST_TOKENS)] = None
    pairs: Annotated[tuple[int, int] | None, _range_from(1)] = None
    between: int = Field(default=0, ge=0)
    ask: Annotated[dict[str, float], AfterValidator(_check_weights)] = {"one": 1.0}
    questions: int = Field(default=1, ge=1)
    pieces: int = Field(default=1, ge=1)
    some: bool = False
    mixed: bool = False
    size: int = Field(default=256, ge=32)
    weight: float = Field(default=1.0, gt=0)
    gate: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _check_one_of(self) -> Recipe:
        """Refuse a recipe with more or less than one of facts, tokens and pairs."""
        given = [name for name in ("facts", "tokens", "pairs") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs one of facts, tokens, pairs; has {given or 'none'}")
        return self


class Stage(BaseModel):
    """A stage of the curriculum: recipes, and when to go on to the next stage.

    Args:
        name: The name of the stage.
        recipes: What it trains.
        gate: Share of replies wholly right, in each recipe, from which the stage is mastered.
        over: Batches of a recipe over which that share is taken.
        steps: After how many steps it ends at the latest.
        rate: Learning rate.
        end_rate: What the rate falls to, linearly over `steps`; None for no fall.
        tokens: How many tokens a step trains on.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    name: str = Field(min_length=1)
    recipes: Annotated[tuple[Recipe, ...], AfterValidator(_not_empty)]
    gate: float = Field(default=0.95, gt=0, le=1.01)
    over: int = Field(default=50, ge=1)
    steps: int = Field(ge=1)
    rate: float = Field(default=1e-3, gt=0)
    end_rate: float | None = Field(default=None, ge=0)
    tokens: int = Field(default=8192, ge=256)


class Curriculum(BaseModel):
    """All stages."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    stages: Annotated[tuple[Stage, ...], AfterValidator(_not_empty)]
