"""Requests as batch files (OpenAI's /files and /batches), which a server answers within a day, at a
lower price.

    batches = Batches(server, state, progress)     replies of the batches that `state` names, waited for
    batches.post(...)                              a reply that is here, else WaitsForBatch: the request waits
    batches.send()                                 requests that wait ─► files ─► batches ─► their replies are here
    batches.forget()                               all replies were used

    POST /files      one line a request: {"custom_id": HASH-N, "method": "POST", "url", "body"}
    POST /batches    {"input_file_id", "endpoint", "completion_window"}
    GET  /batches/ID until it ended, then GET /files/ID/content of its replies and of its errors

A request is known by the hash of its body, so a later process finds its reply. `state` names a file
before its batch is made: a process that was killed looks for a batch of this file before it makes
one, so that nothing is paid for twice. A batch is made without blind retries, for the same reason.
"""

import dataclasses
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from harness.config.schema import digest
from harness.errors import CannotRun, LimitReached, RequestFailed
from harness.llm.endpoint_http import Server, Tries
from harness.llm.http_loop import FormPart, HttpReply
from harness.models import WaitsForBatch
from harness.storage.files import read_object, write_atomic

_MOST_REQUESTS, _MOST_FILE_BYTES = 50_000, 64 * 2**20  # of a file; servers take 50,000 and 200 MB
_MOST_REPLY_BYTES = 2**31  # bytes of a file of replies
_POLL_SECONDS = (
    0.5,
    60.0,
)  # seconds between two looks at a batch: the first wait, doubled up to the last
_ENDED_STATES = ("completed", "failed", "expired", "cancelled")
_URL = "/v1/chat/completions"


class Waiting(Protocol):
    """What shows how far batches are (harness/engine/progress.py)."""

    def note(self, text: str) -> None:
        """Print a line."""

    def part(self, done: int, total: int, what: str) -> None:
        """Show that `done` of `total` are done."""


