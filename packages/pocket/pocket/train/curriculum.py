"""What is learnt in which order: stages of recipes, each left when it is mastered, not when the
clock says so.

read_curriculum(None)       the project's own, curriculum.yaml
"""

from pathlib import Path

from harness_training.teacher import WINDOW
from pydantic import ValidationError

from harness.config.schema import json_sha256
from harness.config.yaml_tree import error_sentences
from harness.errors import ConfigError, UnknownName, UserError
from harness.storage.yaml_text import parse_yaml
from pocket.tasks.catalog import skills
from pocket.tasks.recall import DRILLS
from pocket.tasks.recipes import Curriculum

OWN = Path(__file__).with_name("curriculum.yaml")


def read_curriculum(path: Path | None = None, window: int = WINDOW) -> Curriculum:
    """Read a curriculum file and check it.

    Args:
        path: The file; None for the project's own.
        window: How many tokens the model reads; no recipe may have longer rows.

    Raises:
        UserError: The file cannot be read.
        ConfigError: Values, skills or lengths cannot be used.
    """
    path = path or OWN
    try:
        curriculum = Curriculum.model_validate(parse_yaml(path.read_bytes()))
    except ValidationError as error:
        # No path before the keys: the message would suggest --set, which does not reach into this
        # file.
        mistakes = error_sentences(error, Curriculum, "", {})
        raise ConfigError([f"{path.name}: {mistake}" for mistake in mistakes]) from error
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"cannot read the curriculum {path.name}: {reason}") from error
    known_skills = [*DRILLS, *skills()]
    problems: list[str] = []
    for stage in curriculum.stages:
        for recipe in stage.recipes:
            if recipe.skill not in known_skills:
                problems.append(str(UnknownName("skill", recipe.skill, known_skills)))
            elif recipe.size > window:
                problems.append(
                    f"a recipe of '{recipe.skill}' is longer than the window of {window} tokens"
                )
        if problems:  # of the first stage that has any
            raise ConfigError(
                [f"{path.name}: stage '{stage.name}': {problem}" for problem in problems]
            )
    return curriculum


def course_digest(course: Curriculum) -> str:
    """16 hex digits of a sha256 of all stages, without values that are defaults."""
    return json_sha256(course.model_dump(mode="json", exclude_defaults=True))[:16]
