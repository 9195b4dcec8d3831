"""What commands that train share: checked options, metrics to MLflow, a stop on request.

check("cuda:0", "http://...")            raises for an unknown device or an unusable MLflow URI
done, result = watched(run, feed(...))   done is False where training was interrupted; result is what `run` returned
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.cli.output import say
from harness.cli.stopping import signals
from harness.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from harness.tracking.training_log import TrainingLog


T = TypeVar("T")
Report = Callable[[str], None]
_DEVICES = ("auto", "cpu", "cuda")


def check(device: str, mlflow: str | None) -> None:
    """Raise UnknownName for an unknown device, ConfigError for an unusable MLflow URI."""
    if device not in _DEVICES and not re.fullmatch(r"cuda:\d+", device):
        raise UnknownName("device", device, _DEVICES)
    if mlflow not in (None, "off"):
        from harness.tracking.track import problems

        if sentences := problems(mlflow or ""):
            raise ConfigError(sentences)


def feed(out: Path, mlflow: str | None, params: Mapping[str, str], experiment: str | None = None) -> TrainingLog | None:
    """Log the training in `out` to a run of MLflow; None where logging is off."""
    if mlflow in (None, "off"):
        return None
    from harness.tracking.training_log import EXPERIMENT, TrainingLog

    return TrainingLog(out, mlflow or "", params, lambda line: say(f"warning: {line}"), experiment or EXPERIMENT)


def watched(run: Callable[[Report, threading.Event], T], log: TrainingLog | None) -> tuple[bool, T | None]:
    """Run a training to its end or to the first signal, and close its MLflow run with the right status.

    Returns whether it ended by itself, and what `run` returned (None where it was stopped at once).
    """
    stop, status, result = threading.Event(), "FAILED", None
    try:
        with signals(stop):
            result = run(say, stop)
        status = "KILLED" if stop.is_set() else "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
    finally:
        if log is not None:
            log.close(status)
    return status == "FINISHED", result
