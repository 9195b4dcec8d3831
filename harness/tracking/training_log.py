"""A training in MLflow: one run, a point for each number in a line of log.jsonl.

log = TrainingLog(out, uri, params, warn)     a child process logs while the training goes on (background.py)
log.close("FINISHED")                         waits for the last numbers, not for ever
track_training(out, uri)                      what the child repeats; as often as wanted

out/mlflow.json holds what log.jsonl does not: {"id", "experiment", "params", "status"}. What a store missed is logged
when the training goes on.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.storage.home import read_lock, write_json
from harness.tracking.background import BackgroundTracking
from harness.tracking.track import TRAINING, attempt
from harness.tracking.uri import unreachable

EXPERIMENT = "pocket training"
LOG = "log.jsonl"
_STEPS = ("step", "task_step")  # where a point stands, no number to draw
_ID, _LINES = "harness.training", "harness.lines"  # tags: which training it is, how many lines of its log are there


def points(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(name, value) of the numbers in a line of log.jsonl; those of a mapping become "right/0 answer"."""
    for key, value in line.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}/{name}", float(number)) for name, number in value.items())
        elif isinstance(value, int | float) and key not in _STEPS:
            yield key, float(value)


class TrainingLog:
    """Logs the training in `out` to MLflow at `uri`; see track.problems for what to ask before.

    warn: is called with a sentence where the numbers are not logged; the training goes on.
    """

    def __init__(
        self,
        out: Path,
        uri: str,
        params: Mapping[str, str],
        warn: Callable[[str], None],
        experiment: str = EXPERIMENT,
    ) -> None:
        self._file, self._warn = out / TRAINING, warn
        self._about = {"id": read_lock(self._file).get("id") or uuid.uuid4().hex, "status": "RUNNING"}
        self._about |= {"experiment": experiment, "params": dict(params)}
        write_json(self._file, self._about)
        self._warned = False
        if reason := unreachable(uri, 2.0):
            self._say(f"not logged to MLflow ({reason}); the training goes on, its numbers are in {LOG}")
        self._trackers = BackgroundTracking(out, uri)
        self._trackers.add(out)

    def _say(self, sentence: str) -> None:
        if not self._warned:
            self._warn(sentence)
        self._warned = True

    def close(self, status: str) -> None:
        """Log what is left and end the run as FINISHED, FAILED or KILLED; gives up after a minute."""
        write_json(self._file, self._about | {"status": status})
        for sentence in self._trackers.missed():
            self._say(f"not logged to MLflow: {sentence}")


def track_training(out: Path, uri: str, *, running: bool = False) -> None:
    """Bring the MLflow run of a training up to date; made if there is none.

    A log that was cut when the training went on grows by the same lines again: these are not logged twice. Raises
    StoreError.
    """
    about = read_lock(out / TRAINING)
    status = "RUNNING" if running else {"RUNNING": "KILLED"}.get(about["status"], about["status"])
    text = (out / LOG).read_text(encoding="utf-8") if (out / LOG).exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    with attempt([out], uri):
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        from harness.tracking.mlflow_run import one_creator

        with one_creator(uri):
            client = MlflowClient(tracking_uri=uri)
            existing = client.get_experiment_by_name(about["experiment"])
            experiment = existing.experiment_id if existing else client.create_experiment(about["experiment"])
        runs = client.search_runs([experiment], f"tags.`{_ID}` = '{about['id']}'", max_results=1)
        run = runs[0] if runs else client.create_run(experiment, run_name=out.name, tags={_ID: about["id"]})
        for name in about["params"].keys() - run.data.params.keys():
            client.log_param(run.info.run_id, name, about["params"][name])
        known, now = int(run.data.tags.get(_LINES, 0)), int(time.time() * 1000)
        new = [json.loads(line) for line in lines[known:]]
        metrics = [Metric(name, value, now, int(line["step"])) for line in new for name, value in points(line)]
        for start in range(0, len(metrics), 1000):  # MLflow's limit of one call
            client.log_batch(run.info.run_id, metrics=metrics[start : start + 1000])
        client.set_tag(run.info.run_id, _LINES, max(known, len(lines)))
        if running:
            client.update_run(run.info.run_id, status=status)
        else:
            client.set_terminated(run.info.run_id, status)
