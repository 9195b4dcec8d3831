"""A chat server on this machine whose moods are told in advance: what it does to request 1, 2, 3,
...

with Loopback(["500", "ok"]) as server: ...       a mood a chat request; the last one stays
"""

import contextlib
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any] | str]
CANNED = {
    "html": ("<h1>Please log in</h1>", "text/html"),
    "garbled": ('{"choices": [{"mess',),
    "empty": ({"choices": []},),
}


def completion(text="Paris", finish="stop", **more):
    """A reply as servers send it; `more` goes into its only choice."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish,
        **more,
    }
    usage = {"prompt_tokens": 50, "completion_tokens": 4, "total_tokens": 54}
    return {
        "id": "x",
        "object": "chat.completion",
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


@dataclass
class Loopback:
    """served: names in the list of models; asked: bodies of the chat requests, in order; moods:
    "ok", "says 400 WORDS" (or JSON), a status ("429;2": with Retry-After 2), "hang", "drip", "cut",
    a key of CANNED, or a function from a request to a reply or to one of these."""

    moods: Sequence[str | Answer] = ("ok",)
    models: str = "ok"
    served: Sequence[Any] = ()
    protocol: str = "HTTP/1.0"  # 1.1 keeps connections
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)
    at_once: int = 0
    busy: int = 0

    def __post_init__(self):
        self.lock, self.over = threading.Lock(), threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def __enter__(self):
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.http.shutdown()
        self.http.server_close()

    def got(self, path):
        """(Body, content type) of the reply to a GET that is not for the list of models."""

    def posted(self, path, sent):
        """The mood for a POST of the bytes `sent` that is no chat request."""

    def taken(self, body, headers):
        with self.lock:
            mood = self.moods[min(len(self.asked), len(self.moods) - 1)]
            self.asked.append(body)
            self.headers.append(headers)
            self.busy += 1
            self.at_once = max(self.at_once, self.busy)
        return mood

    def left(self):
        with self.lock:
            self.busy -= 1


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        counted = False
        protocol_version = server.protocol

        def log_message(self, *_):
            pass

        def do_GET(self):
            if (found := server.got(self.path)) is not None:
                self.send(200, *found)
            elif server.models == "ok":
                self.send(200, {"object": "list", "data": [{"id": name} for name in server.served]})
            else:
                self.send(int(server.models), {"error": "no"})

        def do_POST(self):
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            if (found := server.posted(self.path, sent)) is not None:
                self.act(found, {})
                return
            body = json.loads(sent)
            server.connections.add(self.client_address)
            mood, self.counted = server.taken(body, dict(self.headers)), True
            try:
                with contextlib.suppress(OSError):
                    self.act(mood, body)
            finally:
                self.leave()

        def leave(self):
            """Before the reply goes out: its reader may ask again before this thread comes to its
            end."""
            if self.counted:
                self.counted = False
                server.left()

        def act(self, mood, body):
            if callable(mood):
                found = mood(body)
                self.act(found, body) if isinstance(found, str) else self.send(200, found)
            elif mood == "ok":
                self.send(200, completion())
            elif mood == "hang":
                server.over.wait(10)
            elif mood == "drip":
                self.head(200, "application/json", 10_000)
                while not server.over.wait(0.05):
                    self.wfile.write(b" ")
            elif mood == "cut":
                self.head(200, "application/json", 500)
                self.wfile.write(b'{"choices": [')
            elif mood in CANNED:
                self.send(200, *CANNED[mood])
            elif mood == "quota":
                error = {"message": "You exceeded your current quota", "code": "insufficient_quota"}
                self.send(429, {"error": error})
            elif mood.startswith("says "):
                _, status, message = mood.split(" ", 2)
                self.send(
                    int(status),
                    message if message.startswith("{") else {"error": {"message": message}},
                )
            else:
                status, _, wait = mood.partition(";")
                more = {"Retry-After": wait} if wait else {}
                if status.startswith("3"):
                    more["Location"] = "http://127.0.0.1:9/elsewhere"
                message = f"mood {status}, your key was {self.headers.get('Authorization')}"
                self.send(int(status), {"error": {"message": message}}, **more)

        def head(self, status, kind, length, **more):
            self.send_response(status)
            for name, value in {
                "Content-Type": kind,
                "Content-Length": str(length),
                **more,
            }.items():
                self.send_header(name, value)
            self.end_headers()

        def send(self, status, body, kind="application/json", **more):
            self.leave()
            content = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.head(
                status, kind, len(content), **{k.replace("_", "-"): v for k, v in more.items()}
            )
            self.wfile.write(content)

    return Handler
