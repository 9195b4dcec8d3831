"""Requests to an OpenAI-compatible server, with retries, waits and masked keys.

    server = Server(base_url, key, RetryPolicy(timeout=120, retries=4))
    server.post("/chat/completions", body, read, max_bytes, tries)    what `read` made of the reply's JSON
    tries.retries                                                     number of retries, failed or not

| what happens                                                        | then                                       |
|---------------------------------------------------------------------|--------------------------------------------|
| 408, 409, 425, 429, 5xx; no connection; no reply within `timeout`;  | again, `retries` times; then RequestFailed |
| a reply that is cut, too long, no JSON, or refused by `read`        |                                            |
| 400, 413, 422 and other 4xx                                         | RequestFailed at once                      |
| 401, 402, 403, 404, 3xx: every request would end so; 400 for a      | CannotRun at once                          |
| model that the server does not list                                 |                                            |
| 400, 422 for a field: `max_tokens`                                  | again, and from then on, with its new name |
| 400, 422 for another field, which changes answers                   | CannotRun at once, with the setting        |

The wait before retry n is 0.5 * 2^(n-1) seconds, at most 30, half of it drawn at random so that
questions in flight do not come back together; a server that says how long to wait (Retry-After) is
taken at its word, by all requests alike, for 300 seconds a wish and an hour a run. No message holds
the key: `key_mask` takes it out of what a server says. Redirects are not followed: they would take
the key to another host. The openai client is not used: its retries neither count what was sent nor
wait together, and without them it only sets headers, for 1.4 CPU seconds of imports.
"""

from __future__ import annotations

import contextlib
import email.utils
import json
import math
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from harness.errors import CannotRun, RequestFailed
from harness.llm.endpoint_errors import OTHER_NAMES, ServerError, refused_field
from harness.llm.http_loop import (
    NO_REPLY,
    ExchangeFailed,
    FormPart,
    HttpReply,
    HttpRequest,
    http_loop,
    proxy_for,
)
from harness.parallel.members import current_scheduler
from harness.parallel.scheduler import Took, add_queued, timed

T = TypeVar("T")

_RETRIED_STATUS = frozenset({408, 409, 425, 429})
_NO_MODEL = re.compile(
    r"model_not_found|model\b.*\b(not found|not exist|unknown)|(unknown|invalid|not a valid) model",
    re.I,
)
_SETTINGS = {
    "logprobs": "model.logprobs=0",
    "top_logprobs": "model.logprobs=0",
    "max_completion_tokens": "model.extra.max_tokens=null",
}
_MOST_REPLY_BYTES = 64 * 2**20
_MAX_QUOTED = 300  # characters of what a server says in a message
_MAX_NAMES = 10  # models of a server that a message lists
_LIST_TIMEOUT = 10.0  # seconds for a list of models, which is no work
_SHORTEST_MASKED = 8  # characters; masking a shorter one would mask words
_POLL_SECONDS = 0.1  # seconds between two looks whether the run ends


def key_mask(key: str | None) -> Callable[[str], str]:
    """A function that replaces a key, in any case of letters, by "[key]" in a text; one that
    changes nothing for no key, and for a key too short to be a secret."""
    if not key or len(key) < _SHORTEST_MASKED:
        return str
    return partial(re.compile(re.escape(key), re.IGNORECASE).sub, "[key]")


class Retryable(Exception):
    """A try that failed and may succeed later.

    Attributes:
        wait: Seconds that the server asks for, which hold for all requests; None for none.
        sent: Whether there was a connection.
        gone: Whether there was no whole reply, so that the server may have ended.
    """

    def __init__(
        self, why: str, wait: float | None = None, sent: bool = True, gone: bool = False
    ) -> None:
        """Say why a try failed.

        Args:
            why: The rest of a sentence that names the server.
            wait: Seconds that the server asks for; None for none.
            sent: Whether there was a connection.
            gone: Whether there was no whole reply, so that the server may have ended.
        """
        super().__init__(why)
        self.wait, self.sent, self.gone = wait, sent, gone


class UnusableReply(Exception):
    """A reply that was read and cannot be used; the message says why. Another try may give a usable
    one."""


def parse_json(kind: str, body: bytes) -> object:
    """Parse a JSON body of the content type `kind`. Raises Retryable for anything else."""
    if kind != "application/json" and not kind.endswith("+json"):
        raise Retryable(f"the reply is {kind} instead of application/json")
    try:
        values: object = json.loads(body)
    except (ValueError, RecursionError):
        raise Retryable(
            f"the reply of {len(body)} bytes is no JSON, so it was cut off or garbled"
        ) from None
    return values


