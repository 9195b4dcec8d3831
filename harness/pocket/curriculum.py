"""What is learnt in which order: stages of recipes, each left when it is mastered, not when the clock says so.

curriculum(None)            the project's own, curriculum.yaml
curriculum(path)            another file
skills()                    name -> Skill of every method preset
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness import presets, registry
from harness.checks import explain
from harness.errors import ConfigError, UnknownName, UserError
from harness.method import Method, Skill
from harness.pocket.scenes import SCHEMAS, Recipe

__all__ = ["Curriculum", "Stage", "curriculum", "skills"]

T = TypeVar("T")
OWN = Path(__file__).with_name("curriculum.yaml")
_ASKS = ("one", "two", "compare", "same", "nothing")


def _some(items: tuple[T, ...]) -> tuple[T, ...]:
    # Not Field(min_length=1): what is wrong in an item would be told once more as a list that is too short.
    if not items:
        raise ValueError("should have at least one item")
    return items


class RecipeModel(BaseModel):
    """A line of a stage; see harness.pocket.scenes.Recipe. `pairs` instead of a text: see recall.

    gate: of this recipe, where it is another than the stage's (0: the stage does not wait for it).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    skill: str
    kinds: tuple[str, ...] = ("musique", "narrativeqa", "qasper")
    facts: tuple[int, int] | None = None
    tokens: tuple[int, int] | None = None
    pairs: tuple[int, int] | None = None
    between: int = Field(default=0, ge=0)
    ask: dict[str, float] = {"one": 1.0}
    questions: int = Field(default=1, ge=1)
    pieces: int = Field(default=1, ge=1)
    some: bool = False
    mixed: bool = False
    size: int = Field(default=256, ge=32)
    weight: float = Field(default=1.0, gt=0)
    gate: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _one_text(self) -> RecipeModel:
        given = [name for name in ("facts", "tokens", "pairs") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"needs one of facts, tokens, pairs; has {given or 'none'}")
        if self.skill == "recall" and given != ["pairs"]:
            raise ValueError("the skill 'recall' takes 'pairs'")
        for name, known in ((self.kinds, SCHEMAS), (tuple(self.ask), _ASKS)):
            for one in name:
                if one not in known:
                    raise ValueError(f"unknown '{one}'; known: {', '.join(known)}")
        return self

    def recipe(self) -> Recipe:
        """As the scenes take it."""
        values = self.model_dump(exclude={"pairs", "between", "gate"})
        return Recipe(**values)


class Stage(BaseModel):
    """Recipes and when to go on.

    gate: share of replies wholly right, in each recipe, over the last `over` batches of it; steps: at most; rate:
    learning rate, falling linearly to `end_rate` over `steps` where that is given; tokens: a step.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    recipes: Annotated[tuple[RecipeModel, ...], AfterValidator(_some)]
    gate: float = Field(default=0.95, gt=0, le=1.01)
    over: int = Field(default=50, ge=1)
    steps: int = Field(ge=1)
    rate: float = Field(default=1e-3, gt=0)
    end_rate: float | None = None
    tokens: int = Field(default=8192, ge=256)


class Curriculum(BaseModel):
    """All stages."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    stages: Annotated[tuple[Stage, ...], AfterValidator(_some)]


def curriculum(path: Path | None = None) -> Curriculum:
    """Read a curriculum. Raises UserError for a file that is none, ConfigError for what is wrong in it, UnknownName."""
    path = path or OWN
    try:
        values: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"cannot read the curriculum {path.name}: {str(error).splitlines()[0]}") from error
    try:
        found = Curriculum.model_validate(values)
    except ValidationError as error:
        # No path before the keys: it would be told to give them with --set, which a file of its own does not know.
        raise ConfigError([f"{path.name}: {one}" for one in explain(error, Curriculum, "", {})]) from None
    known = skills()
    for stage in found.stages:
        for recipe in stage.recipes:
            if recipe.skill != "recall" and recipe.skill not in known:
                raise UnknownName("skill", recipe.skill, known)
            if recipe.pairs and recipe.skill != "recall" and known[recipe.skill].scene != "question":
                raise ConfigError(
                    [f"{path.name}: 'pairs' is for 'recall' and skills that answer, not '{recipe.skill}'"]
                )
    return found


@cache
def skills() -> dict[str, Skill]:
    """Every skill that a method preset declares, and those that methods share, by name; the first of a name counts."""
    found: dict[str, Skill] = {skill.name: skill for skill in registry.load("methods.summary:SKILLS")}
    seen: set[str] = set()
    for name in presets.names("methods"):
        target = {k: v for _, values in presets.read("methods", name) for k, v in values.items()}.get("implementation")
        if target is None or target in seen:
            continue
        seen.add(target)
        cls: type[Method] = registry.load(target, Method)
        for skill in cls(cls.Config()).skills():
            found.setdefault(skill.name, skill)
    return found
