"""The MLflow run of a training; a store that fails costs one warning.

    begin(out, uri, "pocket training", {"seed": "0"}, warn)
    log_numbers({"step": 50, "loss": 2.5, "right": {"0 answer": 0.25}})        sent by MLflow's own thread
    end("FINISHED")

out/mlflow.json names the run, so that a training that is resumed goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.config.schema import json_sha256
from harness.errors import CannotRun
from harness.storage.files import read_json_or_empty, write_json
from harness.tracking.track import StoreError, mlflow_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.utils.async_logging.run_operations import RunOperations

_KEYS_OF_POSITION = ("step", "task_step")
"""Where a line of the log stands; no numbers of their own."""


@dataclass
class _ActiveRun:
    """The run of a training that is going on.

    Args:
        client: MLflow's client.
        run_id: The id of the run.
        out: The folder of the training.
        uri: The URI of the store.
        warn: Gets a sentence where numbers are not logged.
        sent: MLflow's promises for the numbers that were sent.
    """

    client: MlflowClient
    run_id: str
    out: Path
    uri: str
    warn: Callable[[str], None]
    sent: list[RunOperations] = field(default_factory=list)


_active_runs: list[_ActiveRun] = []
"""The run that has begun; none where nothing is logged."""


def begin(
    out: Path, uri: str, experiment: str, params: Mapping[str, str], warn: Callable[[str], None]
) -> None:
    """Start the MLflow run of the training in `out`, or go on with the one that mlflow.json there
    names, if it is in the same store; from now on `log_numbers` logs to it. A store that fails
    costs a warning.

    Args:
        out: The folder of the training; its mlflow.json names the run.
        uri: The URI of the store.
        experiment: The experiment of the run; made if it is not there.
        params: Name -> value, shown with the run.
        warn: Gets a sentence where numbers are not logged.
    """
    run_file = out / "mlflow.json"
    store_hash = json_sha256(uri)[:16]
    earlier = read_json_or_empty(run_file)
    earlier_run_id: str | None = None
    if earlier.get("store") == store_hash:
        earlier_run_id = earlier.get("run")
    try:
        with mlflow_errors([out], uri):
            import mlflow

            # The fluent API would write the URI to os.environ.
            client = mlflow.MlflowClient(tracking_uri=uri)
            if earlier_run_id is not None:
                run = client.get_run(earlier_run_id)
            else:
                tags = mlflow.tracking.context.registry.resolve_tags()
                experiment_id = _find_or_create_experiment(client, experiment)
                run = client.create_run(experiment_id, tags=tags, run_name=out.name)
            run_id = run.info.run_id
            client.update_run(run_id, "RUNNING")
            for name in params.keys() - run.data.params.keys():  # a param cannot be set twice
                client.log_param(run_id, name, params[name])
    except (StoreError, CannotRun) as error:
        reason = str(error)
        if isinstance(error, StoreError):
            reason = error.reason
        warn(f"not logged to MLflow ({reason}); the training goes on, its numbers are in log.jsonl")
        return
    write_json(run_file, {"run": run_id, "store": store_hash})
    _active_runs.append(_ActiveRun(client, run_id, out, uri, warn))


def _find_or_create_experiment(client: MlflowClient, name: str) -> str:
    """The id of an experiment, made if it is not there."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    return str(client.create_experiment(name))


def log_numbers(line: Mapping[str, object]) -> None:
    """Send the numbers in a line of log.jsonl, if a run has begun; nothing is waited for.

    Args:
        line: {"step": 50, "loss": 2.5, "right": {"0 answer": 0.25}}; other values are not numbers
            and stay out.
    """
    step = line["step"]
    assert isinstance(step, int)  # each line of the log has it
    for active_run in _active_runs:
        for name, number in _named_numbers(line):
            promise = active_run.client.log_metric(
                active_run.run_id, name, number, step=step, synchronous=False
            )
            active_run.sent.append(promise)


def _named_numbers(line: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    """Yield (name, value) of the numbers in a line of the log.

    {"step": 50, "loss": 2.5, "right": {"a": 0.25}} -> ("loss", 2.5), ("right/a", 0.25)
    """
    for key, value in line.items():
        if isinstance(value, Mapping):
            for name, number in value.items():
                yield f"{key}/{name}", float(number)
        elif isinstance(value, int | float) and key not in _KEYS_OF_POSITION:
            yield key, float(value)


def end(status: str) -> None:
    """Wait for the numbers that were sent, and end the MLflow run; nothing happens where none has
    begun.

    Args:
        status: "FINISHED", "FAILED" or "KILLED".
    """
    for active_run in _active_runs:
        try:
            with mlflow_errors([active_run.out], active_run.uri):
                for promise in active_run.sent:
                    promise.wait()
                active_run.client.set_terminated(active_run.run_id, status)
        except StoreError as error:
            active_run.warn(
                f"not logged to MLflow ({error.reason}); the numbers of the training are in "
                f"{active_run.out}/log.jsonl"
            )
    _active_runs.clear()
