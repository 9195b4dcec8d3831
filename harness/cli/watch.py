"""`harness watch [RESULTS]`: the page of stored runs, served to this machine's user while runs are
written.

    http://127.0.0.1:PORT/TOKEN/         the page of `harness report --html`, with what is new on top (live_progress.py)
    http://127.0.0.1:PORT/TOKEN/state    what is new, which the page asks for

Only this machine reaches the port. The token in the address keeps its other users out, and the
check of the Host header pages of other sites whose name leads here (DNS rebinding). Only these two
addresses are served; no file is written.
"""

import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

from harness.cli.command import execution
from harness.cli.options import RESULTS, RunsFolders
from harness.cli.output import say
from harness.cli.stored_runs import with_newest_code, without_copies
from harness.errors import UserError
from harness.parallel.signals import interrupt_on_signals
from reports.live_progress import LiveRuns
from reports.page import PageOptions, page

_HOST = "127.0.0.1"
_OWN_HOST = re.compile(
    r"(127\.0\.0\.1|localhost)(:\d+)?"
)  # a port forwarded by ssh may have another number
_MIN_SECONDS_BETWEEN_PAGES = 20.0
_MAX_SHARE_OF_TIME = 0.05  # that making pages may take
_NICENESS = 10  # a run on this machine comes first
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
}


def watch(
    folders: RunsFolders = None,
    port: Annotated[
        int, execution("--port N", "Port on this machine.", "a free one", min=0, max=65535)
    ] = 0,
) -> int:
    """Serve the page of stored runs and follow them while they are written; Ctrl-C ends it.

    Only files are read, so runs may be on other machines that share the folder, and none is
    disturbed.
    """
    folders = folders or [RESULTS]
    try:
        server = _Server(port, folders)
    except OSError as error:
        raise UserError(
            f"port {port} cannot be used ({error.strerror}); leave out --port for a free one"
        ) from None
    os.nice(_NICENESS)
    try:
        with server, interrupt_on_signals():
            say(
                f"watching {', '.join(folders)}; for a browser on this machine (Ctrl-C ends the "
                "view, no run):"
            )
            print(f"http://{_HOST}:{server.server_port}/{server.token}/", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        say("\nthe view has ended; runs go on")
    return 0


class _Server(ThreadingHTTPServer):
    """Serves the page and the state below a token that nobody can guess, each made by one thread at
    a time."""

    daemon_threads = True

    def __init__(self, port: int, folders: Sequence[str]) -> None:
        """Listen on this machine alone, at an address with a new token.

        Args:
            port: The port; 0 for any that is free.
            folders: Run folders, or folders that hold runs.
        """
        self._live_runs = LiveRuns(folders)
        names = [Path(folder).resolve().name for folder in folders]
        self._title = " · ".join(dict.fromkeys(names))
        self._lock = threading.Lock()
        self._seconds_of_last_page = 0.0  # that making it took
        super().__init__((_HOST, port), _Handler)
        self.token = secrets.token_urlsafe(24)

    def content(self, path: str) -> tuple[str, str] | None:
        """What is served at a path: (content type, text); None where nothing is.

        Makes the page or the state anew, one thread at a time.

        Args:
            path: The path of the address: "/TOKEN/" or "/TOKEN/state".
        """
        with self._lock:
            if path == f"/{self.token}/state":
                return "application/json", json.dumps(asdict(self._live_runs.read_state()))
            if path != f"/{self.token}/":
                return None
            started = time.monotonic()
            # The time to make a page is known only once it is made, so that of the last one counts.
            seconds_to_next_page = max(
                _MIN_SECONDS_BETWEEN_PAGES, self._seconds_of_last_page / _MAX_SHARE_OF_TIME
            )
            runs = with_newest_code(
                without_copies(self._live_runs.read_runs_with_answers()), all_code=False
            )
            html = page(runs, PageOptions(title=self._title, live=seconds_to_next_page))
            self._seconds_of_last_page = time.monotonic() - started
            return "text/html", html

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of a request's exception, unless the browser has gone away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 30

    def do_GET(self) -> None:
        """Answer a request with the page or the state.

        Status 403 for a foreign Host header, 404 for any other path.
        """
        if not _OWN_HOST.fullmatch(self.headers.get("Host", "")):
            self.send_error(403, "this page is for the machine that serves it")
            return
        content = self.server.content(self.path)
        if content is None:
            self.send_error(404)
            return
        kind, text = content
        body = text.encode()
        self.send_response(200)
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**headers, **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class names it
        """Print nothing: the address holds the token."""
