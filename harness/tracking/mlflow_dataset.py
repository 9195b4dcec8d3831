"""The rows that a run was made with, as MLflow's data set."""

from __future__ import annotations

import json

from mlflow.entities import Dataset

from harness.storage.run_folder import StoredRun

_COLUMNS = [
    {"type": "string", "name": "question_id", "required": True},
    {"type": "string", "name": "question", "required": True},
    {"type": "string", "name": "document_ids", "required": True},
    {"type": "string", "name": "gold_answers", "required": True},
]


def mlflow_dataset(run: StoredRun) -> Dataset | None:
    """The rows of a run as MLflow's data set, with hash, columns and number; None where the
    manifest has no hash of them.
    """
    about = run.manifest.dataset
    if not about.fingerprint:
        return None
    source = {"fingerprint": about.fingerprint}
    if about.source:
        source["source"] = about.source
    if about.revision:
        source["revision"] = about.revision
    n_rows = len(run.records)
    if about.has("questions"):  # older manifests lack it
        n_rows = about.questions
    return Dataset(
        name=run.config.dataset.name,
        digest=about.fingerprint[:8],
        source_type="harness",
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": _COLUMNS}),
        profile=json.dumps({"num_rows": n_rows}),
    )
