"""MLflow beside a training: one run, a point a log line, in a thread of its own; where it fails the training goes on.

    feed = Feed(out, uri, params, warn)
    feed.wake()                     there may be new lines in out/log.jsonl
    feed.close("FINISHED")          waits for the last ones, not for ever

A store that fails is warned of once and left alone; what it missed is logged when the training is resumed, because
out/mlflow.json keeps the run and the number of lines it has.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.storage.home import read_lock, write_json
from harness.tracking import track as tracking

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric


EXPERIMENT = "pocket training"
_STEPS = ("step", "task_step")  # where a point stands, no number to draw
_WAIT = 60.0  # seconds that the end of a training waits for the store


def points(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(name, value) of the numbers in a line of log.jsonl; those of a mapping become "right/0 answer"."""
    for key, value in line.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}/{name}", float(number)) for name, number in value.items())
        elif isinstance(value, int | float) and key not in _STEPS:
            yield key, float(value)


class Feed:
    """One MLflow run of one training; see tracking.problems for what to ask before."""

    def __init__(
        self,
        out: Path,
        uri: str,
        params: Mapping[str, Any],
        warn: Callable[[str], None],
        experiment: str = EXPERIMENT,
    ) -> None:
        self._out, self._uri, self._params, self._warn = out, uri, params, warn
        self._experiment = experiment
        self._new, self._status = threading.Event(), ""
        self._thread = threading.Thread(target=self._run, name="mlflow", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look for new lines; returns at once."""
        self._new.set()

    def close(self, status: str) -> None:
        """Log what is left and end the run as FINISHED, FAILED or KILLED; gives up after a minute."""
        self._status = status
        self._new.set()
        self._thread.join(_WAIT)
        if self._thread.is_alive():
            self._warn("MLflow did not take the last numbers in a minute; they are in log.jsonl")

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with tracking.attempt([self._out], self._uri):
                self._follow()
        except HarnessError as error:
            reason = getattr(error, "reason", str(error))
            self._warn(f"not logged to MLflow ({reason}); the training goes on, its numbers are in log.jsonl")

    def _follow(self) -> None:
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=self._uri)
        state = self._find(client)
        while True:
            self._new.wait()
            self._new.clear()
            ending = self._status
            self._send(client, state)
            if ending:
                client.set_terminated(state["run"], ending)
                return

    def _find(self, client: MlflowClient) -> dict[str, Any]:
        """The run of this folder, made where there is none, and how many lines it has."""
        from mlflow.exceptions import MlflowException

        store = hashlib.sha256(self._uri.encode()).hexdigest()[:16]  # a URI may hold a password
        with contextlib.suppress(MlflowException, ValueError):
            state = read_lock(self._out / "mlflow.json")
            if state.get("store") == store:
                client.update_run(state["run"], status="RUNNING")
                return state
        found = client.get_experiment_by_name(self._experiment)
        experiment = client.create_experiment(self._experiment) if found is None else found.experiment_id
        run = client.create_run(experiment, run_name=self._out.name)
        for name, value in self._params.items():
            client.log_param(run.info.run_id, name, value)
        return {"store": store, "run": run.info.run_id, "lines": 0}

    def _send(self, client: MlflowClient, state: dict[str, Any]) -> None:
        path = self._out / "log.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()
        metrics = [m for line in lines[state["lines"] :] for m in _metrics(json.loads(line))]
        for start in range(0, len(metrics), 1000):  # MLflow's limit of one call
            client.log_batch(state["run"], metrics=metrics[start : start + 1000])
        # A log that was cut on resuming grows by the same lines again: the store has them.
        state["lines"] = max(state["lines"], len(lines))
        write_json(self._out / "mlflow.json", state)


def _metrics(line: Mapping[str, Any]) -> list[Metric]:
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    return [Metric(name, value, now, int(line["step"])) for name, value in points(line)]
