"""The process that follows a run: python -m harness._follow FOLDER URI [SUITE]

    records.jsonl grows ──► running metrics, every second or so
    standard input closes (the run ended, or its process died) ──► one last pass ──► exit 0, or 3 with a sentence

It reads the run folder and nothing else, at low priority. A server that does not answer is tried again after 2, 4, ...
60 s; what was missed meanwhile is logged then, or by the last pass.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, SaveError
from harness.store import MANIFEST, RECORDS, RUN, read_run
from harness.tracking import attempt, track

if TYPE_CHECKING:
    from harness._sink import Running, Sink

__all__ = ["Tail", "main"]

_POLL = 1.0
_LONGEST_PAUSE = 60.0


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
        self._pause, self._next = 1.0, 0.0

    def _reset(self) -> None:
        self._tail = Tail(self.folder / RECORDS)
        self._running: Running | None = None
        self._sink: Sink | None = None

    def step(self) -> None:
        """Log what is new; a failure is told in the log and tried again later."""
        if time.monotonic() < self._next or not all((self.folder / name).exists() for name in (RUN, MANIFEST)):
            return
        try:
            with attempt(self.folder, self.uri):
                self._log()
        except (SaveError, ValueError) as error:  # ValueError: a line that the run is just repairing
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._next = time.monotonic() + self._pause
            self._reset()
            sys.stderr.write(f"{error}\n")
        else:
            self._pause = 1.0

    def _log(self) -> None:
        from harness._sink import Running, Sink

        if self._sink is None or self._running is None:
            run = read_run(self.folder)
            self._sink, self._running = Sink(run, self.uri, self.suite), Running(run)
            self._sink.resume()
        anew, rows = self._tail.read()
        if anew:
            self._running = Running(self._sink.run)
        if rows:
            self._sink.log_running([point for row in rows for point in self._running.add(row)])


def _ended(parent: int) -> bool:
    """Wait a moment; True once standard input is closed or the parent is gone."""
    ready, _, _ = select.select([sys.stdin.fileno()], [], [], _POLL)
    return (bool(ready) and os.read(sys.stdin.fileno(), 64) == b"") or os.getppid() != parent


def main(arguments: list[str]) -> int:
    """Follow until the run ends, then bring MLflow up to date with the finished folder."""
    folder, uri, *suite = arguments
    parent = os.getppid()
    os.nice(10)
    live = _Live(Path(folder), uri, suite[0] if suite else None)
    while not _ended(parent):
        live.step()
    if not (Path(folder) / RUN).exists():
        return 0  # the run was refused before its first question
    try:
        track(Path(folder), uri, suite=live.suite)
    except HarnessError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    sys.stderr.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
