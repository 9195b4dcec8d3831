"""The same from Python: what `import harness` offers; every function is reached as harness.<name>."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cost.flops import DEFAULT
from harness.storage.run_folder import read_run as read_run

if TYPE_CHECKING:
    import pandas as pd

    from harness.engine.runner import RunResult


PathLike = str | os.PathLike[str]


def run(
    method: str,
    dataset: str,
    *,
    out: PathLike = "results",
    mlflow: str = "off",
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the same word as on the command line
    **choices: Any,
) -> RunResult:
    """Run one method over one data set and return its folder and summary; the same call again resumes.

    set: as on the command line, {"method.k": 7, "roles.builder": "NAME"}; choices: data, model, limit, seed, profile,
    files (config files) and require_full; mlflow: a URI to log to, "off" not to. Raises UserError for what cannot run,
    SaveError for what cannot be saved.
    """
    from dataclasses import fields, replace

    from harness.config.layers import Choices
    from harness.engine import runner
    from harness.engine.plan import plan_choices
    from harness.engine.progress import Silent
    from harness.engine.siblings import arrange, settled
    from harness.errors import unknown
    from harness.tracking.trackers import Trackers

    known = [f.name for f in fields(Choices) if f.name not in ("method", "dataset", "sets", "suite")]
    for name in choices:
        if name not in known:
            raise unknown(f"argument '{name}'", name, [*known, "out", "mlflow", "set"])
    if choices.get("data") is not None:
        choices["data"] = os.fspath(choices["data"])
    if choices.get("model") is not None:
        choices["model"] = os.fspath(choices["model"])
    trackers = Trackers(Path(out), mlflow)
    chosen = Choices(method=method, dataset=dataset, sets=dict(set or {}), **choices)
    (plan,), _ = arrange([plan_choices(chosen)], [chosen])
    plan = settled(plan, {}, Path(out))
    with trackers.follow(Path(out) / plan.folder):
        result = runner.run(plan, Path(out), command=["python", "-c", "harness.run(...)"], progress=Silent())
    return replace(result, save_problems=[*result.save_problems, *trackers.missed()])


def compare(
    *runs: PathLike,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT,
) -> pd.DataFrame:
    """What `harness compare --format csv` holds: one row a run, with its paired difference to the reference.

    runs: run folders, or folders that hold runs; a single run has its means only. reference: a preset's name, a run
    folder's name or hash; score: by default the data set's headline; convention: how FLOPs are counted. Raises
    UserError for runs that must not be compared, unless `force`, and UnknownName.
    """
    from harness.storage.named_runs import read_runs, run_folders
    from reports.compare import side_by_side

    stored_runs = read_runs(run_folders([os.fspath(run) for run in runs]))
    return side_by_side(stored_runs, reference=reference, score=score, force=force, convention=convention).joined()


def score(run: PathLike, *, scorers: list[str] | None = None, data: PathLike | None = None) -> dict[str, Any]:
    """Score a run's stored predictions again, without a model, and return its new summary."""
    from harness.engine.rescore import rescore

    return rescore(Path(run), scorers=scorers, data=None if data is None else os.fspath(data))
