"""An application in a process of its own that logs how long it has each request.

    python -m tests.apps.clocked_app LOG SECONDS      prints its port; a line of LOG a request

A line has the seconds from when the request came to the machine (Linux: SO_TIMESTAMPNS) to when its reply is
sent, so that a wait for a free core counts for both sides.
"""

import json
import socket
import struct
import sys
import threading
import time
from pathlib import Path

_SO_TIMESTAMPNS = 35
_REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
_NOTHING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def came(connection):
    """(The first bytes of a request, when they came by time.perf_counter)."""
    content, notes, _, _ = connection.recvmsg(65536, 64)
    if not notes:
        return content, time.perf_counter()
    seconds, nanoseconds = struct.unpack("qq", notes[0][2])
    return content, time.perf_counter() - (time.time() - seconds - nanoseconds / 1e9)


def answer(connection, log, takes):
    """Answer the requests of a connection."""
    while True:
        content, began = came(connection)
        if not content:
            return
        if content.startswith(b"GET"):
            connection.sendall(_NOTHING)
            continue
        while not content.endswith(b"}"):
            content += connection.recv(65536)
        question = json.loads(content.partition(b"\r\n\r\n")[2])["question"]
        time.sleep(takes)
        body = json.dumps({"answer": question}).encode()
        connection.sendall(_REPLY % (len(body), body))
        line = json.dumps({"question": question, "seconds": time.perf_counter() - began})
        log.write(f"{line}\n")
        log.flush()


def serve(path, takes):
    """Answer until the process ends."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=50)
    listening.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    print(listening.getsockname()[1], flush=True)
    with path.open("a", encoding="utf-8") as log:
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            threading.Thread(target=answer, args=(connection, log, takes), daemon=True).start()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), float(sys.argv[2]))
