"""Requests to an OpenAI-compatible server, with retries, waits and masked keys.

    server = Server(base_url, key, RetryPolicy(timeout=120, retries=4))
    server.post("/chat/completions", body, check, max_bytes, tries := Tries()) the parsed reply,
    which `check` accepted
    tries.retries                                                           number of retries, failed or not

| what happens                                                        | then                                       |
|---------------------------------------------------------------------|--------------------------------------------|
| 408, 409, 425, 429, 5xx; no connection; no reply within `timeout`;  | again, `retries` times; then RequestFailed |
| a reply that is cut, too long, no JSON, or refused by `check`       |                                            |
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

import contextlib
import email.utils
import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.errors import CannotRun, RequestFailed
from harness.llm.http_loop import (
    NO_REPLY,
    ExchangeFailed,
    FormPart,
    HttpReply,
    HttpRequest,
    http_loop,
    proxy_for,
)
from harness.parallel.members import current
from harness.parallel.scheduler import add_queued

_RETRIED_STATUS = frozenset({408, 409, 425, 429})
_NO_MODEL = re.compile(
    r"model_not_found|model\b.*\b(not found|not exist|unknown)|(unknown|invalid|not a valid) model",
    re.I,
)
_REFUSES_FIELD = re.compile(
    r"unsupported|n[o']t (support|allowed|permitted)|unknown|unrecogni[sz]ed|unexpected|extra_forbidden|deprecated"
    r"|instead of",
    re.I,
)
# Of a field with one value in all requests: a limit of tokens may be too large for one question
# alone.
_REFUSES_VALUE = re.compile(
    rf"{_REFUSES_FIELD.pattern}|n[o']t (available|offer)|fixed at|invalid (parameter|field|argument)"
    r"|only\b.{1,40}\b(allowed|supported|be set)",
    re.I,
)
# Codes of OpenAI and Moonshot, and words of xAI. "Quota" alone may be that of a minute.
_USED_UP = {
    "insufficient_quota",
    "billing_not_active",
    "billing_hard_limit_reached",
    "exceeded_current_quota_error",
}
_NO_CREDITS = re.compile(r"used all available credits|spending limit", re.IGNORECASE)
_OTHER_NAMES = {"max_tokens": "max_completion_tokens"}  # OpenAI's name of the field since 2024
_SETTINGS = {
    "logprobs": "model.logprobs=0",
    "top_logprobs": "model.logprobs=0",
    "max_completion_tokens": "model.extra.max_tokens=null",
}
_MOST_REPLY_BYTES = 64 * 2**20
_MAX_QUOTED = 300  # characters of a server's own words in a message
_MAX_NAMES = 10  # models of a server that a message lists
_LIST_TIMEOUT = 10.0  # seconds for a list of models, which is no work
_SHORTEST_MASKED = 8  # characters; masking a shorter one would mask words
_POLL_SECONDS = 0.1  # seconds between two looks whether the run ends


def key_mask(key: str | None) -> Callable[[str], str]:
    """A function that replaces `key`, in any case, by "[key]" in a text; a key too short to be a
    secret stays."""
    if not key or len(key) < _SHORTEST_MASKED:
        return str
    return partial(re.compile(re.escape(key), re.IGNORECASE).sub, "[key]")


class Retryable(Exception):
    """A try that failed and may succeed later.

    wait: seconds that the server asks for, which hold for all requests; sent: whether there was a
    connection; gone: whether there was no whole reply, so that the server may have ended.
    """

    def __init__(
        self, why: str, wait: float | None = None, sent: bool = True, gone: bool = False
    ) -> None:
        super().__init__(why)
        self.wait, self.sent, self.gone = wait, sent, gone


class _FieldRefused(CannotRun):
    """The server takes no `field`, a top-level one of a request."""

    def __init__(self, sentence: str, field: str) -> None:
        super().__init__(sentence)
        self.field = field


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, in seconds, and how often to try again.

    timeout: for a reply; retries: after the first try; first, longest: before the first retry, and
    before any; obey: at a server's wish (Retry-After); obey_total: at all wishes of a run together.
    """

    timeout: float = 120.0
    retries: int = 4
    first: float = 0.5
    longest: float = 30.0
    obey: float = 300.0
    obey_total: float = 3600.0

    def wait_before(self, retry: int, draw: float) -> float:
        """Seconds to wait before retry 1, 2, ...; draw: random in [0, 1), decides over the second
        half of them."""
        # Beyond 2^30 the cap holds in any case, and a float would overflow at some point.
        whole = min(self.longest, self.first * 2.0 ** min(retry - 1, 30))
        return whole * (1 + draw) / 2


