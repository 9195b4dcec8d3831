"""The rows that a run was made with, as MLflow's data set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from harness.storage.run_folder import StoredRun

if TYPE_CHECKING:
    from mlflow.entities import Dataset

_COLUMNS = [
    {"type": "string", "name": "question_id", "required": True},
    {"type": "string", "name": "question", "required": True},
    {"type": "string", "name": "document_ids", "required": True},
    {"type": "string", "name": "gold_answers", "required": True},
]


def mlflow_dataset(run: StoredRun) -> Dataset | None:
    """The rows with digest, schema and number; None where the manifest does not name them."""
    from mlflow.entities import Dataset

    about = run.manifest.get("dataset") or {}
    if not about.get("fingerprint"):
        return None
    source = {key: about[key] for key in ("fingerprint", "source", "revision") if about.get(key)}
    return Dataset(
        name=run.config["dataset"]["name"],
        digest=str(about["fingerprint"])[:8],
        source_type="harness",
        source=json.dumps(source),
        schema=json.dumps({"mlflow_colspec": _COLUMNS}),
        profile=json.dumps({"num_rows": about.get("questions", len(run.records))}),
    )
