"""Each command of docs/applications.md, as it is printed, with the application of the page."""

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
def application(monkeypatch):
    """The application of the page, at a free port; yields its address."""
    started = []

    class Server(ThreadingHTTPServer):
        def __init__(self, address, handler):
            super().__init__(("127.0.0.1", 0), handler)
            started.append(self)

        def serve_forever(self, poll_interval=0.02):
            threading.Thread(target=super().serve_forever, args=(0.02,), daemon=True).start()

    monkeypatch.setattr("http.server.ThreadingHTTPServer", Server)
    code = _blocks("python")[0]
    exec(compile(code, "application of the page", "exec"), {"__name__": "application"})
    yield f"127.0.0.1:{started[0].server_address[1]}"
    started[0].shutdown()
    started[0].server_close()


def test_each_command_of_the_page_runs(here, tmp_path, application, capfd):
    (tmp_path / "wiki").mkdir()
    for name, text in PAGES.items():
        (tmp_path / "wiki" / name).write_text(text)
    questions, _, body = _blocks("json")
    (tmp_path / "questions.jsonl").write_text(questions)
    (tmp_path / "body.json").write_text(body.replace('"query"', '"question"'))
    commands = re.findall(r"^\$ harness (.*)$", "".join(_blocks("console")), re.MULTILINE)
    assert len(commands) == 6
    printed = ""
    for command in commands:
        words = shlex.split(command.replace("127.0.0.1:8000", application))
        printed += here(*words).checked().stdout
    assert re.search(r"^wiki +50\.0 .* 0\.00210 ", printed, re.MULTILINE), printed
