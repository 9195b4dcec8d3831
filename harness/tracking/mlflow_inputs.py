"""What a run was given, as MLflow's entities: the method with its model, and the questions with their gold answers.

logged_model(client, experiment, run, run_id, values, user)  -> id of the LoggedModel of method, model and settings
log_questions(store, experiment, run, user)    an evaluation data set with the questions that the runs so far asked
dataset(run)                                   -> the data set of a run's list of inputs: digest, schema, number of rows

Imported only inside functions, as mlflow_run.py is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Dataset
    from mlflow.store.tracking.abstract_store import AbstractStore

    from harness.storage.run_folder import StoredRun

_FOLDER = "harness.run"
_BAD = re.compile(r"[/:.%\"']")  # MLflow refuses them in the name of a model
_COLUMNS = {"question_id": "string", "question": "string", "document_ids": "string", "gold_answers": "string"}


def logged_model(
    client: MlflowClient, experiment: str, run: StoredRun, run_id: str, values: Mapping[str, str], user: str
) -> str:
    """The LoggedModel of the run's folder, made where there is none. values: settings, {"method.k": "5"}.

    Runs with other settings have a LoggedModel of the same name; the tag harness.run tells them apart.
    """
    from mlflow.entities import LoggedModelStatus

    name = _BAD.sub("_", f"{run.config['method']['name']} · {run.config['model']['name']}")
    for model in client.search_logged_models([experiment], f"name = '{name}'", max_results=1000):
        if model.tags.get(_FOLDER) == run.path.name:
            return str(model.model_id)
    about = {
        _FOLDER: run.path.name,
        "mlflow.user": user,
        "mlflow.note.content": "A method with its model and settings. Metrics and traces are those of its run; the "
        "weights are not stored here.",
    }
    model = client.create_logged_model(experiment, name, run_id, about, dict(values), model_type="method and model")
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    return str(model.model_id)


def dataset(run: StoredRun) -> Dataset | None:
    """The rows that the run was made with; None where its manifest does not name them."""
    from mlflow.entities import Dataset

    about = run.manifest.get("dataset") or {}
    if not about.get("fingerprint"):
        return None
    source = {key: about[key] for key in ("fingerprint", "source", "revision") if about.get(key)}
    columns = [{"type": kind, "name": name, "required": True} for name, kind in _COLUMNS.items()]
    return Dataset(
        name=run.config["dataset"]["name"],
        digest=str(about["fingerprint"])[:8],
        source_type="harness",
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": columns}),
        profile=json.dumps({"num_rows": about.get("questions", len(run.records))}),
    )


def log_questions(store: AbstractStore, experiment: str, run: StoredRun, user: str) -> None:
    """Add the questions of the run that its evaluation data set lacks; MLflow then counts rows and infers a schema.

    Records of older versions, and of data sets whose texts are not kept, hold no questions: nothing is logged.
    """
    rows = [row for record in run.records if (row := _question(record))]
    if not rows:
        return
    about = run.manifest.get("dataset") or {}
    name = f"{run.config['dataset']['name']} {str(about.get('fingerprint'))[:8]}".replace("'", "_")
    found = store.search_datasets([experiment], f"name = '{name}'")
    if found:
        data = found[0]
    else:
        tags = {key: str(about[key]) for key in ("fingerprint", "source", "revision") if about.get(key)}
        tags |= {"mlflow.user": user, "licence": str(run.config["dataset"].get("licence") or "")}
        data = store.create_dataset(name, tags, [experiment])
    known, _ = store._load_dataset_records(data.dataset_id, max_results=None)
    there = {record.inputs.get("question_id") for record in known}
    if new := [row for row in rows if row["inputs"]["question_id"] not in there]:
        store.upsert_dataset_records(data.dataset_id, new)


def _question(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row of an evaluation data set; None for a record without question or gold answers."""
    gold = record.get("gold")
    if not record.get("question") or not gold:
        return None
    inputs = {key: record[key] for key in ("question", "question_id", "options", "document_ids") if record.get(key)}
    expectations = {"gold_answers": gold["answers"]}
    if gold.get("supporting"):
        expectations["supporting_passages"] = gold["supporting"]
    return {"inputs": inputs, "expectations": expectations}
