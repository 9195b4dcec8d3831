"""sha256 of files, each read once a process for as long as it stays as it is.

file_hash(path)               of a file's content
hash_named(folder, names)     one over names and contents of several
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class _FileState(NamedTuple):
    """A file and what differs once its content is changed."""

    path: str
    size_in_bytes: int
    changed_at_ns: int


_hash_of_file: dict[_FileState, str] = {}


def file_hash(path: Path) -> str:
    """sha256 (hex) of a file's content. Raises OSError.

    Remembered for as long as the file's path, size and time of change stay.
    """
    stat = path.stat()
    state = _FileState(
        path=str(path.resolve()), size_in_bytes=stat.st_size, changed_at_ns=stat.st_mtime_ns
    )
    if state not in _hash_of_file:
        with open(path, "rb") as file:
            _hash_of_file[state] = hashlib.file_digest(file, "sha256").hexdigest()
    return _hash_of_file[state]


def hash_named(folder: Path, names: Iterable[str]) -> str:
    """One sha256 (hex) over the names and contents of several files in a folder.

    The order of `names` does not count, and files that the folder lacks are left out.
    """
    combined = hashlib.sha256()
    for path in sorted(folder / name for name in names):
        if path.is_file():
            combined.update(f"{path.name}\0{file_hash(path)}\n".encode())
    return combined.hexdigest()
