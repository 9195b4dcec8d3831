"""What a server sends: replies no decoder reads cost a retry, and one that never replies does not hold Ctrl-C up."""

# ruff: noqa: F811 - fixtures of other folders are imported by name
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from harness.errors import CannotRun
from harness.llm.endpoint_http import Server, Tries
from harness.llm.endpoint_reply import complete
from harness.llm.template import cut
from tests.cli.conftest import configs, environment  # noqa: F401 - fixtures
from tests.llm.endpoint_requests import BODY, KEY, QUICK
from tests.llm.endpoint_runs import words
from tests.llm.loopback import Loopback, completion

ROOT = Path(__file__).resolve().parents[2]


def _deep(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    "reply",
    [completion("Par\ud800is"), completion("\udfff"), completion("Paris") | {"error": "x"}, {"choices": _deep(50)}],
    ids=["half a character", "only half", "error", "nested"],
)
def test_a_reply_that_cannot_be_used_costs_a_retry(reply: dict[str, Any]) -> None:
    with Loopback([lambda _: reply, "ok"]) as loopback:
        tries = Tries()
        assert complete(Server(loopback.url, KEY, QUICK, "MY_KEY"), BODY, tries).text == "Paris"
        assert tries.again == 1


def test_a_reply_nested_beyond_any_parser_costs_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.llm import endpoint_http

    bodies = iter([b"[" * 200_000])
    read = endpoint_http._read
    monkeypatch.setattr(endpoint_http, "_read", lambda *given: next(bodies, None) or read(*given))
    with Loopback(["ok"]) as loopback:
        tries = Tries()
        assert complete(Server(loopback.url, KEY, QUICK, "MY_KEY"), BODY, tries).text == "Paris"
        assert tries.again == 1


@pytest.mark.parametrize(
    "template", ["{{ messages[5].content }}", "{{ 1 / 0 }}", "{{ raise_exception('no') }}", "{{ a.b.c }}"]
)
def test_a_template_that_breaks_is_said_before_any_question(template: str) -> None:
    compiled = Environment(autoescape=False).from_string(template)
    with pytest.raises(CannotRun, match="chat template of 'm'"):
        cut(lambda messages, **variables: compiled.render(messages=messages, **variables), "m", "26 Jul 2024")


@pytest.mark.parametrize("parallel", [1, 8])
def test_ctrl_c_on_a_server_that_never_replies(parallel: int, tmp_path: Path, environment: dict[str, str]) -> None:
    with Loopback(["hang"]) as loopback:
        command = words(loopback, "--parallel", str(parallel), limit=12, timeout=60)
        env = {**environment, "PYTHONPATH": str(ROOT)}
        run = subprocess.Popen(
            [sys.executable, "-m", "harness", *command], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + 60
        while len(loopback.asked) < parallel:
            assert run.poll() is None, run.communicate()[1]
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.02)
        os.kill(run.pid, signal.SIGINT)
        begun = time.monotonic()
        said = run.communicate(timeout=30)[1]
        took = time.monotonic() - begun
    assert run.returncode == 130, said
    assert "The same command resumes" in said
    assert took < 2, f"{took:.1f} s"
