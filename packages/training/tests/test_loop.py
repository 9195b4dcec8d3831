"""Checkpoints and the log: the last whole checkpoint of this training is found, and no step is
twice in the log."""

import json

import pytest
from harness_training.loop import PROGRESS_FILE, load_checkpoint, truncate_log
from harness_training.progress import Progress

from harness.errors import UserError

ABOUT = {"seed": 0, "tokenizer": "aaaa", "shape": {"width": 8, "start": 0.06}}


@pytest.fixture
def folder(tmp_path):
    for step in (80, 120):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / PROGRESS_FILE).write_text(
            json.dumps({"step": step, "about": ABOUT})
        )
    (tmp_path / "checkpoint-200").mkdir()  # a process was killed while it wrote this
    return tmp_path


def test_the_last_whole_one_is_read(folder):
    assert load_checkpoint(folder / "other", ABOUT) is None, "nothing was written there"
    found = load_checkpoint(folder, ABOUT)
    assert (found.progress, found.folder.name) == (Progress(step=120), "checkpoint-120")


OTHERS = [
    ({"seed": 1}, r"of another training: seed \(0 there, 1 here\); name another folder with --out"),
    ({"tokenizer": "bbbb"}, r"tokenizer \(aaaa there, bbbb here\)"),
    (
        {"shape": {"width": 16, "start": 0.06}},
        r"shape \(.*'width': 8.* there, .*'width': 16.* here\)",
    ),
    ({"seed": 2, "tokenizer": "c"}, r"seed \(0 there, 2 here\), tokenizer \(aaaa there, c here\)"),
]


@pytest.mark.parametrize(("change", "message"), OTHERS)
def test_another_training_is_refused(folder, change, message):
    with pytest.raises(UserError, match=message):
        load_checkpoint(folder, {**ABOUT, **change})


def logged(path, *steps, **more):
    with path.open("a") as file:
        file.writelines(json.dumps({"step": step, **more}) + "\n" for step in steps)


def steps_of(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("torn", ["", '{"step": 10', '{"step": 100, "loss": 1}'])
@pytest.mark.parametrize(
    ("step", "left"), [(0, []), (49, []), (50, [50]), (120, [50, 100]), (9999, [50, 100, 150])]
)
def test_what_was_logged_after_a_step_is_dropped(tmp_path, step, left, torn):
    path = tmp_path / "log.jsonl"
    truncate_log(path, step)
    assert not path.exists(), "no log is no log"
    logged(path, 50, 100, 150, stage="é")
    with path.open("a") as file:
        file.write(torn)
    truncate_log(path, step)
    assert steps_of(path) == left
    assert [p.name for p in tmp_path.iterdir()] == ["log.jsonl"]


def test_one_task_of_several_is_cut_by_its_own_steps(tmp_path):
    path = tmp_path / "log.jsonl"
    for task, own, at in (("a", 1, 1), ("b", 1, 2), ("a", 2, 3), ("b", 2, 4)):
        logged(path, at, task=task, task_step=own)
    with path.open("a") as file:
        file.write('{"task": "a", "task_step": 1')
    truncate_log(path, 1, "b")
    assert steps_of(path) == [1, 2, 3]
    truncate_log(path, 0, "a")
    assert steps_of(path) == [2]
