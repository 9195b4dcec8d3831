"""One HTTP exchange that ends in time, whatever the server does, and never goes to another host.

    opener = opener_for(base_url)
    with opener.open(request, timeout=120) as reply: ...       TimeoutError once 120 seconds are over

The timeout of Python's HTTP client starts anew with every byte that arrives. Here it is one deadline for connecting,
the TLS handshake, the headers and the body, of errors too. Looking up the host's name is left to the system's limit.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
import urllib.request
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

from harness.llm.endpoint_info import is_loopback


def opener_for(base_url: str) -> urllib.request.OpenerDirector:
    """An opener with deadlines that follows no redirect, and uses no proxy for a server on this machine."""
    proxies = [urllib.request.ProxyHandler({})] if is_loopback(urlsplit(base_url).hostname) else []
    return urllib.request.build_opener(_NoRedirect, _Http, _Https, *proxies)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Following a redirect would hand the key to wherever it points, so its target is not even parsed."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> None:
        """Leave the status to the caller."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class _Timed(io.RawIOBase):
    """What a socket receives until `end`, on the monotonic clock. Raises TimeoutError afterwards."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, end: float) -> None:
        self._sock, self._raw, self._end = sock, raw, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._end))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, end: float, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Timed(sock, self.fp.detach(), end))


class _Connection(http.client.HTTPConnection):
    def __init__(self, host: str, **options: Any) -> None:
        super().__init__(host, **options)
        self._end = time.monotonic() + options["timeout"]
        self._create_connection = self._connected
        self.response_class = cast("Any", partial(_Response, self._end))

    def _connected(self, address: tuple[str, int], *_: Any) -> socket.socket:
        """A connection to the first address of the host that accepts one in time."""
        failure: OSError = OSError("the host has no address")
        for _family, _kind, _protocol, _name, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            try:
                sock = socket.create_connection(cast("Any", place[:2]), _left(self._end))
                sock.settimeout(_left(self._end))  # for the TLS handshake
                return sock
            except OSError as e:
                failure = e
        raise failure

    def send(self, data: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(_left(self._end))
        super().send(data)


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    """HTTPSConnection.connect shakes hands on what _Connection opened."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, request)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_TlsConnection, request)


def _left(end: float) -> float:
    """Seconds until `end`. Raises TimeoutError where there are none."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