def json_value(reply: object) -> object:
    """The parsed reply as it is, for a ServerCall whose caller checks the values by itself."""
    return reply


@dataclass(frozen=True)
class ServerCall(Generic[T]):
    """What is sent to a server, and how its reply is read.

    Attributes:
        path: Below the address of the server.
        read: Reads a parsed reply. Raises UnusableReply.
        max_bytes: The longest reply that is read; a longer one is refused.
        content: JSON to post; a GET without it and without a form.
        form: Fields and files of a form, instead of `content`.
        parse: Parses a reply, from its content type and its body. Raises Retryable.
    """

    path: str
    read: Callable[[object], T]
    max_bytes: int
    content: bytes | None = None
    form: Sequence[FormPart] = ()
    parse: Callable[[str, bytes], object] = parse_json


@dataclass(frozen=True)
class Received(Generic[T]):
    """A usable reply.

    Attributes:
        value: What `read` of the call made of it.
        parsed: Its JSON values.
    """

    value: T
    parsed: object


class _FieldRefused(CannotRun):
    """The server takes no field of this name in a request.

    Attributes:
        field: The top-level field.
    """

    def __init__(self, sentence: str, field: str) -> None:
        """Keep the field's name beside the sentence."""
        super().__init__(sentence)
        self.field = field


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, in seconds, and how often to try again.

    Attributes:
        timeout: How long to wait for a reply.
        retries: How many tries follow the first one.
        first: The longest wait before the first retry; it doubles with each further one.
        longest: The longest wait before any retry.
        obey: The longest wait that a server may ask for (Retry-After).
        obey_total: The longest that it may ask for in a run, all waits together.
    """

    timeout: float = 120.0
    retries: int = 4
    first: float = 0.5
    longest: float = 30.0
    obey: float = 300.0
    obey_total: float = 3600.0

    def wait_before(self, retry: int, draw: float) -> float:
        """Seconds to wait before a retry.

        Args:
            retry: Its number, from 1.
            draw: A random number in [0, 1), which decides over the second half of the wait.
        """
        # Beyond 2^30 the cap holds in any case, and a float would overflow at some point.
        whole = min(self.longest, self.first * 2.0 ** min(retry - 1, 30))
        return whole * (1 + draw) / 2


@dataclass
class Tries:
    """Counts the tries of one request, also where it fails in the end.

    Attributes:
        made: Tries.
        sent: Those of them that had a connection.
        document: What the request is about, "" where that is unknown.
        failed_at: Addresses of the servers that failed it, where there are several (fleet.py).
        seconds: Of all tries, on their connections alone (http_loop.py); of a function, its calls.
    """

    made: int = 0
    sent: int = 0
    document: str = ""
    failed_at: set[str] = field(default_factory=set)
    seconds: float = 0.0

    @property
    def retries(self) -> int:
        """Tries beyond the first."""
        return max(self.made - 1, 0)


@contextlib.contextmanager
def timed_tries(tries: Tries) -> Iterator[Took]:
    """Context manager: the time of the requests in its block, known once it ends: their seconds are
    those of `tries`, and the rest of the block's time was queued."""
    took = Took()
    block = Took()
    try:
        with timed() as block:
            yield took
    finally:
        took.seconds = tries.seconds
        took.queued = max(block.seconds + block.queued - tries.seconds, 0.0)


