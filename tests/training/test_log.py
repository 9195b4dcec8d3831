"""The log of a training after it was killed and resumed."""

import json
from pathlib import Path

import pytest

from harness.training.checkpoint import append_log as append
from harness.training.checkpoint import cut_log as cut


def lines(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("step", "left"), [(0, []), (49, []), (50, [50]), (120, [50, 100]), (150, [50, 100, 150]), (9999, [50, 100, 150])]
)
def test_what_was_logged_after_a_step_is_dropped(tmp_path: Path, step: int, left: list[int]) -> None:
    path = tmp_path / "log.jsonl"
    for at in (50, 100, 150):
        append(path, {"step": at, "stage": "é", "loss": 0.5})
    cut(path, step)
    assert lines(path) == left
    append(path, {"step": step + 50})
    assert lines(path) == [*left, step + 50]
    assert [p.name for p in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize("torn", ['{"step": 10', '{"step": 100, "loss": 1}', "[1]\n", "\n", '{"loss": 1}\n'])
def test_a_torn_line_goes_too(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "log.jsonl"
    append(path, {"step": 50})
    with path.open("a") as file:
        file.write(torn)
    cut(path, 1000)
    append(path, {"step": 100})
    assert lines(path) == [50, 100]


def test_no_log_is_no_log(tmp_path: Path) -> None:
    cut(tmp_path / "log.jsonl", 0)
    assert not list(tmp_path.iterdir())


def test_one_task_of_several_is_cut_by_its_own_steps(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for task, own, at in (("a", 1, 1), ("b", 1, 2), ("a", 2, 3), ("b", 2, 4)):
        append(path, {"step": at, "task": task, "task_step": own})
    with path.open("a") as file:
        file.write('{"task": "a", "task_step": 1')
    cut(path, 1, "b")
    assert lines(path) == [1, 2, 3]
    cut(path, 0, "a")
    assert lines(path) == [2]
