"""What commands that train have in common: flags that can be used, MLflow beside the training, a stop on request.

check("cuda:0", "http://...")            raises where there is no such device, or MLflow cannot be used at all
done, found = watched(run, feed(...))    False where it was asked to stop; what `run` returned, None where it did not
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.cli.stopping import say, signals
from harness.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from harness.tracking.training_log import TrainingLog


T = TypeVar("T")
Tell = Callable[[str], None]
_DEVICES = ("auto", "cpu", "cuda")


def check(device: str, mlflow: str | None) -> None:
    """Raise UnknownName for a device that is none, ConfigError for an MLflow that cannot be used at all."""
    if device not in _DEVICES and not re.fullmatch(r"cuda:\d+", device):
        raise UnknownName("device", device, _DEVICES)
    if mlflow not in (None, "off"):
        from harness.tracking.track import problems

        if found := problems(mlflow or ""):
            raise ConfigError(found)


def feed(out: Path, mlflow: str | None, params: Mapping[str, str], experiment: str | None = None) -> TrainingLog | None:
    """The run of MLflow that is told how the training in `out` goes; None where none was asked for."""
    if mlflow in (None, "off"):
        return None
    from harness.tracking.training_log import EXPERIMENT, TrainingLog

    return TrainingLog(out, mlflow or "", params, lambda line: say(f"warning: {line}"), experiment or EXPERIMENT)


def watched(run: Callable[[Tell, threading.Event], T], told: TrainingLog | None) -> tuple[bool, T | None]:
    """Run a training to its end or to the first signal, and end the run of MLflow as it went."""
    stop, status, found = threading.Event(), "FAILED", None
    try:
        with signals(stop):
            found = run(say, stop)
        status = "KILLED" if stop.is_set() else "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
    finally:
        if told is not None:
            told.close(status)
    return status == "FINISHED", found
