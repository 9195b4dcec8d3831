"""Repair of a JSON-lines file whose last line a killed writer left unfinished."""

import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from harness.storage.files import save_error
from harness.storage.json_lines import indexed_lines


def cut_torn_line(path: Path, field: str, form: TypeAdapter[Any] | None = None) -> str | None:
    """Repair the last line of a file that a killed writer left: cut it off, or add its line end.

    Args:
        path: A JSON-lines file; a missing one is in order.
        field: A key that every line's object must have, with a text.
        form: What each object must look like; None: no check.

    Returns:
        A sentence on the repair; None where nothing was torn.

    Raises:
        DataError: A line before the last is wrong.
        SaveError: The file cannot be changed.
    """
    if not path.exists():
        return None
    n_lines = 0
    whole_lines_end = 0  # in bytes
    for line in indexed_lines(path, field, form=form):
        n_lines += 1
        whole_lines_end = line.offset + line.length
    try:
        torn_bytes = path.stat().st_size - whole_lines_end
        if torn_bytes:
            _truncate(path, whole_lines_end)
            return (
                f"{path.name}: line {n_lines + 1} was torn; repaired by cutting {torn_bytes} bytes"
            )
        is_empty = whole_lines_end == 0
        if is_empty or _last_byte(path) == b"\n":
            return None
        _add_line_end(path)
    except OSError as error:
        raise save_error(path, error) from error
    return f"{path.name}: line {n_lines} was torn; repaired"


def _truncate(path: Path, size: int) -> None:
    """Cut a file to its first `size` bytes and wait until that is on disk."""
    with open(path, "r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def _last_byte(path: Path) -> bytes:
    """The last byte of a file that is not empty."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)


def _add_line_end(path: Path) -> None:
    """Add a line end to a file and wait until that is on disk."""
    with open(path, "ab") as file:
        file.write(b"\n")
        file.flush()
        os.fsync(file.fileno())
