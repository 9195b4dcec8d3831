"""How this project's processes use the cores: idle threads sleep, and a user's own choice stands."""

import os
import subprocess
import sys

import pytest

from harness.cost import free_memory


@pytest.mark.parametrize(("own", "policy"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_idle_threads_sleep_unless_the_user_says_otherwise(own: dict[str, str], policy: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"} | own
    command = [sys.executable, "-c", "import harness, os; print(os.environ['OMP_WAIT_POLICY'])"]
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout.strip() == policy


@pytest.mark.parametrize(("running", "free"), [(1, 4), (3, 2), (5, 1), (50, 1)])
def test_free_cores_are_those_on_which_nothing_else_computes(running, free, monkeypatch, tmp_path) -> None:
    (tmp_path / "loadavg").write_text(f"0.5 0.5 0.5 {running}/900 1234\n")
    monkeypatch.setattr(free_memory, "open", lambda *_, **__: (tmp_path / "loadavg").open(), raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert free_memory.free_cores() == free
