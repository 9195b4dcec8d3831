"""HTTP requests of any number of threads, sent by one event loop in a thread of its own.

    thread 1  exchange(request) ──┐
    thread 2  exchange(request) ──┼─► event loop: one aiohttp session ─► each thread goes on with its HttpReply
    thread 3  exchange(request) ──┘

A thread that asks waits at one lock; connections are kept for the next request, of any thread. Why
aiohttp: bench/README.md#servers.

A request has one time limit, from the search for a connection to the last byte of its reply.
Redirects are not followed.

Its seconds are those on its connection: from when its first byte is written to when the last one of
its reply arrives (clocked_socket.py). What a thread waits before and after (for the loop, for a
connection, for a core, for other threads of this process) is none of them.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from harness.llm.clocked_socket import ClockedConnector, taken_socket
from harness.llm.endpoint_info import is_loopback

NO_REPLY = "nothing came back"
_NOT_WHOLE = "the reply was not whole"
# Seconds that an idle connection is kept for the next request; common servers close theirs after 5.
_KEEPALIVE_SECONDS = 2.0
_CLOSING_SECONDS = 1.0  # that the end of the process waits for connections to close


@dataclass(frozen=True)
class FormPart:
    """One field or file of a form.

    Attributes:
        name: The name of the field.
        content: Its value.
        filename: The name of the file; None for a field.
        content_type: Its type, "application/jsonl"; None for none.
    """

    name: str
    content: bytes
    filename: str | None = None
    content_type: str | None = None


@dataclass(frozen=True)
class HttpRequest:
    """A POST of `content` or of a form; a GET where it has neither.

    Attributes:
        url: The address.
        headers: Name -> value.
        timeout: Seconds until all of the reply is there.
        max_bytes: The longest reply that is read; a longer one is refused.
        content: What is posted.
        form: Fields and files of a form, instead of `content`.
        proxy: Its address; None for none.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float
    max_bytes: int
    content: bytes | None = None
    form: Sequence[FormPart] = ()
    proxy: str | None = field(default=None, repr=False)

    @property
    def method(self) -> str:
        """The HTTP method: POST with a body, else GET."""
        if self.content is None and not self.form:
            return "GET"
        return "POST"

    def data(self) -> bytes | aiohttp.FormData | None:
        """The body as aiohttp takes it: the content or the form; None for a GET."""
        if not self.form:
            return self.content
        form = aiohttp.FormData()
        for part in self.form:
            form.add_field(
                part.name, part.content, filename=part.filename, content_type=part.content_type
            )
        return form


@dataclass(frozen=True)
class HttpReply:
    """A reply; one that is no success has the first piece of its body.

    Attributes:
        status: The status of HTTP: 200.
        body: Its bytes.
        content_type: Its type, without parameters.
        retry_after: The header of this name, "" for none.
        seconds: From the first byte of its request to its own last one.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    retry_after: str = ""
    seconds: float = 0.0

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class ExchangeFailed(Exception):
    """There is no whole reply.

    Attributes:
        sent: Whether there was a connection.
        gone: Whether the server may have ended.
        seconds: From the first byte of the request to the failure; 0 where nothing was written.
    """

    def __init__(self, why: str, sent: bool = True, gone: bool = True) -> None:
        """Say why there is no whole reply.

        Args:
            why: The rest of a sentence.
            sent: Whether there was a connection.
            gone: Whether the server may have ended.
        """
        super().__init__(why)
        self.sent = sent
        self.gone = gone
        self.seconds = 0.0


class _Exchange:
    """A request on its way.

    Attributes:
        request: The request.
        reply: Its reply, once there is one.
        error: What went wrong, once something did.
        task: What sends it; None before.
        is_given_up: Whether its thread does not wait any more.
        unfinished: A lock that is released once it has a reply or an error.
    """

    def __init__(self, request: HttpRequest) -> None:
        """A request that is not sent yet; its lock is held."""
        self.request = request
        self.reply: HttpReply | None = None
        self.error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_given_up = False
        self.unfinished = threading.Lock()  # a third of an Event's cost
        self.unfinished.acquire()


class HttpLoop:
    """The event loop of this process, with its thread and its connections."""

    def __init__(self) -> None:
        """Start the thread of the event loop; connections are opened when there is a request."""
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._unsent: list[_Exchange] = []  # what threads have handed over
        self._unsent_lock = threading.Lock()
        threading.Thread(target=self._loop.run_forever, name="http", daemon=True).start()

    def exchange(self, request: HttpRequest) -> HttpReply:
        """Send a request, and let the calling thread wait for its reply. Raises ExchangeFailed
        where no whole reply comes."""
        exchange = _Exchange(request)
        with self._unsent_lock:
            self._unsent.append(exchange)
            is_first = len(self._unsent) == 1
        if is_first:  # requests that other threads add until the loop wakes up go with it
            self._loop.call_soon_threadsafe(self._begin_unsent)
        try:
            exchange.unfinished.acquire()  # the loop releases it when there is a reply or an error
        except BaseException:  # an interrupt
            exchange.is_given_up = True
            self._loop.call_soon_threadsafe(_cancel, exchange)
            raise
        if exchange.error is not None:
            raise exchange.error
        assert exchange.reply is not None
        return exchange.reply

    def close(self) -> None:
        """Close all connections, and wait a second at most for that; called at the end of the
        process."""
        if self._session is None:
            return
        with contextlib.suppress(TimeoutError, RuntimeError):
            closing = asyncio.run_coroutine_threadsafe(self._session.close(), self._loop)
            closing.result(_CLOSING_SECONDS)

    def _begin_unsent(self) -> None:
        """Begin the requests that threads have handed over since the last call; runs in the event
        loop."""
        with self._unsent_lock:
            unsent = self._unsent
            self._unsent = []
        for exchange in unsent:
            if not exchange.is_given_up:
                exchange.task = self._loop.create_task(self._send_and_finish(exchange))

    async def _send_and_finish(self, exchange: _Exchange) -> None:
        """Send a request, note its reply or error, and let its thread go on."""
        try:
            exchange.reply = await self._send(exchange.request)
        except ExchangeFailed as error:
            error.seconds = _seconds_until_now()
            exchange.error = error
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asked
            exchange.error = error
        finally:
            exchange.unfinished.release()

    async def _send(self, request: HttpRequest) -> HttpReply:
        """Send a request and read its reply, of any status. Raises ExchangeFailed where no whole
        one comes."""
        problem = NO_REPLY  # what a timeout means: nothing came yet, or a part of the reply
        try:
            async with self._open_session().request(
                request.method,
                request.url,
                data=request.data(),
                headers=request.headers,
                allow_redirects=False,
                proxy=request.proxy,
                timeout=aiohttp.ClientTimeout(total=request.timeout),
            ) as reply:
                problem = _NOT_WHOLE
                whole_reply = await _read_whole(reply, request.max_bytes)
                return replace(whole_reply, seconds=_seconds_to_arrival())
        except TimeoutError:
            raise ExchangeFailed(f"{problem} within {request.timeout:g} seconds") from None
        except aiohttp.ClientConnectorError as error:
            raise ExchangeFailed(f"{NO_REPLY}: {_connection_problem(error)}", sent=False) from None
        except aiohttp.ClientError as error:
            raise ExchangeFailed(f"the reply was cut off ({type(error).__name__})") from None

    def _open_session(self) -> aiohttp.ClientSession:
        """The session; made at the first request, as it needs a loop that runs."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=ClockedConnector(_KEEPALIVE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