class Batches:
    """Takes the place of a Server for requests to /chat/completions. state: file that names the
    batches sent."""

    def __init__(self, server: Server, state: Path, progress: Waiting) -> None:
        """Wait for the batches of an earlier process. Raises LimitReached if the server does not
        say their state."""
        self._server, self._state, self._progress = server, state, progress
        self.mask_key, self.base_url = server.mask_key, server.base_url
        self._replies: dict[
            str, list[dict[str, Any]]
        ] = {}  # hash of a body -> lines that are not used yet
        self._waiting: Counter[str] = Counter()
        self._sent: set[str] = set()  # hashes of bodies that this process sent
        self._files: list[IO[bytes]] = []  # requests that wait, the last file open for more
        self._requests = 0  # in the last file
        self._rounds = 0  # how often this process sent batches
        self._lock = threading.Lock()
        self._batches: list[dict[str, str]] = (
            read_object(state)["batches"] if state.exists() else []
        )
        self._receive(self._batches)

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        check: Callable[[Any], str | None],
        max_bytes: int,
        tries: Tries,
    ) -> Any:
        """The reply to `body` from a batch that has ended. Raises WaitsForBatch where the request
        has to wait, RequestFailed, CannotRun."""
        key = digest(body)
        with self._lock:
            lines = self._replies.get(key)
            if not lines:
                if key in self._sent:
                    raise RequestFailed(
                        f"the batch at {self.base_url} ended without a reply; use --retry-failed"
                    )
                self._collect(key, body)
            line = lines.pop(0)
        tries.made = tries.sent = 1
        response = line.get("response") or {}
        reply = response.get("body")
        if line.get("error") or response.get("status_code", 200) != 200:
            said = json.dumps(line.get("error") or reply).encode()
            answer = HttpReply(response.get("status_code") or 500, said)
            fields = json.dumps(
                {**body, **json.loads(self._server.encoded(body))}
            ).encode()  # under both names
            problem = self._server.error_of_status(answer, fields)
            if self._server.takes_other_name(problem) and self._rounds < 2:
                with self._lock:
                    self._collect(key, body)
            if isinstance(problem, CannotRun):
                raise problem
            raise RequestFailed(
                f"the batch at {self.base_url} has an error in place of a reply: {problem}"
            )
        why = check(reply)
        if why:
            raise RequestFailed(f"{self.base_url} gave no usable reply in a batch: {why}")
        return reply

    def _collect(self, key: str, body: Mapping[str, Any]) -> NoReturn:
        """Put a request into a file for `send`; raises WaitsForBatch."""
        fields = json.loads(self._server.encoded(body))
        self._waiting[key] += 1
        line = {
            "custom_id": f"{key}-{self._waiting[key]}",
            "method": "POST",
            "url": _URL,
            "body": fields,
        }
        data = json.dumps(line).encode() + b"\n"
        if (
            not self._files
            or self._requests == _MOST_REQUESTS
            or self._files[-1].tell() + len(data) > _MOST_FILE_BYTES
        ):
            self._files.append(tempfile.TemporaryFile())  # noqa: SIM115 - `send` closes it
            self._requests = 0
        self._files[-1].write(data)
        self._requests += 1
        raise WaitsForBatch

    def send(self) -> None:
        """Send what waits, and return when its batches ended. Raises CannotRun, LimitReached,
        SaveError."""
        batches = []
        for file in self._files:  # one that is sent twice costs nothing
            file.seek(0)
            form = [
                FormPart("purpose", b"batch"),
                FormPart("file", file.read(), "batch.jsonl", "application/jsonl"),
            ]
            try:
                sent = self._server.request(
                    "/files", _id_problem, _MOST_FILE_BYTES, Tries(), form=form
                )
            except RequestFailed as error:
                problem = (
                    f"no batch was sent: {error}; a server without batches needs model.batch=false"
                )
                raise CannotRun(problem) from None
            batches.append({"file": str(sent["id"])})
            file.close()
        self._files.clear()
        self._sent.update(self._waiting)
        self._rounds += 1
        requests, self._waiting = self._waiting.total(), Counter()
        self._batches += batches
        self._save_state()
        for batch in batches:
            batch["id"] = self._batch_id_of(batch["file"])
            self._save_state()
        if batches:
            ids = ", ".join(batch["id"] for batch in batches)
            self._progress.note(
                f"{requests} requests were sent in batches ({ids}); the same command goes on with "
                "them"
            )
        self._receive(batches)

    def forget(self) -> None:
        """Drop what is kept of the batches, as every reply was used."""
        self._state.unlink(missing_ok=True)

    def _save_state(self) -> None:
        if self._batches:
            write_atomic(self._state, json.dumps({"batches": self._batches}).encode())

    def _batch_id_of(self, file: str) -> str:
        """The id of the batch of an uploaded file: one that is there, else a new one. Raises
        LimitReached."""
        once = dataclasses.replace(
            self._server, policy=dataclasses.replace(self._server.policy, retries=0)
        )
        body = {"input_file_id": file, "endpoint": _URL, "completion_window": "24h"}
        problem: Exception | None = None
        for n in range(self._server.policy.retries + 1):
            if n:
                time.sleep(self._server.policy.wait_before(n, 0.0))
            ids = (
                batch["id"] for batch in self._list_batches() if batch.get("input_file_id") == file
            )
            batch_id = next(ids, None)
            if batch_id is not None:
                return str(batch_id)
            try:
                return str(
                    once.post("/batches", body, _id_problem, _MOST_FILE_BYTES, Tries())["id"]
                )
            except RequestFailed as error:
                problem = error
        raise self._stop_error(problem)

    def _list_batches(self) -> Iterator[dict[str, Any]]:
        """The batches that the server has, latest first. Raises LimitReached."""
        after = ""
        while True:
            page = self._get(f"/batches?limit=100{after}")
            rows = [
                row
                for row in page.get("data") or ()
                if isinstance(row, dict) and not _id_problem(row)
            ]
            yield from rows
            if not page.get("has_more") or not rows:
                return
            after = f"&after={rows[-1]['id']}"

    def _get(self, path: str) -> dict[str, Any]:
        """The JSON object at `path`. Raises LimitReached."""
        check = lambda reply: None if isinstance(reply, dict) else "the reply is no JSON object"  # noqa: E731
        try:
            return dict(self._server.request(path, check, _MOST_FILE_BYTES, Tries()))
        except (RequestFailed, CannotRun) as error:
            raise self._stop_error(error) from None

    def _stop_error(self, problem: object) -> LimitReached:
        return LimitReached(
            f"stopped, as {problem}; the same command goes on with the batches that were sent"
        )

    def _receive(self, batches: list[dict[str, str]]) -> None:
        """Wait until these batches ended, and take their replies. Raises LimitReached; CannotRun
        for a refused one."""
        for batch in batches:
            if "id" not in batch:  # a process ended between its file and its batch
                batch["id"] = self._batch_id_of(batch["file"])
                self._save_state()
        ended: dict[str, dict[str, Any]] = {}
        wait = _POLL_SECONDS[0]
        while True:
            states = {
                batch["id"]: ended.get(batch["id"]) or self._get(f"/batches/{batch['id']}")
                for batch in batches
            }
            ended = {
                name: state
                for name, state in states.items()
                if state.get("status") in _ENDED_STATES
            }
            if len(ended) == len(batches):
                break
            counts = [state.get("request_counts") or {} for state in states.values()]
            done = sum(count.get("completed", 0) + count.get("failed", 0) for count in counts)
            self._progress.part(
                done, sum(count.get("total", 0) for count in counts), "replies of batches"
            )
            time.sleep(wait)
            wait = min(2 * wait, _POLL_SECONDS[1])
        for name, state in ended.items():
            if state["status"] == "failed":
                self._batches = [batch for batch in self._batches if batch.get("id") != name]
                self._save_state() if self._batches else self.forget()
                said = json.dumps(state.get("errors")).encode()
                problem = self._server.error_of_status(HttpReply(400, said), None)
                raise CannotRun(
                    f"the batch {name} failed: {problem}; correct it, then run the same command"
                )
            for file in filter(None, (state.get("output_file_id"), state.get("error_file_id"))):
                for line in self._reply_lines(file):
                    self._replies.setdefault(
                        str(line.get("custom_id")).partition("-")[0], []
                    ).append(line)

    def _reply_lines(self, file: str) -> list[dict[str, Any]]:
        """Download a file of replies and parse its lines.

        Of lines with the same custom id the first counts. A line that is no JSON object is left
        out; its question counts as not answered.
        """
        try:
            content = self._server.request(
                f"/files/{file}/content",
                check=_accept_any,
                max_bytes=_MOST_REPLY_BYTES,
                tries=Tries(),
                parse=_body_as_it_is,
            )
        except (RequestFailed, CannotRun) as error:
            raise self._stop_error(error) from None
        lines: dict[str, dict[str, Any]] = {}
        for text in content.splitlines():
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict):
                lines.setdefault(str(line.get("custom_id")), line)
        return list(lines.values())


def _accept_any(_content: Any) -> None:
    """Find no problem with a file, whose lines are checked one by one."""


def _body_as_it_is(_content_type: str, body: bytes) -> bytes:
    """The bytes of a reply, not parsed."""
    return body


def _id_problem(reply: Any) -> str | None:
    """Why a parsed reply names no file or batch, None where it does."""
    has_id = (
        isinstance(reply, dict)
        and isinstance(reply.get("id"), str)
        and reply["id"].replace("-", "_").isidentifier()
    )
    if has_id:
        return None
    return "the reply has no id"
