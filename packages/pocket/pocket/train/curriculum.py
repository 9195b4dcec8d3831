"""What is learnt in which order: stages of recipes, each left when it is mastered, not when the clock says so.

read_curriculum(None)       the project's own, curriculum.yaml
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from harness_training.teacher import WINDOW
from pydantic import ValidationError

from harness.config.validation import error_sentences
from harness.errors import ConfigError, UnknownName, UserError
from harness.storage.read_files import parse_yaml
from pocket.tasks.catalog import skills
from pocket.tasks.recall import DRILLS, PARTS, PLAYED
from pocket.tasks.recipes import Curriculum, Recipe

if TYPE_CHECKING:
    from harness_training.loop import Checkpoint

OWN = Path(__file__).with_name("curriculum.yaml")


def read_curriculum(path: Path | None = None, window: int = WINDOW) -> Curriculum:
    """Read a curriculum for a model with a window of so many tokens.

    Raises UserError for another kind of file, ConfigError with all mistakes, each with its stage's name.
    """
    path = path or OWN
    try:
        values: Any = parse_yaml(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"cannot read the curriculum {path.name}: {str(error).splitlines()[0]}") from error
    problems: list[str] = []
    course = None
    try:
        course = Curriculum.model_validate(values)
    except ValidationError as error:
        # No path before the keys: the message would suggest --set, which does not reach into this file.
        pairs = zip(error.errors(), error_sentences(error, Curriculum, "", {}), strict=True)
        problems = [f"{_place_of_error(e['loc'], values)}{sentence}" for e, sentence in pairs]
    problems += _contradictions(values if course is None else course.model_dump(), window)
    if problems or course is None:
        raise ConfigError([f"{path.name}: {problem}" for problem in problems])
    return course


def _place_of_error(loc: Sequence[int | str], values: Any) -> str:
    """ "stage 'two hops': " where pydantic's path `loc` leads into a stage of `values` with a name, else ""."""
    if len(loc) < 2 or loc[0] != "stages":
        return ""
    stage = values["stages"][loc[1]]
    return f"stage '{stage['name']}': " if isinstance(stage, Mapping) and stage.get("name") else ""


def _contradictions(values: Any, window: int) -> Iterator[str]:
    """Yield sentences on contradictions between the file's `values`; those invalid by themselves are skipped."""
    stages = values.get("stages") if isinstance(values, Mapping) else None
    names: set[object] = set()
    for s, stage in enumerate(stages if isinstance(stages, Sequence) else ()):
        if not isinstance(stage, Mapping):
            continue
        name = stage.get("name")
        if name and str(name) in names:
            yield f"stages.{s}: a stage before is named '{name}' too; give it another name"
        names.add(str(name))
        recipes = stage.get("recipes")
        for r, raw in enumerate(recipes if isinstance(recipes, Sequence) else ()):
            with contextlib.suppress(ValidationError):
                for problem in _impossible_values(Recipe.model_validate(raw), window):
                    yield f"{_place_of_error(('stages', s), values)}stages.{s}.recipes.{r}: {problem}"


def _impossible_values(recipe: Recipe, window: int) -> Iterator[str]:
    """Yield sentences on values of one recipe that are impossible together or have no effect. window: in tokens."""
    known = skills()
    if recipe.skill not in DRILLS and recipe.skill not in known:
        yield str(UnknownName("skill", recipe.skill, known))
        return
    scene = recipe.skill if recipe.skill in DRILLS else known[recipe.skill].scene
    if recipe.size > window:
        yield f"size={recipe.size} is more than the window of {window} tokens"
    if recipe.pairs is not None:
        if scene not in (*DRILLS, *PLAYED):
            yield f"'pairs' is for {', '.join(DRILLS)} and skills that answer or choose a part, not '{recipe.skill}'"
        if 2 * recipe.pairs[1] > recipe.size:
            yield f"pairs={list(recipe.pairs)}: {recipe.pairs[1]} pairs do not fit size={recipe.size}"
        if scene in ("parts", "triage") and recipe.pairs[1] > PARTS:
            yield f"pairs={list(recipe.pairs)}: {PARTS} numbered parts at most"
    elif scene in DRILLS:
        yield f"the skill '{scene}' takes 'pairs'"
    if recipe.tokens is not None and recipe.tokens[1] > window and not recipe.some:
        yield f"tokens={list(recipe.tokens)}: a text of {recipe.tokens[1]} tokens is longer than the window of {window}"
    if scene == "gathered" and recipe.pieces < 2:
        yield f"'{recipe.skill}' gathers the points of several parts; give it pieces of 2 or more"
    yield from _values_without_effect(recipe, scene)


def _values_without_effect(recipe: Recipe, scene: str) -> Iterator[str]:
    """Yield sentences on values of a recipe that have no effect. scene: its kind of scene, or its drill."""
    if recipe.pairs is not None:
        for name in ("kinds", "ask", "questions", "pieces", "some", "mixed"):
            if getattr(recipe, name) != Recipe.model_fields[name].default:
                yield f"'{name}' means nothing beside 'pairs'; leave it out"
        return
    if recipe.between:
        yield "'between' means nothing without 'pairs'; leave it out"
    if recipe.some and (recipe.tokens is None or recipe.pieces < 2):
        yield "'some' needs a text of 'tokens' in 'pieces' of 2 or more"
    if recipe.some and scene in ("points", "summary"):
        yield f"'some' is not for '{recipe.skill}', which tells all of a text"
    if recipe.mixed and scene != "sufficiency":
        yield f"'mixed' is not for '{recipe.skill}', which is shown no search"


def stage_digests(course: Curriculum) -> list[str]:
    """For each stage 16 hex digits of the sha256 of its values, without its name.

    Defaults are left out, so that a new key of recipes changes no digest. Keys' order counts: `ask` draws in its order.
    """
    stages = [stage.model_dump(mode="json", exclude={"name"}, exclude_defaults=True) for stage in course.stages]
    return [hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16] for values in stages]


def check_course(saved: Checkpoint, course: Curriculum, out: Path) -> list[str]:
    """Compare the course with that of the checkpoint; return a note where stages not begun yet have changed.

    Raises UserError where a stage that was begun has changed.
    """
    p, now = saved.progress, stage_digests(course)
    begun = p.stage + (p.step > p.since)
    then = saved.about["course"]
    wrong = next((n for n in range(begun) if now[n : n + 1] != then[n : n + 1]), None)
    if wrong is not None:
        name = f" '{course.stages[wrong].name}'" if wrong < len(course.stages) else ""
        raise UserError(
            f"the training in {out} is of another course: its stage {wrong + 1}{name} was begun and is not the same "
            "now; give the course that stage back, or name another folder with --out"
        )
    if then == now:
        return []
    return [f"the course was changed behind stage {begun}: {len(then)} stages before, {len(now)} now"]
