"""`harness push` against a stand-in for the hub on this machine, which takes small files inside the
commit."""

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from harness_audit.bundle import export, open_bundle
from harness_audit.hub_push import card

from harness.storage.run_folder import StreamedRecords
from tests.reports.build import stored


class Hub(ThreadingHTTPServer):
    """Keeps what is created and committed; a token that is not "right" is refused."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/datasets/me/runs"
        self.created: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != "Bearer right":
            self._reply(401, {"error": "Invalid username or password."})
        elif self.path == "/api/repos/create":
            self.server.created.append(json.loads(data))
            self._reply(200, {"url": self.server.url})
        elif self.path == "/api/validate-yaml":
            self._reply(200, {"errors": [], "warnings": []})
        elif self.path.endswith("/preupload/main"):
            how = {"uploadMode": "regular", "shouldIgnore": False}
            self._reply(
                200,
                {"files": [{"path": file["path"], **how} for file in json.loads(data)["files"]]},
            )
        else:
            for line in map(json.loads, data.splitlines()):
                if line["key"] == "file":
                    self.server.files[line["value"]["path"]] = base64.b64decode(
                        line["value"]["content"]
                    )
            self._reply(
                200, {"commitUrl": f"{self.server.url}/commit/{'0' * 40}", "commitOid": "0" * 40}
            )

    def do_GET(self) -> None:
        self._reply(404, {"error": "Entry not found"})

    def _reply(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hub():
    server = Hub()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def bundle(tmp_path):
    runs = [
        stored(tmp_path / "results", scores, method=m)
        for m, scores in (("pecan", [1.0, 0.5]), ("bm25", [0.0] * 2))
    ]
    return tmp_path / "bundle.zip", export(runs, tmp_path / "bundle.zip")


@pytest.fixture
def push(hub: Hub, bundle, command, monkeypatch):
    """Push the bundle in this process, as a fresh one does with HF_ENDPOINT: exit code, stdout,
    stderr."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "right")
    return lambda *words: command("push", str(bundle[0]), "me/runs", *words)


def test_the_card_is_made_without_reading_the_records_for_every_column(bundle, monkeypatch) -> None:
    passes = []
    read = StreamedRecords.__iter__

    def counted(records):
        passes.append(records.path)
        return read(records)

    with open_bundle(bundle[0]) as opened:
        monkeypatch.setattr(StreamedRecords, "__iter__", counted)
        assert "| pecan" in card(opened, "me/runs")
    assert len(passes) == len(set(passes))  # marks of edits take one pass a run


def test_a_bundle_and_its_card_are_a_private_data_set(hub: Hub, bundle) -> None:
    path, digest = bundle
    words = [sys.executable, "-m", "harness", "push", str(path), "me/runs"]
    env = {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_TOKEN": "right",
        "HF_HUB_OFFLINE": "0",
    }
    done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{hub.url}\n"), done.stderr
    (made,) = hub.created
    assert (made["name"], made["type"], made["visibility"]) == ("runs", "dataset", "private")
    assert hub.files["bundle.zip"] == path.read_bytes()
    card = hub.files["README.md"].decode()
    assert digest in card
    assert "| pecan | 75.0" in card
    assert "musique (licence not recorded)" in card


def test_public_is_asked_for(hub: Hub, push) -> None:
    assert push("--public")[0] == 0
    assert hub.created[0]["visibility"] == "public"


def test_a_wrong_token_is_a_sentence(hub: Hub, push, monkeypatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "wrong")
    code, _, message = push()
    assert (code, len(message.splitlines())) == (3, 1), message
    assert "log in with: hf auth login, or set HF_TOKEN" in message
    assert hub.files == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{bundle}", "a/b/c"], "use OWNER/NAME"),
        (["none.zip", "me/runs"], "write one with: harness export RUN... bundle.zip"),
        (["cut.zip", "me/runs"], "error: "),
    ],
)
def test_what_cannot_be_pushed_is_a_sentence(
    words, sentence, bundle, command, tmp_path, monkeypatch
):
    """Before anybody is asked, so these need no hub."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cut.zip").write_bytes(bundle[0].read_bytes()[:-200])
    code, _, said = command("push", *(word.format(bundle=bundle[0]) for word in words))
    assert (code, sentence in said, len(said.splitlines())) == (2, True, 1), said
