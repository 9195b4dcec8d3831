"""Each command of docs/applications.md, as it is printed, with the servers of the page."""

import re
import shlex
import threading
from http.server import ThreadingHTTPServer

import pytest

from tests import ROOT

PAGE = (ROOT / "docs" / "applications.md").read_text()
PAGES = {
    "setup.md": "# Setting up\n\nThe warranty lasts two years.\n",
    "people.txt": "Mira leads the team.\n",
    "lunch.txt": "Tal cooks.\n",
}


def _blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def servers(monkeypatch):
    """The application and the retriever of the page, at free ports: address on the page -> that of
    the server."""
    started = {}

    class Server(ThreadingHTTPServer):
        def __init__(self, address, handler):
            super().__init__(("127.0.0.1", 0), handler)
            started[f"127.0.0.1:{address[1]}"] = self

        def serve_forever(self, poll_interval=0.02):
            threading.Thread(target=super().serve_forever, args=(0.02,), daemon=True).start()

    monkeypatch.setattr("http.server.ThreadingHTTPServer", Server)
    for code in _blocks("python"):
        if "serve_forever" in code:
            exec(compile(code, "server of the page", "exec"), {"__name__": "server"})
    yield {place: f"127.0.0.1:{server.server_address[1]}" for place, server in started.items()}
    for server in started.values():
        server.shutdown()
        server.server_close()


def test_each_command_of_the_page_runs(here, tmp_path, servers, capfd):
    (tmp_path / "wiki").mkdir()
    for name, text in PAGES.items():
        (tmp_path / "wiki" / name).write_text(text)
    questions, _, body, _ = _blocks("json")
    (tmp_path / "questions.jsonl").write_text(questions)
    (tmp_path / "body.json").write_text(body.replace('"query"', '"question"'))
    commands = re.findall(r"^\$ harness (.*)$", "".join(_blocks("console")), re.MULTILINE)
    assert len(commands) == 8
    assert set(servers) == {"127.0.0.1:8000", "127.0.0.1:9000"}
    printed = ""
    for command in commands:
        for place, address in servers.items():
            command = command.replace(place, address)
        printed += here(*shlex.split(command)).checked().stdout
    assert re.search(r"^bot +50\.0 .* 0\.00210 ", printed, re.MULTILINE), printed
