"""A server on 127.0.0.1 that sends exactly the bytes it is given, at the pace it is given, to one request a connection."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterable

RESET = "reset"  # among the pieces: close with RST instead of FIN
Pieces = Iterable[bytes | str]


def reply(body, status="200 OK", *headers, kind="application/json"):
    """A whole HTTP response; what is not bytes or text is sent as JSON."""
    content = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def chat(content="Paris", usage=None, **choice):
    """A chat completion whose parts may be of any type."""
    found = {"choices": [{"message": {"content": content}, "finish_reason": "stop", **choice}]}
    return found if usage is None else {**found, "usage": usage}


class FaultyServer:
    """Answers every connection with `pieces()`, a pause of `pace` seconds before each, until its reader goes away."""

    def __init__(self, pieces, pace=0.0, accepts=True):
        self.pieces, self.pace, self.accepts = pieces, pace, accepts
        self.requests = []
        self.over = threading.Event()

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16 if self.accepts else 0)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1"
        if self.accepts:
            threading.Thread(target=self._serve, daemon=True).start()
        else:  # these fill the queue, so that the next connection waits
            self.queued = [socket.socket() for _ in range(4)]
            for one in self.queued:
                one.setblocking(False)
                one.connect_ex(self.listener.getsockname())
        return self

    def __exit__(self, *_):
        self.over.set()
        self.listener.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        with connection, contextlib.suppress(OSError):
            self.requests.append(_request(connection))
            for piece in self.pieces():
                if self.over.wait(self.pace) if self.pace else self.over.is_set():
                    return
                if isinstance(piece, str):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)


def _request(connection):
    """The whole request, so that closing does not reset the connection."""
    connection.settimeout(5)
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    told = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-le")]
    length = sum(int(line.split(b":")[1]) for line in told)  # 0 where the connection was closed
    while len(body) < length:
        body += connection.recv(65536) or b" " * length
    return head + body
