"""Requests as batch files (OpenAI's /files and /batches), which a server answers within a day, at a
lower price.

    batches = Batches(server, state_file, progress) replies of the batches that the file names, waited for
    batches.post(...)                              a reply that is here, else WaitsForBatch: the request waits
    batches.send()                                 requests that wait ─► files ─► batches ─► their replies are here
    batches.delete_state_file()                    all replies were used

    POST /files      one line a request: {"custom_id": HASH-N, "method": "POST", "url", "body"}
    POST /batches    {"input_file_id", "endpoint", "completion_window"}
    GET  /batches/ID until it ended, then GET /files/ID/content of its replies and of its errors

A request is known by the hash of its body, so a later process finds its reply. The state file names
a file before its batch is made: a process that was killed looks for a batch of this file before it
makes one, so that nothing is paid for twice. A batch is made without blind retries, for the same
reason.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, NoReturn, Protocol, TypeVar

from harness.config.schema import json_sha256
from harness.errors import CannotRun, LimitReached, RequestFailed
from harness.llm.endpoint_http import Server, ServerCall, Tries, UnusableReply
from harness.llm.http_loop import FormPart, HttpReply
from harness.models import WaitsForBatch
from harness.storage.files import read_object, write_atomic

# Of a file; servers take 50,000 and 200 MB.
_MAX_FILE_REQUESTS, _MAX_FILE_BYTES = 50_000, 64 * 2**20
_MAX_REPLY_FILE_BYTES = 2**31
# Seconds between two looks at a batch: the first wait, which is doubled up to the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0
_ENDED_STATES = ("completed", "failed", "expired", "cancelled")
_URL = "/v1/chat/completions"
T = TypeVar("T")


class Waiting(Protocol):
    """What shows how far batches are (harness/engine/progress.py)."""

    def note(self, text: str) -> None:
        """Print a line of text."""

    def show_step(self, done: int, total: int, what: str) -> None:
        """Show how far something is.

        Args:
            done: How many are done.
            total: How many there are.
            what: Their name.
        """


@dataclass
class SentBatch:
    """A batch that was sent, as the state file holds it.

    Attributes:
        file: The server's id of its file of requests.
        id: The server's id of the batch; "" while it is not made.
    """

    file: str
    id: str = ""

    def to_json(self) -> dict[str, str]:
        """The batch as the state file holds it."""
        if self.id:
            return asdict(self)
        return {"file": self.file}


def _read_state(path: Path) -> list[SentBatch]:
    """The batches that a state file names; none where it is missing. Raises OSError, ValueError."""
    if not path.exists():
        return []
    return [SentBatch(**values) for values in read_object(path)["batches"]]


@dataclass(frozen=True)
class BatchState:
    """A batch as its server describes it.

    Attributes:
        id: "" where it has none that can be used.
        input_file_id: The id of its file of requests.
        status: "in_progress", "completed" and the like.
        n_done: Requests that have a reply or an error.
        n_total: All of its requests.
        reply_file_ids: The ids of its files of replies and of errors.
        errors: Why it failed, as JSON values.
    """

    id: str
    input_file_id: str
    status: str
    n_done: int
    n_total: int
    reply_file_ids: Sequence[str]
    errors: object

    @classmethod
    def read(cls, reply: object) -> BatchState:
        """Read the parsed reply of a server that describes a batch. Raises UnusableReply where it
        is no JSON object, or has no id.

        {"id": "batch_1", "input_file_id": "file-1", "status": "completed", "request_counts":
        {"completed": 9, "failed": 1, "total": 10}, "output_file_id": "file-2", "error_file_id":
        "file-3"} -> 10 of 10 are done, their replies are in file-2 and file-3
        """
        if not isinstance(reply, dict):
            raise UnusableReply("the reply is no JSON object")
        counts = reply.get("request_counts")
        if not isinstance(counts, dict):
            counts = {}
        file_ids = (reply.get("output_file_id"), reply.get("error_file_id"))
        return cls(
            id=_id_in(reply),
            input_file_id=str(reply.get("input_file_id") or ""),
            status=str(reply.get("status") or ""),
            n_done=_count_of(counts, "completed") + _count_of(counts, "failed"),
            n_total=_count_of(counts, "total"),
            reply_file_ids=[str(file_id) for file_id in file_ids if file_id],
            errors=reply.get("errors"),
        )

    @property
    def has_ended(self) -> bool:
        """Whether the server does no more of it."""
        return self.status in _ENDED_STATES


def _count_of(counts: Mapping[str, object], kind: str) -> int:
    """A number of requests that a server states; 0 where it is missing or no number.

    Args:
        counts: {"total": 9, "completed": 8, "failed": 1}.
        kind: "total", "completed" or "failed".
    """
    count = counts.get(kind)
    if isinstance(count, int):
        return count
    return 0


@dataclass(frozen=True)
class BatchPage:
    """A page of a server's list of batches.

    Attributes:
        batches: The batches, latest first.
        has_more: Whether another page follows.
    """

    batches: Sequence[BatchState]
    has_more: bool

    @classmethod
    def read(cls, reply: object) -> BatchPage:
        """Read the parsed reply of a server; rows without an id are left out. Raises UnusableReply
        where it is no JSON object."""
        if not isinstance(reply, dict):
            raise UnusableReply("the reply is no JSON object")
        rows = [row for row in reply.get("data") or () if isinstance(row, dict)]
        batches = [BatchState.read(row) for row in rows if _id_in(row)]
        return cls(batches, bool(reply.get("has_more")))


@dataclass(frozen=True)
class ReplyLine:
    """A line of a file of replies.

    Attributes:
        custom_id: The id of the request, "HASH-N".
        status: The status of the HTTP reply.
        body: The body of the reply, as JSON values.
        error: Why there is no reply, as JSON values; None for none.
    """

    custom_id: str
    status: int
    body: object
    error: object

    @classmethod
    def parse(cls, text: bytes) -> ReplyLine | None:
        """Read a line of a file of replies; None for one that is no JSON object.

        b'{"custom_id": "1a2b-1", "response": {"status_code": 200, "body": {...}}}'
            -> ReplyLine("1a2b-1", 200, {...}, None)

        A response that says no status has 200; one that says 0 or null was no success: 500.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(values, dict):
            return None
        response = values.get("response") or {}
        status = response.get("status_code", 200) or 500
        return cls(str(values.get("custom_id")), status, response.get("body"), values.get("error"))

    @property
    def request_hash(self) -> str:
        """The hash of the request's body: "1a2b" of the id "1a2b-1"."""
        return self.custom_id.partition("-")[0]

    @property
    def failure(self) -> HttpReply | None:
        """The error in place of a reply, as HTTP has it; None for a reply."""
        is_reply = not self.error and self.status == 200
        if is_reply:
            return None
        return HttpReply(self.status, json.dumps(self.error or self.body).encode())


