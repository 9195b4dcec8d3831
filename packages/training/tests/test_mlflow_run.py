"""A training's numbers in MLflow: one run, also after a resumption; a store that is down costs one
warning."""

import os

import pytest
from harness_training import mlflow_run

LINE = {"step": 50, "stage": "first", "loss": 2.5, "right": {"0 answer": 0.25}, "tokens_per_s": 900}


def train(out, uri, *steps, status="FINISHED"):
    """A training that logs these steps; the warnings."""
    warnings = []
    out.mkdir(exist_ok=True)
    mlflow_run.begin(out, uri, "trainings", {"seed": "0"}, warnings.append)
    for step in steps:
        mlflow_run.log_numbers({**LINE, "step": step, "loss": step / 100})
    mlflow_run.end(status)
    return warnings


def stored(uri):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("trainings")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    return run, [(p.step, p.value) for p in client.get_metric_history(run.info.run_id, "loss")]


def test_one_run_a_training_and_a_point_a_line(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    assert train(out, uri, 50, status="KILLED") == []
    run, history = stored(uri)
    assert (run.info.status, run.info.run_name, run.data.params) == ("KILLED", "out", {"seed": "0"})
    assert run.data.metrics.keys() == {"loss", "right/0 answer", "tokens_per_s"}
    assert train(out, uri, 100, 150) == []
    run, history = stored(uri)
    assert (run.info.status, history) == ("FINISHED", [(50, 0.5), (100, 1.0), (150, 1.5)])
    assert uri not in (out / "mlflow.json").read_text()
    assert "MLFLOW_TRACKING_URI" not in os.environ


@pytest.mark.parametrize("bad_server", [0], indirect=True)
def test_a_store_that_is_down_costs_one_warning(bad_server, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    for store in ("http://127.0.0.1:9", bad_server):
        (warning,) = train(tmp_path / "out", store, 50, 100)
        assert warning.startswith("not logged to MLflow (")
        assert warning.endswith("; the training goes on, its numbers are in log.jsonl")
