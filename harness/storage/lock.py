"""One writer a run folder.

    with FolderLock(folder): ...

The kernel's lock on the file `lock` decides and dies with its process, so a killed run never blocks the next one. The
file stays; it names the last writer.
"""

import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from harness.errors import RunLocked
from harness.storage.files import save_error


class FolderLock:
    """The writer's lock of a run folder, or of a part of it. Entering raises RunLocked if it is taken."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "lock"
        self._lock = FileLock(self.path, thread_local=False)

    def __enter__(self) -> Self:
        self._acquire(0)
        self.path.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        return self

    def check_free(self) -> None:
        """Raise RunLocked while another process holds the lock; others that check hold it for a moment, too."""
        if self.path.exists():
            self._acquire(1)
            self._lock.release()

    def _acquire(self, seconds: float) -> None:
        """Take the lock, waiting so long for it. Raises RunLocked, SaveError."""
        try:
            self._lock.acquire(timeout=seconds)
        except Timeout:
            who = self.path.read_text(encoding="utf-8") or "another process"
            raise RunLocked(f"{who} is writing the run folder {self.folder}; wait for it or stop it.") from None
        except OSError as error:
            raise save_error(self.path, error) from error

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._lock.release()
