"""Log the runs of one command to MLflow while they go on, in a thread of the command's process.

trackers = BackgroundTracking(out, mlflow, suite)     a hook of harness/engine/runs_in_turn.py
trackers.started(plan); runner.run(...); trackers.ended(plan, result)
trackers.finish()                      makes the last pass; a sentence for what was not logged

The thread logs what has changed every SECONDS_BETWEEN_PASSES seconds, and all when the command
ends: not when a run ends, as MLflow's work would slow down the calls of the next run, whose seconds
are measured. It reads run folders only, so a store that is down or hangs never costs an answer.
Traces cost most, so a pass logs them for a limited time, which begins with the first of them: what
the last one does not reach is named, and `harness track` logs it.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness.engine.runs_in_turn import Hook
from harness.errors import ConfigError, HarnessError
from harness.storage.paths import with_address_secrets_masked
from harness.storage.run_files import DOCUMENTS, MANIFEST, RECORDS, RUN, SUMMARY
from harness.tracking import MAX_TRACES_PER_RUN
from harness.tracking.store import connection_problem, expand_home
from harness.tracking.tracing_time import TracingTime
from harness.tracking.track import (
    StoreError,
    default_uri,
    error_sentences,
    log_each,
    track,
    uri_problems,
)

if TYPE_CHECKING:
    from harness.engine.plan import PlannedRun
    from harness.engine.runner import RunResult

SECONDS_BETWEEN_PASSES = 30.0
"""Seconds between two passes while a run goes on."""
_TRACING_SECONDS = 1.0  # seconds for traces in a pass while runs go on
_LAST_TRACING_SECONDS = 40.0  # seconds for them in the last pass: the command waits for it
_MAX_SECONDS_OF_LAST_PASS = 120.0  # seconds that the command waits for the last pass


class BackgroundTracking(Hook):
    """Logs the runs of a command below a folder of results.

    Attributes:
        required: Whether MLflow was asked for, so that what is not logged is an error.
        unusable: Why the default MLflow cannot be used, in sentences.
        thread: The thread that logs; None before the first run.
    """

    def __init__(
        self,
        out: Path,
        mlflow: str | None,
        suite: str | None = None,
        traces: int = MAX_TRACES_PER_RUN,
        *,
        note: Callable[[str], None] = lambda _: None,
        shared: bool = False,
    ) -> None:
        """Find the store; nothing is logged yet.

        Args:
            out: The folder of results.
            mlflow: A URI, "off", or None for the default, whose failure only warns.
            suite: The name of the parent run that holds the runs.
            traces: The most traces of each run.
            note: Called with a sentence for what was not logged.
            shared: Several processes answer a run, so that only the one that merges it logs it.

        Raises:
            ConfigError: An MLflow that was asked for cannot be used at all.
        """
        self._results_folder = out
        self._suite = suite
        self._max_traces = traces
        self._print_problem = note
        self._has_several_processes = shared
        self._folders: list[Path] = []
        self._ended_folders: set[Path] = set()
        # The state of a folder when all of it was logged.
        self._state_when_logged: dict[Path, _FolderState] = {}
        self._n_missing_traces: dict[Path, int] = {}  # traces that are still to be logged
        self._errors_of_last_pass: dict[Path, HarnessError] = {}
        self._thread_problem = ""
        self._command_has_ended = threading.Event()
        self.thread: threading.Thread | None = None
        self.required = mlflow is not None or bool(os.environ.get("MLFLOW_TRACKING_URI"))
        self.unusable: list[str] = []
        self._uri = ""  # nothing is logged
        if mlflow != "off":
            self._set_uri_or_unusable(mlflow)

    def _set_uri_or_unusable(self, mlflow: str | None) -> None:
        """Choose the store: set `_uri`, or `unusable` where the default store cannot be used.

        Args:
            mlflow: A URI, or None for the default.

        Raises:
            ConfigError: A store that was asked for cannot be used.
        """
        uri = default_uri(self._results_folder)
        if mlflow:
            uri = expand_home(mlflow)
        self.unusable = uri_problems(uri)
        if self.unusable and self.required:
            raise ConfigError(self.unusable)
        if not self.unusable:
            self._uri = uri

    def started(self, plan: PlannedRun) -> None:
        """Log the run from now on; not where several processes answer it."""
        if not self._has_several_processes:
            self.follow_run(self._results_folder / plan.folder)

    def ended(self, plan: PlannedRun, result: RunResult) -> None:
        """Note that a run ended, so that the next pass logs all of it.

        Of a run that several processes answered, only the one that merged the parts logs it: its
        result is in the run's own folder, that of the others in the folder of a part.
        """
        run_folder = self._results_folder / plan.folder
        if self._has_several_processes and result.folder == run_folder:
            self.follow_run(run_folder)
        self._ended_folders.add(run_folder)

    def closed(self) -> int:
        """Make the last pass, and report what was not logged.

        Returns the exit code: 3 where a store failed, or traces that were asked for are missing.
        """
        not_logged = self.finish()
        failed = self.required or bool(self._thread_problem or self._errors_of_last_pass)
        word = "error" if failed else "warning"
        for sentence in not_logged:
            self._print_problem(f"{word}: {sentence}")
        if failed and not_logged:
            return 3
        return 0

    def follow_run(self, folder: Path) -> None:
        """Log the run in `folder` too, unless tracking is off; the
        first one also starts the thread.

        The run that was added before it must have ended.
        """
        if not self._uri:
            return
        self._folders.append(folder)
        if self.thread is None:
            self.thread = threading.Thread(target=self._follow, name="tracking", daemon=True)
            self.thread.start()

    def finish(self, timeout: float = _MAX_SECONDS_OF_LAST_PASS) -> list[str]:
        """Let the thread make its last pass and end; waits at most `timeout` seconds for that.

        Returns sentences about what was not logged, one for all runs with the same reason; [] where
        all was, or where the folders hold no run yet.
        """
        if self.thread is None:
            return []
        self._command_has_ended.set()
        self.thread.join(timeout)
        if self.thread.is_alive():
            self._thread_problem = f"TimeoutError: not done {timeout:.0f} s after the run ended"
        if self._thread_problem:
            runs = [folder for folder in self._folders if (folder / RUN).exists()]
            if not runs:
                return []
            return [str(StoreError(runs, self._uri, self._thread_problem))]
        sentences = []
        for folder, n_missing in self._n_missing_traces.items():
            if n_missing and folder not in self._errors_of_last_pass:
                command = f"harness track {shlex.quote(str(folder))} --uri {with_address_secrets_masked(self._uri)}"
                sentences.append(
                    f"{n_missing} questions of {folder} have no trace in MLflow yet; log them with: "
                    f"{command}"
                )
        return [*sentences, *error_sentences(self._errors_of_last_pass)]

    def _follow(self) -> None:
        """Make a pass now and then (SECONDS_BETWEEN_PASSES), and the last one when the command ends.

        The thread runs this. Sets `_errors_of_last_pass`, or `_thread_problem` to what stopped it.
        """
        try:
            while not self._command_has_ended.wait(SECONDS_BETWEEN_PASSES):
                self.log_changes()  # a folder that cannot be logged just now: the last pass reports it
            self._errors_of_last_pass = self.log_changes(last=True)
        except Exception as error:  # noqa: BLE001 - whatever MLflow does, the run goes on
            self._thread_problem = f"{type(error).__name__}: {error}"

    def log_changes(self, last: bool = False) -> dict[Path, HarnessError]:
        """Make one pass: log the folders that changed since all of them was logged.

        Args:
            last: Whether this is the last pass, when no run goes on.

        Returns:
            Folder -> error, of those that failed.
        """
        tracing_seconds = _TRACING_SECONDS
        if last:
            tracing_seconds = _LAST_TRACING_SECONDS
        tracing_time = TracingTime(tracing_seconds)
        folders = [*self._folders]  # a copy: another thread may add one

        def log(folder: Path) -> None:
            """Log one folder if it has changed."""
            # Runs go on in turn, so that only the last one may still be running.
            may_go_on = folder == folders[-1] and not last
            run_goes_on = may_go_on and folder not in self._ended_folders
            self._log_if_changed(folder, run_goes_on, tracing_time)

        folders_once = dict.fromkeys(folders)
        return log_each(folders_once, log)

    def _log_if_changed(self, folder: Path, run_goes_on: bool, tracing_time: TracingTime) -> None:
        """Log a folder, unless it holds no run yet, or has not changed since all of it was logged.

        Args:
            folder: The run folder.
            run_goes_on: Whether the run goes on; then it is logged once it has a manifest.
            tracing_time: The time that traces of the whole pass may take.

        Raises:
            StoreError: The store cannot be reached.
        """
        has_run = (folder / RUN).exists()
        has_manifest = (folder / MANIFEST).exists()
        if not has_run or (run_goes_on and not has_manifest):
            return
        folder_state = _read_folder_state(folder, run_goes_on)
        is_unchanged = folder_state == self._state_when_logged.get(folder)
        if is_unchanged and not self._n_missing_traces.get(folder):
            return
        # Where nobody answers, MLflow is not even imported, nor does it try a database 15 times.
        problem = connection_problem(self._uri)
        if problem:
            raise StoreError([folder], self._uri, problem)
        self._n_missing_traces[folder] = track(
            folder,
            self._uri,
            suite=self._suite,
            running=run_goes_on,
            traces=self._max_traces,
            tracing=tracing_time,
        )
        self._state_when_logged[folder] = folder_state


class _FileState(NamedTuple):
    """By what a change of a file is seen."""

    inode: int
    n_bytes: int
    changed_ns: int


@dataclass(frozen=True)
class _FolderState:
    """By what a change of a run folder is seen.

    Attributes:
        run_goes_on: Whether the run goes on.
        files: The states of its files.
    """

    run_goes_on: bool
    files: tuple[_FileState, ...]


def _read_folder_state(folder: Path, run_goes_on: bool) -> _FolderState:
    """Look up the state of a run folder by which a change is seen."""
    file_states = []
    for name in (RUN, MANIFEST, RECORDS, DOCUMENTS, SUMMARY):
        file = folder / name
        if file.exists():
            stat = file.stat()
            file_states.append(
                _FileState(inode=stat.st_ino, n_bytes=stat.st_size, changed_ns=stat.st_mtime_ns)
            )
    return _FolderState(run_goes_on, tuple(file_states))
