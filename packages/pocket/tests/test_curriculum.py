"""A curriculum: the project's own is sound, each mistake is said in a sentence, and what may change
on the way."""

import pytest
from pocket.train.batches import make_batch
from pocket.train.curriculum import read_curriculum

from harness.errors import ConfigError, UserError
from harness.stats.rng import Dice

STAGE = "stages: [{{name: a, steps: 9, recipes: [{0}]{1}}}]"


def write(folder, recipe="{skill: answer, facts: [1, 3]}", more=""):
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
            assert batch.n_trained_on, (stage.name, recipe.skill)
            assert max(len(tree) for trees in batch.passes for tree in trees) <= recipe.size


BAD = [
    ("{skill: answer}", "", "needs one of facts, tokens, pairs; has none"),
    ("{skill: answer, facts: [1, 3], tokens: [200, 300]}", "", r"has \['facts', 'tokens'\]"),
    (
        "{skill: answer, facts: [1, 3], kinds: [novel]}",
        "",
        "unknown 'novel'; known: musique, hotpotqa",
    ),
    (
        "{skill: answer, facts: [1, 3], ask: {three: 1}}",
        "",
        "unknown 'three'; known: one, two, compare",
    ),
    ("{skill: answer, facts: [1]}", "", "stages.0.recipes.0.facts.1 is missing"),
    (
        "{skill: answer, facts: [1, 3], size: 8}",
        "",
        "recipes.0.size=8: .*greater than or equal to 32",
    ),
    (
        "{skill: answer, facts: [1, 3], peices: 2}",
        "",
        "unknown key '.*peices'. Did you mean 'pieces'",
    ),
    ("{skill: answer, facts: [1, 3]}", ", gates: 1", "unknown key '.*gates'. Did you mean 'gate'"),
    ("{skill: answer, facts: [1, 3]}", ", gate: 0", "stages.0.gate=0: "),
    ("", "", r"stages.0.recipes=\[\]: should have at least one item"),
]


@pytest.mark.parametrize(("recipe", "more", "message"), BAD)
def test_what_is_wrong_is_named(tmp_path, recipe, more, message):
    with pytest.raises(ConfigError, match=message) as raised:
        read_curriculum(write(tmp_path, recipe, more))
    assert str(tmp_path) not in str(raised.value)
    assert "--set" not in str(
        raised.value
    )  # a curriculum is a file; nothing of it can be set otherwise
    assert "course.yaml" in str(raised.value)


FILES = [
    (None, UserError, "cannot read the curriculum course.yaml: .*No such file"),
    ("a: [", UserError, "cannot read the curriculum course.yaml: did not find expected node"),
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


def test_the_window_is_that_of_the_model(tmp_path):
    path = write(tmp_path, "{skill: answer, tokens: [300, 1000], size: 1200}")
    assert read_curriculum(path).stages
    assert read_curriculum(path, 1200).stages
    with pytest.raises(
        ConfigError, match="stage 'a': a recipe of 'answer' is longer than the window of 999 tokens"
    ):
        read_curriculum(path, 999)
