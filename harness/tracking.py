"""MLflow, fed from run folders and never from the run itself: a dead server cannot stop or slow it.

problems(uri)                    what stands in the way, before anything runs (cheap, imports no MLflow)
start_follower(folder, uri)      a process that follows records.jsonl while the run goes on   -> Follower
follower.finish(timeout)         its last pass; sentences about what was not tracked, [] if all was
track(folder, uri)               fill, refill or bring up to date one run, as often as wanted

experiment  the data set
run         the run folder, found again by its tag harness.run; params are the short values of its configuration
metrics     scores with .low and .high, tokens.*, tflops.*, seconds, n, failed; running/* one step a question
tags        method, model, dataset, hash8, git_commit, embedded, state
artifacts   config.yaml (run.yaml under another name, so that no folder of artifacts is taken for a run),
            manifest.json, records.jsonl, summary.json, table.md
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.errors import CannotRun, SaveError, UserError

if TYPE_CHECKING:
    from harness.store import StoredRun

__all__ = ["Follower", "default_uri", "problems", "sqlite_path", "start_follower", "track"]

LOG = "mlflow.log"
_INSTALL = "MLflow is not installed; install it with: pip install 'longdoc-harness[mlflow]', or use --mlflow off"
_SERVERS = ("http", "https", "databricks")
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
# MLflow's own defaults (7 retries of 120 s) would hold the end of a run for a quarter of an hour.
_BOUNDS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
# "stopped" ended by an error; a run that says nothing of its end was killed.
_STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "stopped": "FAILED"}


def default_uri(out: Path) -> str:
    """MLFLOW_TRACKING_URI where it is set, else a sqlite file in the results folder `out`."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path(out).resolve() / 'mlflow.db'}"


def problems(uri: str) -> list[str]:
    """Sentences about why `uri` cannot be used at all; [] when only the attempt can tell."""
    found = [] if importlib.util.find_spec("mlflow") else [_INSTALL]
    scheme, separator, _ = uri.partition("://")
    kind = scheme.split("+")[0] if separator else ("databricks" if uri == "databricks" else "")
    if kind in ("", "file"):
        found.append(
            f"MLflow no longer writes to a folder ('{uri}'); give it a database: --mlflow sqlite:///results/mlflow.db"
        )
    elif kind not in _SERVERS + _DATABASES:
        found.append(f"MLflow does not know '{kind}://'; use one of {', '.join(_SERVERS + _DATABASES)}")
    elif kind == "sqlite" and sqlite_path(uri) is None:
        found.append(f"'{_shown(uri)}' is lost when the process ends; name a file: sqlite:///results/mlflow.db")
    return found


def sqlite_path(uri: str) -> Path | None:
    """The file of a sqlite URI; None for another database, a server, or one that is kept in memory."""
    scheme, _, rest = uri.partition("://")
    name = rest.partition("?")[0].removeprefix("/")
    return Path(name) if scheme.split("+")[0] == "sqlite" and name and not name.startswith(":memory:") else None


def track(folder: Path, uri: str | None = None, *, suite: str | None = None) -> None:
    """Bring the MLflow run of a run folder up to date; made where there is none, so a lost store can be refilled.

    uri: default default_uri of the results folder; suite: name of the parent run that holds the runs of one suite.
    Raises CannotRun (no MLflow, a URI it cannot use), UserError (no run folder) and SaveError (it could not log).
    """
    folder = Path(folder)
    uri = uri or default_uri(folder.parent.parent)
    if found := problems(uri):
        raise CannotRun(". ".join(found))
    from harness.store import read_run

    run = read_run(folder)
    with attempt(folder, uri):
        from harness._sink import Running, Sink

        sink = Sink(run, uri, suite)
        running = Running(run)
        sink.log_running([point for record in run.records for point in running.add(record)])
        sink.log_results()
        sink.end(_STATUS.get(run_state(run), "KILLED"))


