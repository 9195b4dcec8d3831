"""How long a forecast's tokens take on this hardware, by the speed of earlier runs on it.

Tokens a second are those of the calls themselves (usage.seconds), so loading a model and waiting for a lock count as
nothing. The first of these that has a run: same method and data set, same method, same model.
"""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engine.manifest import describe_gpu
from harness.engine.plan import Plan
from harness.errors import UserError
from harness.storage.run_folder import MANIFEST, RUN, SUMMARY, read_json, run_yaml


@dataclass(frozen=True)
class MeasuredRun:
    """A stored run. tokens: read and written by all calls; seconds: their wall time."""

    method: str
    dataset: str
    model: str
    hardware: str
    tokens: float
    seconds: float


def measured_runs(out: Path) -> list[MeasuredRun]:
    """The runs below `out` that have a summary and took time; damaged ones are left out."""
    runs = []
    for path in sorted(Path(out).rglob(RUN)):
        try:
            if (run := _measured_run(path.parent)) is not None:
                runs.append(run)
        except (UserError, OSError, KeyError, TypeError, AttributeError):  # a forecast is no reason to stop
            continue
    return runs


def _measured_run(folder: Path) -> MeasuredRun | None:
    """Tokens and seconds of a run, from its summary and manifest; None without these, or where it took no time."""
    summary, manifest = read_json(folder / SUMMARY), read_json(folder / MANIFEST)
    if not summary or not manifest:
        return None
    config = run_yaml(folder)["config"]
    answered = summary["n_total"] - summary["n_failed"]
    phases = [(usage, answered) for usage in summary["usage"].values()]
    phases += [(usage, 1) for usage in summary["index"]["usage"].values()]
    tokens = sum(times * (usage["tokens_in"] + usage["tokens_out"]) for usage, times in phases)
    together = max((start.get("parallel") or 1 for start in manifest["starts"]), default=1)
    seconds = sum(times * usage["seconds"] for usage, times in phases) / together
    if tokens <= 0 or seconds <= 0:
        return None
    model = _model(config["model"]["name"], manifest.get("models") or {})
    names = config["method"]["name"], config["dataset"]["name"]
    return MeasuredRun(*names, model, _hardware(manifest.get("gpu"), manifest["cpus"]), tokens, seconds)


def _model(name: str, identities: dict[str, Any]) -> str:
    return f"{name} {(identities.get('reader') or {}).get('dtype')}"


def _hardware(gpu: str | None, cpus: int | None) -> str:
    return gpu or f"{cpus} CPUs"


def own_hardware(known: Sequence[MeasuredRun]) -> str:
    """This machine as the manifests of its runs name it: its GPU, else how many CPUs it has."""
    cpu = _hardware(None, os.cpu_count())
    if "torch" not in sys.modules and any(run.hardware != cpu for run in known):
        import torch  # noqa: F401 - describe_gpu asks it, once it is loaded
    return describe_gpu() or cpu


def expected_hours(plan: Plan, tokens: float | None, known: Sequence[MeasuredRun]) -> tuple[float | None, str]:
    """Hours of one worker for `tokens` of the plan (None: unknown), and in words by which runs, or why None."""
    if tokens is None:
        return None, "unknown"
    here, model = own_hardware(known), _model(plan.config.model.name, plan.facts)
    same = [run for run in known if (run.hardware, run.model) == (here, model)]
    method, dataset = plan.config.method.name, plan.config.dataset.name
    kinds = (
        (f"{method} on {dataset}", [r for r in same if (r.method, r.dataset) == (method, dataset)]),
        (method, [r for r in same if r.method == method]),
        (plan.config.model.name, same),
    )
    for name, runs in kinds:
        if runs:
            speed = sum(run.tokens for run in runs) / sum(run.seconds for run in runs)
            return tokens / speed / 3600, f"{speed:,.0f} tokens/s: {name}, {len(runs)} run{'s'[: len(runs) > 1]}"
    return None, f"no run with {model.partition(' ')[0]} on {here}"


def append_actual(out: Path, row: str, folder: str, workers: int, expected: float, took: float) -> None:
    """Add a line to forecasts.jsonl in `out`: forecast and actual hours of a row; a failure to write is ignored."""
    line = {"row": row, "run": folder, "workers": workers, "forecast_hours": expected, "hours": took}
    with contextlib.suppress(OSError), open(out / "forecasts.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
