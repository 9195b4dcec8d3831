"""MLflow beside the runs of one command: a process follows each run, and ends while the next one goes on.

trackers = Trackers(options.out, options.mlflow, suite)
with trackers.follow(plan, progress.note): runner.run(...)
trackers.missed()                      waits; sentences about what was not logged although it was asked for
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import ConfigError

if TYPE_CHECKING:
    from harness.plan import Plan
    from harness.tracking import Follower

__all__ = ["Trackers"]


class Trackers:
    """The followers of a command. mlflow: a URI, "off", or None for the default, whose failure is but a warning.

    Raises ConfigError for an MLflow that was asked for and cannot be used at all.
    """

    def __init__(self, out: Path, mlflow: str | None, suite: str | None = None) -> None:
        from harness import tracking

        self.required = mlflow is not None or bool(os.environ.get("MLFLOW_TRACKING_URI"))
        self._uri = None if mlflow == "off" else mlflow or tracking.default_uri(out)
        self._out, self._suite = out, suite
        self._ending: list[threading.Thread] = []
        self._missed: list[str] = []
        self.unusable = tracking.problems(self._uri) if self._uri else []
        if self.unusable:
            if self.required:
                raise ConfigError(self.unusable)
            self._uri = None

    @contextlib.contextmanager
    def follow(self, plan: Plan) -> Iterator[None]:
        """Follow the run of `plan` inside; its last pass is made in the background."""
        from harness import tracking

        folder = self._out / plan.folder
        follower = tracking.start_follower(folder, self._uri, suite=self._suite) if self._uri else None
        try:
            yield
        finally:
            if follower is not None:
                # A daemon: after an interrupt the command ends at once, and the process makes its last pass alone.
                thread = threading.Thread(target=self._end, args=(follower, folder), daemon=True)
                thread.start()
                self._ending.append(thread)

    def _end(self, follower: Follower, folder: Path) -> None:
        missed = follower.finish()
        if (folder / "run.yaml").exists():  # else the run never began, and says so itself
            self._missed += missed

    def missed(self) -> list[str]:
        """Wait for all followers; what was not logged, a sentence each."""
        for thread in self._ending:
            thread.join()
        return list(dict.fromkeys(self._missed))

    def tell(self, say: Callable[[str], None]) -> bool:
        """Say what was not logged, as errors or as warnings; True when it was asked for and is missing."""
        missed = self.missed()
        for sentence in missed:
            say(f"{'error' if self.required else 'warning'}: {sentence}")
        return self.required and bool(missed)