@dataclass
class Server:
    """One server for requests of any number of threads.

    Attributes:
        base_url: Its address.
        key: Sent as a bearer token; None for none.
        policy: How long to wait, and how often to try again.
        key_env: The environment variable that holds the key, for messages.
        part: The settings that name the server: "model", "encoder" or "reranker", for messages.
        headers: Further headers of every request.
    """

    base_url: str
    key: str | None = field(default=None, repr=False)
    policy: RetryPolicy = RetryPolicy()
    key_env: str | None = None
    part: str = "model"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Prepare the headers of every request, the proxy and the mask of the key. Nothing is
        sent."""
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "longdoc-harness",
        }
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        headers |= self.headers
        self._headers = headers
        self._proxy = proxy_for(self.base_url)
        self.mask_key = key_mask(self.key)
        self._lock = threading.Lock()
        self._closed_until = 0.0  # what a 429 says holds for every thread
        self._obeyed = 0.0  # seconds that the server was left alone at its wish
        self._names: dict[str, str] = {}  # fields that the server wants under another name
        # Not the global generator: waiting changes no draw of a method.
        self._draw = random.Random()

    @property
    def address_setting(self) -> str:
        """The setting that holds the address, for messages: "model.base_url"."""
        return f"{self.part}.base_url"

    def post(
        self,
        path: str,
        body: Mapping[str, object],
        read: Callable[[object], T],
        max_bytes: int,
        tries: Tries,
    ) -> T:
        """Post JSON, and read the JSON of its reply.

        Where the server refuses a field and takes it under another name, the body is encoded again
        with that name, and posted again.

        Args:
            path: Below the address of the server.
            body: What is sent.
            read: Reads a parsed reply. Raises UnusableReply.
            max_bytes: The longest reply that is read; a longer one is refused.
            tries: Counts how often it was sent.

        Raises:
            RequestFailed: No try gave a usable reply.
            CannotRun: No request would have one.
        """
        try:
            return self.request(ServerCall(path, read, max_bytes, self.encoded(body)), tries)
        except CannotRun as error:
            if not self.learn_other_name(error):
                raise
            # `encoded` now writes the other name.
            return self.request(ServerCall(path, read, max_bytes, self.encoded(body)), tries)

    def encoded(self, body: Mapping[str, object]) -> bytes:
        """`body` as JSON, its fields under the names that the server is known to take."""
        renamed = {self._names.get(name, name): value for name, value in body.items()}
        return json.dumps(renamed, ensure_ascii=False).encode("utf-8", "replace")

    def learn_other_name(self, error: Exception) -> bool:
        """Where an error refuses a field that has another name (max_tokens), use that name in all
        requests from now on. Returns whether it was so."""
        if not isinstance(error, _FieldRefused) or error.field not in OTHER_NAMES:
            return False
        self._names[error.field] = OTHER_NAMES[error.field]
        return True

    def request(self, call: ServerCall[T], tries: Tries) -> T:
        """Send a call until it has a usable reply, and return what the call's `read` made of that.

        Args:
            call: What is sent.
            tries: Counts how often it was sent.

        Raises:
            RequestFailed: No try gave a usable reply.
            CannotRun: No request would have one.
        """
        reason = ""
        for n in range(self.policy.retries + 1):
            if not self.has_other_server(tries):
                self.wait_for_try(n)
            tries.made += 1
            tries.sent += 1
            try:
                return self.try_once(call, tries).value
            except Retryable as error:
                reason = str(error)
                if not error.sent:
                    tries.sent -= 1
                self.obey_wait(error.wait)
        sent = "1 try"
        if tries.made != 1:
            sent = f"{tries.made} tries"
        raise RequestFailed(f"{self.base_url} gave no usable reply in {sent}: {reason}")

    def has_other_server(self, tries: Tries) -> bool:
        """Whether another server can try a request at once that one has failed; a single server has
        none."""
        return False

    def try_once(self, call: ServerCall[T], tries: Tries) -> Received[T]:
        """Send a call once, and read its reply.

        Args:
            call: What is sent.
            tries: Its tries so far; a fleet chooses the server by them. Its seconds are added.

        Raises:
            Retryable: There is no usable reply; a later try may give one.
            RequestFailed, CannotRun: There is no usable reply, and another try gives none.
        """
        parsed = self._send_once(call, self.policy.timeout, tries)
        try:
            return Received(call.read(parsed), parsed)
        except UnusableReply as error:
            raise Retryable(str(error)) from None

    def check_alive(self) -> None:
        """Return when a server answers at all. Raises CannotRun where none does, or where it
        refuses our key."""
        why: str | None = ""
        for n in range(self.policy.retries + 1):
            self.wait_for_try(n)
            why = self.absence()
            if why is None:
                return
        way_out = f"start it, or correct its address ({self.address_setting})"
        raise CannotRun(f"no server answers at {self.base_url} ({why}); {way_out}")

    def absence(self) -> str | None:
        """Why no server answers at all, found out by one try; None where one does, whatever it
        answers. Raises CannotRun where it refuses our key."""
        try:
            self._list_models()
        except RequestFailed:
            return None
        except Retryable as e:
            if str(e).startswith(NO_REPLY):
                return str(e)
        return None

    def _list_models(self) -> object:
        """The server's list of models, as JSON values (GET /models). Raises Retryable,
        RequestFailed, CannotRun."""
        timeout = min(_LIST_TIMEOUT, self.policy.timeout)
        call = ServerCall("/models", json_value, _MOST_REPLY_BYTES)
        return self._send_once(call, timeout, Tries())

    def _send_once(self, call: ServerCall[T], timeout: float, tries: Tries) -> object:
        """Try a call once; returns its parsed reply, not read yet.

        Args:
            call: What is sent.
            timeout: Seconds until all of the reply is there.
            tries: The seconds of this one are added to them.

        Raises:
            Retryable, RequestFailed, CannotRun: There is no reply, or none that can be parsed.
        """
        headers = self._headers
        if call.content is not None:
            headers = {**headers, "Content-Type": "application/json"}
        request = HttpRequest(
            url=self.base_url.rstrip("/") + call.path,
            headers=headers,
            timeout=timeout,
            max_bytes=call.max_bytes,
            content=call.content,
            form=call.form,
            proxy=self._proxy,
        )
        reply = self._exchange(request, tries)
        if not reply.is_success:
            raise self.error_of_status(reply, call.content)
        kind = " ".join(self.mask_key(reply.kind).split())[:_MAX_QUOTED]
        return call.parse(kind, reply.body)

    def _exchange(self, request: HttpRequest, tries: Tries) -> HttpReply:
        """The reply to a request, whatever its status, whose seconds are added to its tries. Raises
        Retryable where none comes back whole."""
        try:
            reply = _exchanged(request)
        except ExchangeFailed as error:
            tries.seconds += error.seconds
            why = self.mask_key(str(error))
            raise Retryable(why, sent=error.sent, gone=error.gone) from None
        tries.seconds += reply.seconds
        return reply

    def error_of_status(self, reply: HttpReply, content: bytes | None) -> Exception:
        """The exception for a reply that is no success: Retryable, RequestFailed or CannotRun, as
        the table of the module says.

        Args:
            reply: The reply.
            content: The JSON of the request; None for a GET.
        """
        code = reply.status
        if 300 <= code < 400:
            return CannotRun(
                f"{self.base_url} answers with a redirect ({code}); give the final address as "
                f"{self.part}.base_url"
            )
        if code in (401, 402, 403):
            return self._error_of_key(code)
        error = ServerError.parse(reply.body)
        words = self._quoted(error)
        # No later try can succeed.
        if code == 429 and error.is_used_up(words):
            return CannotRun(
                f"{self.base_url} has no quota left for this key{words}; raise it, then run the "
                "same command"
            )
        status = f"status {code}{words}"
        if content is not None:
            refusal = self._error_of_model(code, status, content)
            if refusal is None and code in (400, 422):
                refusal = self._error_of_field(refused_field(content, words, error), status)
            if refusal is not None:
                return refusal
        if code in _RETRIED_STATUS or code >= 500:
            return Retryable(status, _retry_after(reply.retry_after))
        return RequestFailed(f"{self.base_url} refused the request: {status}")

    def _error_of_key(self, code: int) -> CannotRun:
        """The error where the server refuses our key. What the server says is left out: some repeat
        the key that they were given, whole or in part."""
        wish = f"name its key: --set {self.part}.api_key_env=NAME"
        if self.key_env:
            wish = f"check the key in {self.key_env}"
        return CannotRun(f"{self.base_url} refuses us (status {code}); {wish}")

    def _error_of_model(self, code: int, status: str, content: bytes) -> CannotRun | None:
        """The error where the server has no such address or model; None where it may have them.

        Args:
            code: The status of the reply.
            status: The same in words, with what the server says.
            content: The JSON of the request.
        """
        if code != 404 and not (code == 400 and _NO_MODEL.search(status)):
            return None
        model = str(json.loads(content).get("model"))
        offered = self.offered_models()
        if code != 404 and model in offered:
            return None
        names = ""
        if offered:
            names = f"; it offers {', '.join(offered[:_MAX_NAMES])}"
        if len(offered) > _MAX_NAMES:
            names += f" and {len(offered) - _MAX_NAMES} more"
        return CannotRun(
            f"{self.base_url} knows no such address, or no model '{model}' "
            f"({status}){names}; "
            f"correct {self.part}.base_url or {self.part}.source"
        )

    def _error_of_field(self, name: str | None, status: str) -> CannotRun | None:
        """The error where the server takes no field of this name; it says by which setting to leave
        it out.

        Args:
            name: The field; None for no field, for which there is no error.
            status: The status of the reply in words, with what the server says.
        """
        if name is None:
            return None
        setting = _SETTINGS.get(name, f"model.extra.{name}=null")
        return _FieldRefused(
            f"{self.base_url} takes no '{name}' ({status}); leave it out: --set {setting} "
            "(answers may differ, so "
            "this is part of the run)",
            name,
        )

    def offered_models(self) -> list[str]:
        """Names of the models that the server lists; [] where it has no list."""
        try:
            parsed = self._list_models()
        except (CannotRun, RequestFailed, Retryable):
            return []
        names = map(self.mask_key, _listed_names(parsed))
        return [name for name in names if name.isprintable() and len(name) <= _MAX_QUOTED]

    def _quoted(self, error: ServerError) -> str:
        """What the server says of an error, as the end of a sentence: ": the model is busy"; "" for
        nothing. Keys are masked, and it is shortened."""
        words = " ".join(self.mask_key(error.message).split())
        if not words:
            return ""
        return f": {words[:_MAX_QUOTED]}"

    @property
    def asks_to_wait(self) -> bool:
        """Whether the server has asked for a pause that is not over."""
        return time.monotonic() < self._closed_until

    def obey_wait(self, wait: float | None) -> None:
        """Send no request for the seconds that a server asks for (Retry-After), in any thread.

        Args:
            wait: The seconds; None for no wish.

        Raises:
            RequestFailed: That is longer than we wait.
            CannotRun: All waits of the run together are.
        """
        if wait is None:
            return
        if wait > self.policy.obey:
            raise RequestFailed(
                f"{self.base_url} asks to wait {wait:.0f} seconds, longer than the "
                f"{self.policy.obey:.0f} a question "
                "waits; ask again later with --retry-failed"
            )
        with self._lock:
            now = time.monotonic()
            self._obeyed += max(now + wait - max(self._closed_until, now), 0.0)
            self._closed_until = max(self._closed_until, now + wait)
        if self._obeyed > self.policy.obey_total:
            raise CannotRun(
                f"{self.base_url} has asked to wait {self._obeyed:.0f} seconds in this run, more "
                "than the "
                f"{self.policy.obey_total:.0f} that a run waits; run the same command again later"
            )

    def wait_for_try(self, retry: int) -> None:
        """Wait until a try may be sent: for the policy's seconds before a retry, and for the pause
        that the server asked for. Raises Stopped if the run ends meanwhile.

        Args:
            retry: The number of the retry; 0 for the first try.
        """
        until = time.monotonic()
        if retry:
            with self._lock:
                until += self.policy.wait_before(retry, self._draw.random())
        while True:
            left = max(until, self._closed_until) - time.monotonic()
            scheduler = current_scheduler()
            if scheduler is not None:
                scheduler.raise_if_stopped()
            if left <= 0:
                return
            seconds = min(left, _POLL_SECONDS)
            began = time.monotonic()
            if scheduler is None:
                time.sleep(seconds)
            else:
                with scheduler.waiting_for_server():
                    time.sleep(seconds)
            # On a busy machine a sleep ends late; all of it is time in the queue.
            add_queued(time.monotonic() - began)


def _exchanged(request: HttpRequest) -> HttpReply:
    """The reply to a request; no batch waits for the calling thread meanwhile. Raises
    ExchangeFailed."""
    scheduler = current_scheduler()
    if scheduler is None:
        return http_loop().exchange(request)
    with scheduler.waiting_for_server():
        return http_loop().exchange(request)


def _listed_names(models: object) -> list[str]:
    """The ids in a list of models, {"data": [{"id": "m"}, ...]}; [] for anything else."""
    rows: object = None
    if isinstance(models, dict):
        rows = models.get("data")
    if not isinstance(rows, list):
        return []
    names: list[str] = []
    for row in rows:
        if not isinstance(row, dict) or "id" not in row:
            return []
        if isinstance(row["id"], str):
            names.append(row["id"])
    return names


def _retry_after(text: str) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or as a date; None where it cannot be
    read.

    "7" -> 7.0; "Wed, 21 Oct 2026 07:28:00 GMT" -> the seconds from now, 0 for the past; "" -> None
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    if math.isnan(seconds):
        return None
    return max(seconds, 0.0)
