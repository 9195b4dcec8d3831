"""One run's place in MLflow: what is there already is looked up first, so that logging twice changes nothing.

    Sink(run, uri)          finds or makes experiment and run, and writes tags and params
    .log_running(points)    (step, name, value) of Running
    .log_results()          final metrics, artifacts, table
    .end(status)

Imported only inside functions: it is the one module that talks to MLflow.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import re
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import canonical
from harness.errors import SaveError
from harness.layers import flatten
from harness.tracking import run_state, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from harness.store import StoredRun

__all__ = ["Running", "Sink", "metric_name"]

Point = tuple[int, str, float]

_ID = "harness.run"
_MOST_METRICS = 1000  # of one log_batch call, and 100 params or tags: MLflow's limits
_MOST_PARAMS = 100
_LONGEST_PARAM = 500
_LONGEST_NOTE = 5000
# May differ between two starts of one run folder: they are tags, because a param can never change.
_NOT_PARAMS = ("limit", "failed")
_FILES = ("manifest.json", "records.jsonl", "summary.json")


def metric_name(name: str) -> str:
    """`name` with every character MLflow refuses as "_", and no empty or dotted path parts."""
    parts = re.sub(r"[^\w\-. :/]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:250] or "_"


class Running:
    """Running means over the questions so far; the step is the number of questions."""

    def __init__(self, run: StoredRun) -> None:
        self._headline: str = run.config["dataset"]["scorers"][0]
        self._skip = run.config.get("failed", "zero") == "skip"
        self._rows: dict[str, tuple[float, float, bool]] = {}
        self._sums = [0.0, 0.0, 0.0]

    def add(self, record: dict[str, Any]) -> list[Point]:
        """Count a record (again, where its question was asked again) and return the points of this step."""
        if (before := self._rows.get(record["question_id"])) is not None:
            self._count(before, -1)
        failed = record["error"] is not None
        score = 0.0 if failed else float(record["scores"].get(self._headline) or 0.0)
        spent = [record["usage"].get(phase, {}).get("flops", {}).get("full", 0.0) for phase in ("search", "answer")]
        row = (score, 0.0 if failed else sum(spent) / 1e12, failed)
        self._rows[record["question_id"]] = row
        self._count(row, 1)
        n = len(self._rows)
        answered = n - self._sums[2]
        scored = answered if self._skip else n
        points = [(n, "running/failed", self._sums[2])]
        if scored:
            points.append((n, metric_name(f"running/{self._headline}"), self._sums[0] / scored))
        if answered:
            points.append((n, "running/tflops", self._sums[1] / answered))
        return points

    def _count(self, row: tuple[float, float, bool], by: int) -> None:
        self._sums = [total + by * value for total, value in zip(self._sums, row, strict=True)]


class Sink:
    """The MLflow run of one run folder. Every method raises what MLflow raises (see tracking.attempt)."""

    def __init__(self, run: StoredRun, uri: str, suite: str | None = None) -> None:
        from mlflow import MlflowClient

        self.run, self.uri = run, uri
        with _one_creator(uri):
            self.client: MlflowClient = MlflowClient(tracking_uri=uri)
            self.experiment = self._find_experiment()
        self.id = self._find_run(_ID, run.path.name) or self._make_run(_ID, run.path.name, _started(run))
        self._known: dict[str, dict[int, float]] = {}
        self._describe(suite)

    def log_running(self, points: Sequence[Point]) -> None:
        """Log the points that are not there yet, or differ (a run that was scored again); one log_batch a thousand."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        new: list[Metric] = []
        for step, name, value in points:
            known = self._history(name)
            if step not in known or not math.isclose(known[step], value, rel_tol=1e-9, abs_tol=1e-12):
                known[step] = value
                new.append(Metric(name, value, now, step))
        self._log(new)

    def log_results(self) -> None:
        """Log final metrics, the table as the run's description, and the files of the run folder."""
        from mlflow.entities import Metric

        self.client.log_text(self.id, _config_text(self.run), "config.yaml")
        for name in _FILES:
            if (self.run.path / name).exists():
                self.client.log_artifact(self.id, str(self.run.path / name))
        if not self.run.records:
            return
        from reports import tables

        table = tables.frame([self.run])
        text = tables.render(table, "markdown")
        self.client.log_text(self.id, text, "table.md")
        if len(text) <= _LONGEST_NOTE:
            self.client.set_tag(self.id, "mlflow.note.content", text)
        before = self.client.get_run(self.id).data.metrics
        now, n = int(time.time() * 1000), len(self.run.records)
        row: dict[str, Any] = {str(k): v for k, v in table.iloc[0].items()}
        numbers = {
            metric_name(k): float(v) for k, v in row.items() if isinstance(v, int | float) or hasattr(v, "dtype")
        }
        self._log([Metric(k, v, now, n) for k, v in numbers.items() if not math.isnan(v) and before.get(k) != v])

    def end(self, status: str) -> None:
        """Close the run as FINISHED, FAILED or KILLED, at the time the manifest gives."""
        self.client.set_terminated(self.id, status, _milliseconds(_last(self.run).get("finished")))

    def resume(self) -> None:
        """Show the run as running."""
        self.client.update_run(self.id, status="RUNNING")

    # ---- finding and making --------------------------------------------------------------------------------------

    def _find_experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name = str(self.run.config["dataset"]["name"])
        found = self.client.get_experiment_by_name(name)
        if found is None:
            path = sqlite_path(self.uri)
            # Without this, artifacts of a sqlite store land in ./mlruns of whatever folder one is in.
            where = None if path is None else (path.parent / "mlflow-artifacts" / name).resolve().as_uri()
            try:
                return str(self.client.create_experiment(name, artifact_location=where))
            except MlflowException:  # another run made it in the meantime, or it truly cannot be made
                found = self.client.get_experiment_by_name(name)
                if found is None:
                    raise
        if found.lifecycle_stage != "active":
            raise SaveError(f"the MLflow experiment '{name}' was deleted; restore it there, or use another --uri.")
        return str(found.experiment_id)

    def _find_run(self, tag: str, value: str) -> str | None:
        found = self.client.search_runs([self.experiment], f"tags.`{tag}` = '{_quotable(value)}'", max_results=1)
        return str(found[0].info.run_id) if found else None

    def _make_run(self, tag: str, value: str, start: int | None) -> str:
        made = self.client.create_run(self.experiment, start_time=start, tags={tag: _quotable(value)}, run_name=value)
        return str(made.info.run_id)

    def _describe(self, suite: str | None) -> None:
        from mlflow.entities import Param, RunTag

        tags, params, long = _tags(self.run), {}, []
        for key, value in flatten({k: v for k, v in self.run.config.items() if k not in _NOT_PARAMS}).items():
            told = value if isinstance(value, str) else canonical(value)
            if len(told) > _LONGEST_PARAM:
                long.append(key)
            else:
                params[metric_name(key)] = told
        if long:
            tags["harness.long_params"] = f"see config.yaml: {', '.join(long)}"
        if suite is not None:
            tag = "harness.suite"
            tags["mlflow.parentRunId"] = self._find_run(tag, suite) or self._make_run(tag, suite, None)
        there = self.client.get_run(self.id).data.params
        if changed := [f"{k}: {v}" for k, v in params.items() if k in there and there[k] != v]:
            tags["harness.changed_params"] = "; ".join(changed)[:_LONGEST_NOTE]
        new = [Param(k, v) for k, v in params.items() if k not in there]
        self.client.log_batch(self.id, tags=[RunTag(k, v) for k, v in tags.items()])
        for start in range(0, len(new), _MOST_PARAMS):
            self.client.log_batch(self.id, params=new[start : start + _MOST_PARAMS])

    def _history(self, name: str) -> dict[int, float]:
        if name not in self._known:
            ordered = sorted(self.client.get_metric_history(self.id, name), key=lambda m: int(m.timestamp))
            self._known[name] = {m.step: m.value for m in ordered}
        return self._known[name]

    def _log(self, metrics: Sequence[Any]) -> None:
        for start in range(0, len(metrics), _MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[start : start + _MOST_METRICS])


