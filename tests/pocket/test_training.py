"""Training: the same numbers from the same seed; stages are left at their gates."""

import json
from pathlib import Path

import pytest
import torch

from harness.errors import CannotRun
from harness.training.loop import Progress, resolve_device
from pocket.tasks.recipes import Stage
from pocket.train.trainer import Trainer
from tests.pocket.trainings import begun, lines, settings, stage, weights


def test_the_log(undisturbed: tuple[Path, list[str]]) -> None:
    out, said = undisturbed
    found = lines(out)
    assert list(found) == [50, 100, 150, 200]
    assert [line["stage"] for line in found.values()] == ["short", "mixed", "mixed", "mixed"]
    for line in found.values():
        assert set(line) - {"left_out"} == {"step", "stage", "loss", "right", "minutes", "tokens_per_s"}
        assert 0 < line["loss"] < 20
        assert line["tokens_per_s"] > 0
        assert all(0 <= share <= 1 for share in line["right"].values())
    assert set(found[200]["right"]) == {"0 recall", "1 answer"}
    assert found[200]["loss"] < found[100]["loss"]
    assert [s.split("  ")[0] for s in said if s.startswith("step")] == [f"step {n}" for n in found]


def test_a_stage_is_left_at_its_gate_or_its_end(undisturbed: tuple[Path, list[str]]) -> None:
    out, said = undisturbed
    state = json.loads((out / "checkpoint" / "state.json").read_text())
    passed = [(p["stage"], p["steps"], p["mastered"]) for p in state["passed"]]
    assert passed == [("easy", 20, False), ("short", 60, False)]
    assert (state["step"], state["stage"], state["since"]) == (200, 2, 80)
    assert set(state["recent"]) == {"0", "1"}
    assert all(len(shares) <= 20 for shares in state["recent"].values())
    ends = [s.split(":")[0] for s in said if s.startswith("stage")]
    assert ends == ["stage 'easy' ended at step 20", "stage 'short' ended at step 80"]


def test_training_goes_on_from_a_model(undisturbed: tuple[Path, list[str]], course: Path, tmp_path: Path) -> None:
    trainer = Trainer(settings(tmp_path / "out", course, begin=undisturbed[0] / "model"), lambda _: None)
    for name, weight in weights(undisturbed[0]).items():
        assert torch.equal(trainer.weights[name].detach().bfloat16(), weight)
    theirs, ours = (p / "tokenizer.json" for p in (undisturbed[0] / "model", tmp_path / "out" / "model"))
    assert ours.read_bytes() == theirs.read_bytes()
    assert trainer.progress.step == 0


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
def test_a_gate(where: Stage, recent: dict[str, list[float]], steps: int, mastered: bool | None) -> None:
    trainer = Trainer.__new__(Trainer)
    trainer.tell = lambda _: None
    trainer.course = type("Course", (), {"stages": (where, where)})()  # type: ignore[assignment]
    trainer.progress = Progress(step=7 + steps, since=7, recent=recent)
    trainer._after_step()
    p = trainer.progress
    assert p.stage == (0 if mastered is None else 1)
    assert [(one["steps"], one["mastered"]) for one in p.passed] == ([] if mastered is None else [(steps, mastered)])
    assert (p.since, p.recent) == ((7, recent) if mastered is None else (7 + steps, {}))


def test_no_gpu_is_said(tokenizer_folder: Path, course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CannotRun, match="no GPU is available; leave --device out or use --device cpu"):
        Trainer(settings(tmp_path / "out", course, device="cuda"), lambda _: None)
    assert resolve_device("auto") == "cpu"


def test_a_loss_that_is_no_number_ends_the_training(
    tokenizer_folder: Path, course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = Trainer(settings(begun(tokenizer_folder, tmp_path / "out"), course, steps=3), lambda _: None)
    with torch.no_grad():
        trainer.weights["model.norm.weight"][0] = float("nan")
    with pytest.raises(CannotRun, match="the loss is nan at step 0; start again from the last checkpoint"):
        trainer.run()
    assert not (tmp_path / "out" / "checkpoint").exists()


def test_what_has_no_room_is_counted_on_the_way(undisturbed: tuple[Path, list[str]]) -> None:
    """In rows of 128 tokens there is not always room for both questions about a text."""
    found = lines(undisturbed[0])
    assert "left_out" not in found[50]
    assert set(found[200]["left_out"]) == {"1 answer"}
    assert 0.05 < found[200]["left_out"]["1 answer"] < 0.5


def test_rates() -> None:
    trainer = Trainer.__new__(Trainer)
    falling = stage(0.9, None, steps=10).model_copy(update={"rate": 1.0, "end_rate": 0.2})
    for step, since, rate in ((0, 0, 0.01), (500, 500, 1.0), (505, 500, 0.6), (510, 500, 0.2), (600, 500, 0.2)):
        trainer.progress = Progress(step=step, since=since)
        assert trainer._learning_rate(falling) == pytest.approx(rate), "the first hundred steps begin slowly"
