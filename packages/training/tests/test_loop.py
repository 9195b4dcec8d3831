"""Checkpoints and the log: what is read is what was written, whole or not at all, and of this training."""

import json

import pytest
import torch
from harness_training import loop
from harness_training.loop import Progress, truncate_log
from harness_training.loop import load_checkpoint as load
from harness_training.loop import save_checkpoint as save

from harness.errors import CannotRun, UserError

ABOUT = {"seed": 0, "tokenizer": "aaaa", "shape": {"width": 8, "start": 0.06}}


def tensors(value=1.0):
    return {"weight.embed": torch.full((3, 2), value), "mean.norm": torch.arange(4.0)}


def progress(step=120):
    passed = [{"stage": "é", "steps": 7, "mastered": True, "right": {"0 answer": 0.95}, "minutes": 0.1}]
    return Progress(step, 1, 40, {"0": [0.25, 1.0]}, 12.5, 999, passed)


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "checkpoint", progress(), tensors(), ABOUT)
    return tmp_path / "checkpoint"


def test_what_is_read_is_what_was_written(folder):
    assert load(folder.parent, ABOUT) is None, "nothing was written there"
    found = load(folder, ABOUT)
    assert found[0] == progress()
    assert found[1].keys() == tensors().keys()
    assert all(torch.equal(found[1][k], v) for k, v in tensors().items())


def test_the_last_one_is_kept(folder):
    (folder / ".0000150.safetensors").write_bytes(b"half")  # a process was killed while it wrote this
    save(folder, progress(200), tensors(2.0), ABOUT)
    assert sorted(p.name for p in folder.iterdir()) == ["0000200.safetensors", "state.json"]
    found = load(folder, ABOUT)
    assert found[0].step == 200
    assert found[1]["weight.embed"][0, 0] == 2.0


@pytest.mark.parametrize("dies", ["save_file", "write_json"])
def test_a_crash_while_saving_leaves_the_one_before(folder, monkeypatch, dies):
    def die(*_):
        raise OSError("no space left")

    monkeypatch.setattr(loop, dies, die)
    with pytest.raises(OSError, match="no space"):
        save(folder, progress(200), tensors(2.0), ABOUT)
    found = load(folder, ABOUT)
    assert found[0].step == 120
    assert found[1]["weight.embed"][0, 0] == 1.0


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


DAMAGES = {
    "tensors cut": lambda f: cut(f / "0000120.safetensors"),
    "tensors gone": lambda f: (f / "0000120.safetensors").unlink(),
    "state cut": lambda f: cut(f / "state.json"),
    "state no object": lambda f: (f / "state.json").write_text("[]"),
    "no tensors named": lambda f: (f / "state.json").write_text('{"about": {}}'),
    "nothing to agree on": lambda f: (f / "state.json").write_text('{"tensors": "0000120.safetensors"}'),
    "an unknown key": lambda f: (f / "state.json").write_text('{"tensors": "x", "about": {}, "stpe": 1}'),
}


@pytest.mark.parametrize("spoil", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_said_with_what_to_do(folder, spoil):
    spoil(folder)
    with pytest.raises(CannotRun, match=r"the checkpoint in .* is damaged \(.+\); delete the folder to begin again"):
        load(folder, ABOUT)


OTHERS = [
    ({"seed": 1}, r"of another training: seed \(0 there, 1 here\); name another folder with --out"),
    ({"tokenizer": "bbbb"}, r"tokenizer \(aaaa there, bbbb here\)"),
    ({"shape": {"width": 16, "start": 0.06}}, r"shape \(.*'width': 8.* there, .*'width': 16.* here\)"),
    ({"seed": 2, "tokenizer": "c"}, r"seed \(0 there, 2 here\), tokenizer \(aaaa there, c here\)"),
]


@pytest.mark.parametrize(("change", "message"), OTHERS)
def test_another_training_is_refused(folder, change, message):
    with pytest.raises(UserError, match=message):
        load(folder, {**ABOUT, **change})
    assert load(folder, ABOUT) is not None  # and nothing was touched


def logged(path, *steps, **more):
    with path.open("a") as file:
        file.writelines(json.dumps({"step": step, **more}) + "\n" for step in steps)


def steps_of(path):
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("torn", ["", '{"step": 10', '{"step": 100, "loss": 1}'])
@pytest.mark.parametrize(("step", "left"), [(0, []), (49, []), (50, [50]), (120, [50, 100]), (9999, [50, 100, 150])])
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
