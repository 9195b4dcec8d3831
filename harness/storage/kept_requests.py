"""What a run sent to its models, request by request (--keep-prompts): requests.jsonl.

request_rows(requests, {"question_id": "q1"})    the rows of one question, or of one index
read_requests(folder, {"q1", "q2"})          -> {"q1": [{"phase", "role", "kind", "prompt", "reply"}, ...], ...}
without_requests(path, {"q1"})               the file's rows without the requests of these questions

A context grows from request to request, so a row holds what is new in its prompt: the first `same`
characters are those of the prompt before. What is read has whole prompts.
"""

import os
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.cost.flops import Request
from harness.errors import DataError
from harness.storage.json_lines import read_with_older
from harness.storage.run_files import REQUESTS


def request_rows(requests: Iterable[Request], owner: Mapping[str, str]) -> list[dict[str, Any]]:
    """Serialise one question's or index's requests in order; `owner` (its ids) is put into each
    row."""
    rows, before = [], ""
    for number, request in enumerate(requests):
        same = len(os.path.commonprefix([before, request.prompt]))  # noqa: RUF071 - any texts will do, not paths alone
        about = {
            "number": number,
            "phase": request.phase,
            "role": request.role,
            "kind": request.kind,
            "same": same,
        }
        rows.append({**owner, **about, "prompt": request.prompt[same:], "reply": request.reply})
        before = request.prompt
    return rows


def read_requests(
    folder: Path, question_ids: Container[str], shortened: Callable[[str], str] = str
) -> dict[str, list[dict[str, Any]]]:
    """Question id -> its requests in order, {"phase", "role", "kind", "prompt", "reply"} each; {}
    without a file.

    shortened: applied to every prompt and reply, so that memory holds only the shortened texts.
    Raises DataError for a damaged file, OSError if it cannot be read.
    """
    path, before = folder / REQUESTS, ""
    requests: dict[str, list[dict[str, Any]]] = {}
    for row in read_with_older(path, "kind"):
        question, same = row.get("question_id"), row.get("same")
        if not isinstance(question, str) or question not in question_ids:
            continue
        if row.get("number") == 0:
            requests[question], before = [], ""
        whole = all(isinstance(row.get(key), str) for key in ("prompt", "reply", "phase", "role"))
        if (
            not whole
            or not isinstance(same, int)
            or not 0 <= same <= len(before)
            or question not in requests
        ):
            raise DataError(
                path,
                None,
                None,
                f"request {row.get('number')} of '{question}' does not fit the others",
            )
        before = before[:same] + row["prompt"]
        requests[question].append(
            {**row, "prompt": shortened(before), "reply": shortened(row["reply"])}
        )
    return requests


def without_requests(path: Path, questions: Container[str]) -> list[dict[str, Any]] | None:
    """The rows of a file less the requests of these questions; None if it has none of them. Raises
    DataError."""
    if not any(row.get("question_id") in questions for row in read_with_older(path, "kind")):
        return None
    return [row for row in read_with_older(path, "kind") if row.get("question_id") not in questions]
