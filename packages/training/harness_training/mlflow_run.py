"""The MLflow run of a training, by MLflow's fluent API in this process; a store that fails costs one warning.

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

_STEPS = ("step", "task_step")  # where a point of it stands, no number to draw
_sent: list[Any] = []  # MLflow's promises for the numbers of the run that is active
_begun: list[tuple[Path, str, Callable[[str], None]]] = []


def begin(out: Path, uri: str, experiment: str, params: Mapping[str, str], warn: Callable[[str], None]) -> None:
    """Start the run of the training in `out`, or go on with it. warn: gets a sentence where numbers are not logged."""
    file, store = out / "mlflow.json", digest(uri)[:16]
    before = read_json_or_empty(file)
    try:
        with mlflow_errors([out], uri):
            import mlflow

            mlflow.set_tracking_uri(uri)
            mlflow.set_experiment(experiment)
            known = before.get("run") if before.get("store") == store else None
            run = mlflow.start_run(known, run_name=out.name)
            mlflow.log_params({name: value for name, value in params.items() if name not in run.data.params})
    except (StoreError, CannotRun) as error:
        reason = error.reason if isinstance(error, StoreError) else str(error)
        warn(f"not logged to MLflow ({reason}); the training goes on, its numbers are in log.jsonl")
        return
    write_json(file, {"run": run.info.run_id, "store": store})
    _begun.append((out, uri, warn))


def log_numbers(line: Mapping[str, Any]) -> None:
    """Send the numbers in a line of log.jsonl, if a run has begun; nothing is waited for."""
    if _begun:
        import mlflow

        _sent.append(mlflow.log_metrics(dict(_numbers(line)), int(line["step"]), synchronous=False))


def _numbers(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(name, value) of the numbers in a line; those of a mapping become "right/0 answer"."""
    for key, value in line.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}/{name}", float(number)) for name, number in value.items())
        elif isinstance(value, int | float) and key not in _STEPS:
            yield key, float(value)


def end(status: str) -> None:
    """Wait for the numbers that were sent, and end the run as FINISHED, FAILED or KILLED."""
    for out, uri, warn in _begun:
        try:
            with mlflow_errors([out], uri):
                import mlflow

                for numbers in _sent:
                    numbers.wait()
                mlflow.end_run(status)
        except StoreError as error:
            warn(f"not logged to MLflow ({error.reason}); the numbers of the training are in {out}/log.jsonl")
    _begun.clear()
    _sent.clear()