class Batches:
    """Takes the place of a Server for requests to /chat/completions."""

    def __init__(self, server: Server, state_file: Path, progress: Waiting) -> None:
        """Wait for the batches that an earlier process sent, and take their replies.

        Args:
            server: Where requests are sent.
            state_file: Names the batches that were sent.
            progress: Shows how far they are.

        Raises:
            LimitReached: The server does not say how far they are.
            CannotRun: It refused one.
        """
        self._server = server
        self._state_file = state_file
        self._progress = progress
        self.mask_key = server.mask_key
        self.base_url = server.base_url
        # Hash of a request's body -> its reply lines that are not used yet.
        self._unused_replies: dict[str, list[ReplyLine]] = {}
        # Hash of a request's body -> how many such requests wait for the next batch.
        self._waiting_by_hash: Counter[str] = Counter()
        self._sent_hashes: set[str] = set()  # of bodies that this process sent
        self._waiting_files: list[IO[bytes]] = []  # requests that wait; the last one takes more
        self._n_in_last_file = 0  # requests
        self._n_rounds = 0  # how often this process sent batches
        self._lock = threading.Lock()
        self._batches = _read_state(state_file)
        self._wait_and_receive(self._batches)

    def post(
        self,
        path: str,
        body: Mapping[str, object],
        read: Callable[[object], T],
        max_bytes: int,
        tries: Tries,
    ) -> T:
        """The reply to a request, from a batch that has ended. Where there is none yet, the request
        is put among those that wait for the next batch.

        Args:
            path: "/chat/completions", as of Server.post; not used, as batches have one address.
            body: The fields of the request.
            read: Reads a parsed reply. Raises UnusableReply.
            max_bytes: Not used: the whole file of replies has a limit.
            tries: Counts the request as sent once.

        Raises:
            WaitsForBatch: The request waits for the next batch.
            RequestFailed: The batch has no usable reply to it.
            CannotRun: No request would have one.
        """
        body_hash = json_sha256(body)
        with self._lock:
            lines = self._unused_replies.get(body_hash)
            if not lines:
                if body_hash in self._sent_hashes:
                    raise RequestFailed(
                        f"the batch at {self.base_url} ended without a reply; use --retry-failed"
                    )
                self._queue_and_raise(body_hash, body)
            line = lines.pop(0)
        tries.made = tries.sent = 1
        failure = line.failure
        if failure is not None:
            self._raise_failure(failure, body_hash, body)
        try:
            return read(line.body)
        except UnusableReply as error:
            raise RequestFailed(
                f"{self.base_url} gave no usable reply in a batch: {error}"
            ) from None

    def _raise_failure(
        self, failure: HttpReply, body_hash: str, body: Mapping[str, object]
    ) -> NoReturn:
        """Raise the error that a batch has in place of a reply: CannotRun or RequestFailed. Where
        the server wants a field under another name, and this process has sent batches at most once,
        the request is put among those that wait once more, and WaitsForBatch is raised.

        Args:
            failure: The error, as HTTP has it.
            body_hash: The hash of the request's body.
            body: The fields of the request.
        """
        # The server may name a field by its name in `body`, or by the one that was sent.
        sent_fields = json.loads(self._server.encode_body(body))
        content = json.dumps({**body, **sent_fields}).encode()
        problem = self._server.error_of_status(failure, content)
        if self._server.learn_other_name(problem) and self._n_rounds < 2:
            with self._lock:
                self._queue_and_raise(body_hash, body)
        if isinstance(problem, CannotRun):
            raise problem
        raise RequestFailed(
            f"the batch at {self.base_url} has an error in place of a reply: {problem}"
        )

    def _queue_and_raise(self, body_hash: str, body: Mapping[str, object]) -> NoReturn:
        """Append a request to the file that `send` will upload, and raise WaitsForBatch.

        Args:
            body_hash: The hash of the request's body.
            body: The fields of the request.
        """
        sent_fields = json.loads(self._server.encode_body(body))
        self._waiting_by_hash[body_hash] += 1
        request = {
            "custom_id": f"{body_hash}-{self._waiting_by_hash[body_hash]}",
            "method": "POST",
            "url": _URL,
            "body": sent_fields,
        }
        line = json.dumps(request).encode() + b"\n"
        if self._needs_new_file(len(line)):
            self._waiting_files.append(tempfile.TemporaryFile())  # noqa: SIM115 - `send` closes it
            self._n_in_last_file = 0
        self._waiting_files[-1].write(line)
        self._n_in_last_file += 1
        raise WaitsForBatch

    def _needs_new_file(self, n_bytes: int) -> bool:
        """Whether a request of `n_bytes` bytes does not fit into the last file of requests."""
        if not self._waiting_files or self._n_in_last_file == _MAX_FILE_REQUESTS:
            return True
        return self._waiting_files[-1].tell() + n_bytes > _MAX_FILE_BYTES

    def send(self) -> None:
        """Upload the requests that wait, make a batch of each file, and return when all these
        batches ended; `post` then has their replies. The state file names each batch as soon as
        there is one.

        Raises CannotRun, LimitReached, SaveError.
        """
        # A file that is sent twice costs nothing.
        batches = [self._upload(file) for file in self._waiting_files]
        self._waiting_files.clear()
        n_requests = self._waiting_by_hash.total()
        self._sent_hashes.update(self._waiting_by_hash)
        self._waiting_by_hash = Counter()
        self._n_rounds += 1
        self._batches += batches
        self._save_state()
        for batch in batches:
            batch.id = self._find_or_create_batch(batch.file)
            self._save_state()
        if batches:
            ids = ", ".join(batch.id for batch in batches)
            self._progress.note(
                f"{n_requests} requests were sent in batches ({ids}); the same command goes on "
                "with them"
            )
        self._wait_and_receive(batches)

    def _upload(self, file: IO[bytes]) -> SentBatch:
        """Upload a file of requests, and close it; its batch is not made yet. Raises CannotRun
        where the server takes none."""
        file.seek(0)
        form = [
            FormPart("purpose", b"batch"),
            FormPart("file", file.read(), "batch.jsonl", "application/jsonl"),
        ]
        call = ServerCall("/files", _read_id, _MAX_FILE_BYTES, form=form)
        try:
            file_id = self._server.request(call, Tries())
        except RequestFailed as error:
            raise CannotRun(
                f"no batch was sent: {error}; a server without batches needs model.batch=false"
            ) from None
        file.close()
        return SentBatch(file_id)

    def delete_state_file(self) -> None:
        """Delete the state file, as every reply of the batches that it names was used."""
        self._state_file.unlink(missing_ok=True)

    def _save_state(self) -> None:
        """Write the state file; where no batch was sent, there is none to write. Raises
        SaveError."""
        if self._batches:
            state = {"batches": [batch.to_json() for batch in self._batches]}
            write_atomic(self._state_file, json.dumps(state).encode())

    def _find_or_create_batch(self, file_id: str) -> str:
        """Create the batch of an uploaded file, unless the server has one already. Returns the id
        of the batch. Raises LimitReached where the server gives none in all tries of the policy."""
        policy = self._server.policy
        server_without_retries = replace(self._server, policy=replace(policy, retries=0))
        body = {"input_file_id": file_id, "endpoint": _URL, "completion_window": "24h"}
        problem: Exception | None = None
        for retry in range(policy.retries + 1):
            if retry:
                time.sleep(policy.wait_before(retry, random_number=0.0))
            # A try whose reply was lost may have made the batch: a second one would be billed.
            for batch in self._list_batches():
                if batch.input_file_id == file_id:
                    return batch.id
            try:
                return server_without_retries.post(
                    "/batches", body, _read_id, _MAX_FILE_BYTES, Tries()
                )
            except RequestFailed as error:
                problem = error
        raise self._stop_error(problem)

    def _list_batches(self) -> Iterator[BatchState]:
        """Yield the batches that the server has, latest first, a page at a time. Raises
        LimitReached."""
        after_last = ""
        while True:
            page = self._get(f"/batches?limit=100{after_last}", BatchPage.read)
            yield from page.batches
            if not page.has_more or not page.batches:
                return
            after_last = f"&after={page.batches[-1].id}"

    def _get(self, path: str, read: Callable[[object], T]) -> T:
        """What `read` makes of the parsed JSON at a path of the server. Raises LimitReached where
        there is no usable reply."""
        try:
            return self._server.request(ServerCall(path, read, _MAX_FILE_BYTES), Tries())
        except (RequestFailed, CannotRun) as error:
            raise self._stop_error(error) from None

    def _stop_error(self, reason: object) -> LimitReached:
        """The error that stops the command and says why, and how it goes on."""
        return LimitReached(
            f"stopped, as {reason}; the same command goes on with the batches that were sent"
        )

    def _wait_and_receive(self, batches: Sequence[SentBatch]) -> None:
        """Wait until these batches ended, and download their replies into `_unused_replies`. A
        batch without an id is created first, where an earlier process ended in between.

        Raises:
            LimitReached: The server does not say how far they are.
            CannotRun: It refused one, which is then taken out of the state file.
        """
        for batch in batches:
            if not batch.id:  # a process ended between its file and its batch
                batch.id = self._find_or_create_batch(batch.file)
                self._save_state()
        ended_batches = self._wait_until_ended([batch.id for batch in batches])
        for batch_id, state in ended_batches.items():
            if state.status == "failed":
                self._forget_and_raise_refused(batch_id, state)
            for file_id in state.reply_file_ids:
                for line in self._download_reply_lines(file_id):
                    self._unused_replies.setdefault(line.request_hash, []).append(line)

    def _wait_until_ended(self, batch_ids: Sequence[str]) -> dict[str, BatchState]:
        """Wait until the batches with these ids ended, and show meanwhile how far they are.

        Returns:
            Id -> how its batch ended.

        Raises:
            LimitReached: The server does not say how far they are.
        """
        states: dict[str, BatchState] = {}
        wait_seconds = _FIRST_WAIT
        while True:
            for batch_id in batch_ids:
                if batch_id not in states or not states[batch_id].has_ended:
                    states[batch_id] = self._get(f"/batches/{batch_id}", BatchState.read)
            if all(state.has_ended for state in states.values()):
                return states
            n_done = sum(state.n_done for state in states.values())
            n_total = sum(state.n_total for state in states.values())
            self._progress.show_step(n_done, n_total, "replies of batches")
            time.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, _LONGEST_WAIT)

    def _forget_and_raise_refused(self, batch_id: str, state: BatchState) -> NoReturn:
        """Take a batch that the server refused out of the state file, and raise CannotRun with the
        server's reason.

        Args:
            batch_id: The id of the batch.
            state: What the server says of it.
        """
        self._batches = [batch for batch in self._batches if batch.id != batch_id]
        if self._batches:
            self._save_state()
        else:
            self.delete_state_file()
        # The errors as a server has them in a reply that is no success.
        error_reply = HttpReply(400, json.dumps(state.errors).encode())
        problem = self._server.error_of_status(error_reply, content=None)
        raise CannotRun(
            f"the batch {batch_id} failed: {problem}; correct it, then run the same command"
        )

    def _download_reply_lines(self, file_id: str) -> list[ReplyLine]:
        """Download a file of replies and parse its lines. Raises LimitReached where it cannot be
        had.

        Where lines have the same custom id, the first counts. A line that is no JSON object is left
        out; its question counts as not answered.
        """
        path = f"/files/{file_id}/content"
        call = ServerCall(path, _read_bytes, _MAX_REPLY_FILE_BYTES, parse=_body_as_it_is)
        try:
            content = self._server.request(call, Tries())
        except (RequestFailed, CannotRun) as error:
            raise self._stop_error(error) from None
        by_custom_id: dict[str, ReplyLine] = {}
        for line_bytes in content.splitlines():
            line = ReplyLine.parse(line_bytes)
            if line is not None:
                by_custom_id.setdefault(line.custom_id, line)
        return list(by_custom_id.values())


def _body_as_it_is(_content_type: str, body: bytes) -> bytes:
    """The bytes of a reply, for one that is not to be parsed as a whole."""
    return body


def _read_bytes(body: object) -> bytes:
    """The bytes that `_body_as_it_is` gave; lines are checked one by one."""
    assert isinstance(body, bytes)
    return body


def _read_id(reply: object) -> str:
    """The id of a file or batch that a parsed reply names. Raises UnusableReply."""
    found_id = ""
    if isinstance(reply, dict):
        found_id = _id_in(reply)
    if not found_id:
        raise UnusableReply("the reply has no id")
    return found_id


def _id_in(description: Mapping[str, object]) -> str:
    """The id in the description of a file or batch; "" where it has none that can stand in an
    address."""
    found_id = description.get("id")
    if isinstance(found_id, str) and found_id.replace("-", "_").isidentifier():
        return found_id
    return ""
