"""`harness run --debug` says what took how long."""

import re
import time

import pytest

from harness.parallel import phases

ROW = ["run", "-m", "echo", "-d", "pocket/musique", "--limit", "2", "--mlflow", "off"]


def test_debug_shows_the_phases_of_this_command_alone(here):
    here(*ROW, "--set", "method.word=before").checked()
    shown = here(*ROW, "--debug").checked().stderr
    lines = re.findall(r"^(\w+) +\d+\.\d\d +(\d+)$", shown, re.MULTILINE)
    assert dict(lines) == {"planning": "1", "answers": "2", "scores": "2"}
    assert re.search(r"^passed +\d+\.\d\d$", shown, re.MULTILINE)
    assert "planning" not in here(*ROW, "--set", "method.word=after").stderr


def test_a_phase_has_no_seconds_of_a_phase_inside_it(monkeypatch):
    clock = iter([0.0, 10.0, 20.0, 25.0, 100.0, 100.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    phases.forget_phases()
    with phases.phase("outer"), phases.phase("inner"):
        pass
    assert re.findall(r"^(\w+) +([\d.]+)", phases.phase_table(), re.MULTILINE) == [
        ("inner", "5.00"),
        ("outer", "85.00"),
        ("passed", "100.00"),
    ]


@pytest.mark.parametrize("raised", [ValueError, KeyboardInterrupt])
def test_a_phase_that_fails_is_counted(raised):
    phases.forget_phases()
    with pytest.raises(raised), phases.phase("models"):
        raise raised
    assert re.search(r"^models +0\.00 +1$", phases.phase_table(), re.MULTILINE)