@cache
def http_loop() -> HttpLoop:
    """The event loop of this process, begun at the first call."""
    loop = HttpLoop()
    atexit.register(loop.close)
    return loop


os.register_at_fork(after_in_child=http_loop.cache_clear)  # threads are not forked


def _cancel(exchange: _Exchange) -> None:
    """End a request whose thread does not wait for it any more."""
    if exchange.task is not None:
        exchange.task.cancel()


def _seconds_to_arrival() -> float:
    """Seconds on its connection of the request whose reply the current task has read."""
    connection = taken_socket.get()
    assert connection is not None  # the reply came over it
    return connection.seconds


def _seconds_until_now() -> float:
    """Seconds since the current task's request was written; 0 where it was not."""
    connection = taken_socket.get()
    if connection is None or connection.written is None:
        return 0.0
    return time.perf_counter() - connection.written


async def _read_whole(reply: aiohttp.ClientResponse, max_bytes: int) -> HttpReply:
    """Read the body of a reply: all of it where the status is a success, else its first piece. A
    success that names no content type counts as text/plain.

    Args:
        reply: The reply, whose body is not read yet.
        max_bytes: The longest body of a success.

    Raises:
        ExchangeFailed: The body is longer.
    """
    content_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    retry_after = reply.headers.get("retry-after", "")
    is_success = 200 <= reply.status < 300
    if not is_success:
        return HttpReply(reply.status, await _read_first_piece(reply), content_type, retry_after)
    body = bytearray()
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > max_bytes:
            raise ExchangeFailed(
                f"the reply was cut at {max_bytes:,} bytes, more than the tokens asked for can "
                "take",
                gone=False,
            )
    return HttpReply(reply.status, bytes(body), content_type or "text/plain", retry_after)


async def _read_first_piece(reply: aiohttp.ClientResponse) -> bytes:
    """The first bytes of a body that come; none where the connection is cut off."""
    try:
        return await reply.content.readany()
    except (aiohttp.ClientError, TimeoutError):
        return b""


def _connection_problem(error: aiohttp.ClientConnectorError) -> str:
    """Why there is no connection, in the words of the system."""
    error_number = error.os_error.errno
    if error_number is not None and error_number > 0:
        return f"[Errno {error_number}] {os.strerror(error_number)}"
    return str(error.os_error)


def proxy_for(url: str) -> str | None:
    """The address of the proxy that the environment (HTTPS_PROXY, ALL_PROXY, NO_PROXY) names for a
    request to `url`; None for none, and for this machine."""
    parts = urlsplit(url)
    host = parts.hostname
    if host is None or is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
