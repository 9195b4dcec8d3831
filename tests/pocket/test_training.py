"""Training: the same numbers from the same seed, also when it was killed; stages are left at their gates."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.errors import CannotRun, UserError
from harness.pocket import training
from harness.pocket.curriculum import RecipeModel, Stage
from harness.pocket.dice import Dice
from harness.pocket.lessons import Batch
from harness.pocket.network import load
from harness.pocket.recall import Drill
from harness.pocket.teacher import Teacher
from harness.pocket.training import Settings, Trainer, _share_right, make_batch, train
from tests.pocket.slow_training import SHAPE, settings

ROOT = Path(__file__).resolve().parents[2]
RECALL = "{skill: recall, pairs: [2, 3], size: 64}"
# The first stages are left after their steps, the last one is not left at all.
COURSE = f"""
stages:
  - {{name: easy, gate: 1.01, over: 2, steps: 20, rate: 3.0e-3, tokens: 256, recipes: [{RECALL}]}}
  - {{name: short, gate: 1.01, over: 5, steps: 60, rate: 3.0e-3, tokens: 256, recipes: [{RECALL}]}}
  - name: mixed
    gate: 1.01
    over: 20
    steps: 1000
    rate: 3.0e-3
    end_rate: 1.0e-3
    tokens: 512
    recipes: [{RECALL}, {{skill: answer, facts: [1, 2], questions: 2, size: 128}}]
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("course") / "course.yaml"
    path.write_text(COURSE)
    return path


def begun(tokenizer_folder: Path, out: Path) -> Path:
    """An output folder with the tokenizer in it, so that none is built."""
    shutil.copytree(tokenizer_folder, out / "model")
    return out


def lines(out: Path) -> dict[int, dict[str, Any]]:
    """Step -> line of the log; the last one of a step counts."""
    return {line["step"]: line for line in map(json.loads, (out / "log.jsonl").read_text().splitlines())}


def steady(line: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in line.items() if k not in ("minutes", "tokens_per_s")}


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load(out / "model", SHAPE)


