"""Trainings that go on: killed, with another course, from other weights, after nothing at all."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch

from harness.errors import UserError
from harness.training.loop import Checkpoint, Progress
from pocket.train import llama
from pocket.train.trainer import Trainer
from tests.forked import start
from tests.pocket.trainings import RECALL, begun, lines, settings, steady, train, weights


def test_killed_and_resumed_it_ends_the_same(
    undisturbed: tuple[Path, list[str]], tokenizer_folder: Path, course: Path, tmp_path: Path
) -> None:
    out = begun(tokenizer_folder, tmp_path / "out")
    command = [str(out), str(course), "100"]
    training = start("tests.pocket.trainings", command, tmp_path, tmp_path / "printed", os.environ)
    code, _, messages = training.end()
    assert code == -signal.SIGKILL, messages
    assert json.loads((out / "checkpoint" / "state.json").read_text())["step"] == 50
    said: list[str] = []
    train(settings(out, course, steps=200), said.append)
    assert said[0] == "going on from step 50, stage 'short'"
    theirs, ours = lines(undisturbed[0]), lines(out)
    assert len((out / "log.jsonl").read_text().splitlines()) == len(ours), "each step once"
    assert {n: steady(line) for n, line in ours.items()} == {n: steady(line) for n, line in theirs.items()}
    for name, weight in weights(out).items():
        assert torch.equal(weight, weights(undisturbed[0])[name]), name
    state, other = (json.loads((o / "checkpoint" / "state.json").read_text()) for o in (out, undisturbed[0]))
    assert list(map(steady, state["passed"])) == list(map(steady, other["passed"]))
    same = ("step", "stage", "since", "recent", "tokens")
    assert {k: state[k] for k in same} == {k: other[k] for k in same}


def test_what_is_done_is_not_done_again(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    said: list[str] = []
    train(settings(out, course, steps=150), said.append)
    assert said == ["going on from step 200, stage 'mixed'"]
    assert all(torch.equal(w, weights(undisturbed[0])[k]) for k, w in weights(out).items())


def test_a_start_is_kept_and_only_the_same_may_be_told_again(
    undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path
) -> None:
    begin, out = undisturbed[0] / "model", tmp_path / "out"
    train(settings(out, course, begin=begin, steps=2), lambda _: None)
    mark = json.loads((out / "checkpoint" / "state.json").read_text())["about"]["begin"]
    assert mark == llama.weights_digest(begin)
    first, told = (json.loads((folder / "card.json").read_text())["trained"] for folder in (begin, out / "model"))
    assert told["began"] == mark
    assert told["before"] == [first]
    train(settings(out, course, begin=begin, steps=3), lambda _: None)  # and after going on from a checkpoint
    assert json.loads((out / "model" / "card.json").read_text())["trained"]["before"] == [first]
    page = (out / "model" / "CARD.md").read_text(encoding="utf-8")
    assert f"2 trainings, each from the weights of the one before: {first['steps'] + 3:,} steps" in page
    said: list[str] = []
    trainer = Trainer(settings(out, course, begin=begin), said.append)
    assert said[1:] == [f"it began from '{begin}' and has gone on since; the weights there are not used again"]
    assert torch.equal(trainer.weights["lm_head.weight"].detach().bfloat16(), weights(out)["lm_head.weight"])
    trainer.save()
    assert json.loads((out / "checkpoint" / "state.json").read_text())["about"]["begin"] == mark
    with pytest.raises(UserError, match="began from other weights than those in '.*'; leave --from out"):
        Trainer(settings(out, course, begin=out / "model"), lambda _: None)
    with pytest.raises(UserError, match="began from no weights, not from those in"):
        Trainer(settings(undisturbed[0], course, begin=begin), lambda _: None)


def test_a_changed_course_is_said(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    other = tmp_path / "course.yaml"
    other.write_text(course.read_text().replace(", {skill: answer, facts: [1, 2], questions: 2, size: 128}", ""))
    with pytest.raises(UserError, match="is of another course: its stage 3 'mixed' was begun and is not the same now"):
        Trainer(settings(out, other, steps=250), lambda _: None)
    other.write_text(course.read_text() + f"  - {{name: more, steps: 5, recipes: [{RECALL}]}}\n")
    said: list[str] = []
    train(settings(out, other, steps=200), said.append)
    going = "going on from step 200, stage 'mixed'"
    assert said == [going, "the course was changed behind stage 3: 3 stages before, 4 now"]
    said.clear()
    Trainer(settings(out, other), said.append)
    assert said == [going], "the new course is the one that is kept"


def test_moments_are_restored_on_the_device_with_their_steps(
    tokenizer_folder: Path, course: Path, tmp_path: Path
) -> None:
    """Fused AdamW wants its step counts where the weights are; "meta" stands for a GPU."""
    trainer = Trainer(settings(begun(tokenizer_folder, tmp_path / "out"), course), lambda _: None)
    tensors = {f"{kind}.{n}": w.detach() for n, w in trainer.weights.items() for kind in ("weight", "mean", "square")}
    trainer.device = "meta"
    trainer.weights = {n: w.detach().to("meta") for n, w in trainer.weights.items()}
    trainer.restore(Checkpoint(Progress(step=7), tensors, {}))
    for weight in trainer.weights.values():
        state = trainer.optimizer.state[weight]
        assert {name: tensor.device.type for name, tensor in state.items()} == {
            "step": "meta", "exp_avg": "meta", "exp_avg_sq": "meta",
        }  # fmt: skip
        assert state["step"].dtype == torch.float32
