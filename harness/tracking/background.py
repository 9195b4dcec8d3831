"""Log the runs of one command to MLflow while they go on, in one child process (harness/tracking/child.py).

trackers = BackgroundTracking(out, mlflow, suite)
trackers.add(folder); runner.run(...)
trackers.missed()                      waits for the last pass; a sentence for what was not logged

MLflow is imported in the child only. No call but `missed` waits for anything, and only the first line raises.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from harness.errors import ConfigError
from harness.tracking.track import MOST_TRACES, StoreError, begun, default_uri, problems
from harness.tracking.uri import own_place

_NICE = 19  # 1.5 % of a core that it shares with the run: the scheduler's weights are 15 and 1024


class BackgroundTracking:
    """Logs the runs of a command. mlflow: a URI, "off", or None for the default, whose failure only warns.

    suite: name of the parent run that holds them; traces: of each run, at most. Raises ConfigError for an MLflow that
    was asked for and cannot be used at all.
    """

    def __init__(self, out: Path, mlflow: str | None, suite: str | None = None, traces: int = MOST_TRACES) -> None:
        self.required = mlflow is not None or bool(os.environ.get("MLFLOW_TRACKING_URI"))
        self._uri = "" if mlflow == "off" else own_place(mlflow) if mlflow else default_uri(out)
        self._suite, self._traces = suite, traces
        self._folders: list[Path] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._problem = ""
        self.unusable = problems(self._uri) if self._uri else []
        if self.unusable:
            if self.required:
                raise ConfigError(self.unusable)
            self._uri = ""

    def add(self, folder: Path) -> None:
        """Log the run that is about to write `folder`, unless tracking is off; the run before it has ended."""
        if not self._uri:
            return
        self._folders.append(folder)
        if self._problem:
            return
        try:
            if self.process is None:
                self._start()
            self._list.write(os.fsencode(folder) + b"\0")
        except OSError as error:
            self._problem = f"{type(error).__name__}: {error}"

    def _start(self) -> None:
        # Files, not pipes: nothing is lost when either process dies, and none can hold the other up.
        self._list, self._results, self._log = (tempfile.TemporaryFile(buffering=0) for _ in range(3))  # noqa: SIM115
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        # The URI may hold a password: every user sees the arguments of a process, only its owner the environment.
        own = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MLFLOW_TRACKING_URI": self._uri}
        # -P: a folder named like one of our packages in the working directory must not be imported instead.
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "harness.tracking.child",
                str(os.getpid()),
                self._suite or "",
                str(self._traces),
            ],
            stdin=self._list,
            stdout=self._results,
            stderr=self._log,
            env={**os.environ, **own},
            process_group=0,  # Ctrl-C is for the run; the child then makes its last pass alone
        )
        nice = min(19, os.getpriority(os.PRIO_PROCESS, 0) + _NICE)
        os.setpriority(os.PRIO_PROCESS, self.process.pid, nice)

    def missed(self, timeout: float = 60.0) -> list[str]:
        """Let the child make its last pass and end; waits at most `timeout` seconds.

        Returns sentences about what was not logged, one for all runs with the same reason; [] where all was.
        """
        if not self._folders:
            return []
        reason = self._problem or self._end(timeout) or "its process ended early"
        results = {} if self.process is None else _results(_content(self._results))
        missing = [folder for folder in self._folders if folder not in results and begun(folder)]
        sentences = [*results.values(), str(StoreError(missing, self._uri, reason)) if missing else ""]
        return [sentence for sentence in dict.fromkeys(sentences) if sentence]

    def _end(self, timeout: float) -> str:
        """Why the child did not end as it should, or ""."""
        if self.process is None:
            return ""
        try:
            self._list.write(b"\0")
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return f"TimeoutError: not done {timeout:.0f} s after the run ended"
        lines = _content(self._log).decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        return f"ChildProcessError: its process ended with {code}: {last}" if code else ""

    def report(self, say: Callable[[str], None]) -> bool:
        """Print what was not logged, as errors or warnings; True where logging was requested and failed."""
        missed = self.missed()
        for sentence in missed:
            say(f"{'error' if self.required else 'warning'}: {sentence}")
        return self.required and bool(missed)


def _content(file: IO[bytes]) -> bytes:
    """All of a file that the child shares, without moving the place where the next byte is written."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def _results(written: bytes) -> dict[Path, str]:
    """{folder: why it was not logged, or ""}: the last result of each folder, without a torn one."""
    words = [os.fsdecode(word) for word in written.split(b"\0")[:-1]]
    return {Path(folder): sentence for folder, sentence in zip(words[::2], words[1::2], strict=False)}
