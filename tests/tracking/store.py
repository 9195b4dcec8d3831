"""Run folders with known scores, and what MLflow holds of them."""

import json
from pathlib import Path

from tests.reports.build import record, write_run

SCORE = "longbench.qa_f1_score"
SCORES = [0.2, 0.4, None, 1.0, 0.0, 0.0, 0.3, 0.1]


def client(uri):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def only_run(uri, dataset="musique"):
    """The one MLflow run of the data set's experiment."""
    (run,) = runs_of(uri, dataset)
    return run


def runs_of(uri, dataset="musique"):
    """All MLflow runs of the data set's experiment."""
    it = client(uri)
    return it.search_runs([it.get_experiment_by_name(dataset).experiment_id])


def suite(uri):
    """The parent run of the suite "first", and its children, which are all other runs."""
    (parent,) = [run for run in runs_of(uri) if run.data.tags.get("harness.suite") == "first"]
    children = [run for run in runs_of(uri) if run.info.run_id != parent.info.run_id]
    assert {run.data.tags.get("mlflow.parentRunId") for run in children} == {parent.info.run_id}
    return parent, children


def history(uri, name):
    found = client(uri).get_metric_history(only_run(uri).info.run_id, name)
    return sorted((m.step, m.value) for m in found)


def artifacts(uri, run):
    """The names of a run's artifacts, which lie beside the store; the run holds no path of this
    machine."""
    address = run.info.artifact_uri
    assert address.startswith("mlflow-artifacts:/")
    place = (
        Path(uri.removeprefix("sqlite:///")).parent
        / "mlartifacts"
        / address.removeprefix("mlflow-artifacts:/")
    )
    return {path.name for path in place.iterdir()}


def row(number, score):
    """A record with the score of the data set."""
    return record(number, score, scores={SCORE: score or 0.0})


def run_folder(root, count=8, **changes):
    """A run folder below root/results with the first `count` of SCORES."""
    dataset = changes.get("dataset", "musique")
    settings = {"dataset": {"name": dataset, "format": dataset, "scorers": [SCORE]}}
    changes["settings"] = settings | changes.get("settings", {})
    changes["manifest"] = {"scorers": {SCORE: "1"}} | changes.get("manifest", {})
    return write_run(root / "results", [row(i, s) for i, s in enumerate(SCORES[:count])], **changes)


def append(folder, start, stop):
    with open(folder / "records.jsonl", "a") as file:
        for i in range(start, stop):
            file.write(json.dumps(row(i, SCORES[i])) + "\n")


def stored_traces(uri):
    """{question: its trace with spans}."""
    run = only_run(uri).info
    found = client(uri).search_traces(
        locations=[run.experiment_id], run_id=run.run_id, max_results=100
    )
    return {trace.info.client_request_id: trace for trace in found}
