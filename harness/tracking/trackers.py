"""Log the runs of one command to MLflow: one process follows them all, and makes its passes while the next one runs.

trackers = Trackers(out, mlflow, suite)
with trackers.follow(folder): runner.run(...)
trackers.missed()                      waits; a sentence about each run that was not logged
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigError
from harness.tracking.uri import own_place

if TYPE_CHECKING:
    from harness.tracking.follower import Follower


class Trackers:
    """Logs the runs of a command. mlflow: a URI, "off", or None for the default, whose failure only warns.

    suite: name of the parent run that holds them. Raises ConfigError for an MLflow that was asked for and cannot be
    used at all.
    """

    def __init__(self, out: Path, mlflow: str | None, suite: str | None = None) -> None:
        from harness.tracking import track as tracking

        self.required = mlflow is not None or bool(os.environ.get("MLFLOW_TRACKING_URI"))
        self._uri = None if mlflow == "off" else own_place(mlflow) if mlflow else tracking.default_uri(out)
        self._suite = suite
        self._follower: Follower | None = None
        self.unusable = tracking.problems(self._uri) if self._uri else []
        if self.unusable:
            if self.required:
                raise ConfigError(self.unusable)
            self._uri = None

    @contextlib.contextmanager
    def follow(self, folder: Path) -> Iterator[None]:
        """Log the run in `folder` while the block runs; its last pass is made while the next run goes on."""
        if self._uri is None:
            yield
            return
        if self._follower is None:
            from harness.tracking import follower as _follower

            self._follower = _follower.Follower(self._uri)
        self._follower.follow(folder, self._suite)
        try:
            yield
        finally:
            # After an interrupt the command ends at once, and the process makes its last passes alone.
            self._follower.ended(folder)

    def missed(self) -> list[str]:
        """Wait for the last passes; what was not logged, a sentence each."""
        return [] if self._follower is None else self._follower.finish()

    def report(self, say: Callable[[str], None]) -> bool:
        """Print what was not logged, as errors or warnings; True where logging was requested and failed."""
        missed = self.missed()
        for sentence in missed:
            say(f"{'error' if self.required else 'warning'}: {sentence}")
        return self.required and bool(missed)
