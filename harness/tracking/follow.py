"""The process that follows the runs of a command: python -m harness.tracking.follow (see _follower.py)

    {"uri": URI}                          the store, first of all; an argument would show its password to every user
    {"follow": FOLDER, "suite": NAME}     records.jsonl grows ──► running metrics, every second or so
    {"ended": FOLDER}                     one last pass ──► {"run": FOLDER}, with a reason or sentence where it failed
    end of standard input                 the last pass of every run that has not had one

It reads run folders and nothing else, at low priority. A server that does not answer is tried again after 2, 4, ...
60 s, and once more at the end; what was missed meanwhile is logged then. Where nobody ever listened at its address,
MLflow is not even imported, and the end is told at once.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError
from harness.storage.run_folder import MANIFEST, RECORDS, RUN, read_run
from harness.tracking.reach import unreachable
from harness.tracking.track import StoreError, attempt, track, track_suites

if TYPE_CHECKING:
    from harness.tracking.metrics import Running
    from harness.tracking.mlflow_run import Sink


_POLL = 1.0
_LONGEST_PAUSE = 60.0
# In the last passes: a server that let two runs down one after the other is not asked for the others.
_MOST_FAILURES = 2


class Tail:
    """Whole new lines of a growing file; from the start again when it was replaced or cut."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = -1

    def read(self) -> tuple[bool, list[dict[str, Any]]]:
        """Return (whether it starts anew, the new rows). A line that is not written out yet stays for later."""
        try:
            with open(self.path, "rb") as file:
                state = os.fstat(file.fileno())
                anew = state.st_ino != self._inode or state.st_size < self._offset
                if anew:
                    self._inode, self._offset = state.st_ino, 0
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return False, []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return anew, [json.loads(line) for line in whole.splitlines() if line.strip()]


class _Live:
    """Running metrics of the run in `folder`, as far as they can be logged while it goes on."""

    def __init__(self, folder: Path, uri: str, suite: str | None) -> None:
        self.folder, self.uri, self.suite = folder, uri, suite
        self._reset()

    def _reset(self) -> None:
        self._tail = Tail(self.folder / RECORDS)
        self._running: Running | None = None
        self._sink: Sink | None = None

    def step(self) -> None:
        """Log what is new. Raises StoreError, and then begins anew next time."""
        if not all((self.folder / name).exists() for name in (RUN, MANIFEST)):
            return
        try:
            with attempt([self.folder], self.uri):
                self._log()
        except ValueError:  # a line that the run is just repairing
            self._reset()
        except HarnessError:
            self._reset()
            raise

    def _log(self) -> None:
        from harness.tracking.metrics import Running
        from harness.tracking.mlflow_run import Sink

        if self._sink is None or self._running is None:
            run = read_run(self.folder)
            self._sink, self._running = Sink(run, self.uri, self.suite), Running(run)
            self._sink.resume()
        anew, rows = self._tail.read()
        if anew:
            self._running = Running(self._sink.run)
        if rows:
            self._sink.log_running([point for row in rows for point in self._running.add(row)])


class _Command:
    """The runs of one command and the store they go to."""

    def __init__(self) -> None:
        self.uri = ""
        self._reached = False  # whether a connection was made, once
        self._live: dict[str, _Live] = {}
        self._ended: dict[str, _Live] = {}
        self._done: dict[str | None, list[Path]] = {}
        self._pause, self._next = 1.0, 0.0

    def take(self, message: dict[str, Any]) -> None:
        """Act on a message of the run's process."""
        if "uri" in message:
            self.uri = message["uri"]
        elif "follow" in message:
            folder = message["follow"]
            self._live[folder] = _Live(Path(folder), self.uri, message["suite"])
        elif "ended" in message:
            self._ended[message["ended"]] = self._live.pop(message["ended"])

    def step(self) -> None:
        """Last passes that are due, then what is new of the runs that go on; nothing while the store has a pause."""
        if time.monotonic() < self._next or not (self._ended or self._live):
            return
        if self._away():
            self._wait()
            return
        try:
            for name in list(self._ended):
                self._finish(name)
            for live in self._live.values():
                live.step()
        except StoreError:
            self._wait()
        except HarnessError as error:  # a folder that cannot be read just now: its last pass tells
            sys.stderr.write(f"{error}\n")
        else:
            self._pause = 1.0

    def _wait(self) -> None:
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._next = time.monotonic() + self._pause

    def _away(self) -> str | None:
        """Why there is no connection to the store, None once there was one: what it says then is MLflow's affair."""
        reason = None if self._reached else unreachable(self.uri)
        self._reached = reason is None
        return reason

    def close(self) -> None:
        """The last pass of all runs that have not had one."""
        self._ended |= self._live
        if self._ended and (away := self._away()):
            for name in self._ended:
                _tell(name, reason=away)
            return
        reason, failures = "", 0
        for name in list(self._ended):
            if failures == _MOST_FAILURES:
                _tell(name, reason=reason)
                continue
            try:
                self._finish(name)
                failures = 0
            except StoreError as error:
                reason = error.reason
                failures += 1
                _tell(name, reason=reason)
        for suite, folders in self._done.items():
            if suite is not None and not failures:
                self._suite(suite, folders)

    def _suite(self, suite: str, folders: list[Path]) -> None:
        """The page of all runs of the suite; where it fails, all of them are told to be tracked again."""
        try:
            track_suites(folders, self.uri, suite=suite)
        except StoreError as error:
            for folder in folders:
                _tell(str(folder), reason=error.reason)
        except HarnessError as error:
            _tell(str(folders[-1]), sentence=str(error))

    def _finish(self, name: str) -> None:
        """Log a run that has ended; it is over unless the store fails. Raises StoreError."""
        run = self._ended[name]
        told: dict[str, str] = {}
        if (run.folder / RUN).exists():  # else the run was refused before its first question
            try:
                track(run.folder, self.uri, suite=run.suite)
            except StoreError:
                raise
            except HarnessError as error:
                told = {"sentence": str(error)}
            else:
                self._done.setdefault(run.suite, []).append(run.folder)
        _tell(name, **told)
        del self._ended[name]


def _tell(name: str, **told: str) -> None:
    sys.stdout.write(json.dumps({"run": name, **told}) + "\n")
    sys.stdout.flush()


class _Inbox:
    """Messages on standard input."""

    def __init__(self) -> None:
        self._rest = b""

    def wait(self) -> tuple[bool, list[dict[str, Any]]]:
        """Wait a moment; (whether there will be no more, messages). A line that is not whole is no message."""
        ready, _, _ = select.select([0], [], [], _POLL)
        if not ready:
            return False, []
        text = os.read(0, 1 << 16)
        *lines, self._rest = (self._rest + text).split(b"\n")
        return not text, [json.loads(line) for line in lines if line.strip()]


def main() -> int:
    """Follow until the command ends, then bring MLflow up to date with the folders of its runs."""
    parent = os.getppid()
    os.nice(10)
    command, inbox = _Command(), _Inbox()
    over = False
    while not over and os.getppid() == parent:
        over, messages = inbox.wait()
        for message in messages:
            command.take(message)
        if not over:
            command.step()
    command.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