@dataclass
class Tries:
    """Counts how often one request was tried, and of these sent, also where it fails in the end.

    document: what it is about, "" where that is unknown; failed_at: addresses of the servers that
    failed it, where there are several (fleet.py).
    """

    made: int = 0
    sent: int = 0
    document: str = ""
    failed_at: set[str] = field(default_factory=set)

    @property
    def retries(self) -> int:
        """Tries beyond the first."""
        return max(self.made - 1, 0)


@dataclass
class Server:
    """One server for requests of any number of threads.

    key_env: the variable that holds the key, part: whose settings name it (model, encoder,
    reranker), for messages; headers: more of them, of every request.
    """

    base_url: str
    key: str | None = field(default=None, repr=False)
    policy: RetryPolicy = RetryPolicy()
    key_env: str | None = None
    part: str = "model"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
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
        """What names the address, for messages."""
        return f"{self.part}.base_url"

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        check: Callable[[Any], str | None],
        max_bytes: int,
        tries: Tries,
    ) -> Any:
        """The reply to `body` as parsed JSON; `check` returns the problem of a reply, or None.

        max_bytes: of a reply; longer ones are refused; tries: counts them. Raises RequestFailed,
        CannotRun (see top).
        """
        try:
            return self.request(path, check, max_bytes, tries, self.encoded(body))
        except CannotRun as e:
            if not self.takes_other_name(e):
                raise
            return self.request(path, check, max_bytes, tries, self.encoded(body))

    def encoded(self, body: Mapping[str, Any]) -> bytes:
        """`body` as JSON, its fields under the names that the server is known to take."""
        renamed = {self._names.get(name, name): value for name, value in body.items()}
        return json.dumps(renamed, ensure_ascii=False).encode("utf-8", "replace")

    def takes_other_name(self, error: Exception) -> bool:
        """Whether `error` refuses a field that has another name, which requests have from then
        on."""
        if not isinstance(error, _FieldRefused) or error.field not in _OTHER_NAMES:
            return False
        self._names[error.field] = _OTHER_NAMES[error.field]
        return True

    def request(
        self,
        path: str,
        check: Callable[[Any], str | None],
        max_bytes: int,
        tries: Tries,
        content: bytes | None = None,
        **more: Any,
    ) -> Any:
        """As `post`, with the JSON `content` as it is; a GET without one. more: as of
        `_send_once`."""
        reason = ""
        for n in range(self.policy.retries + 1):
            if not self.hands_on(tries):
                self.wait_for_try(n)
            tries.made += 1
            tries.sent += 1
            try:
                return self.try_once(path, check, max_bytes, tries, content, **more)
            except Retryable as e:
                reason = str(e)
                tries.sent -= not e.sent
                self.obey_wait(e.wait)
        sent = "1 try"
        if tries.made != 1:
            sent = f"{tries.made} tries"
        raise RequestFailed(f"{self.base_url} gave no usable reply in {sent}: {reason}")

    def hands_on(self, tries: Tries) -> bool:
        """Whether a request that failed is tried again at once: never by one server alone."""
        return False

    def try_once(
        self,
        path: str,
        check: Callable[[Any], str | None],
        max_bytes: int,
        tries: Tries,
        content: bytes | None = None,
        **more: Any,
    ) -> Any:
        """One try of `request`. Raises Retryable, RequestFailed, CannotRun."""
        reply = self._send_once(path, content, self.policy.timeout, max_bytes, **more)
        problem = check(reply)
        if problem:
            raise Retryable(problem)
        return reply

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
        """Why no server answers at all, by one try; None where one does. Raises CannotRun where it
        refuses our key."""
        timeout = min(_LIST_TIMEOUT, self.policy.timeout)
        try:
            self._send_once("/models", None, timeout, _MOST_REPLY_BYTES)
        except RequestFailed:
            return None
        except Retryable as e:
            if str(e).startswith(NO_REPLY):
                return str(e)
        return None

    def _send_once(
        self,
        path: str,
        content: bytes | None,
        timeout: float,
        max_bytes: int,
        form: Sequence[FormPart] = (),
        parse: Callable[[str, bytes], Any] | None = None,
    ) -> Any:
        """Try one request; returns its parsed JSON reply.

        Args:
            path: Below the address of the server.
            content: JSON to post; a GET without it and without `form`.
            timeout: Seconds until all of the reply is there.
            max_bytes: Of the reply.
            form: Fields and files of a form, instead of `content`.
            parse: Reads a reply of another kind, from its content type and body.

        Raises:
            Retryable, RequestFailed, CannotRun: There is no usable reply.
        """
        headers = self._headers
        if content is not None:
            headers = {**headers, "Content-Type": "application/json"}
        url = self.base_url.rstrip("/") + path
        request = HttpRequest(url, headers, timeout, max_bytes, content, form, self._proxy)
        reply = self._exchange(request)
        if not reply.is_success:
            raise self.error_of_status(reply, content)
        kind = " ".join(self.mask_key(reply.kind).split())[:_MAX_QUOTED]
        return (parse or parse_json)(kind, reply.body)

    def _exchange(self, request: HttpRequest) -> HttpReply:
        """The reply to a request; no batch waits meanwhile for the question that sent it. Raises
        Retryable."""
        scheduler = current()
        try:
            if scheduler is None:
                return http_loop().exchange(request)
            with scheduler.waiting_for_server():
                return http_loop().exchange(request)
        except ExchangeFailed as error:
            why = self.mask_key(str(error))
            raise Retryable(why, sent=error.sent, gone=error.gone) from None

    def error_of_status(self, reply: HttpReply, content: bytes | None) -> Exception:
        """The exception for a reply by its HTTP status; content: the request's, None for a GET."""
        code = reply.status
        if 300 <= code < 400:
            return CannotRun(
                f"{self.base_url} answers with a redirect ({code}); give the final address as "
                f"{self.part}.base_url"
            )
        if code in (401, 402, 403):
            # Its own words are left out: some servers repeat the key they were given, whole or in
            # part.
            wish = (
                f"check the key in {self.key_env}"
                if self.key_env
                else f"name its key: --set {self.part}.api_key_env=NAME"
            )
            return CannotRun(f"{self.base_url} refuses us (status {code}); {wish}")
        words, error = self._server_words(reply)
        kinds = {str(error.get("code")), str(error.get("type"))}
        # No later try can succeed.
        if code == 429 and (kinds & _USED_UP or _NO_CREDITS.search(words)):
            return CannotRun(
                f"{self.base_url} has no quota left for this key{words}; raise it, then run the "
                "same command"
            )
        status = f"status {code}{words}"
        if content is not None and (code == 404 or (code == 400 and _NO_MODEL.search(status))):
            model, offered = str(json.loads(content).get("model")), self.offered_models()
            if code == 404 or model not in offered:
                names = ""
                if offered:
                    names = f"; it offers {', '.join(offered[:_MAX_NAMES])}"
                names += (
                    f" and {len(offered) - _MAX_NAMES} more" if len(offered) > _MAX_NAMES else ""
                )
                return CannotRun(
                    f"{self.base_url} knows no such address, or no model '{model}' "
                    f"({status}){names}; "
                    f"correct {self.part}.base_url or {self.part}.source"
                )
        if (
            code in (400, 422)
            and content is not None
            and (name := _refused_field(content, words, error))
        ):
            setting = _SETTINGS.get(name, f"model.extra.{name}=null")
            return _FieldRefused(
                f"{self.base_url} takes no '{name}' ({status}); leave it out: --set {setting} "
                "(answers may differ, so "
                "this is part of the run)",
                name,
            )
        if code in _RETRIED_STATUS or code >= 500:
            return Retryable(status, _retry_after(reply.retry_after))
        return RequestFailed(f"{self.base_url} refused the request: {status}")

    def offered_models(self) -> list[str]:
        """Names of the models that the server lists; [] where it has no list."""
        try:
            rows = self._send_once(
                "/models", None, min(_LIST_TIMEOUT, self.policy.timeout), _MOST_REPLY_BYTES
            )["data"]
            names = [self.mask_key(row["id"]) for row in rows if isinstance(row["id"], str)]
        except (CannotRun, RequestFailed, Retryable, LookupError, TypeError):
            return []
        return [name for name in names if name.isprintable() and len(name) <= _MAX_QUOTED]

    def _server_words(self, reply: HttpReply) -> tuple[str, dict[str, Any]]:
        """The message of an error reply after ": ", shortened and without keys, "" for none; and
        the parsed error."""
        text = reply.body.decode("utf-8", "replace")
        error: Any = {}
        try:
            error = _error_in(json.loads(text))
            text = _message_of(error)
        except (ValueError, RecursionError):
            pass
        if isinstance(error, list) and error:  # pydantic lists all problems
            error = error[0]
        if not isinstance(error, dict):
            error = {}
        words = " ".join(self.mask_key(text).split())
        if not words:
            return "", error
        return f": {words[:_MAX_QUOTED]}", error

    @property
    def asks_to_wait(self) -> bool:
        """Whether the server has asked for a pause that is not over."""
        return time.monotonic() < self._closed_until

    def obey_wait(self, wait: float | None) -> None:
        """Send no request for the `wait` seconds that a server asks for (Retry-After; None:
        nothing).

        Raises RequestFailed where that is longer than we wait, CannotRun where all waits of the run
        together are.
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
        """Wait until retry number `retry` (0: the first try) may be sent. Raises Stopped if the run
        ends meanwhile."""
        until = time.monotonic()
        if retry:
            with self._lock:
                until += self.policy.wait_before(retry, self._draw.random())
        while True:
            left = max(until, self._closed_until) - time.monotonic()
            scheduler = current()
            if scheduler is not None:
                scheduler.check()
            if left <= 0:
                return
            with contextlib.nullcontext() if scheduler is None else scheduler.waiting_for_server():
                time.sleep(min(left, _POLL_SECONDS))
            add_queued(min(left, _POLL_SECONDS))


def _error_in(reply: Any) -> Any:
    """The error in a parsed error reply, by the names that servers give it."""
    if not isinstance(reply, dict):
        return reply
    return reply.get("error", reply.get("detail", reply))


def _message_of(error: Any) -> str:
    """The text of a parsed error."""
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)


def _refused_field(content: bytes, words: str, error: Mapping[str, Any]) -> str | None:
    """The field of the request `content` that the server refuses by its `words` or parsed `error`;
    None for none."""
    fields = [name for name in json.loads(content) if name not in ("model", "messages")]
    # OpenAI's `param`; pydantic's `loc`, ["body", "seed"], of a message that may repeat the
    # document.
    loc = error.get("loc")
    names = [error.get("param")]
    if isinstance(loc, list):
        names += loc
    named_field = _first_of(names, fields)
    if isinstance(loc, list) and named_field is None:
        return None
    field = named_field or _first_mentioned(fields, words)
    if field in (*_OTHER_NAMES, *_OTHER_NAMES.values()):
        is_refused = _REFUSES_FIELD.search(f"{words} {error.get('code')}") is not None
    else:
        is_refused = named_field is not None or _REFUSES_VALUE.search(words) is not None
    return field if is_refused else None


def _first_of(names: Sequence[Any], fields: Sequence[str]) -> str | None:
    """The first of `names` that is a field; None for none."""
    for name in names:
        if name in fields:
            return str(name)
    return None


def _first_mentioned(fields: Sequence[str], words: str) -> str | None:
    """The field that `words` mention first; None for none."""
    places: dict[str, int] = {}
    for name in fields:
        pattern = rf"\b{re.escape(name)}\b"
        if name == "stop":  # it is a word of other complaints, too
            pattern = rf"(?:['\"`]|: ){name}\b"
        match = re.search(pattern, words)
        if match is not None:
            places[name] = match.start()
    return min(places, key=places.__getitem__, default=None)


def parse_json(kind: str, body: bytes) -> Any:
    """Parse a JSON body of the content type `kind`. Raises Retryable for anything else."""
    if kind != "application/json" and not kind.endswith("+json"):
        raise Retryable(f"the reply is {kind} instead of application/json")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Retryable(
            f"the reply of {len(body)} bytes is no JSON, so it was cut off or garbled"
        ) from None


def _retry_after(text: str) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or as a date; None where it cannot be
    read."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    if seconds == seconds:
        return max(seconds, 0.0)
    return None
