"""What commands that train share: options, their check, metrics to MLflow, a stop on request."""

import contextlib
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from harness.cli.command import choice, execution, setting
from harness.cli.options import Device, Json, TrainingMlflow
from harness.cli.output import say
from harness.errors import ConfigError, UnknownName
from harness.parallel.signals import on_signals
from harness.tracking.track import uri_problems
from harness_training import mlflow_run

T = TypeVar("T")
Report = Callable[[str], None]
_DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class TrainOptions:
    """What is trained, on which data and for how long."""

    model: Annotated[
        str | None,
        choice(
            "--model NAME",
            "Base model: preset, folder, or hub id owner/name.",
            "pocket-llama, the embedded model",
            complete="models",
        ),
    ] = None
    task: Annotated[
        list[str], choice("--task NAME,...", "Only these adapters; may be repeated.")
    ] = field(default_factory=list)
    teacher: Annotated[
        str | None,
        choice(
            "--teacher MODEL",
            "Model that labels --dataset.",
            "train on the synthetic world instead",
        ),
    ] = None
    dataset: Annotated[
        str | None,
        choice(
            "--dataset -d NAME,...",
            "Data sets whose training questions the teacher labels.",
            complete="datasets",
        ),
    ] = None
    data: Annotated[
        str | None,
        choice(
            "--data PATH",
            "Training file or folder to load instead of the hub, {dataset} for a data set's name; "
            "of reader, the "
            "folder with training files.",
        ),
    ] = None
    exclude: Annotated[
        str | None,
        choice(
            "--exclude PATH",
            "Evaluation questions that are not trained on, {dataset} for a data set's name.",
            "the evaluation split on the hub or in the folder --data",
        ),
    ] = None
    profile: Annotated[
        str | None,
        setting(
            "--profile NAME",
            "Training settings: paper, pocket or cpu.",
            "cpu for reader, pocket for an embedded base model, else paper",
        ),
    ] = None
    config: Annotated[str | None, setting("--config FILE", "YAML file with training settings.")] = (
        None
    )
    sets: Annotated[
        list[str],
        setting(
            "--set KEY=VALUE ...", "Any setting: rank=8 selection.rate=1e-3 model.dtype=bfloat16."
        ),
    ] = field(default_factory=list)
    seed: Annotated[
        int, setting("--seed N", "Random seed of weights, order and training texts.")
    ] = 0
    steps: Annotated[
        int | None,
        execution("--steps N", "Total optimizer steps after which to stop.", "all", min=1),
    ] = None
    parallel: Annotated[
        int,
        execution(
            "--parallel N", "Questions or documents that the teacher labels at a time.", min=1
        ),
    ] = 8
    device: Device = "auto"
    eval_only: Annotated[
        bool, execution("--eval", "Train nothing; measure the adapters in the folder.")
    ] = False
    mlflow: TrainingMlflow = None
    json: Json = False


def check_options(device: str, mlflow: str | None) -> None:
    """Raise UnknownName for an unknown device, ConfigError for an unusable MLflow URI."""
    if device not in _DEVICES:
        raise UnknownName("device", device, _DEVICES)
    if mlflow is None or mlflow == "off":
        return
    sentences = uri_problems(mlflow)
    if sentences:
        raise ConfigError(sentences)


def run_until_stopped(
    run: Callable[[Report, threading.Event], T],
    out: Path,
    mlflow: str | None = "off",
    experiment: str = "",
    params: Mapping[str, str] = {},
) -> tuple[bool, T | None]:
    """Run a training to its end or to the first signal, and log it to MLflow as finished, killed or
    failed.

    Args:
        run: The training; it gets `say` and an event that is set once it should stop.
        out: The folder of the training.
        mlflow: The URI of a store; None or "off" for no log.
        experiment: The experiment in which the run is shown there.
        params: Name -> value, shown with the run.

    Returns:
        Whether it ended without a signal, and what `run` returned (None where a second signal
        stopped it at once).
    """
    stop = threading.Event()
    status = "FAILED"
    result = None
    if mlflow is not None and mlflow != "off":
        mlflow_run.begin(out, mlflow, experiment, params, _warn)
    try:
        with _stop_on_signals(stop):
            result = run(say, stop)
        status = "FINISHED"
        if stop.is_set():
            status = "KILLED"
    except KeyboardInterrupt:
        status = "KILLED"
    finally:
        mlflow_run.end(status)
    return status == "FINISHED", result


def _warn(sentence: str) -> None:
    """Print a warning."""
    say(f"warning: {sentence}")


def _stop_on_signals(stop: threading.Event) -> contextlib.AbstractContextManager[None]:
    """Context manager: inside, the first Ctrl-C or SIGTERM sets `stop`, the second raises
    KeyboardInterrupt."""

    def stop_or_raise(_number: int) -> None:
        """Set `stop` at the first signal, and say so; raise KeyboardInterrupt at the second."""
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        say("stopping after this step; press Ctrl-C again to stop at once")

    return on_signals(stop_or_raise, signal.SIGINT, signal.SIGTERM)
