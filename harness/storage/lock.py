"""One writer a run folder.

    with FolderLock(folder): ...

The kernel's lock on the file `lock` decides and dies with its process, so a killed run never blocks the next one, also
under another host name (a new container). The file's content (process, start time, host) names the holder; it decides
only on a file system without kernel locks. A `lock` that this module did not write is never opened through a link,
emptied or removed: the folder may come from a stranger.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
import stat
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.errors import RunLocked, UserError
from harness.storage.files import save_error
from harness.storage.shard_files import part_name

_SIGNED = b'{"pid":'  # how the content of every lock begins


def process_start(pid: int) -> str | None:
    """Start time of a live process as the kernel counts it (clock ticks since boot); None if it is unknown."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return line.rpartition(")")[2].split()[19]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM  # another user's
    return True


class FolderLock:
    """The writer's lock of a run folder, or of its part number `part`. Entering raises RunLocked if it is taken."""

    def __init__(self, folder: Path, part: int | None = None) -> None:
        self.folder, self._part = folder, part
        self.path = folder / part_name("lock", part)
        self._fd: int | None = None

    def __enter__(self) -> Self:
        while True:
            try:
                # NONBLOCK: a FIFO of that name would hold the open for good.
                fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                    raise self._not_a_lock() from None
                raise save_error(self.path, error) from error
            try:
                self._check_ours(fd)
                self._flock(fd)
                # The former holder removes the file as it leaves: a lock on a removed file protects nothing.
                if self._is_at_path(fd):
                    self._write_holder(fd)
                    self._fd = fd
                    return self
            except BaseException:  # a signal too must leave no file open
                os.close(fd)
                raise
            os.close(fd)

    def check_free(self) -> None:
        """Raise RunLocked while another live process holds the lock; the lock itself is not taken."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        except OSError as error:
            raise save_error(self.path, error) from error
        try:
            self._check_ours(fd)
            self._flock(fd, fcntl.LOCK_SH)
        finally:
            os.close(fd)

    def _flock(self, fd: int, kind: int = fcntl.LOCK_EX) -> None:
        """Take the kernel's lock. Raises RunLocked if a process has it or, where there are no locks, may be writing."""
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._locked_error(self._read_holder(fd)) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
                raise save_error(self.path, error) from error
            holder = self._read_holder(fd)
            if holder and self._may_be_writing(holder):
                raise self._locked_error(holder) from None

    def _check_ours(self, fd: int) -> None:
        """Raise UserError for a lock file that no FolderLock wrote; one that is empty or half written is accepted."""
        status = os.fstat(fd)
        head = os.pread(fd, len(_SIGNED), 0) if stat.S_ISREG(status.st_mode) else b""
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1 or not _SIGNED.startswith(head):
            raise self._not_a_lock()

    def _not_a_lock(self) -> UserError:
        return UserError(f"{self.path} is not a lock of this program; remove it if you know what it is, then run again")

    def _is_at_path(self, fd: int) -> bool:
        try:
            return os.lstat(self.path).st_ino == os.fstat(fd).st_ino
        except OSError:
            return False

    def _write_holder(self, fd: int) -> None:
        """Write {"pid", "start", "host"} of this process into the lock file. Raises SaveError."""
        pid = os.getpid()
        text = json.dumps({"pid": pid, "start": process_start(pid), "host": socket.gethostname()})
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, text.encode(), 0)
        except OSError as error:
            raise save_error(self.path, error) from error

    @staticmethod
    def _read_holder(fd: int) -> dict[str, Any]:
        """What `_write_holder` wrote; {} where it cannot be read."""
        try:
            value = json.loads(os.pread(fd, 4096, 0))
        except ValueError:
            return {}
        return value if isinstance(value, dict) and isinstance(value.get("pid"), int) else {}

    @staticmethod
    def _may_be_writing(holder: dict[str, Any]) -> bool:
        """Whether the process that the lock file names, `holder`, may still be writing."""
        if holder.get("host") != socket.gethostname():
            return True
        pid = holder["pid"]
        return pid != os.getpid() and _alive(pid) and holder.get("start") == process_start(pid)

    def _locked_error(self, holder: dict[str, Any]) -> RunLocked:
        """Make the error that names the holder of the lock and says what to do."""
        who = f"process {holder['pid']} on {holder.get('host')}" if holder else "another process"
        fix = "wait for it or stop it"
        if holder and holder.get("host") != socket.gethostname():
            fix = f"if it is gone, delete {self.path}"
        shard = f" (shard {self._part})" if self._part else ""
        return RunLocked(f"{who} is writing the run folder {self.folder}{shard}; {fix}.")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        fd, self._fd = self._fd, None
        if fd is None:
            return
        with contextlib.suppress(OSError):
            if self._is_at_path(fd):  # else the folder was replaced, and this is the lock of another run
                self.path.unlink()
        os.close(fd)
