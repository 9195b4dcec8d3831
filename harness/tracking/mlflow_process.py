"""Log the runs of one command to MLflow while they go on, in one child process of its own.

trackers = BackgroundTracking(out, mlflow, suite)     a hook of harness/engine/rows_in_turn.py
trackers.started(plan); runner.run(...)
trackers.missed()                      waits for the last pass; a sentence for what was not logged

MLflow is imported in the child only. No call but `missed` waits for anything, and only the first line raises.

    python -m harness.tracking.mlflow_process SUITE TRACES        the child; MLFLOW_TRACKING_URI has the store
    standard input      the run folders, each as a line of JSON; its end is that of the command, however that came
    standard output     at its end: JSON, the sentences about what was not logged

Every few seconds the child repeats `track` over the folders that have changed. All but the last of the list have ended:
a command runs one after the other. Once the command has ended, it makes a last complete pass over those that are not up
to date. Traces cost most, so a pass logs them for a limited time: what the last one does not reach is named, and
`harness track` logs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.engine.rows_in_turn import Hook
from harness.errors import ConfigError, HarnessError
from harness.storage.paths import masked
from harness.storage.run_folder import DOCUMENTS, MANIFEST, RECORDS, RUN, SUMMARY
from harness.tracking.store import expand_home, unreachable
from harness.tracking.track import (
    MOST_TRACES,
    StoreError,
    default_uri,
    error_sentences,
    log_each,
    track,
    uri_problems,
)

if TYPE_CHECKING:
    from harness.engine.plan import Plan
    from harness.engine.runner import RunResult


_NICE = 19  # 1.5 % of a core that it shares with the run: the scheduler's weights are 15 and 1024
_INTERVAL = 2.0  # seconds between two passes, at least
_SHARE = 0.05  # of a core's time that passes take, at most
_TRACING = 1.0  # seconds for traces in a pass while runs go on
_LAST_TRACING = 40.0  # seconds for them in the last pass: the command waits for it (mlflow_process.py)
_LONGEST_PAUSE = 60.0  # seconds; a store that fails is tried again after 4, 8, ... of them
_LONGEST_END = 600  # seconds of the last pass: no store keeps an orphan alive


class BackgroundTracking(Hook):
    """Logs the runs of a command below `out`. mlflow: a URI, "off", or None for the default, whose failure only warns.

    suite: name of the parent run that holds them; traces: of each run, at most; note: gets a sentence for what was not
    logged; shared: several processes answer a row, so that only whoever merges it logs it. required: MLflow was asked
    for, so that what is not logged is an error; unusable: why the default one cannot be used, in sentences. Raises
    ConfigError for an MLflow that was asked for and cannot be used at all.
    """

    def __init__(
        self,
        out: Path,
        mlflow: str | None,
        suite: str | None = None,
        traces: int = MOST_TRACES,
        *,
        note: Callable[[str], None] = lambda _: None,
        shared: bool = False,
    ) -> None:
        self._out, self._suite, self._traces, self._note, self._shared = out, suite, traces, note, shared
        self._folders: list[Path] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._problem = ""
        self._uri = expand_home(mlflow) if mlflow else default_uri(out)
        self.required = mlflow is not None or bool(os.environ.get("MLFLOW_TRACKING_URI"))
        self.unusable = [] if mlflow == "off" else uri_problems(self._uri)
        if self.unusable and self.required:
            raise ConfigError(self.unusable)
        if self.unusable or mlflow == "off":
            self._uri = ""  # nothing is logged

    def started(self, plan: Plan) -> None:
        """Log the run from now on."""
        if not self._shared:
            self.add(self._out / plan.folder)

    def ended(self, plan: Plan, result: RunResult) -> None:
        """Log a run that this process merged."""
        if self._shared and result.part is None:
            self.add(result.folder)

    def closed(self) -> int:
        """Report what was not logged, as errors or warnings; 3 where logging was requested and failed."""
        missed = self.missed()
        for sentence in missed:
            self._note(f"{'error' if self.required else 'warning'}: {sentence}")
        return 3 if self.required and missed else 0

    def add(self, folder: Path) -> None:
        """Log the run in `folder` too, unless tracking is off; the run added before it must have ended."""
        if not self._uri:
            return
        self._folders.append(folder)
        try:
            self.process = self.process or self._start_child()
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(os.fspath(folder)).encode() + b"\n")
        except OSError as error:
            self._problem = f"{type(error).__name__}: {error}"

    def _start_child(self) -> subprocess.Popen[bytes]:
        """Start the process that logs: its arguments are public, so the URI is in its environment."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe that nobody reads would hold the child up
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        # The URI may hold a password: every user sees the arguments of a process, only its owner the environment.
        own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MLFLOW_TRACKING_URI": self._uri}
        # -P: a folder named like one of our packages in the working directory must not be imported instead.
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, self._suite or "", str(self._traces)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **own},
            process_group=0,  # Ctrl-C is for the run; the child then makes its last pass alone
        )
        os.setpriority(os.PRIO_PROCESS, child.pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + _NICE))
        return child

    def missed(self, timeout: float = 120.0) -> list[str]:
        """Let the child make its last pass and end; waits at most `timeout` seconds.

        Returns sentences about what was not logged, one for all runs with the same reason; [] where all was.
        """
        problem = self._problem
        if self.process is not None:
            # Beside busy programs 1.5 % of a core never ends it: nothing runs now that it could disturb.
            with contextlib.suppress(OSError):  # the system may not let a process raise a priority
                os.setpriority(os.PRIO_PROCESS, self.process.pid, os.getpriority(os.PRIO_PROCESS, 0))
            try:
                output, _ = self.process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
                problem = f"TimeoutError: not done {timeout:.0f} s after the run ended"
            else:
                if self.process.returncode:
                    self._log.seek(0)
                    lines = self._log.read().decode(errors="replace").split("\n")
                    last = next((line for line in reversed(lines) if line.strip()), "")
                    problem = f"ChildProcessError: its process ended with {self.process.returncode}: {last}"
                elif not problem:
                    return list(json.loads(output))
        runs = [folder for folder in self._folders if (folder / RUN).exists()]
        return [str(StoreError(runs, self._uri, problem))] if runs else []


