"""Run folders with the settings of a paper's row, as `harness run --profile paper` writes them, and changed ones."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.engine.plan import make_method
from harness.storage.run_folder import StoredRun, read_run
from tests.reports.build import record, write_run

GONE = object()
"""The change that takes a key away."""


def settings(preset: str, dataset: str, sets: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """run.yaml's config and the manifest of a run under profile paper; `sets` as after --set."""
    r = resolve(Choices(method=preset, dataset=dataset, profile="paper", sets=dict(sets or {})))
    method = make_method(r)
    config = r.config.model_dump(mode="json")
    config["method"]["params"] = method.config.model_dump(mode="json")
    return config, {"prompts": method.prompts(), "models": {role: {} for role in method.needs}}


def changed(values: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with other values at dotted paths."""
    values = copy.deepcopy(values)
    for path, value in changes.items():
        *heads, last = path.split(".")
        inner = values
        for key in heads:
            inner = inner[key]
        inner.pop(last) if value is GONE else inner.update({last: value})
    return values


def paper_run(
    root: Path,
    preset: str,
    dataset: str,
    rows: Sequence[dict[str, Any]],
    *,
    sets: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    manifest: Mapping[str, Any] | None = None,
    **files: Any,
) -> StoredRun:
    """A stored run; `config` and `manifest` are changes at dotted paths, made after the run's settings were resolved;
    files: documents and hash8 of build.write_run."""
    plain, told = settings(preset, dataset, sets)
    whole, told = changed(plain, config or {}), changed(told, manifest or {})
    name, method = whole["dataset"]["name"], whole["method"]["name"]
    written = write_run(root, rows, dataset=name, method=method, settings=whole, manifest=told, **files)
    return read_run(written)


def answers(n: int, score: str, value: float, **changes: Any) -> list[dict[str, Any]]:
    """n answered questions, two on a document, whose scores lie 0.1 around `value`."""
    return [
        record(i, None, scores={score: value + (0.1 if i // 2 % 2 else -0.1)}, error=None, **changes) for i in range(n)
    ]
