"""Repair of a JSON-lines file whose last line a killed writer left unfinished."""

import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from harness.storage.files import save_error
from harness.storage.json_lines import indexed_lines


def cut_torn_line(path: Path, field: str, form: TypeAdapter[Any] | None = None) -> str | None:
    """Repair a torn last line: cut it off, or add its missing line end. Returns a sentence, None if
    nothing was torn.

    Arguments as in `read_lines`. Raises DataError for a wrong line before the last, SaveError for a
    file that stays.
    """
    if not path.exists():
        return None
    ends = [at + size for at, size, _ in indexed_lines(path, field, form=form)]
    number, end = len(ends), max(ends, default=0)
    try:
        with open(path, "r+b") as file:
            if torn := file.seek(0, os.SEEK_END) - end:
                file.truncate(end)
            else:
                file.seek(max(end - 1, 0))
                if file.read(1) in (b"\n", b""):
                    return None
                file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise save_error(path, error) from error
    how = f" by cutting {torn} bytes" if torn else ""
    return f"{path.name}: line {number + (torn > 0)} was torn; repaired{how}"
