"""What a run sent to its models, request by request (--keep-prompts): requests.jsonl.

request_rows(requests, {"question_id": "q1"})    the rows of one question, or of one index
read_requests(folder, {"q1", "q2"})          -> {"q1": [StoredRequest(phase="search", ...), ...], ...}
without_requests(path, {"q1"})               the file's rows without the requests of these questions

A context grows from request to request, so a row holds what is new in its prompt: the first `same`
characters are those of the prompt before. What is read has whole prompts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cost.flops import Request
from harness.errors import DataError
from harness.storage.json_lines import read_with_older
from harness.storage.run_files import REQUESTS

Row = Mapping[str, object]
"""The JSON values of a line of requests.jsonl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """A request of a question, in the order of the keys of its row.

    Attributes:
        question_id: The question.
        number: Its place among the requests of the question, from 0.
        phase: The phase that its cost counts in.
        role: The role whose model got it.
        kind: "write", "probe" or "score".
        same: How many characters its prompt shares with the prompt before.
        prompt: The whole context as text.
        reply: The reply as text (harness.cost.flops.Request).
    """

    question_id: str
    number: int
    phase: str
    role: str
    kind: str
    same: int
    prompt: str
    reply: str


def request_rows(requests: Iterable[Request], owner: Mapping[str, str]) -> list[dict[str, object]]:
    """Make the rows of requests.jsonl for the requests of one question, or of one index.

    Each row holds only what is new in its prompt: "Read." then "Read. Answer." ->
    [{..., "same": 0, "prompt": "Read.", ...}, {..., "same": 5, "prompt": " Answer.", ...}]

    Args:
        requests: All of them, in order.
        owner: {"question_id": ...}, or {"document_id": ..., "key": ...}; put into each row.
    """
    rows: list[dict[str, object]] = []
    prompt_before = ""
    for number, request in enumerate(requests):
        same = len(os.path.commonprefix([prompt_before, request.prompt]))  # noqa: RUF071 - any texts will do, not paths alone
        key_values = {
            "number": number,
            "phase": request.phase,
            "role": request.role,
            "kind": request.kind,
            "same": same,
        }
        texts = {"prompt": request.prompt[same:], "reply": request.reply}
        rows.append({**owner, **key_values, **texts})
        prompt_before = request.prompt
    return rows


def read_requests(
    folder: Path, question_ids: Container[str], shorten: Callable[[str], str] = str
) -> dict[str, list[StoredRequest]]:
    """Read the stored requests of some questions, with their whole prompts.

    Args:
        folder: The run's folder.
        question_ids: The questions whose requests are read.
        shorten: Applied to every prompt and reply, so that memory holds the shortened texts
            alone. By default they stay whole.

    Returns:
        Question id -> its requests in order, those of its last try; {} without a file.

    Raises:
        DataError: The file is damaged.
        OSError: It cannot be read.
    """
    path = folder / REQUESTS
    requests: dict[str, list[StoredRequest]] = {}
    prompt_before = ""  # the whole prompt of the row before
    for row in read_with_older(path, "kind"):
        question_id = row.get("question_id")
        if not isinstance(question_id, str) or question_id not in question_ids:
            continue
        is_first_of_question = row.get("number") == 0
        if is_first_of_question:
            requests[question_id] = []
            prompt_before = ""
        if question_id not in requests:
            raise _misfit_error(path, row)
        request = _whole_request(path, row, prompt_before)
        prompt_before = request.prompt
        shortened = replace(request, prompt=shorten(request.prompt), reply=shorten(request.reply))
        requests[question_id].append(shortened)
    return requests


def _whole_request(path: Path, row: Row, prompt_before: str) -> StoredRequest:
    """Make the request of a row, with its whole prompt. Raises
    DataError for a row that does not fit.

    Args:
        path: The file, for errors.
        row: A row of a question.
        prompt_before: The whole prompt of the row before; the first `same` characters of this
            row's prompt are taken from it.
    """
    texts: dict[str, str] = {}
    for key in ("question_id", "phase", "role", "kind", "prompt", "reply"):
        value = row.get(key)
        if not isinstance(value, str):
            raise _misfit_error(path, row)
        texts[key] = value
    number = row.get("number")
    same = row.get("same")
    if not isinstance(number, int) or not isinstance(same, int):
        raise _misfit_error(path, row)
    if not 0 <= same <= len(prompt_before):
        raise _misfit_error(path, row)
    texts["prompt"] = prompt_before[:same] + texts["prompt"]
    return StoredRequest(number=number, same=same, **texts)


def _misfit_error(path: Path, row: Row) -> DataError:
    """Make the error for a row of `path` that does not follow from the rows before it."""
    problem = f"request {row.get('number')} of '{row.get('question_id')}' does not fit the others"
    return DataError.of_file(path, problem)


def without_requests(path: Path, question_ids: Container[str]) -> Sequence[Row] | None:
    """The rows of a file of requests without those of some questions.

    None if no row is of these questions, so that the file can stay as it is.

    Raises DataError for a damaged file.
    """

    def is_of_questions(row: Row) -> bool:
        """Whether a row is a request of one of the questions."""
        return row.get("question_id") in question_ids

    if not any(map(is_of_questions, read_with_older(path, "kind"))):
        return None
    return [row for row in read_with_older(path, "kind") if not is_of_questions(row)]
