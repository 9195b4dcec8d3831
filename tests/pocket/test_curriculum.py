"""A curriculum file: the project's own is sound, and each mistake is said in a sentence that names it."""

from pathlib import Path

import pytest

from harness.errors import ConfigError, UserError
from harness.stats.rng import Dice
from pocket.train.batches import make_batch
from pocket.train.curriculum import read_curriculum

STAGE = "stages: [{{name: a, steps: 9, recipes: [{0}]{1}}}]"


def write(folder: Path, recipe: str = "{skill: answer, facts: [1, 3]}", more: str = "") -> Path:
    path = folder / "course.yaml"
    path.write_text(STAGE.format(recipe, more))
    return path


def test_the_projects_own_makes_batches(teacher, drills):
    """Every recipe of every stage, whatever the stages are at the time."""
    for at, stage in enumerate(read_curriculum().stages):
        for recipe in stage.recipes:
            alone = stage.model_copy(update={"recipes": (recipe,), "tokens": recipe.size})
            number, batch = make_batch(alone, Dice("test", at), teacher, drills)
            assert number == 0
            assert batch.kept, (stage.name, recipe.skill)
            assert max(len(tree) for trees in batch.passes for tree in trees) <= recipe.size


BAD = [
    ("{skill: anser, facts: [1, 3]}", "", ConfigError, "stage 'a': .*unknown skill 'anser'. Did you mean 'answer'"),
    ("{skill: answer}", "", ConfigError, "needs one of facts, tokens, pairs; has none"),
    ("{skill: answer, facts: [1, 3], tokens: [200, 300]}", "", ConfigError, r"has \['facts', 'tokens'\]"),
    ("{skill: parts, pairs: [2, 11], size: 512}", "", ConfigError, "10 numbered parts at most"),
    ("{skill: recall, facts: [1, 3]}", "", ConfigError, "the skill 'recall' takes 'pairs'"),
    ("{skill: pecan points, pairs: [1, 3]}", "", ConfigError, "'pairs' is for recall, parts and skills that answer or"),
    ("{skill: answer, facts: [1, 3], kinds: [novel]}", "", ConfigError, "unknown 'novel'; known: musique, hotpotqa"),
    ("{skill: answer, facts: [1, 3], ask: {three: 1}}", "", ConfigError, "unknown 'three'; known: one, two, compare"),
    ("{skill: answer, facts: [1]}", "", ConfigError, "stages.0.recipes.0.facts.1 is missing"),
    ("{skill: answer, facts: [1, 3], size: 8}", "", ConfigError, "recipes.0.size=8: .*greater than or equal to 32"),
    ("{skill: answer, facts: [1, 3], peices: 2}", "", ConfigError, "unknown key '.*peices'. Did you mean 'pieces'"),
    ("{skill: answer, facts: [1, 3]}", ", gates: 1", ConfigError, "unknown key '.*gates'. Did you mean 'gate'"),
    ("{skill: answer, facts: [1, 3]}", ", gate: 0", ConfigError, "stages.0.gate=0: "),
    ("", "", ConfigError, r"stages.0.recipes=\[\]: should have at least one item"),
]


@pytest.mark.parametrize(("recipe", "more", "error", "message"), BAD)
def test_what_is_wrong_is_named(tmp_path, recipe, more, error, message):
    with pytest.raises(error, match=message) as raised:
        read_curriculum(write(tmp_path, recipe, more))
    assert str(tmp_path) not in str(raised.value)
    assert "--set" not in str(raised.value)  # a curriculum is a file; nothing of it can be set otherwise
    assert "course.yaml" in str(raised.value)


FILES = [
    (None, UserError, "cannot read the curriculum course.yaml: .*No such file"),
    ("a: [", UserError, "cannot read the curriculum course.yaml: while parsing"),
    ("{}", ConfigError, "course.yaml.*stages is missing"),
    ("stages: []", ConfigError, "course.yaml.*stages=.*at least one item"),
    ("stages: [{name: a, steps: 9}]", ConfigError, "stages.0.recipes is missing"),
]


@pytest.mark.parametrize(("text", "error", "message"), FILES)
def test_a_file_that_is_none(tmp_path, text, error, message):
    path = tmp_path / "course.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        read_curriculum(path)


