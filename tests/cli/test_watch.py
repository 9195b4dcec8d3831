"""`harness watch`: what its server answers, and to whom."""

import contextlib
import html
import json
import re
import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection

import pytest

from harness.cli.watch import _Server
from tests.reports.build import record, write_run


@contextlib.contextmanager
def served(root):
    server = _Server(0, [str(root)])
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def get(server, path, host=None):
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    reply = connection.getresponse()
    return reply.status, reply.read().decode(), dict(reply.getheaders())


def test_the_page_is_that_of_report_with_what_is_new_on_top(tmp_path):
    folder = write_run(tmp_path, [record(0, 1.0)])
    with served(tmp_path) as server:
        at = f"/{server.token}/"
        status, page, headers = get(server, at)
        assert status == 200
        assert re.search(r'<section id="live" data-pause="20.0" data-answered="1">', page)
        assert "connect-src 'self'" in html.unescape(page)
        assert headers["Cache-Control"] == "no-store"
        with open(folder / "records.jsonl", "a") as file:
            file.write(json.dumps(record(1, 0.0)) + "\n")
        assert json.loads(get(server, f"{at}state")[1])["answered"] == 2
        assert 'data-answered="2"' in get(server, at)[1]


def test_the_page_shows_the_newest_code_and_counts_the_others(tmp_path):
    old = {"started": "2026-01-01T00:00:00+00:00"}
    write_run(tmp_path, [record(0, 1.0)], method="lead", hash8="0000000b", manifest=old)
    write_run(tmp_path, [record(0, 0.0)], method="lead", hash8="0000000a")
    with served(tmp_path) as server:
        page = get(server, f"/{server.token}/")[1]
    assert "1 run of older code or prompts left out" in html.unescape(page)
    assert "0000000b" not in page


def test_an_empty_folder_waits(tmp_path):
    with served(tmp_path) as server:
        assert 'data-answered="0"' in get(server, f"/{server.token}/")[1]


@pytest.mark.parametrize(
    "path",
    ["/", "/state", "/wrong/", "/{token}", "/{token}/../etc/passwd", "/{token}/records.jsonl"],
)
def test_nothing_else_is_served(path, tmp_path):
    with served(tmp_path) as server:
        assert get(server, path.format(token=server.token))[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:1", 200), ("127.0.0.1", 200)]
    + [(host, 403) for host in ("evil.example", "127.0.0.1.evil.example:1", "", "[")],
)
def test_only_this_machines_names_are_answered(host, status, tmp_path):
    with served(tmp_path) as server:
        assert get(server, f"/{server.token}/state", host)[0] == status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_view_with_0(number, tmp_path):
    write_run(tmp_path, [record(0, 1.0)])
    command = [sys.executable, "-m", "harness", "watch", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/\n", process.stdout.readline())
        process.send_signal(number)
        message = process.communicate(timeout=30)[1]
    assert (process.returncode, message.splitlines()[-1]) == (0, "the view has ended; runs go on")
