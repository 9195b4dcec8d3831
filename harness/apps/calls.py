"""One call of code of the user's own: over HTTP, with the retries of every server, or of a
function.

    call = HttpCall(Address("http://localhost:8000/ask"), "--app")    call.reply_to('{"question": ...}', tries)
    call = FunctionCall("wiki:ask", 120, "--app")                     call.reply_to(tries, "How long?")

A reply is a text, or JSON values. The option that names what is called stands in messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass

from harness.config import registry
from harness.errors import CannotRun, ModelOutputError, RequestFailed, UserError
from harness.llm.endpoint_http import (
    RetryPolicy,
    Server,
    ServerCall,
    Tries,
    json_value,
    key_mask,
    parse_json,
)
from harness.llm.http_loop import HttpReply

_MAX_REPLY_BYTES = 64 * 2**20
"""Of a reply; its texts may be long."""
_EXPECTED_RETURN_VALUES = {
    "--app": "a text or {'answer': text, 'sources': [names], 'contexts': [texts]}",
    "--retriever": "a list of {'page': name, 'text': text, 'score': number}",
}
"""Option -> what its function should return."""


@dataclass(frozen=True)
class Address:
    """Where requests are sent.

    Attributes:
        url: The whole address.
        key: Sent as a bearer token.
        key_env: The environment variable that holds it, for messages.
        headers: More headers, with their values.
        policy: Timeout and retries.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    key_env: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    policy: RetryPolicy = field(default_factory=RetryPolicy)


class OwnServer(Server):
    """A server that is no language model's: its messages name an option (`part`: "--app")."""

    @property
    def address_setting(self) -> str:
        """The option that names the server's address: "--app"."""
        return self.part

    def error_of_status(self, reply: HttpReply, content: bytes | None) -> Exception:
        """Make the exception for a reply that is no success.

        Args:
            reply: The reply.
            content: The JSON of the request; None for the GET that asks whether the server is
                alive, which any status answers.

        Returns:
            RequestFailed where only this request failed, CannotRun where every one would, or what a
            request that is worth a retry raises.
        """
        code = reply.status
        if content is None:
            return RequestFailed(f"status {code}")
        if 300 <= code < 400:
            return CannotRun(
                f"{self.base_url} answers with a redirect ({code}); give the final address as "
                f"{self.part}"
            )
        if code in (401, 402, 403) and self.key_env is None:
            return CannotRun(
                f"{self.base_url} refuses us (status {code}); name the variable that holds its "
                f"key: {self.part}-key NAME"
            )
        if code in (404, 405):
            return CannotRun(
                f"{self.base_url} takes no questions at this address (status {code}); correct "
                f"{self.part}"
            )
        # Without the content, no field of it is taken for a setting of a model.
        return super().error_of_status(reply, content=None)


class HttpCall:
    """POST requests to an address; any thread may send them."""

    def __init__(self, address: Address, option: str) -> None:
        """Name the server; nothing is sent yet.

        Args:
            address: Where requests are sent, with key and headers. Their values are masked in
                messages.
            option: The option that names the address, for messages.
        """
        self._server = OwnServer(
            base_url=address.url,
            key=address.key,
            policy=address.policy,
            key_env=address.key_env,
            part=option,
            headers=address.headers,
        )
        masks = map(key_mask, address.headers.values())
        self._server.mask_key = _all_masked([self._server.mask_key, *masks])

    def check(self) -> None:
        """Raise CannotRun where no server answers at the address."""
        self._server.check_alive()

    def reply_to(self, body: str, tries: Tries) -> object:
        """Send a body of JSON and return the reply: a text, or JSON values.

        Args:
            body: What is sent.
            tries: Counts how often it was sent.

        Raises:
            RequestFailed, ModelOutputError: There is no usable reply.
            CannotRun: No request would have one.
        """
        content = body.encode("utf-8", "replace")
        # Every reply is read: one that says nothing is the question's failure, not the server's.
        call = ServerCall(
            path="",
            read=json_value,
            max_bytes=_MAX_REPLY_BYTES,
            content=content,
            parse=_parse_body,
        )
        return self._server.request(call, tries)


def _all_masked(masks: list[Callable[[str], str]]) -> Callable[[str], str]:
    """Join functions that each mask one key to one that masks all of them."""

    def mask(text: str) -> str:
        """Mask every key in a text."""
        for mask_key in masks:
            text = mask_key(text)
        return text

    return mask


def _parse_body(content_type: str, body: bytes) -> object:
    """Parse the body of a reply: JSON, or a text where its content type is text/plain."""
    if content_type == "text/plain":
        return body.decode("utf-8", "replace")
    return parse_json(content_type, body)


def import_own_function(target: str, option: str) -> Callable[..., object]:
    """Import the user's function "module:name" that an option names.

    Raises:
        UserError: The user did not choose this code, it is not there, or it is no function.
    """
    registry.check_trusted(target)
    function: object = registry.import_target(target)
    if not callable(function):
        raise UserError(f"{option} {target}: is no function")
    return function


class FunctionCall:
    """Calls a function of the user's own; it may be async, and any thread may call it."""

    def __init__(self, target: str, timeout: float, option: str) -> None:
        """Import the function.

        Args:
            target: "module:name".
            timeout: Seconds that an async function may take.
            option: What names the function, for messages.

        Raises:
            UserError: The user did not choose this code, it is not there, or it is no function.
        """
        self._target = target
        self._timeout = timeout
        self._option = option
        self._function = import_own_function(target, option)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def reply_to(self, tries: Tries, *arguments: object) -> object:
        """Call the function with these arguments, and return what it returns as JSON values.

        Args:
            tries: Counts this call, as the only one, and its seconds.
            arguments: The function's.

        Raises:
            RequestFailed: It gave no reply in time.
            ModelOutputError: Its reply is no JSON.
        """
        tries.made += 1
        tries.sent += 1
        with _seconds_added_to(tries):
            value = self._function(*arguments)
        if inspect.isawaitable(value):
            value = self._wait_for(value, tries)
        return self._as_json(value)

    def _wait_for(self, value: Awaitable[object], tries: Tries) -> object:
        """Wait for the result of an async function, whose seconds are added to `tries`. Raises
        RequestFailed where it takes too long.

        All its calls run in one event loop, so that a client that the function keeps stays usable.
        """

        async def result() -> object:
            """Wait for the value, as long as the timeout allows."""
            with _seconds_added_to(tries):
                return await asyncio.wait_for(value, self._timeout)

        try:
            return asyncio.run_coroutine_threadsafe(result(), self._running_loop()).result()
        except TimeoutError:
            raise RequestFailed(
                f"{self._target} gave no reply within {self._timeout:g} seconds"
            ) from None

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of this function; started in a thread of its own at the first call."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
            return self._loop

    def _as_json(self, value: object) -> object:
        """Turn what the function returned into JSON values. Raises
        ModelOutputError for what is none.
        """
        try:
            return json.loads(json.dumps(value, default=_dataclass_fields))
        except (TypeError, ValueError) as error:
            raise ModelOutputError(
                f"{self._target} returned what is no JSON ({error}); it should return "
                f"{_EXPECTED_RETURN_VALUES[self._option]}"
            ) from None


@contextlib.contextmanager
def _seconds_added_to(tries: Tries) -> Iterator[None]:
    """Context manager: the wall time of its block is added to the seconds of `tries`."""
    start_time = time.perf_counter()
    try:
        yield
    finally:
        tries.seconds += time.perf_counter() - start_time


def _dataclass_fields(value: object) -> object:
    """The fields of a dataclass by name, for json.dumps. Raises TypeError for any other object."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")
