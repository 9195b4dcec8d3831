"""A chat template that breaks is reported before a run, and a server that never replies does not hold Ctrl-C up."""

# ruff: noqa: F811 - fixtures of other folders are imported by name
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jinja2 import Environment

from harness.errors import CannotRun
from harness.llm.template import cut
from tests.cli.conftest import configs, environment  # noqa: F401 - fixtures
from tests.llm.endpoints import words
from tests.llm.loopback import Loopback

ROOT = Path(__file__).resolve().parents[2]


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
