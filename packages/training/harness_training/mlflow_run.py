"""The MLflow run of a training; a store that fails costs one warning.

    begin(out, uri, "pocket training", {"seed": "0"}, warn)
    log_numbers({"step": 50, "loss": 2.5, "right": {"0 answer": 0.25}})        sent by MLflow's own thread
    end("FINISHED")

out/mlflow.json names the run, so that a training that is resumed goes on with it.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.config.schema import digest
from harness.errors import CannotRun
from harness.storage.files import read_json_or_empty, write_json
from harness.tracking.track import StoreError, mlflow_errors

_sent: list[Any] = []  # MLflow's promises for the numbers of the run that is active
_begun: list[tuple[Any, str, Path, str, Callable[[str], None]]] = []
"""MLflow's client, the id of its run; the arguments of `begin`."""


def begin(
    out: Path, uri: str, experiment: str, params: Mapping[str, str], warn: Callable[[str], None]
) -> None:
    """Start the run of the training in `out`, or go on with it. warn: gets a sentence where numbers
    are not logged."""
    file = out / "mlflow.json"
    store = digest(uri)[:16]
    before = read_json_or_empty(file)
    try:
        with mlflow_errors([out], uri):
            import mlflow

            # The fluent API would write the URI to os.environ.
            client = mlflow.MlflowClient(tracking_uri=uri)
            experiment_info = client.get_experiment_by_name(experiment)
            place = (
                experiment_info.experiment_id
                if experiment_info
                else client.create_experiment(experiment)
            )
            run_id = before.get("run") if before.get("store") == store else None
            run = (
                client.get_run(run_id)
                if run_id
                else client.create_run(
                    place, tags=mlflow.tracking.context.registry.resolve_tags(), run_name=out.name
                )
            )
            client.update_run(run.info.run_id, "RUNNING")
            for name in params.keys() - run.data.params.keys():
                client.log_param(run.info.run_id, name, params[name])
    except (StoreError, CannotRun) as error:
        reason = str(error)
        if isinstance(error, StoreError):
            reason = error.reason
        warn(f"not logged to MLflow ({reason}); the training goes on, its numbers are in log.jsonl")
        return
    write_json(file, {"run": run.info.run_id, "store": store})
    _begun.append((client, run.info.run_id, out, uri, warn))


def log_numbers(line: Mapping[str, Any]) -> None:
    """Send the numbers in a line of log.jsonl, if a run has begun; nothing is waited for."""
    for client, run, *_ in _begun:
        for name, number in _numbers(line):
            _sent.append(
                client.log_metric(run, name, number, step=int(line["step"]), synchronous=False)
            )


def _numbers(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(name, value) of the numbers in a line; those of a mapping become "right/0 answer"."""
    for key, value in line.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}/{name}", float(number)) for name, number in value.items())
        elif isinstance(value, int | float) and key not in (
            "step",
            "task_step",
        ):
            # Where the point stands.
            yield key, float(value)


def end(status: str) -> None:
    """Wait for the numbers that were sent, and end the run as FINISHED, FAILED or KILLED."""
    for client, run, out, uri, warn in _begun:
        try:
            with mlflow_errors([out], uri):
                for numbers in _sent:
                    numbers.wait()
                client.set_terminated(run, status)
        except StoreError as error:
            warn(
                f"not logged to MLflow ({error.reason}); the numbers of the training are in "
                f"{out}/log.jsonl"
            )
    _begun.clear()
    _sent.clear()
