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

_RETRIED_STATUSES = frozenset({408, 409, 425, 429})
_SAYS_NO_MODEL = re.compile(
    r"model_not_found|model\b.*\b(not found|not exist|unknown)|(unknown|invalid|not a valid) model",
    re.I,
)
_SETTING_OF_FIELD = {
    "logprobs": "model.logprobs=0",
    "top_logprobs": "model.logprobs=0",
    "max_completion_tokens": "model.extra.max_tokens=null",
}
_MAX_LIST_BYTES = 64 * 2**20
_MAX_QUOTED_CHARACTERS = 300  # characters of what a server says in a message
_MAX_LISTED_MODELS = 10  # models of a server that a message lists
_LIST_TIMEOUT_SECONDS = 10.0  # seconds for a list of models, which is no work
_MIN_MASKED_CHARACTERS = 8  # characters; masking a shorter one would mask words
_POLL_SECONDS = 0.1  # seconds between two looks whether the run ends


def key_mask(key: str | None) -> Callable[[str], str]:
    """A function that replaces a key, in any case of letters, by "[key]" in a text; one that
    changes nothing for no key, and for a key too short to be a secret."""
    if not key or len(key) < _MIN_MASKED_CHARACTERS:
        return str
    return partial(re.compile(re.escape(key), re.IGNORECASE).sub, "[key]")


class Retryable(Exception):
    """A try that failed and may succeed later.

    Attributes:
        wait_seconds: The wait that the server asks for, which holds for all requests; None for
            none.
        sent: Whether there was a connection.
        gone: Whether there was no whole reply, so that the server may have ended.
    """

    def __init__(
        self, why: str, wait_seconds: float | None = None, sent: bool = True, gone: bool = False
    ) -> None:
        """Say why a try failed.

        Args:
            why: The rest of a sentence that names the server.
            wait_seconds: The wait that the server asks for; None for none.
            sent: Whether there was a connection.
            gone: Whether there was no whole reply, so that the server may have ended.
        """
        super().__init__(why)
        self.wait_seconds = wait_seconds
        self.sent = sent
        self.gone = gone


class UnusableReply(Exception):
    """A reply that was read and cannot be used; the message says why. Another try may give a usable
    one."""


