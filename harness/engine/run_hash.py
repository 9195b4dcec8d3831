"""The hash of a run, over what changes a prediction: the same command with the same hash resumes in its folder."""

from collections.abc import Mapping
from typing import Any

from harness.config.schema import RunConfig, digest
from harness.datasets.base import Dataset
from harness.method import Method, Task


def run_hash(
    config: RunConfig,
    method: Method,
    dataset: Dataset,
    task: Task,
    identities: Mapping[str, dict[str, Any]],
    code: Mapping[str, str],
) -> str:
    """Eight hexadecimal digits over all that changes a prediction: no limit, path, scorer or device.

    identities: role -> identity of its model or encoder; code: hashes of the user's own code (storage/own_code_hash).
    """
    inputs = {
        "method": {
            "implementation": config.method.implementation,
            "view": config.method.view,
            "params": {name: value for name, value in config.method.params.items() if name != "prompts"},
            "prompts": method.prompts(),
            "index_version": method.index_version,
            **({"code": code} if code else {}),
        },
        "task": task.model_dump(mode="json", exclude_defaults=True),
        "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint},
        "identities": dict(sorted(identities.items())),
        "seed": config.seed,
        **({"sampling": config.model.sampling} if config.model.sampling else {}),
        **({"batch": True} if config.model.batch else {}),  # its answers cost and wait otherwise
    }
    return digest(inputs)[:8]
