"""A curriculum file: the project's own is sound, and each mistake is said in a sentence that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ConfigError, UnknownName, UserError
from harness.method import Skill
from harness.pocket.curriculum import RecipeModel, curriculum, skills
from harness.pocket.dice import Dice
from harness.pocket.recall import Drill
from harness.pocket.scenes import SCENES, Recipe
from harness.pocket.teacher import Teacher
from harness.pocket.training import make_batch

STAGE = "stages: [{{name: a, steps: 9, recipes: [{0}]{1}}}]"


def write(folder: Path, recipe: str = "{skill: answer, facts: [1, 3]}", more: str = "") -> Path:
    path = folder / "course.yaml"
    path.write_text(STAGE.format(recipe, more))
    return path


def test_skills_are_those_that_methods_declare() -> None:
    found = skills()
    assert set(found) == {"answer", "choose", "pecan search", "pecan points", "pecan points of points", "summary"}
    assert all(isinstance(s, Skill) and s.name == name and s.scene in SCENES for name, s in found.items())


def test_the_projects_own_makes_batches(teacher: Teacher, drills: Drill) -> None:
    """Every recipe of every stage, whatever the stages are at the time."""
    for at, stage in enumerate(curriculum().stages):
        for recipe in stage.recipes:
            alone = stage.model_copy(update={"recipes": (recipe,)})
            number, batch = make_batch(alone, Dice("test", at), teacher, drills)
            assert number == 0
            assert batch.ids.shape[1] == recipe.size
            assert (batch.group >= 0).any(), (stage.name, recipe.skill)


def test_defaults(tmp_path: Path) -> None:
    (stage,) = curriculum(write(tmp_path)).stages
    assert (stage.gate, stage.over, stage.rate, stage.end_rate, stage.tokens) == (0.95, 50, 1e-3, None, 8192)
    (recipe,) = stage.recipes
    assert recipe.recipe() == Recipe("answer", ("musique", "narrativeqa", "qasper"), facts=(1, 3), ask={"one": 1.0})
    assert recipe.gate is None


def test_a_recipe_of_recall_has_pairs() -> None:
    assert RecipeModel(skill="recall", pairs=(2, 3)).pairs == (2, 3)


BAD = [
    ("{skill: anser, facts: [1, 3]}", "", UnknownName, "unknown skill 'anser'. Did you mean 'answer'"),
    ("{skill: answer}", "", ConfigError, "needs one of facts, tokens, pairs; has none"),
    ("{skill: answer, facts: [1, 3], tokens: [9, 9]}", "", ConfigError, r"has \['facts', 'tokens'\]"),
    ("{skill: recall, facts: [1, 3]}", "", ConfigError, "the skill 'recall' takes 'pairs'"),
    (
        "{skill: pecan points, pairs: [1, 3]}",
        "",
        ConfigError,
        "'pairs' is for 'recall' and skills that answer, not 'pecan p",
    ),
    ("{skill: answer, facts: [1, 3], kinds: [novel]}", "", ConfigError, "unknown 'novel'; known: musique, hotpotqa"),
    ("{skill: answer, facts: [1, 3], ask: {three: 1}}", "", ConfigError, "unknown 'three'; known: one, two, compare"),
    ("{skill: answer, facts: 3}", "", ConfigError, "stages.0.recipes.0.facts=3: .*tuple"),
    ("{skill: answer, facts: [1]}", "", ConfigError, "stages.0.recipes.0.facts.1 is missing"),
    ("{skill: answer, facts: [1, 3], size: 8}", "", ConfigError, "recipes.0.size=8: .*greater than or equal to 32"),
    ("{skill: answer, facts: [1, 3], weight: 0}", "", ConfigError, "recipes.0.weight=0: .*greater than 0"),
    ("{skill: answer, facts: [1, 3], questions: 0}", "", ConfigError, "recipes.0.questions=0: "),
    ("{skill: answer, facts: [1, 3], gate: 2}", "", ConfigError, "recipes.0.gate=2: .*less than or equal to 1"),
    ("{skill: answer, facts: [1, 3], peices: 2}", "", ConfigError, "unknown key '.*peices'. Did you mean 'pieces'"),
    ("{skill: answer, facts: [1, 3]}", ", gates: 1", ConfigError, "unknown key '.*gates'. Did you mean 'gate'"),
    ("{skill: answer, facts: [1, 3]}", ", gate: 0", ConfigError, "stages.0.gate=0: "),
    ("{skill: answer, facts: [1, 3]}", ", rate: 0", ConfigError, "stages.0.rate=0: "),
    ("{skill: answer, facts: [1, 3]}", ", tokens: 10", ConfigError, "stages.0.tokens=10: "),
    ("{skill: answer, facts: [1, 3]}", ", over: 0", ConfigError, "stages.0.over=0: "),
    ("", "", ConfigError, r"stages.0.recipes=\[\]: should have at least one item"),
]


@pytest.mark.parametrize(("recipe", "more", "error", "message"), BAD)
def test_what_is_wrong_is_named(tmp_path: Path, recipe: str, more: str, error: type[UserError], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        curriculum(write(tmp_path, recipe, more))
    assert str(tmp_path) not in str(raised.value)
    assert "--set" not in str(raised.value)  # a curriculum is a file; nothing of it can be set otherwise
    assert error is UnknownName or "course.yaml" in str(raised.value)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="2 mistakes") as raised:
        curriculum(write(tmp_path, "{skill: answer, facts: [1, 3], size: 8, weight: 0}"))
    assert len(raised.value.problems) == 2


FILES = [
    (None, UserError, "cannot read the curriculum course.yaml: .*No such file"),
    ("a: [", UserError, "cannot read the curriculum course.yaml: while parsing"),
    ("", ConfigError, "course.yaml.*should be"),
    ("- 1", ConfigError, "course.yaml.*should be"),
    ("{}", ConfigError, "course.yaml.*stages is missing"),
    ("stages: []", ConfigError, "course.yaml.*stages=.*at least one item"),
    ("stages: [{name: a, steps: 9}]", ConfigError, "stages.0.recipes is missing"),
]


@pytest.mark.parametrize(("text", "error", "message"), FILES)
def test_a_file_that_is_none(tmp_path: Path, text: str | None, error: type[UserError], message: str) -> None:
    path = tmp_path / "course.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        curriculum(path)


@pytest.mark.xfail(strict=True, reason="ranges and weights are not checked: drawn from as they are, or without end")
@pytest.mark.parametrize(
    "recipe",
    [
        "{skill: answer, facts: [5, 2]}",
        "{skill: answer, facts: [0, 0]}",
        "{skill: recall, pairs: [0, 0]}",
        "{skill: recall, pairs: [9000, 9000]}",
        "{skill: answer, tokens: [-5, 300]}",
        "{skill: answer, facts: [1, 3], ask: {one: 0}}",
        "{skill: answer, facts: [1, 3], ask: {one: 1, two: -1}}",
        "{skill: answer, facts: [1, 3], kinds: []}",
        "{skill: pecan points of points, facts: [1, 3]}",
    ],
)
def test_a_recipe_that_makes_no_sense(tmp_path: Path, recipe: str) -> None:
    with pytest.raises(ConfigError):
        curriculum(write(tmp_path, recipe))