def parse_json(content_type: str, body: bytes) -> object:
    """Parse a JSON body. Raises Retryable for a body of another type, and for one that is no
    JSON."""
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Retryable(f"the reply is {content_type} instead of application/json")
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
        first_wait: The longest wait before the first retry; it doubles with each further one.
        max_wait: The longest wait before any retry.
        max_asked_wait: The longest wait that a server may ask for (Retry-After).
        max_asked_total: The longest that it may ask for in a run, all waits together.
    """

    timeout: float = 120.0
    retries: int = 4
    first_wait: float = 0.5
    max_wait: float = 30.0
    max_asked_wait: float = 300.0
    max_asked_total: float = 3600.0

    def wait_before(self, retry: int, random_number: float) -> float:
        """Seconds to wait before a retry.

        Args:
            retry: Its number, from 1.
            random_number: A number in [0, 1), which decides over the second half of the wait.
        """
        # Beyond 2^30 the cap holds in any case, and a float would overflow at some point.
        longest = min(self.max_wait, self.first_wait * 2.0 ** min(retry - 1, 30))
        return longest * (1 + random_number) / 2


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
        # By time.monotonic: what a 429 says holds for every thread.
        self._paused_until = 0.0
        self._asked_seconds = 0.0  # how long the server has asked to be left alone, in all
        # Field -> the other name that the server wants it under.
        self._other_names: dict[str, str] = {}
        # Not the global generator: waiting changes no draw of a method.
        self._random = random.Random()

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
            return self.request(ServerCall(path, read, max_bytes, self.encode_body(body)), tries)
        except CannotRun as error:
            if not self.learn_other_name(error):
                raise
            # `encode_body` now writes the other name.
            return self.request(ServerCall(path, read, max_bytes, self.encode_body(body)), tries)

    def encode_body(self, body: Mapping[str, object]) -> bytes:
        """The fields of a request as JSON, under the names that the server is known to take."""
        renamed = {self._other_names.get(name, name): value for name, value in body.items()}
        return json.dumps(renamed, ensure_ascii=False).encode("utf-8", "replace")

    def learn_other_name(self, error: Exception) -> bool:
        """Where an error refuses a field that has another name (max_tokens), use that name in all
        requests from now on. Returns whether it was so."""
        if not isinstance(error, _FieldRefused) or error.field not in OTHER_NAMES:
            return False
        self._other_names[error.field] = OTHER_NAMES[error.field]
        return True

    def request(self, call: ServerCall[T], tries: Tries) -> T:
        """Send a call until it has a usable reply, and return what the call's `read` made of that.
        A try that may be repeated is, as often and after such waits as the policy and the server
        say.

        Args:
            call: What is sent.
            tries: Counts the tries, and how many of them had a connection.

        Raises:
            RequestFailed: No try gave a usable reply.
            CannotRun: No request would have one.
        """
        reason = ""
        for retry in range(self.policy.retries + 1):
            # Another server than the one that failed it may be asked at once.
            if not self.has_other_server(tries):
                self.wait_for_try(retry)
            tries.made += 1
            tries.sent += 1
            try:
                return self.try_once(call, tries).value
            except Retryable as error:
                reason = str(error)
                if not error.sent:  # there was no connection
                    tries.sent -= 1
                self.note_asked_wait(error.wait_seconds)
        n_tries = "1 try"
        if tries.made != 1:
            n_tries = f"{tries.made} tries"
        raise RequestFailed(f"{self.base_url} gave no usable reply in {n_tries}: {reason}")

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
        """Return when a server answers at all; it is asked as often as the policy says. Raises
        CannotRun where none does, or where it refuses our key."""
        reason: str | None = ""
        for retry in range(self.policy.retries + 1):
            self.wait_for_try(retry)
            reason = self.why_absent()
            if reason is None:
                return
        way_out = f"start it, or correct its address ({self.address_setting})"
        raise CannotRun(f"no server answers at {self.base_url} ({reason}); {way_out}")

    def why_absent(self) -> str | None:
        """Why no server answers at all, found out by one try; None where one does, whatever it
        answers. Raises CannotRun where it refuses our key."""
        try:
            self._list_models()
        except RequestFailed:
            return None
        except Retryable as error:
            nothing_came_back = str(error).startswith(NO_REPLY)
            if nothing_came_back:
                return str(error)
        return None

    def _list_models(self) -> object:
        """The server's list of models, as JSON values (GET /models). Raises Retryable,
        RequestFailed, CannotRun."""
        timeout_seconds = min(_LIST_TIMEOUT_SECONDS, self.policy.timeout)
        call = ServerCall("/models", json_value, _MAX_LIST_BYTES)
        return self._send_once(call, timeout_seconds, Tries())

    def _send_once(self, call: ServerCall[T], timeout_seconds: float, tries: Tries) -> object:
        """Send a call once; returns its parsed reply, not read yet.

        Args:
            call: What is sent.
            timeout_seconds: Until all of the reply is there.
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
            timeout=timeout_seconds,
            max_bytes=call.max_bytes,
            content=call.content,
            form=call.form,
            proxy=self._proxy,
        )
        reply = self._exchange(request, tries)
        if not reply.is_success:
            raise self.error_of_status(reply, call.content)
        # Messages quote it: without the key, on one line, and short.
        content_type = " ".join(self.mask_key(reply.content_type).split())
        return call.parse(content_type[:_MAX_QUOTED_CHARACTERS], reply.body)

    def _exchange(self, request: HttpRequest, tries: Tries) -> HttpReply:
        """Send a request, and return its reply, whatever its status. Also adds its seconds to its
        tries. Raises Retryable where no reply comes back whole."""
        try:
            reply = _exchange_while_waiting(request)
        except ExchangeFailed as error:
            tries.seconds += error.seconds
            reason = self.mask_key(str(error))
            raise Retryable(reason, sent=error.sent, gone=error.gone) from None
        tries.seconds += reply.seconds
        return reply

    def error_of_status(self, reply: HttpReply, content: bytes | None) -> Exception:
        """The exception for a reply that is no success.

        CannotRun where every request would end so: a redirect, a refused key (401, 402, 403), a
        used up quota, an address or model that is not there, a field that the server does not take
        (400, 422). Retryable for 408, 409, 425, 429 and from 500 on. RequestFailed for the rest.

        Args:
            reply: The reply.
            content: The JSON of the request; None for a GET.
        """
        status = reply.status
        if 300 <= status < 400:
            return CannotRun(
                f"{self.base_url} answers with a redirect ({status}); give the final address as "
                f"{self.part}.base_url"
            )
        if status in (401, 402, 403):
            return self._error_of_key(status)
        error = ServerError.parse(reply.body)
        quoted_message = self._quote_message(error)
        # No later try can succeed.
        if status == 429 and error.says_quota_is_used_up(quoted_message):
            return CannotRun(
                f"{self.base_url} has no quota left for this key{quoted_message}; raise it, then "
                "run the same command"
            )
        status_words = f"status {status}{quoted_message}"
        if content is not None:
            refusal = self._error_of_model(status, status_words, content)
            if refusal is None and status in (400, 422):
                field = refused_field(content, quoted_message, error)
                refusal = self._error_of_field(field, status_words)
            if refusal is not None:
                return refusal
        if status in _RETRIED_STATUSES or status >= 500:
            return Retryable(status_words, _retry_after_seconds(reply.retry_after))
        return RequestFailed(f"{self.base_url} refused the request: {status_words}")

    def _error_of_key(self, status: int) -> CannotRun:
        """The error where the server refuses our key. What the server says is left out: some repeat
        the key that they were given, whole or in part."""
        way_out = f"name its key: --set {self.part}.api_key_env=NAME"
        if self.key_env:
            way_out = f"check the key in {self.key_env}"
        return CannotRun(f"{self.base_url} refuses us (status {status}); {way_out}")

    def _error_of_model(self, status: int, status_words: str, content: bytes) -> CannotRun | None:
        """The error where the server has no such address or model: for 404, and for 400 whose
        message says that there is no such model, if the server, which is asked for its models, does
        not list it. None for any other reply.

        Args:
            status: The status of the reply.
            status_words: The same in words, with what the server says.
            content: The JSON of the request.
        """
        says_no_model = status == 400 and _SAYS_NO_MODEL.search(status_words)
        if status != 404 and not says_no_model:
            return None
        model = str(json.loads(content).get("model"))
        offered = self.offered_models()
        if status != 404 and model in offered:
            return None
        offer = ""
        if offered:
            offer = f"; it offers {', '.join(offered[:_MAX_LISTED_MODELS])}"
        if len(offered) > _MAX_LISTED_MODELS:
            offer += f" and {len(offered) - _MAX_LISTED_MODELS} more"
        return CannotRun(
            f"{self.base_url} knows no such address, or no model '{model}' "
            f"({status_words}){offer}; "
            f"correct {self.part}.base_url or {self.part}.source"
        )

    def _error_of_field(self, field_name: str | None, status_words: str) -> CannotRun | None:
        """The error where the server takes no field of this name; it says by which setting to leave
        it out.

        Args:
            field_name: The field; None for no field, for which there is no error.
            status_words: The status of the reply in words, with what the server says.
        """
        if field_name is None:
            return None
        setting = _SETTING_OF_FIELD.get(field_name, f"model.extra.{field_name}=null")
        return _FieldRefused(
            f"{self.base_url} takes no '{field_name}' ({status_words}); leave it out: --set "
            f"{setting} (answers may differ, so this is part of the run)",
            field_name,
        )

    def offered_models(self) -> list[str]:
        """Names of the models that the server lists; [] where it has no list."""
        try:
            model_list = self._list_models()
        except (CannotRun, RequestFailed, Retryable):
            return []
        names: list[str] = []
        for name in map(self.mask_key, _model_ids_in(model_list)):
            if name.isprintable() and len(name) <= _MAX_QUOTED_CHARACTERS:
                names.append(name)  # noqa: PERF401
        return names

    def _quote_message(self, error: ServerError) -> str:
        """What the server says of an error, as the end of a sentence: ": the model is busy"; "" for
        nothing. Keys are masked, and it is shortened."""
        message = " ".join(self.mask_key(error.message).split())
        if not message:
            return ""
        return f": {message[:_MAX_QUOTED_CHARACTERS]}"

    @property
    def asks_to_wait(self) -> bool:
        """Whether the server has asked for a pause that is not over."""
        return time.monotonic() < self._paused_until

    def note_asked_wait(self, seconds: float | None) -> None:
        """Note that no request may be sent for the seconds that a server asks for (Retry-After), in
        any thread; nothing waits yet.

        Args:
            seconds: What the server asks for; None for no wish.

        Raises:
            RequestFailed: That is longer than a question may wait.
            CannotRun: All these waits together are longer than a run may wait.
        """
        if seconds is None:
            return
        policy = self.policy
        if seconds > policy.max_asked_wait:
            raise RequestFailed(
                f"{self.base_url} asks to wait {seconds:.0f} seconds, longer than the "
                f"{policy.max_asked_wait:.0f} a question "
                "waits; ask again later with --retry-failed"
            )
        with self._lock:
            now = time.monotonic()
            wished_end = now + seconds
            already_paused_until = max(self._paused_until, now)
            self._asked_seconds += max(wished_end - already_paused_until, 0.0)
            self._paused_until = max(self._paused_until, wished_end)
        if self._asked_seconds > policy.max_asked_total:
            raise CannotRun(
                f"{self.base_url} has asked to wait {self._asked_seconds:.0f} seconds in this run, "
                f"more than the {policy.max_asked_total:.0f} that a run waits; run the same "
                "command again later"
            )

    def wait_for_try(self, retry: int) -> None:
        """Wait until a try may be sent: for the policy's seconds before a retry, and for the pause
        that the server asked for. Also counts the wait as time in the queue. Raises Stopped if the
        run ends meanwhile.

        Args:
            retry: The number of the retry; 0 for the first try.
        """
        retry_time = time.monotonic()
        if retry:
            with self._lock:
                retry_time += self.policy.wait_before(retry, self._random.random())
        while True:
            seconds_left = max(retry_time, self._paused_until) - time.monotonic()
            scheduler = current_scheduler()
            if scheduler is not None:
                scheduler.raise_if_stopped()
            if seconds_left <= 0:
                return
            sleep_seconds = min(seconds_left, _POLL_SECONDS)
            began = time.monotonic()
            if scheduler is None:
                time.sleep(sleep_seconds)
            else:
                with scheduler.waiting_for_server():
                    time.sleep(sleep_seconds)
            # On a busy machine a sleep ends late; all of it is time in the queue.
            add_queued(time.monotonic() - began)


def _exchange_while_waiting(request: HttpRequest) -> HttpReply:
    """Send a request and return its reply; no batch waits for the calling thread meanwhile. Raises
    ExchangeFailed."""
    scheduler = current_scheduler()
    if scheduler is None:
        return http_loop().exchange(request)
    with scheduler.waiting_for_server():
        return http_loop().exchange(request)


def _model_ids_in(model_list: object) -> list[str]:
    """The ids in a server's list of models, {"data": [{"id": "m"}, ...]}; [] for anything else."""
    rows: object = None
    if isinstance(model_list, dict):
        rows = model_list.get("data")
    if not isinstance(rows, list):
        return []
    ids: list[str] = []
    for row in rows:
        if not isinstance(row, dict) or "id" not in row:
            return []
        if isinstance(row["id"], str):
            ids.append(row["id"])
    return ids


def _retry_after_seconds(text: str) -> float | None:
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