@pytest.fixture(scope="module")
def undisturbed(
    tokenizer_folder: Path, course: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    out, said = begun(tokenizer_folder, tmp_path_factory.mktemp("undisturbed")), []
    assert train(settings(out, course, steps=200), said.append) == out / "model"
    return out, said


def test_the_log(undisturbed: tuple[Path, list[str]]) -> None:
    out, said = undisturbed
    found = lines(out)
    assert list(found) == [50, 100, 150, 200]
    assert [line["stage"] for line in found.values()] == ["short", "mixed", "mixed", "mixed"]
    for line in found.values():
        assert set(line) == {"step", "stage", "loss", "right", "minutes", "tokens_per_s"}
        assert 0 < line["loss"] < 20
        assert line["tokens_per_s"] > 0
        assert all(0 <= share <= 1 for share in line["right"].values())
    assert set(found[200]["right"]) == {"0 recall", "1 answer"}
    assert found[200]["loss"] < found[100]["loss"]
    assert [s.split("  ")[0] for s in said if s.startswith("step")] == [f"step {n}" for n in found]


def test_a_stage_is_left_at_its_gate_or_its_end(undisturbed: tuple[Path, list[str]]) -> None:
    out, said = undisturbed
    state = json.loads((out / "checkpoint" / "state.json").read_text())
    assert [(p["stage"], p["steps"], p["mastered"]) for p in state["passed"]] == [
        ("easy", 20, False),
        ("short", 60, False),
    ]
    assert (state["step"], state["stage"], state["since"]) == (200, 2, 80)
    assert set(state["recent"]) == {"0", "1"}
    assert all(len(shares) <= 20 for shares in state["recent"].values())
    assert [s.split(":")[0] for s in said if s.startswith("stage")] == [
        "stage 'easy' ended at step 20",
        "stage 'short' ended at step 80",
    ]


def test_the_same_seed_trains_the_same(
    undisturbed: tuple[Path, list[str]], tokenizer_folder: Path, course: Path, tmp_path: Path
) -> None:
    out = begun(tokenizer_folder, tmp_path / "out")
    train(settings(out, course, steps=200), lambda _: None)
    theirs, ours = lines(undisturbed[0]), lines(out)
    assert ours.keys() == theirs.keys()
    assert all(abs(ours[n]["loss"] - theirs[n]["loss"]) < 1e-3 for n in ours)
    for name, weight in weights(out).items():
        assert torch.allclose(weight, weights(undisturbed[0])[name], atol=1e-3), name


def test_another_seed_trains_another(
    undisturbed: tuple[Path, list[str]], tokenizer_folder: Path, course: Path, tmp_path: Path
) -> None:
    out = begun(tokenizer_folder, tmp_path / "out")
    train(settings(out, course, steps=50, seed=1), lambda _: None)
    assert lines(out)[50]["loss"] != lines(undisturbed[0])[50]["loss"]
    assert not torch.allclose(weights(out)["embed"], weights(undisturbed[0])["embed"], atol=1e-3)


def test_killed_and_resumed_it_ends_the_same(
    undisturbed: tuple[Path, list[str]], tokenizer_folder: Path, course: Path, tmp_path: Path
) -> None:
    out = begun(tokenizer_folder, tmp_path / "out")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.pocket.slow_training", str(out), str(course), "100"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert json.loads((out / "checkpoint" / "state.json").read_text())["step"] == 50
    said: list[str] = []
    train(settings(out, course, steps=200), said.append)
    assert said[0] == "going on from step 50, stage 'short'"
    theirs, ours = lines(undisturbed[0]), lines(out)
    assert {n: steady(line) for n, line in ours.items()} == {n: steady(line) for n, line in theirs.items()}
    for name, weight in weights(out).items():
        assert torch.equal(weight, weights(undisturbed[0])[name]), name
    state, other = (json.loads((o / "checkpoint" / "state.json").read_text()) for o in (out, undisturbed[0]))
    assert [{**p, "minutes": 0} for p in state["passed"]] == [{**p, "minutes": 0} for p in other["passed"]]
    assert {k: state[k] for k in ("step", "stage", "since", "recent", "tokens")} == {
        k: other[k] for k in ("step", "stage", "since", "recent", "tokens")
    }


@pytest.mark.xfail(strict=True, reason="lines after the checkpoint stay in the log and are written again")
def test_a_resumed_log_has_each_step_once(tokenizer_folder: Path, course: Path, tmp_path: Path) -> None:
    out = begun(tokenizer_folder, tmp_path / "out")
    trainer = Trainer(settings(out, course, save=60, steps=120), lambda _: None)
    trainer.save, save = lambda: None if trainer.progress.step > 60 else save(), trainer.save  # type: ignore[method-assign]
    trainer.run()
    train(settings(out, course, save=60, steps=120), lambda _: None)
    steps = [json.loads(line)["step"] for line in (out / "log.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))


def test_what_is_done_is_not_done_again(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    said: list[str] = []
    train(settings(out, course, steps=150), said.append)
    assert said == ["going on from step 200, stage 'mixed'"]
    assert all(torch.equal(w, weights(undisturbed[0])[k]) for k, w in weights(out).items())


def test_training_goes_on_from_a_model(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    trainer = Trainer(settings(tmp_path / "out", course, begin=undisturbed[0] / "model"), lambda _: None)
    for name, weight in weights(undisturbed[0]).items():
        assert torch.equal(trainer.weights[name].detach(), weight)
    theirs, ours = (p / "tokenizer.json" for p in (undisturbed[0] / "model", tmp_path / "out" / "model"))
    assert ours.read_bytes() == theirs.read_bytes()
    assert trainer.progress.step == 0


# --- gates ------------------------------------------------------------------------------------------------------------


def stage(gate: float, *gates: float | None, steps: int = 100, over: int = 3) -> Stage:
    recipes = tuple(RecipeModel(skill="recall", pairs=(1, 1), gate=g) for g in gates)
    return Stage(name="s", recipes=recipes, gate=gate, over=over, steps=steps)


GATES = [
    ("above, for long enough", stage(0.9, None), {"0": [0.9, 0.9, 1.0]}, 3, True),
    ("below", stage(0.9, None), {"0": [0.9, 0.9, 0.8]}, 3, None),
    ("above, not for long", stage(0.9, None), {"0": [1.0, 1.0]}, 2, None),
    ("one of two", stage(0.9, None, None), {"0": [1.0] * 3, "1": [0.5] * 3}, 6, None),
    ("the other not begun", stage(0.9, None, None), {"0": [1.0] * 3}, 3, None),
    ("the other not waited for", stage(0.9, None, 0), {"0": [1.0] * 3, "1": [0.0]}, 4, True),
    ("the other with a lower gate", stage(0.9, None, 0.5), {"0": [1.0] * 3, "1": [0.5] * 3}, 6, True),
    ("out of steps", stage(0.9, None, steps=5), {"0": [0.0] * 3}, 5, False),
    ("mastered with the last step", stage(0.9, None, steps=5), {"0": [1.0] * 3}, 5, True),
    ("never by mastery", stage(1.01, None), {"0": [1.0] * 3}, 99, None),
]


@pytest.mark.parametrize(("where", "recent", "steps", "mastered"), [g[1:] for g in GATES], ids=[g[0] for g in GATES])
def test_a_gate(
    tokenizer_folder: Path, course: Path, tmp_path: Path,
    where: Stage, recent: dict[str, list[float]], steps: int, mastered: bool | None,
) -> None:  # fmt: skip
    trainer = Trainer.__new__(Trainer)
    trainer.tell = lambda _: None
    trainer.course = type("Course", (), {"stages": (where, where)})()  # type: ignore[assignment]
    trainer.progress = training.Progress(step=7 + steps, since=7, recent=recent)
    trainer._go_on()
    p = trainer.progress
    assert p.stage == (0 if mastered is None else 1)
    assert [(one["steps"], one["mastered"]) for one in p.passed] == ([] if mastered is None else [(steps, mastered)])
    assert (p.since, p.recent) == ((7, recent) if mastered is None else (7 + steps, {}))


def test_rates() -> None:
    trainer = Trainer.__new__(Trainer)
    falling = replace_stage(rate=1.0, end_rate=0.2, steps=10)
    trainer.progress = training.Progress(step=0, since=0)
    assert trainer._rate(falling) == pytest.approx(0.01)  # the first hundred steps begin slowly
    for step, rate in ((500, 1.0), (505, 0.6), (510, 0.2), (600, 0.2)):
        trainer.progress = training.Progress(step=step, since=500)
        assert trainer._rate(falling) == pytest.approx(rate)
    assert trainer._rate(replace_stage(rate=0.5)) == pytest.approx(0.5)


def replace_stage(**more: Any) -> Stage:
    return stage(0.9, None).model_copy(update=more)


# --- parts ------------------------------------------------------------------------------------------------------------


def test_recipes_are_drawn_by_their_weights(teacher: Teacher, drills: Drill) -> None:
    recipes = (
        RecipeModel(skill="recall", pairs=(1, 1), size=32, weight=3),
        RecipeModel(skill="recall", pairs=(1, 1), size=64),
    )
    one = stage(0.9, None).model_copy(update={"recipes": recipes, "tokens": 256})
    found = [make_batch(one, Dice("weights", n), teacher, drills) for n in range(200)]
    assert 0.65 < np.mean([number == 0 for number, _ in found]) < 0.85
    assert all(batch.ids.shape == ((8, 32) if number == 0 else (4, 64)) for number, batch in found)


def test_a_batch_is_a_function_of_seed_stage_and_step(teacher: Teacher, drills: Drill) -> None:
    recipe = RecipeModel(skill="answer", facts=(1, 4), size=128)
    one = stage(0.9, None).model_copy(update={"recipes": (recipe,), "tokens": 512})
    first, again, other = (make_batch(one, Dice("training", 0, 1, n), teacher, drills)[1] for n in (5, 5, 6))
    assert all(np.array_equal(getattr(first, k), getattr(again, k)) for k in ("ids", "predict", "targets", "own"))
    assert not np.array_equal(first.ids, other.ids)


RIGHT = [
    ([0, 0, 1, -1], [1, 1, 1, 0], 1.0),
    ([0, 0, 1, -1], [1, 0, 1, 0], 0.5),
    ([0, 0, 1, -1], [0, 0, 0, 0], 0.0),
    ([5, 5, 9, 9], [1, 1, 1, 0], 0.5),
    ([-1, -1, -1, -1], [0, 0, 0, 0], 0.0),
]


@pytest.mark.parametrize(("group", "right", "share"), RIGHT)
def test_a_reply_is_right_when_all_of_it_is(group: list[int], right: list[int], share: float) -> None:
    none = np.zeros((1, 1), np.int32)
    targets = np.where(np.array(group) < 0, -100, 7)
    batch = Batch(none, none, none, none, none, np.zeros(4, np.int64), targets, np.array(group))
    assert _share_right(np.array(right, bool), batch) == share


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_another_seed_does_not_go_on(undisturbed: tuple[Path, list[str]], course: Path) -> None:
    with pytest.raises(UserError, match=r"of another training: seed \(0 there, 1 here\)"):
        Trainer(settings(undisturbed[0], course, seed=1), lambda _: None)
    with pytest.raises(UserError, match="of another training: shape"):
        Trainer(settings(undisturbed[0], course, shape=replace(SHAPE, width=64)), lambda _: None)


def test_another_tokenizer_does_not_go_on(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    path = out / "model" / "tokenizer.json"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(UserError, match=r"of another training: tokenizer \(.* there, .* here\)"):
        Trainer(settings(out, course), lambda _: None)


def test_a_damaged_checkpoint_is_named(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    (tensors,) = (out / "checkpoint").glob("*.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:1000])
    with pytest.raises(CannotRun, match="is damaged .*; delete the folder to begin again"):
        Trainer(settings(out, course), lambda _: None)


def test_no_gpu_is_said(tokenizer_folder: Path, course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CannotRun, match="no GPU is available; leave --device out or say --device cpu"):
        Trainer(settings(tmp_path / "out", course, device="cuda"), lambda _: None)
    assert training._device("auto") == "cpu"


def test_a_loss_that_is_no_number_ends_the_training(
    tokenizer_folder: Path, course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(settings(begun(tokenizer_folder, tmp_path / "out"), course, steps=3), lambda _: None)
    with torch.no_grad():
        trainer.weights["norm"][0] = float("nan")
    with pytest.raises(CannotRun, match="the loss is nan at step 0; start again from the last checkpoint"):
        trainer.run()
    assert not (tmp_path / "out" / "checkpoint").exists()


def test_a_recipe_that_makes_nothing_is_named(teacher: Teacher, drills: Drill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "scenes", lambda *a: iter(()))
    one = stage(0.9, None).model_copy(update={"recipes": (RecipeModel(skill="answer", facts=(1, 2)),)})
    with pytest.raises(UserError, match="the recipe of 'answer' makes no scene: no text allows what it asks"):
        make_batch(one, Dice("none"), teacher, drills)


@pytest.mark.xfail(strict=True, reason="there are no moments to save before the first step: KeyError")
def test_a_training_of_no_steps_can_be_saved(tokenizer_folder: Path, course: Path, tmp_path: Path) -> None:
    train(settings(begun(tokenizer_folder, tmp_path / "out"), course, steps=0), lambda _: None)


@pytest.mark.xfail(strict=True, reason="a course with fewer recipes than the checkpoint has seen: IndexError")
def test_a_changed_course_is_said(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    out = shutil.copytree(undisturbed[0], tmp_path / "out")
    other = tmp_path / "course.yaml"
    other.write_text(course.read_text().replace(", {skill: answer, facts: [1, 2], questions: 2, size: 128}", ""))
    with contextlib.suppress(UserError):  # refusing it would do as well
        train(settings(out, other, steps=250), lambda _: None)


def test_defaults() -> None:
    one = Settings(out=Path("x"))
    assert (one.course, one.begin, one.seed, one.steps, one.save, one.device, one.shape) == (
        None,
        None,
        0,
        None,
        100,
        "auto",
        None,
    )
