"""What is learnt in which order: stages of recipes, each left when it is mastered, not when the clock says so.

read_curriculum(None)       the project's own, curriculum.yaml
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from harness_training.teacher import WINDOW
from pydantic import ValidationError

from harness.config.validation import error_sentences
from harness.errors import ConfigError, UnknownName, UserError
from pocket.tasks.catalog import skills
from pocket.tasks.recall import DRILLS
from pocket.tasks.recipes import Curriculum

if TYPE_CHECKING:
    from harness_training.loop import Checkpoint

OWN = Path(__file__).with_name("curriculum.yaml")


def read_curriculum(path: Path | None = None, window: int = WINDOW) -> Curriculum:
    """Read a curriculum for a model with a window of so many tokens.

    Raises UserError for a file that cannot be read, ConfigError for values, skills and lengths that cannot be used.
    """
    path = path or OWN
    try:
        course = Curriculum.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"cannot read the curriculum {path.name}: {str(error).splitlines()[0]}") from error
    except ValidationError as error:
        # No path before the keys: the message would suggest --set, which does not reach into this file.
        raise ConfigError([f"{path.name}: {one}" for one in error_sentences(error, Curriculum, "", {})]) from error
    known, problems = [*DRILLS, *skills()], list[str]()
    for stage in course.stages:
        for recipe in stage.recipes:
            if recipe.skill not in known:
                problems.append(str(UnknownName("skill", recipe.skill, known)))
            elif recipe.size > window:
                problems.append(f"a recipe of '{recipe.skill}' is longer than the window of {window} tokens")
        if problems:
            raise ConfigError([f"{path.name}: stage '{stage.name}': {problem}" for problem in problems])
    return course


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
