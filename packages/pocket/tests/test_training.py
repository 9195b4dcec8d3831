"""Training: the same numbers from the same seed; stages are left at their gates; a stopped one goes
on."""

import json
import shutil

import pytest
import torch
from harness_training.loop import resolve_device
from harness_training.progress import Progress
from pocket.train import model_folder
from pocket.train.trainer import Trainer

from harness.errors import CannotRun, UserError
from packages.pocket.tests.trainings import (
    RECALL,
    begun,
    lines,
    settings,
    stage,
    state_of,
    steady,
    train,
    weights,
)


def test_the_log(undisturbed):
    out, said = undisturbed
    found = lines(out)
    assert list(found) == [25, 50, 75, 100]
    assert [line["stage"] for line in found.values()] == ["short", "mixed", "mixed", "mixed"]
    for line in found.values():
        assert set(line) - {"left_out"} == {
            "step",
            "stage",
            "loss",
            "right",
            "minutes",
            "tokens_per_s",
        }
        assert 0 < line["loss"] < 20
        assert line["tokens_per_s"] > 0
        assert all(0 <= share <= 1 for share in line["right"].values())
    assert set(found[100]["right"]) == {"0 recall", "1 answer"}
    assert found[100]["loss"] < found[50]["loss"]
    # In rows of 128 tokens there is not always room for both questions about a text.
    assert "left_out" not in found[25]
    assert set(found[100]["left_out"]) == {"1 answer"}
    assert 0.05 < found[100]["left_out"]["1 answer"] < 0.5
    assert [s.split("  ")[0] for s in said if s.startswith("step")] == [f"step {n}" for n in found]


def test_a_stage_is_left_at_its_gate_or_its_end(undisturbed):
    out, said = undisturbed
    state = state_of(out)
    passed = [(p["stage"], p["steps"], p["mastered"]) for p in state["passed"]]
    assert passed == [("easy", 10, False), ("short", 30, False)]
    assert (state["step"], state["stage"], state["since"]) == (100, 2, 40)
    assert set(state["recent"]) == {"0", "1"}
    assert all(len(shares) <= 10 for shares in state["recent"].values())
    ends = [s.split(":")[0] for s in said if s.startswith("stage")]
    assert ends == ["stage 'easy' ended at step 10", "stage 'short' ended at step 40"]


def test_training_goes_on_from_a_model(undisturbed, course, tmp_path):
    trainer = Trainer(
        settings(tmp_path / "out", course, begin=undisturbed[0] / "model"), lambda _: None
    )
    for name, weight in weights(undisturbed[0]).items():
        assert torch.equal(trainer.weights[name].detach().bfloat16(), weight)
    theirs, ours = (
        p / "tokenizer.json" for p in (undisturbed[0] / "model", tmp_path / "out" / "model")
    )
    assert ours.read_bytes() == theirs.read_bytes()
    assert trainer.progress.step == 0


GATES = [
    ("above, for long enough", stage(0.9, None), {"0": [0.9, 0.9, 1.0]}, 3, True),
    ("below", stage(0.9, None), {"0": [0.9, 0.9, 0.8]}, 3, None),
    ("above, not for long", stage(0.9, None), {"0": [1.0, 1.0]}, 2, None),
    ("one of two", stage(0.9, None, None), {"0": [1.0] * 3, "1": [0.5] * 3}, 6, None),
    ("the other not begun", stage(0.9, None, None), {"0": [1.0] * 3}, 3, None),
    ("the other not waited for", stage(0.9, None, 0), {"0": [1.0] * 3, "1": [0.0]}, 4, True),
    (
        "the other with a lower gate",
        stage(0.9, None, 0.5),
        {"0": [1.0] * 3, "1": [0.5] * 3},
        6,
        True,
    ),
    ("out of steps", stage(0.9, None, steps=5), {"0": [0.0] * 3}, 5, False),
    ("mastered with the last step", stage(0.9, None, steps=5), {"0": [1.0] * 3}, 5, True),
    ("never by mastery", stage(1.01, None), {"0": [1.0] * 3}, 99, None),
]


@pytest.mark.parametrize(
    ("where", "recent", "steps", "mastered"), [g[1:] for g in GATES], ids=[g[0] for g in GATES]
)
def test_a_gate(where, recent, steps, mastered):
    trainer = Trainer.__new__(Trainer)
    trainer.tell = lambda _: None
    trainer.course = type("Course", (), {"stages": (where, where)})()
    trainer.progress = Progress(step=7 + steps, since=7, recent=recent)
    trainer._after_step()
    p = trainer.progress
    assert p.stage == (0 if mastered is None else 1)
    assert [(one.steps, one.mastered) for one in p.passed] == (
        [] if mastered is None else [(steps, mastered)]
    )
    assert (p.since, p.recent) == ((7, recent) if mastered is None else (7 + steps, {}))