@contextlib.contextmanager
def _one_creator(uri: str) -> Iterator[None]:
    """Two processes that create the tables of one sqlite file at once break it: one at a time."""
    path = sqlite_path(uri)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _quotable(value: str) -> str:
    """MLflow's filters have no escape for a quotation mark."""
    return value.replace("'", "_")


def _last(run: StoredRun) -> dict[str, Any]:
    starts: list[dict[str, Any]] = run.manifest.get("starts") or [{}]
    return starts[-1]


def _milliseconds(time_: str | None) -> int | None:
    return None if time_ is None else int(datetime.fromisoformat(time_).timestamp() * 1000)


def _started(run: StoredRun) -> int | None:
    return _milliseconds(run.manifest.get("started"))


def _config_text(run: StoredRun) -> str:
    return Path(run.path / "run.yaml").read_text(encoding="utf-8")


def _tags(run: StoredRun) -> dict[str, str]:
    config = run.config
    commit = (run.manifest.get("git") or {}).get("commit")
    tags = {
        "method": config["method"]["name"],
        "model": config["model"]["name"],
        "dataset": config["dataset"]["name"],
        "hash8": run.path.name.rpartition("--")[2],
        "embedded": str(bool(config["model"].get("embedded"))).lower(),
        "state": run_state(run),
        "limit": str(config.get("limit")),
        "failed_count_as": str(config.get("failed", "zero")),
        "mlflow.source.name": "harness run",
        "mlflow.source.type": "LOCAL",
    }
    return tags | ({"git_commit": commit, "mlflow.source.git.commit": commit} if commit else {})
