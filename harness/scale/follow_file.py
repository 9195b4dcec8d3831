"""Follow the records that workers write, for one display of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class RecordFollower:
    """The records of a row's parts as they come. parts: names of the files; first: records that were there before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: list[str] = []
        self.first: list[dict[str, Any]] = []
        self._read: dict[str, int] = {}  # bytes

    def new(self) -> Iterator[dict[str, Any]]:
        """Records that were written whole since the last call, each once."""
        for name in self.parts:
            path, start = self.folder / name, self._read.get(name, 0)
            try:
                if path.stat().st_size <= start:
                    continue
                with open(path, "rb") as file:
                    file.seek(start)
                    lines = file.read()
            except OSError:  # not begun, or merged already
                continue
            whole = lines[: lines.rfind(b"\n") + 1]
            self._read[name] = start + len(whole)
            for line in whole.splitlines():
                try:
                    yield json.loads(line)
                except ValueError:  # its worker died while it wrote
                    continue