def test_no_gpu_is_said(tokenizer_folder, course, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        CannotRun, match="no GPU is available; leave --device out or use --device cpu"
    ):
        Trainer(settings(tmp_path / "out", course, device="cuda"), lambda _: None)
    assert resolve_device("auto") == "cpu"


def test_a_loss_that_is_no_number_ends_the_training(
    tokenizer_folder, course, tmp_path, monkeypatch
):
    trainer = Trainer(
        settings(begun(tokenizer_folder, tmp_path / "out"), course, steps=3), lambda _: None
    )
    with torch.no_grad():
        trainer.weights["model.norm.weight"][0] = float("nan")
    with pytest.raises(
        CannotRun, match="the loss is nan at step 0; start again from the last checkpoint"
    ):
        trainer.run()
    assert not any((tmp_path / "out" / "checkpoint").iterdir())


def test_rates():
    trainer = Trainer.__new__(Trainer)
    falling = stage(0.9, None, steps=10).model_copy(update={"rate": 1.0, "end_rate": 0.2})
    for step, since, rate in (
        (0, 0, 0.01),
        (500, 500, 1.0),
        (505, 500, 0.6),
        (510, 500, 0.2),
        (600, 500, 0.2),
    ):
        trainer.progress = Progress(step=step, since=since)
        assert trainer._learning_rate(falling) == pytest.approx(rate), (
            "the first hundred steps begin slowly"
        )


def test_resumed_from_a_checkpoint_it_ends_the_same(undisturbed, course, tmp_path):
    """As if it had been killed behind step 75: that one which is killed does so is in
    packages/training/tests."""
    out, said = shutil.copytree(undisturbed[0], tmp_path / "out"), list[str]()
    shutil.rmtree(out / "checkpoint" / "checkpoint-100")
    (out / "model" / "model.safetensors").unlink()
    train(settings(out, course, steps=100), said.append)
    assert said[0] == "going on from step 75, stage 'mixed'"
    theirs, ours = lines(undisturbed[0]), lines(out)
    assert len((out / "log.jsonl").read_text().splitlines()) == len(ours), "each step once"
    assert {n: steady(line) for n, line in ours.items()} == {
        n: steady(line) for n, line in theirs.items()
    }
    for name, weight in weights(out).items():
        assert torch.equal(weight, weights(undisturbed[0])[name]), name
    state, other = state_of(out), state_of(undisturbed[0])
    assert list(map(steady, state["passed"])) == list(map(steady, other["passed"]))
    same = ("step", "stage", "since", "recent", "tokens")
    assert {k: state[k] for k in same} == {k: other[k] for k in same}


def test_what_is_done_is_not_done_again(undisturbed, course, tmp_path):
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    said = []
    train(settings(out, course, steps=75), said.append)
    assert said == ["going on from step 100, stage 'mixed'"]
    assert all(torch.equal(w, weights(undisturbed[0])[k]) for k, w in weights(out).items())


def test_a_start_is_kept_and_only_the_same_may_be_told_again(undisturbed, course, tmp_path):
    begin, out = undisturbed[0] / "model", tmp_path / "out"
    train(settings(out, course, begin=begin, steps=2), lambda _: None)
    mark = state_of(out)["about"]["begin"]
    assert mark == model_folder.weights_digest(begin)
    first, second = (
        json.loads((folder / "card.json").read_text())["trained"]
        for folder in (begin, out / "model")
    )
    assert second["began"] == mark
    assert second["before"] == [first]
    train(
        settings(out, course, begin=begin, steps=3), lambda _: None
    )  # and after going on from a checkpoint
    assert json.loads((out / "model" / "card.json").read_text())["trained"]["before"] == [first]
    page = (out / "model" / "CARD.md").read_text(encoding="utf-8")
    assert (
        f"2 trainings, each from the weights of the one before: {first['steps'] + 3:,} steps"
        in page
    )
    said = []
    trainer = Trainer(settings(out, course, begin=begin), said.append)
    assert torch.equal(
        trainer.weights["lm_head.weight"].detach().bfloat16(), weights(out)["lm_head.weight"]
    )
    with pytest.raises(UserError, match=r"of another training: begin \(.* there"):
        Trainer(settings(out, course, begin=out / "model"), lambda _: None)
    with pytest.raises(UserError, match=r"begin \(None there"):
        Trainer(settings(undisturbed[0], course, begin=begin), lambda _: None)


def test_another_course_is_another_training(undisturbed, course, tmp_path):
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    other = tmp_path / "course.yaml"
    other.write_text(course.read_text() + f"  - {{name: more, steps: 5, recipes: [{RECALL}]}}\n")
    with pytest.raises(UserError, match=r"is of another training: course \(.+ there, .+ here\)"):
        Trainer(settings(out, other, steps=150), lambda _: None)
