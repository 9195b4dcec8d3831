"""Servers that send a request elsewhere, and limits of tokens where they refuse now and then."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bench.faults.commands import Bench, Kind, outcome, records
from tests.stand_in_server import StandIn

_KEY = "sk-of-nobody"


class _Redirecting(BaseHTTPRequestHandler):
    """Sends GET, POST or both to another address."""

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Redirect a GET where the server is to, else say which models there are."""
        if "GET" in self.server.redirected:  # type: ignore[attr-defined]
            self._redirect()
        else:
            self._send({"object": "list", "data": [{"id": "m"}]})

    def do_POST(self) -> None:
        """Redirect a POST."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._redirect()

    def _redirect(self) -> None:
        """Send the server's status, and the same path at its other address."""
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Location", self.server.target + self.path)  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, body: Any) -> None:
        """Send a value as JSON."""
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Listening(BaseHTTPRequestHandler):
    """Notes what reaches it."""

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Note the headers of a request, and refuse it."""
        self.server.heard.append(str(self.headers))  # type: ignore[attr-defined]
        self.send_error(404)

    def do_POST(self) -> None:
        """Note the headers of a request, and refuse it."""
        self.do_GET()


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler], **about: Any) -> Iterator[Any]:
    """A context manager that gives a server with this handler, which runs as long as the `with`
    block; `about` becomes attributes of the server, which the handler reads."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    for name, value in about.items():
        setattr(server, name, value)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def _endpoint(url: str, out: str, *sets: str) -> list[str]:
    """The command of a run of four questions with the model behind a server at `url`."""
    row = ["run", "-m", "bm25", "-d", "pocket/musique", "--mlflow", "off", "--quiet", "--out", out]
    row += ["--model", "endpoint", "--set", f"model.base_url={url}", "model.source=m"]
    return [*row, "model.window=9000", "dataset.tokens=300", "dataset.questions=4", *sets]


def redirected_request(kind: Kind, _: Bench) -> None:
    """A server answers a request with a redirect: a sentence, and nothing reaches the other
    address."""
    for status in (301, 302, 303, 307, 308):
        for redirected in ("POST", "GET POST"):
            kind.tries += 1
            out = f"redirect {status} {redirected}"
            with _serving(_Listening, heard=[]) as other:
                target = f"http://127.0.0.1:{other.server_address[1]}"
                about = {"status": status, "redirected": redirected, "target": target}
                with _serving(_Redirecting, **about) as server:
                    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
                    done = outcome(_endpoint(url, out, f"model.api_key={_KEY}"))
                    plain = outcome(_endpoint(url, f"{out} plain"))
                for each in (done, plain):
                    if not each.is_sentence or each.code == 0 or other.heard:
                        kind.fell.append(f"{out}: {each.words}; {len(other.heard)} requests there")


def token_limit(kind: Kind, bench: Bench) -> None:
    """`--max-tokens` where every seventh request gets 429 and every eleventh 500: no more is asked
    than the limit and one question; without the limit the run ends, and its records hold what the
    server counted."""
    for number in range(bench.tries):
        kind.tries += 1
        out = f"limit {number}"
        stand_in = StandIn(delay=0.0)
        limit = bench.rng.randrange(100, 2500)
        with stand_in.server() as server:
            words = _endpoint(server.url, out)
            words[words.index("model.source=m")] = "model.source=stand-in"
            stopped = outcome([*words, "--max-tokens", str(limit)])
            tokens_recorded = _tokens(out)
            tokens_billed = sum(stand_in.billed.values())
            most_of_question = max((_tokens_of(row) for row in records(out)), default=0)
            without_limit = outcome(words)
            tokens_billed_in_all = sum(stand_in.billed.values())
        max_billed = limit + max(most_of_question, 400)
        is_recorded = tokens_recorded == tokens_billed
        if not stopped.is_sentence or not is_recorded or tokens_billed > max_billed:
            kind.fell.append(
                f"{out}: {limit}, asked {tokens_billed}, counted {tokens_recorded}: {stopped.words}"
            )
        is_all_recorded = _tokens(out) == tokens_billed_in_all
        if without_limit.code != 0 or len(records(out)) != 4 or not is_all_recorded:
            kind.fell.append(
                f"{out}: {_tokens(out)} of {tokens_billed_in_all} tokens: {without_limit.words}"
            )


def _tokens(out: str) -> int:
    """How many tokens the records below a folder count in all."""
    return sum(_tokens_of(row) for row in records(out))


def _tokens_of(row: dict[str, Any]) -> int:
    """How many tokens a record counts, read and written in all phases."""
    return sum(phase["tokens_in"] + phase["tokens_out"] for phase in row["usage"].values())
