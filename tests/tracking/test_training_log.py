import json

import pytest

from harness.tracking.mlflow_process import EXPERIMENT, BackgroundTracking, TrainingLog
from harness.tracking.track import log_points, track_training

LINE = {"step": 50, "stage": "first", "loss": 2.5, "right": {"0 answer": 0.25}, "minutes": 0.5, "tokens_per_s": 900}


def write(out, *steps):
    out.mkdir(exist_ok=True)
    with (out / "log.jsonl").open("a") as file:
        for step in steps:
            file.write(json.dumps({**LINE, "step": step, "loss": step / 100}) + "\n")


def train(out, uri, status="FINISHED"):
    """A training that is over at once; the warnings."""
    warnings = []
    TrainingLog(out, uri, {"seed": "0"}, warnings.append).close(status)
    return warnings


def stored(uri):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run, client.get_metric_history(run.info.run_id, "loss")


def test_the_numbers_of_a_line():
    found = {"loss": 2.5, "right/0 answer": 0.25, "minutes": 0.5, "tokens_per_s": 900.0}
    assert dict(log_points(LINE)) == found


def test_one_run_a_training_and_a_point_a_line(uri, tmp_path, monkeypatch):
    """A dead store is warned of once; what it missed is logged to one that lives when the training goes on."""
    missed = BackgroundTracking.missed
    # A busy machine may take its time.
    monkeypatch.setattr(BackgroundTracking, "missed", lambda self: missed(self, 600))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    write(out, 50)
    (warning,) = train(out, "http://127.0.0.1:9")
    assert warning.startswith("not logged to MLflow (")
    assert warning.endswith("; the training goes on, its numbers are in log.jsonl")

    assert train(out, uri, "KILLED") == []
    run, history = stored(uri)
    assert (run.info.status, run.info.run_name, run.data.params) == ("KILLED", "out", {"seed": "0"})
    assert run.data.metrics.keys() == dict(log_points(LINE)).keys()
    assert [(p.step, p.value) for p in history] == [(50, 0.5)]

    write(out, 100, 150)
    (out / "log.jsonl").open("a").write('{"step": 200, "lo')  # a line that is being written
    assert train(out, uri) == []
    run, history = stored(uri)
    assert run.info.status == "FINISHED"
    assert [(p.step, p.value) for p in history] == [(50, 0.5), (100, 1.0), (150, 1.5)], "none twice, none torn"
    assert uri not in (out / "mlflow.json").read_text()
    assert not (tmp_path / "mlruns").exists()


def test_a_log_that_was_cut_on_resuming_is_not_logged_twice(uri, tmp_path):
    write(tmp_path, 50, 100, 150)
    about = {"id": "1", "status": "RUNNING", "experiment": EXPERIMENT, "params": {}}
    (tmp_path / "mlflow.json").write_text(json.dumps(about))
    track_training(tmp_path, uri, running=True)
    assert stored(uri)[0].info.status == "RUNNING"
    (tmp_path / "log.jsonl").unlink()
    write(tmp_path, 50, 100)  # the checkpoint is of step 100
    track_training(tmp_path, uri, running=True)
    write(tmp_path, 150, 200)
    track_training(tmp_path, uri)
    run, history = stored(uri)
    assert [p.step for p in history] == [50, 100, 150, 200]
    assert run.info.status == "KILLED", "it ended and nobody wrote how"


@pytest.mark.parametrize("bad_server", [0], indirect=True)
def test_a_store_that_hangs_holds_nothing_for_ever(bad_server, tmp_path, monkeypatch):
    missed = BackgroundTracking.missed
    monkeypatch.setattr(BackgroundTracking, "missed", lambda self: missed(self, 0.05))
    (warning,) = train(tmp_path, bad_server)
    assert warning.startswith("not logged to MLflow: tracking failed at http://127.0.0.1:")
    assert warning.endswith(f"The numbers of the training are in {tmp_path}/log.jsonl; the same command logs them")