def run_state(run: StoredRun) -> str:
    """finished, interrupted, stopped, or running (also for a run that was killed)."""
    starts = run.manifest.get("starts") or [{}]
    return str(starts[-1].get("state") or run.summary.get("state") or "running")


@contextlib.contextmanager
def attempt(folder: Path, uri: str) -> Iterator[None]:
    """Bounded retries and quiet loggers inside; whatever MLflow raises becomes one sentence, a SaveError."""
    before = {name: os.environ.get(name) for name in _BOUNDS}
    os.environ.update({name: value for name, value in _BOUNDS.items() if before[name] is None})
    try:
        with _import_errors(), _quiet():
            from mlflow.exceptions import MlflowException
            from sqlalchemy.exc import SQLAlchemyError

            try:
                yield
            except (MlflowException, SQLAlchemyError, OSError) as error:
                raise SaveError(_sentence(folder, uri, error)) from error
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


@contextlib.contextmanager
def _import_errors() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:  # MLflow itself, or the driver of a database
        name = error.name or "mlflow"
        raise CannotRun(
            _INSTALL if name == "mlflow" else f"MLflow needs the package '{name}': pip install {name}"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back MLflow's messages about creating tables."""
    import mlflow  # its import configures its loggers

    logger = logging.getLogger(mlflow.__name__)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _sentence(folder: Path, uri: str, error: Exception) -> str:
    told = " ".join(str(error).replace(uri, _shown(uri)).split())
    told = (told[:200] + " ...") if len(told) > 200 else told
    return (
        f"tracking failed at {_shown(uri)} ({type(error).__name__}: {told}). The run itself is on disk; "
        f"fill MLflow from it with: harness track {shlex.quote(str(folder))} --uri {_shown(uri)}"
    )


def _shown(uri: str) -> str:
    """The URI without a user's name and password."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri.partition("://")[0] + "://..."
    return uri.replace(parts.netloc, "***@" + parts.netloc.rpartition("@")[2], 1) if "@" in parts.netloc else uri


@dataclass(frozen=True)
class Follower:
    """The process that follows a run, or the reason why there is none."""

    folder: Path
    uri: str
    process: subprocess.Popen[bytes] | None
    problem: str = ""

    def finish(self, timeout: float = 60.0) -> list[str]:
        """Let the process make its last pass and end; call it once the run has ended, whatever way.

        Returns sentences about what was not tracked. Waits at most `timeout` seconds (and 5 for a process that does
        not end when told to), and raises nothing.
        """
        if self.process is None:
            return [self.problem]
        with contextlib.suppress(OSError):  # it may have died: its exit code tells
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._stop()
            return [_sentence(self.folder, self.uri, TimeoutError(f"not done {timeout:.0f} s after the run ended"))]
        log = self.folder / LOG
        try:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            if code == 0 and not lines:
                log.unlink()
        except OSError:
            lines = []
        if code == 0:
            return []
        told = lines[-1].removeprefix("error: ") if lines and lines[-1].startswith("error: ") else ""
        return [
            told or _sentence(self.folder, self.uri, ChildProcessError(f"its process ended with {code}, see {log}"))
        ]

    def _stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_follower(folder: Path, uri: str, *, suite: str | None = None) -> Follower:
    """Start following the run that is about to write `folder`. The process ends with `finish`, or with its parent.

    Raises UserError where `problems(uri)` has any; whatever else goes wrong is told by `finish`.
    """
    if found := problems(uri):
        raise UserError(". ".join(found))
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
    environment = {**_BOUNDS, **os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    # -P: a folder named like one of our packages in the working directory must not be imported instead.
    command = [sys.executable, "-P", "-m", "harness._follow", str(folder), uri, *([suite] if suite else [])]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / LOG, "wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
            )  # its own session: Ctrl-C is for the run, which then lets it finish
    except OSError as error:
        return Follower(folder, uri, None, _sentence(folder, uri, error))
    return Follower(folder, uri, process)
