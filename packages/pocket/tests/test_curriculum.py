"""A curriculum: the project's own is sound, each mistake is said in a sentence, and what may change on the way."""

from pathlib import Path

import pytest
from harness_training.loop import Checkpoint, Progress
from pocket.tasks.recipes import Curriculum
from pocket.train.batches import make_batch
from pocket.train.curriculum import check_course, read_curriculum, stage_digests

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
            assert batch.kept, (stage.name, recipe.skill)
            assert max(len(tree) for trees in batch.passes for tree in trees) <= recipe.size


BAD = [
    ("{skill: answer}", "", "needs one of facts, tokens, pairs; has none"),
    ("{skill: answer, facts: [1, 3], tokens: [200, 300]}", "", r"has \['facts', 'tokens'\]"),
    ("{skill: answer, facts: [1, 3], kinds: [novel]}", "", "unknown 'novel'; known: musique, hotpotqa"),
    ("{skill: answer, facts: [1, 3], ask: {three: 1}}", "", "unknown 'three'; known: one, two, compare"),
    ("{skill: answer, facts: [1]}", "", "stages.0.recipes.0.facts.1 is missing"),
    ("{skill: answer, facts: [1, 3], size: 8}", "", "recipes.0.size=8: .*greater than or equal to 32"),
    ("{skill: answer, facts: [1, 3], peices: 2}", "", "unknown key '.*peices'. Did you mean 'pieces'"),
    ("{skill: answer, facts: [1, 3]}", ", gates: 1", "unknown key '.*gates'. Did you mean 'gate'"),
    ("{skill: answer, facts: [1, 3]}", ", gate: 0", "stages.0.gate=0: "),
    ("", "", r"stages.0.recipes=\[\]: should have at least one item"),
]


@pytest.mark.parametrize(("recipe", "more", "message"), BAD)
def test_what_is_wrong_is_named(tmp_path, recipe, more, message):
    with pytest.raises(ConfigError, match=message) as raised:
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


def test_the_window_is_that_of_the_model(tmp_path):
    path = write(tmp_path, "{skill: answer, tokens: [300, 1000], size: 1200}")
    assert read_curriculum(path).stages
    assert read_curriculum(path, 1200).stages
    with pytest.raises(ConfigError, match="stage 'a': a recipe of 'answer' is longer than the window of 999 tokens"):
        read_curriculum(path, 999)


RECALL = {"skill": "recall", "pairs": [2, 3]}
ANSWER = {"skill": "answer", "facts": [1, 2], "ask": {"one": 1, "two": 2}}
STAGES = [
    {"name": "easy", "steps": 20, "recipes": [RECALL]},
    {"name": "mixed", "steps": 60, "recipes": [RECALL, ANSWER]},
    {"name": "long", "steps": 90, "recipes": [ANSWER]},
]
OUT = Path("out")


def course(*stages):
    return Curriculum.model_validate({"stages": stages or STAGES})


def found(stage, steps):
    """A checkpoint `steps` into a stage of STAGES."""
    return Checkpoint(Progress(step=100 + steps, stage=stage, since=100), {}, {"course": stage_digests(course())})


def with_(at, **more):
    return [{**stage, **more} if n == at else stage for n, stage in enumerate(STAGES)]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"name": "renamed"}, True),
        ({"gate": 0.95, "over": 50}, True),  # what it was before, said
        ({"recipes": [RECALL, {**ANSWER, "size": 256, "weight": 1}]}, True),
        ({"gate": 0.9}, False),
        ({"end_rate": 0.0001}, False),
        ({"recipes": [ANSWER, RECALL]}, False),
        ({"recipes": [RECALL, {**ANSWER, "facts": [1, 3]}]}, False),
        ({"recipes": [RECALL, {**ANSWER, "ask": {"two": 2, "one": 1}}]}, False),  # drawn in another order
    ],
)
def test_a_mark_changes_with_what_a_stage_trains(change, same):
    before, after = stage_digests(course()), stage_digests(course(*with_(1, **change)))
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, same, True]


def test_marks_are_those_that_checkpoints_hold():
    """Another value here means that no training goes on from a checkpoint of before."""
    assert stage_digests(course())[0] == "f499d83afca37246"


MORE = {"name": "more", "steps": 5, "recipes": [RECALL]}
BEHIND = "the course was changed behind stage {}: 3 stages before, {} now"
ALLOWED = [
    ("the same", found(1, 5), STAGES, []),
    ("a stage more", found(1, 5), [*STAGES, MORE], [BEHIND.format(2, 4)]),
    ("a later stage changed", found(1, 5), with_(2, steps=7), [BEHIND.format(2, 3)]),
    ("a stage not yet begun changed", found(1, 0), with_(1, steps=7), [BEHIND.format(1, 3)]),
    ("all done", found(3, 0), STAGES, []),
    ("nothing begun", found(0, 0), [MORE], [BEHIND.format(0, 1)]),
    ("a passed stage renamed", found(1, 5), with_(0, name="renamed"), []),
]


@pytest.mark.parametrize(("then", "now", "notes"), [c[1:] for c in ALLOWED], ids=[c[0] for c in ALLOWED])
def test_what_may_change(then, now, notes):
    assert check_course(then, course(*now), OUT) == notes


REFUSED = [
    ("a passed stage changed", found(1, 5), with_(0, steps=21), "its stage 1 'easy' was begun and is not the same now"),
    ("the stage at hand changed", found(1, 5), with_(1, steps=7), "its stage 2 'mixed' was begun"),
    ("a stage put in before", found(1, 5), [MORE, *STAGES], "its stage 1 'more' was begun"),
    ("one step done", found(0, 1), [MORE], "its stage 1 'more' was begun"),
]


@pytest.mark.parametrize(("then", "now", "message"), [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_what_may_not(then, now, message):
    with pytest.raises(UserError, match=f"the training in out is of another course: {message}.*name another folder"):
        check_course(then, course(*now), OUT)
