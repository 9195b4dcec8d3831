"""A course that changed while a training was under way."""

from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.training.loop import Checkpoint, Progress
from pocket.tasks.recipes import Curriculum
from pocket.train.curriculum import check_course, stage_digests

RECALL: dict[str, Any] = {"skill": "recall", "pairs": [2, 3]}
ANSWER: dict[str, Any] = {"skill": "answer", "facts": [1, 2], "ask": {"one": 1, "two": 2}}
STAGES: list[dict[str, Any]] = [
    {"name": "easy", "steps": 20, "recipes": [RECALL]},
    {"name": "mixed", "steps": 60, "recipes": [RECALL, ANSWER]},
    {"name": "long", "steps": 90, "recipes": [ANSWER]},
]
OUT = Path("out")


def course(*stages: dict[str, Any]) -> Curriculum:
    return Curriculum.model_validate({"stages": stages or STAGES})


def found(stage: int, steps: int) -> Checkpoint:
    """A checkpoint `steps` into a stage of STAGES."""
    return Checkpoint(Progress(step=100 + steps, stage=stage, since=100), {}, {"course": stage_digests(course())})


def with_(at: int, **more: Any) -> list[dict[str, Any]]:
    return [{**stage, **more} if n == at else stage for n, stage in enumerate(STAGES)]


# --- digests ----------------------------------------------------------------------------------------------------------


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


# --- the course -------------------------------------------------------------------------------------------------------

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
