"""`python -m bench.gpu_session`: a step that fails or takes too long leaves the others their time."""

import sys

from bench import gpu_session
from bench.gpu_session import Flags, Step, run_steps, steps_of


def step(name, code, share=1.0):
    return Step(name, (sys.executable, "-c", code), share)


def test_a_step_that_fails_or_takes_too_long_does_not_stop_the_others(tmp_path, capfd):
    endless = "import time; print('begun', flush=True); time.sleep(600)"
    steps = [
        step("broken", "import sys; print('why'); sys.exit(3)"),
        step("endless", endless, 0.05),
        step("sound", "print('figures')"),
    ]
    assert not run_steps(steps, tmp_path / "out", seconds=30)
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("broken: failed with exit code 3; see broken.log, ")
    assert lines[1].startswith("endless: ended after 1 s; what it had printed is in endless.log, ")
    assert lines[2].startswith("sound: ended well, ")
    logs = {name: (tmp_path / f"out/{name}.log").read_text() for name in ("broken", "endless")}
    assert logs == {"broken": "why\n", "endless": "begun\n"}
    assert run_steps(steps[2:], tmp_path / "again", seconds=30)


def test_vllm_is_run_beside_transformers_where_it_is_installed(tmp_path, monkeypatch):
    flags = Flags(tmp_path, tmp_path / "weights", "tiny", "989")
    assert [one.name for one in steps_of(flags)] == ["tests", "rows"]
    monkeypatch.setattr(gpu_session.importlib.util, "find_spec", lambda name: name)
    names = [one.name for one in steps_of(flags)]
    assert names == ["tests", "rows", "run-hf", "run-vllm", "table"]
