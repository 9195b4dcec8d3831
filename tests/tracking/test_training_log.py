from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.tracking import training_log as feed
from harness.tracking.training_log import EXPERIMENT, Feed, points

LINE = {"step": 50, "stage": "first", "loss": 2.5, "right": {"0 answer": 0.25}, "minutes": 0.5, "tokens_per_s": 900}


def write(out: Path, *steps: int) -> None:
    out.mkdir(exist_ok=True)
    with (out / "log.jsonl").open("a") as file:
        for step in steps:
            file.write(json.dumps({**LINE, "step": step, "loss": step / 100}) + "\n")


def play(out: Path, uri: str, status: str = "FINISHED") -> list[str]:
    """A training that is over at once; the warnings."""
    told: list[str] = []
    fed = Feed(out, uri, {"seed": "0"}, told.append)
    fed.wake()
    fed.close(status)
    return told


def stored(uri: str) -> Any:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run, client.get_metric_history(run.info.run_id, "loss")


def test_the_numbers_of_a_line() -> None:
    found = {"loss": 2.5, "right/0 answer": 0.25, "minutes": 0.5, "tokens_per_s": 900.0}
    assert dict(points(LINE)) == found


def test_one_run_a_training_and_a_point_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead store is warned of once; what it missed, one that lives is told at the next start."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(feed, "_WAIT", 600)  # a busy machine may take its time to make the tables
    monkeypatch.chdir(tmp_path)
    out, uri = tmp_path / "out", f"sqlite:///{tmp_path}/mlflow.db"
    write(out, 50)
    (warning,) = play(out, "http://127.0.0.1:9")
    assert warning.startswith("not logged to MLflow (")
    assert warning.endswith("; the training goes on, its numbers are in log.jsonl")
    assert not (out / "mlflow.json").exists()

    assert play(out, uri, "KILLED") == []
    run, history = stored(uri)
    assert (run.info.status, run.info.run_name, run.data.params) == ("KILLED", "out", {"seed": "0"})
    assert run.data.metrics.keys() == dict(points(LINE)).keys()
    assert [(p.step, p.value) for p in history] == [(50, 0.5)]

    write(out, 100, 150)
    (out / "log.jsonl").open("a").write('{"step": 200, "lo')  # a line that is being written
    assert play(out, uri) == []
    run, history = stored(uri)
    assert run.info.status == "FINISHED"
    assert [(p.step, p.value) for p in history] == [(50, 0.5), (100, 1.0), (150, 1.5)], "none twice, none torn"
    assert uri not in (out / "mlflow.json").read_text()
    assert not (tmp_path / "mlruns").exists()


class Client:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def log_batch(self, run: str, metrics: list[Any]) -> None:
        self.steps += [m.step for m in metrics if m.key == "loss"]


def test_a_log_that_was_cut_on_resuming_is_not_told_twice(tmp_path: Path) -> None:
    fed, client, state = Feed.__new__(Feed), Client(), {"run": "r", "lines": 0}
    fed._out = tmp_path
    write(tmp_path, 50, 100, 150)
    fed._send(client, state)  # type: ignore[arg-type]
    (tmp_path / "log.jsonl").unlink()
    write(tmp_path, 50, 100)  # the checkpoint is of step 100
    fed._send(client, state)  # type: ignore[arg-type]
    write(tmp_path, 150, 200)
    fed._send(client, state)  # type: ignore[arg-type]
    assert client.steps == [50, 100, 150, 200]


def test_a_store_that_hangs_holds_nothing_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    let_go = threading.Event()
    monkeypatch.setattr(feed, "_WAIT", 0.05)
    monkeypatch.setattr(Feed, "_follow", lambda self: let_go.wait(10))
    assert play(tmp_path, "sqlite:///never.db") == [
        "MLflow did not take the last numbers in a minute; they are in log.jsonl"
    ]
    let_go.set()
