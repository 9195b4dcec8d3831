"""Connections that say when a request was written and when the last bytes of its reply arrived.

    aiohttp.ClientSession(connector=ClockedConnector(2.0))     in place of aiohttp.TCPConnector
    taken_socket.get().seconds                                 in the task that has read a reply

A thread that reads from a connection needs a free core and the interpreter, which other threads may
hold: on a busy machine it reads late. Linux says when bytes came to the machine (SO_TIMESTAMPNS);
elsewhere they count as arrived when they are read.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

import aiohttp
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

_SYSTEM_SAYS_ARRIVAL = sys.platform == "linux"
_SO_TIMESTAMPNS = 35  # of Linux; the module socket does not name it
_TIME = struct.Struct("qq")  # seconds and nanoseconds since 1970
_NOTES_BYTES = socket.CMSG_SPACE(_TIME.size)  # room for what the system says of bytes

taken_socket: ContextVar[ClockedSocket | None] = ContextVar("taken_socket", default=None)
"""The connection of the request that the current task sends; ClockedConnector sets it."""


class ClockedSocket(socket.socket):
    """A socket that times the request for which it was taken.

    Attributes:
        written: When the first bytes of the request were written, by time.perf_counter(); None
            before.
        arrived: When the last bytes that were read came to this machine, by the same clock.
    """

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        """Make a socket that notes when a request is written and its reply arrives, by the system's
        clock where that says it."""
        super().__init__(family, kind, protocol)
        self.written: float | None = None
        self.arrived = 0.0
        if _SYSTEM_SAYS_ARRIVAL:
            self.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    @property
    def seconds(self) -> float:
        """From the first bytes of the request to the last ones of its reply; 0 where nothing was
        written."""
        if self.written is None:
            return 0.0
        return max(self.arrived - self.written, 0.0)

    def begin_request(self) -> None:
        """Begin to time another request."""
        self.written = None

    def send(self, content: Any, flags: int = 0, /) -> int:
        """Send bytes, as socket.send; notes when the first of a request are."""
        self._note_written()
        return super().send(content, flags)

    def sendmsg(self, *arguments: Any) -> int:
        """Send pieces, as socket.sendmsg; notes when the first of a request are."""
        self._note_written()
        return super().sendmsg(*arguments)

    def _note_written(self) -> None:
        """Set `written` where nothing of the request was written before."""
        if self.written is None:
            self.written = time.perf_counter()

    def recv(self, size: int, flags: int = 0) -> bytes:
        """At most `size` bytes, as socket.recv; notes when they arrived."""
        content, notes, _, _ = self.recvmsg(size, _NOTES_BYTES, flags)
        if content:
            self.arrived = time.perf_counter() - _seconds_since_arrival(notes)
        return content

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        """Read into a buffer, as socket.recv_into; notes when the bytes arrived."""
        view = memoryview(buffer)
        if size:
            view = view[:size]
        n_bytes, notes, _, _ = self.recvmsg_into([view], _NOTES_BYTES, flags)
        if n_bytes:
            self.arrived = time.perf_counter() - _seconds_since_arrival(notes)
        return n_bytes


def _seconds_since_arrival(notes: list[tuple[int, int, bytes]]) -> float:
    """Seconds since bytes arrived, by what the system says of them; 0 where it says nothing.

    Args:
        notes: (level, type, value) of each of its notes, as socket.recvmsg returns them.
    """
    for level, kind, value in notes:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIME.unpack(value)
            since_arrival: float = time.time() - seconds - nanoseconds / 1e9
            return max(since_arrival, 0.0)
    return 0.0


class ClockedConnector(aiohttp.TCPConnector):
    """Connections over sockets that say when bytes arrived; each request's is in `taken_socket`."""

    def __init__(self, keepalive_timeout: float) -> None:
        """Begin without a connection, and with no limit to their number.

        Args:
            keepalive_timeout: Seconds that an idle connection is kept.
        """
        super().__init__(
            limit=0, keepalive_timeout=keepalive_timeout, socket_factory=self._new_socket
        )
        # By file descriptor.
        self._sockets: WeakValueDictionary[int, ClockedSocket] = WeakValueDictionary()

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        """Make a socket for an address, and keep it by its file descriptor."""
        family, kind, protocol, *_ = address
        new_socket = ClockedSocket(family, kind, protocol)
        self._sockets[new_socket.fileno()] = new_socket
        return new_socket

    async def connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        """A connection, as TCPConnector.connect. Also begins a request on its socket, and sets the
        context variable `taken_socket` to that socket."""
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        assert transport is not None  # it has just been opened or taken
        descriptor = transport.get_extra_info("socket").fileno()
        clocked_socket = self._sockets[descriptor]
        clocked_socket.begin_request()
        taken_socket.set(clocked_socket)
        return connection
