"""HTTP exchanges that end in time, whatever the server does, and never go to another host.

The timeouts of HTTP libraries start anew with every byte that arrives. Here it is one deadline for connecting, the TLS
handshake, the headers and the body. A redirect, which would hand the key to where it points, is a reply like any other.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2

from harness.llm.endpoint_info import is_loopback

_KEEPALIVE = 2.0  # seconds that an idle connection is kept for the next request; common servers close theirs after 5
_exchange = threading.local()  # end: when that of this thread is over, on the monotonic clock


def _seconds_left() -> float:
    """Seconds until the deadline of this thread's exchange. Raises httpcore2.TimeoutException where none are left."""
    left: float = _exchange.end - time.monotonic()
    if left <= 0:
        raise httpcore2.TimeoutException
    return left


class _Stream(httpcore2.NetworkStream):
    """A connection whose every step ends at the deadline of the exchange, whatever timeout it is given."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _seconds_left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _seconds_left())

    def start_tls(self, ssl_context: ssl.SSLContext, server_hostname: Any = None, timeout: Any = None) -> _Stream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _seconds_left()))

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.SyncBackend):
    """Opens connections as _Stream."""

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **named: Any) -> _Stream:
        return _Stream(super().connect_tcp(host, port, _seconds_left(), *more, **named))


class Connections:
    """Connections to one server, through the proxy that the environment names, unless the server is this machine."""

    def __init__(self, base_url: str) -> None:
        url = urlsplit(base_url)
        near = is_loopback(url.hostname) or proxy_bypass(url.hostname or "")
        proxy = None if near else getproxies().get(url.scheme)
        self._pool = httpcore2.ConnectionPool(
            ssl_context=ssl.create_default_context() if url.scheme == "https" else None,
            proxy=_proxy(proxy) if proxy else None,
            max_connections=None,
            keepalive_expiry=_KEEPALIVE,
            network_backend=_Backend(),
        )

    def exchange(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None, timeout: float
    ) -> contextlib.AbstractContextManager[httpcore2.Response]:
        """Context manager: the reply to a request. timeout: seconds until all is read. Raises httpcore2's errors."""
        _exchange.end = time.monotonic() + timeout
        return self._pool.stream(method, url, headers=[*headers.items()], content=content)


def _proxy(address: str) -> httpcore2.Proxy:
    """The proxy at an address of the environment; a user and password in it become its login."""
    url = urlsplit(address if "://" in address else f"http://{address}")
    login = (unquote(url.username), unquote(url.password or "")) if url.username else None
    return httpcore2.Proxy(f"{url.scheme}://{url.netloc.rpartition('@')[2]}", login)
