"""The child process that logs the runs of one command to MLflow: python -m harness.tracking.child PARENT SUITE TRACES

Every few seconds it repeats `track` over the run folders of the command that have changed. Once the parent has ended,
it makes a last complete pass over those that are not up to date, and ends too. Traces cost most, so a pass logs them
for a limited time: what the last one does not reach is named, and `harness track` logs it.

MLFLOW_TRACKING_URI    the store
standard input         a file that grows: the run folders, each with a NUL behind it; an empty name is the end
standard output        a file that grows: run folder NUL why it was not logged, or nothing NUL

All but the last folder of the list have ended: a command runs one after the other.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HarnessError
from harness.storage.paths import masked
from harness.storage.run_folder import DOCUMENTS, MANIFEST, RECORDS, SUMMARY
from harness.tracking.track import MOST_TRACES, RUN, TRAINING, StoreError, begun, track, track_suites
from harness.tracking.training_log import LOG, track_training
from harness.tracking.uri import unreachable

_POLL = 0.2  # seconds between two looks at the parent
_INTERVAL = 2.0  # seconds between two passes, at least
_SHARE = 0.05  # of a core's time that passes take, at most
_TRACING = 1.0  # seconds for traces in a pass while runs go on
_LAST_TRACING = 40.0  # seconds for them in the last pass: the command waits for it (background.py)
_LONGEST_PAUSE = 60.0  # seconds; a store that fails is tried again after 4, 8, ... of them
_LONGEST_END = 600  # seconds of the last pass: no store keeps an orphan alive
# A store that let two runs down one after the other is not asked for the others of that pass.
_MOST_FAILURES = 2

State = tuple[object, ...]


class Passes:
    """Passes over the folders of a command; each logs only what has changed since."""

    def __init__(self, uri: str, suite: str | None, traces: int = MOST_TRACES) -> None:
        self.uri, self.suite, self.traces = uri, suite, traces
        self._logged: dict[Path, State] = {}
        self._missing: dict[Path, int] = {}  # traces that are still to be logged

    def make(self, folders: Sequence[Path], last: bool = False) -> dict[Path, HarnessError]:
        """Log every folder that has changed; what could not be, with its error.

        last: the command has ended, so none of its runs goes on.
        """
        errors: dict[Path, HarnessError] = {}
        failures: list[StoreError] = []
        until = time.monotonic() + (_LAST_TRACING if last else _TRACING)
        for folder in dict.fromkeys(folders):
            running = not last and folder == folders[-1]
            state = _state(folder, running)
            if state is None or (state == self._logged.get(folder) and not self._missing.get(folder)):
                continue
            try:
                if len(failures) >= _MOST_FAILURES:
                    raise failures[-1]
                self._missing[folder] = self._log(folder, running, until)
                self._logged[folder] = state
                failures.clear()
            except StoreError as error:
                failures.append(error)
                errors[folder] = error
            except HarnessError as error:
                errors[folder] = error
        return errors

    def _log(self, folder: Path, running: bool, until: float) -> int:
        """The number of traces that are missing still. Raises HarnessError.

        Where nobody listens at the address of the store, MLflow is not even imported.
        """
        missing = 0
        if reason := unreachable(self.uri):
            raise StoreError([folder], self.uri, reason)
        if (folder / TRAINING).exists():
            track_training(folder, self.uri, running=running)
        else:
            missing = track(folder, self.uri, suite=self.suite, running=running, traces=self.traces, until=until)
        if not running:
            _write(folder, "")
        return missing

    def finish(self, folders: Sequence[Path]) -> None:
        """Make the last pass, with the page of the suite, and write what could not be logged."""
        errors = self.make(folders, last=True)
        logged = [folder for folder in self._logged if folder not in errors]
        if self.suite and logged and not any(isinstance(error, StoreError) for error in errors.values()):
            try:
                track_suites(logged, self.uri, suite=self.suite)
            except HarnessError as error:
                errors |= dict.fromkeys(logged, error)
        for folder, missing in self._missing.items():
            if missing and folder not in errors:
                command = f"harness track {shlex.quote(str(folder))} --uri {masked(self.uri)}"
                _write(folder, f"{missing} questions of {folder} have no trace in MLflow yet; log them with: {command}")
        alike: dict[str, list[Path]] = {}  # one sentence for all the runs with the same reason
        for folder, problem in errors.items():
            if isinstance(problem, StoreError):
                alike.setdefault(problem.reason, []).append(folder)
            else:
                _write(folder, str(problem))
        for reason, runs in alike.items():
            for folder in runs:
                _write(folder, str(StoreError(runs, self.uri, reason)))


def _state(folder: Path, running: bool) -> State | None:
    """What changes when there is something to log; None if there is no run (yet)."""
    if not begun(folder) or (running and not any((folder / name).exists() for name in (MANIFEST, TRAINING))):
        return None
    names = (RUN, MANIFEST, RECORDS, DOCUMENTS, SUMMARY, TRAINING, LOG)
    files = [folder / name for name in names]
    stats = [file.stat() if file.exists() else None for file in files]
    return (running, *((state.st_ino, state.st_size, state.st_mtime_ns) if state else None for state in stats))


def _write(folder: Path, sentence: str) -> None:
    os.write(1, os.fsencode(folder) + b"\0" + os.fsencode(sentence) + b"\0")


def _listed() -> tuple[list[Path], bool]:
    """The folders so far, and whether that is all of them."""
    names = os.pread(0, os.fstat(0).st_size, 0).split(b"\0")[:-1]
    return [Path(os.fsdecode(name)) for name in names if name], b"" in names


def main(parent: int, suite: str, traces: int) -> None:
    """Log until the parent has ended, in whatever way."""
    passes = Passes(os.environ["MLFLOW_TRACKING_URI"], suite or None, traces)
    pause, due = _INTERVAL, 0.0
    folders, ended = _listed()
    while not ended and os.getppid() == parent:
        start = time.monotonic()
        if start >= due:
            errors = passes.make(folders)  # a folder that cannot be read just now: the last pass reports it
            end = time.monotonic()
            down = any(isinstance(error, StoreError) for error in errors.values())
            pause = min(2 * pause, _LONGEST_PAUSE) if down else max(_INTERVAL, (end - start) / _SHARE)
            due = end + pause
        time.sleep(_POLL)
        folders, ended = _listed()
    signal.alarm(_LONGEST_END)
    passes.finish(folders)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