SENSELESS = [
    ("{skill: answer, facts: [5, 2]}", r"facts=\[5, 2\]: should be the lowest and the highest number, 1 or more"),
    ("{skill: recall, pairs: [0, 0]}", r"pairs=\[0, 0\]: should be the lowest and the highest"),
    ("{skill: recall, pairs: [4, 129]}", r"pairs=\[4, 129\]: 129 pairs do not fit size=256"),
    ("{skill: answer, tokens: [100, 300]}", r"tokens=\[100, 300\]: should be .* 200 or more"),
    ("{skill: answer, tokens: [300, 9000]}", r"a text of 9000 tokens is longer than the window of 2048"),
    ("{skill: answer, facts: [1, 3], size: 4096}", "size=4096 is more than the window of 2048 tokens"),
    ("{skill: answer, facts: [1, 3], ask: {one: 1, two: -1}}", "ask={'one': 1, 'two': -1}: should be weights above 0"),
    ("{skill: answer, facts: [1, 3], ask: {one: .nan}}", "finite number"),
    ("{skill: answer, facts: [1, 3], weight: .inf}", "weight=inf: .*finite number"),
    ("{skill: answer, facts: [1, 3], kinds: []}", r"kinds=\[\]: should have at least one item"),
    ("{skill: pecan points of points, facts: [1, 3]}", "gathers the points of several parts; give it pieces of 2 or"),
    ("{skill: answer, facts: [1, 3], between: 4}", "'between' means nothing without 'pairs'; leave it out"),
    ("{skill: answer, pairs: [1, 3], questions: 4}", "'questions' means nothing beside 'pairs'; leave it out"),
    ("{skill: recall, pairs: [1, 3], ask: {two: 1}}", "'ask' means nothing beside 'pairs'"),
    (
        "{skill: answer, facts: [1, 3], pieces: 2, some: true}",
        "'some' needs a text of 'tokens' in 'pieces' of 2 or more",
    ),
    ("{skill: summary, tokens: [200, 300], pieces: 3, some: true}", "'some' is not for 'summary', which tells all of"),
    ("{skill: answer, tokens: [200, 300], pieces: 3, mixed: true}", "'mixed' is not for 'answer', which is shown no"),
]


@pytest.mark.parametrize(("recipe", "message"), SENSELESS)
def test_a_recipe_that_makes_no_sense(tmp_path, recipe, message):
    with pytest.raises(ConfigError, match=rf"^course.yaml: stage 'a': stages\.0\.recipes\.0[.:].*{message}"):
        read_curriculum(write(tmp_path, recipe))


def test_the_window_is_that_of_the_model(tmp_path):
    path = write(tmp_path, "{skill: answer, tokens: [300, 1000], size: 1200}")
    assert read_curriculum(path).stages
    assert read_curriculum(path, 1200).stages
    with pytest.raises(ConfigError, match="2 mistakes.*\n.*size=1200 is more than the window of 999.*\n.*of 999$"):
        read_curriculum(path, 999)


WRONG = """stages:
  - {name: one, steps: 0, recipes: [{skill: answer, facts: [5, 2]}, {skill: chose, facts: [1, 2]}]}
  - {name: two, steps: 9, recipes: [{skill: recall, facts: [1, 2]}, {skill: answer, facts: [1, 2], some: true}]}
  - {name: two, steps: 9, end_rate: -1, recipes: [{skill: answer, facts: [1, 2]}]}
"""


def test_all_mistakes_of_all_stages_at_once(tmp_path):
    path = tmp_path / "course.yaml"
    path.write_text(WRONG)
    with pytest.raises(ConfigError, match="7 mistakes") as raised:
        read_curriculum(path)
    found = [problem.removeprefix("course.yaml: ") for problem in raised.value.problems]
    starts = [
        "stage 'one': stages.0.recipes.0.facts=[5, 2]: should be the lowest",
        "stage 'one': stages.0.steps=0: should be greater than or equal to 1",
        "stage 'two': stages.2.end_rate=-1: should be greater than or equal to 0",
        "stage 'one': stages.0.recipes.1: unknown skill 'chose'. Did you mean 'choose'",
        "stage 'two': stages.1.recipes.0: the skill 'recall' takes 'pairs'",
        "stage 'two': stages.1.recipes.1: 'some' needs a text of 'tokens'",
        "stages.2: a stage before is named 'two' too; give it another name",
    ]
    assert len(found) == len(starts)
    for problem, start in zip(found, starts, strict=True):
        assert problem.startswith(start)
