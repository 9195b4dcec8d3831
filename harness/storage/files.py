"""Whole files written so that a crash at any moment leaves the old content or the new, never half of it.

A temporary file stands beside it until it is written, synced and renamed. JSON-lines files are in json_lines.py.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from harness.errors import SaveError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def save_error(path: Path, error: OSError, place: str = "") -> SaveError:
    """A SaveError that says what could not be written and what to do.

    place: the setting of its folder; "": of a run folder, which --out of harness run names only while there is none.
    """
    why, folder = error.strerror or str(error), path if os.path.isdir(path) else path.parent
    if error.errno in _FULL:
        fix = "make room, then run the same command again; what was saved before is kept"
    elif not place and os.path.isdir(folder):
        fix = f"make the folder {folder} writable, then run the same command again"
    else:
        fix = f"choose a folder you may write to with {place or '--out'}"
    return SaveError(f"cannot write {path}: {why}; {fix}.")


def draft_path(path: Path) -> Path:
    """The temporary file for the next version of `path`; its name has host and process id, as folders are shared."""
    return path.with_name(f".{path.name}.{socket.gethostname()[:40]}.{os.getpid()}.tmp")


def write_atomic(path: Path, data: bytes | Iterable[bytes], *, sync_folder: bool = True) -> None:
    """Replace `path` by `data`, or its pieces, in one step. Raises SaveError; the old file is then still there.

    sync_folder: sync the folder too, so that the new name survives a power cut; False where another file of it follows.
    """
    with replacing(path, sync_folder) as file:
        file.writelines([data] if isinstance(data, bytes) else data)


@contextlib.contextmanager
def replacing(path: Path, sync_folder: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` if the block ends well; sync_folder: as in write_atomic. Raises SaveError."""
    draft = draft_path(path)
    try:
        with open(draft, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        if sync_folder:
            fd = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    except BaseException as error:  # a signal too must leave the old file
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise save_error(path, error) from error
        raise


def delete_drafts(folder: Path) -> None:
    """Delete temporary files that a killed writer left in `folder`; hold its lock meanwhile."""
    for draft in folder.glob(".*.tmp"):
        with contextlib.suppress(OSError):
            draft.unlink()


def check_writable(folder: Path) -> None:
    """Make `folder` and check that it can be written by writing a file. Raises SaveError."""
    probe = draft_path(folder / "touch")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(probe, "wb") as file:
            file.write(b"\0" * 65536)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise save_error(folder, error) from error
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
