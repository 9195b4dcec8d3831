"""The runs of one command, followed by one process (_follow.py): MLflow is imported once, and never by the run.

follower = Follower(uri)         starts the process; the URI, which may hold a password, goes through its stdin
follower.follow(folder, suite)   a run is about to write `folder`
follower.ended(folder)           it has ended, whatever way: its last pass is made while the next run goes on
follower.finish(timeout)         waits; sentences about what was not tracked, [] if all was

No call but `finish` waits for anything, and none raises.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from harness.errors import UserError
from harness.tracking.track import BOUNDS, StoreError, problems


class Follower:
    """A process that follows runs. Raises UserError where `problems(uri)` has any; all else is told by `finish`."""

    def __init__(self, uri: str) -> None:
        if found := problems(uri):
            raise UserError(". ".join(found))
        self.uri = uri
        self.process: subprocess.Popen[bytes] | None = None
        self._runs: list[Path] = []
        self._waiting = b""
        self._problem = ""
        # Files, not pipes: nothing is lost when this process dies first, and a full pipe cannot hold the other up.
        self._told: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as this object
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self.process = self._start()
        except OSError as error:
            self._problem = f"{type(error).__name__}: {error}"
        self._send({"uri": uri})

    def _start(self) -> subprocess.Popen[bytes]:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        environment = {**BOUNDS, **os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        # -P: a folder named like one of our packages in the working directory must not be imported instead.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.tracking.follow"],
            stdin=subprocess.PIPE,
            stdout=self._told,
            stderr=self._log,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the run; the process then makes its last passes alone
        )
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        return process

    def follow(self, folder: Path, suite: str | None = None) -> None:
        """Follow the run that is about to write `folder`; suite: name of the parent run."""
        self._runs.append(Path(folder))
        self._send({"follow": str(folder), "suite": suite})

    def ended(self, folder: Path) -> None:
        """Say that the run in `folder` has ended, or never began."""
        self._send({"ended": str(folder)})

    def _send(self, message: dict[str, Any]) -> None:
        """Write as much as the pipe takes; the rest goes with the next message."""
        if self.process is None or self.process.stdin is None:
            return
        self._waiting += json.dumps(message).encode() + b"\n"
        with contextlib.suppress(OSError):  # full for now, or the process died: its exit code tells
            self._waiting = self._waiting[os.write(self.process.stdin.fileno(), self._waiting) :]

    def finish(self, timeout: float = 60.0) -> list[str]:
        """Let the process make its last passes and end; waits at most `timeout` seconds, and 5 where it is stopped.

        Returns sentences about what was not tracked, one for all the runs with the same reason.
        """
        reason = self._problem or self._wait(timeout)
        told = self._answers()
        reasons: dict[str, list[Path]] = {}
        sentences: list[str] = []
        for run in dict.fromkeys(self._runs):
            if not os.path.exists(run / "run.yaml"):  # the run never began, and says so itself
                continue
            answer = told.get(str(run), {"reason": reason or "its process ended early"})
            if "reason" in answer:
                reasons.setdefault(answer["reason"], []).append(run)
            elif answer.get("sentence"):
                sentences.append(answer["sentence"])
        sentences += [str(StoreError(runs, self.uri, why)) for why, runs in reasons.items()]
        return list(dict.fromkeys(sentences))

    def _wait(self, timeout: float) -> str:
        """Why the process did not end as it should, or ""."""
        if self.process is None or self.process.stdin is None:
            return ""
        if self._waiting:
            self._send({})
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._stop(self.process)
            return f"TimeoutError: not done {timeout:.0f} s after the run ended"
        self._log.seek(0)
        lines = [line for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        return f"ChildProcessError: its process ended with {code}: {lines[-1] if lines else ''}" if code else ""

    def _answers(self) -> dict[str, dict[str, Any]]:
        """{folder: the last line told about it}; a line that is not whole is no answer."""
        self._told.seek(0)
        found: dict[str, dict[str, Any]] = {}
        for line in self._told.read().splitlines(keepends=True):
            if line.startswith(b"{") and line.endswith(b"\n"):
                answer: dict[str, Any] = json.loads(line)
                found[answer["run"]] = answer
        return found

    @staticmethod
    def _stop(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