class Passes:
    """Logs run folders in passes, each what has changed since the last; uri, suite, traces: as in `track`."""

    def __init__(self, uri: str, suite: str | None, traces: int = MOST_TRACES) -> None:
        self.uri, self.suite, self.traces = uri, suite, traces
        self._logged: dict[Path, tuple[object, ...]] = {}
        self._missing: dict[Path, int] = {}  # traces that are still to be logged

    def make(self, folders: Sequence[Path], last: bool = False) -> dict[Path, HarnessError]:
        """Log the folders that changed; returns folder -> error of those that failed. last: none still runs."""
        until = time.monotonic() + (_LAST_TRACING if last else _TRACING)

        def log(folder: Path) -> None:
            """Log a folder, unless it is as it was when all of it was logged."""
            running = not last and folder == folders[-1]
            state = _folder_state(folder, running)
            if state is None or (state == self._logged.get(folder) and not self._missing.get(folder)):
                return
            if reason := unreachable(self.uri):  # MLflow is not even imported, nor does it try a database 15 times
                raise StoreError([folder], self.uri, reason)
            self._missing[folder] = track(
                folder, self.uri, suite=self.suite, running=running, traces=self.traces, until=until
            )
            self._logged[folder] = state

        return log_each(dict.fromkeys(folders), log)

    def finish(self, folders: Sequence[Path]) -> list[str]:
        """Make the last pass; returns a sentence for each run that could not be logged whole."""
        errors = self.make(folders, last=True)
        sentences = []
        for folder, missing in self._missing.items():
            if missing and folder not in errors:
                command = f"harness track {shlex.quote(str(folder))} --uri {masked(self.uri)}"
                sentences.append(
                    f"{missing} questions of {folder} have no trace in MLflow yet; log them with: {command}"
                )
        return [*sentences, *error_sentences(errors)]


def _folder_state(folder: Path, running: bool) -> tuple[object, ...] | None:
    """(running, then inode, size and time of each file), to see changes; None without a run (yet)."""
    if not (folder / RUN).exists() or (running and not (folder / MANIFEST).exists()):
        return None
    names = (RUN, MANIFEST, RECORDS, DOCUMENTS, SUMMARY)
    stats = [(folder / name).stat() if (folder / name).exists() else None for name in names]
    return (running, *((state.st_ino, state.st_size, state.st_mtime_ns) if state else None for state in stats))


def main(suite: str, traces: int) -> None:
    """Log the folders that standard input names until that ends, as it does when the command ends in any way."""
    results = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no result
    passes = Passes(os.environ["MLFLOW_TRACKING_URI"], suite or None, traces)
    folders: list[Path] = []
    ended, pause = threading.Event(), _INTERVAL

    def listen() -> None:
        folders.extend(Path(json.loads(line)) for line in sys.stdin)
        ended.set()

    threading.Thread(target=listen).start()
    while not ended.wait(pause):
        start = time.monotonic()
        errors = passes.make([*folders])  # a folder that cannot be read just now: the last pass reports it
        down = any(isinstance(error, StoreError) for error in errors.values())
        took = time.monotonic() - start
        pause = min(2 * pause, _LONGEST_PAUSE) if down else max(_INTERVAL, took / _SHARE)
    signal.alarm(_LONGEST_END)
    with open(results, "w", encoding="utf-8") as file:
        json.dump(passes.finish(folders), file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
