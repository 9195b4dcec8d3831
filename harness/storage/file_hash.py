"""sha256 of files, each read once a process for as long as it stays as it is.

file_hash(path)               of a file's content
hash_named(folder, names)     one over names and contents of several
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

_hashed: dict[tuple[str, int, int], str] = {}


def file_hash(path: Path) -> str:
    """sha256 (hex) of a file's content. Raises OSError.

    Remembered for as long as the file's path, size and time of change stay.
    """
    stat = path.stat()
    key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    if key not in _hashed:
        with open(path, "rb") as f:
            _hashed[key] = hashlib.file_digest(f, "sha256").hexdigest()
    return _hashed[key]


def hash_named(folder: Path, names: Iterable[str]) -> str:
    """One sha256 (hex) over the names and contents of several files; those that `folder` lacks are
    left out.
    """
    whole = hashlib.sha256()
    for path in sorted(folder / name for name in names):
        if path.is_file():
            whole.update(f"{path.name}\0{file_hash(path)}\n".encode())
    return whole.hexdigest()
