"""A hub on loopback: the few addresses that huggingface_hub asks for the files of a data set or a
model.

GET  /api/(datasets|models)/<owner>/<name>[/revision/<revision>]      commit and file list
HEAD, GET  [/datasets]/<owner>/<name>/resolve/<revision>/<file>      headers X-Repo-Commit and ETag, then the bytes
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest


class FakeHub:
    """Repositories as {repo: {"branches": {name: commit}, "commits": {commit: {file: bytes}}}};
    `asked` is the log."""

    def __init__(self):
        self.repos = {}
        self.asked = []
        self.garbage = False
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def add(self, repo, commit, files, branch="main"):
        """A commit with its files; the branch moves to it."""
        entry = self.repos.setdefault(repo, {"branches": {}, "commits": {}, "gated": False})
        entry["commits"][commit] = files
        entry["branches"][branch] = commit

    def close(self):
        """Stop answering."""
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path):
        """Status, headers and body for a request path."""
        self.asked.append(path)
        if self.garbage:
            return 200, {}, b"<html>Please sign in to this network.</html>"
        # A branch such as refs/convert/parquet comes as one part, its slashes quoted.
        parts = [unquote(part) for part in path.split("?")[0].strip("/").split("/")]
        api = parts[0] == "api"
        parts = parts[1:] if api else parts
        # A model's files have no word in front: /<owner>/<name>/resolve/...
        parts = parts[1:] if parts[0] in ("datasets", "models") else parts
        repo, rest = "/".join(parts[:2]), parts[2:]
        entry = self.repos.get(repo)
        if entry is None:
            return 404, {"X-Error-Code": "RepoNotFound"}, b""
        if entry["gated"]:
            return 403, {"X-Error-Code": "GatedRepo"}, b""
        revision = rest[1] if len(rest) > 1 else "main"
        commit = entry["branches"].get(revision, revision)
        files = entry["commits"].get(commit)
        if files is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b""
        if api:
            listing = {
                "id": repo,
                "sha": commit,
                "siblings": [{"rfilename": name} for name in files],
            }
            return 200, {"Content-Type": "application/json"}, json.dumps(listing).encode()
        body = files.get("/".join(rest[2:]))
        if body is None:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b""
        return 200, {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(body).hexdigest()}"'}, body

    def _handler(self):
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def _reply(self, with_body):
                status, headers, body = hub.answer(self.path)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if with_body:
                    self.wfile.write(body)

            def do_GET(self):
                self._reply(True)

            def do_HEAD(self):
                self._reply(False)

            def log_message(self, *args):
                """Keep the test output clean."""

        return Handler


@contextmanager
def served(folder, monkeypatch):
    """An empty hub that this process asks for all repositories, with empty caches in `folder`."""
    import huggingface_hub.constants as constants

    server = FakeHub()
    monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
    monkeypatch.setenv("HARNESS_HOME", str(folder / "home"))
    monkeypatch.setenv("NO_PROXY", "*")
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    yield server
    server.close()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An empty hub that this process asks, with a home and a cache of the test's own."""
    with served(tmp_path, monkeypatch) as found:
        yield found
