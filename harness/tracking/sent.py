"""The requests that a run kept (--keep-prompts), of several questions in one reading of requests.jsonl.gz.

A context grows from request to request, so a row holds what is new in its prompt: `same` says how many characters it
has in common with the start of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.storage.packed_lines import read_packed

REQUESTS = "requests.jsonl.gz"


def sent(folder: Path, wanted: Container[str], shortened: Callable[[str], str]) -> dict[str, list[dict[str, Any]]]:
    """{question id: its requests in order}, prompts and replies as `shortened` leaves them; {} without the file.

    Of a question that was asked again, those of the last time. Raises DataError for a damaged file.
    """
    path, before = folder / REQUESTS, ""
    if path.is_symlink() or (path.exists() and not path.is_file()):  # a device or a pipe would never end
        raise DataError(path, None, None, "a link or no plain file; it is not read")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in read_packed(path, "kind"):
        question, same = row.get("question_id"), row.get("same")
        if not isinstance(question, str) or question not in wanted:
            continue
        if row.get("number") == 0:
            found[question], before = [], ""
        whole = all(isinstance(row.get(key), str) for key in ("prompt", "reply", "phase", "role"))
        if not whole or not isinstance(same, int) or not 0 <= same <= len(before) or question not in found:
            raise DataError(path, None, None, f"request {row.get('number')} of '{question}' does not fit the others")
        before = before[:same] + row["prompt"]
        found[question].append(row | {"prompt": shortened(before), "reply": shortened(row["reply"])})
    return found
