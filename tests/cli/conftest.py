import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
FAKES = {name: name.title() for name in ("dice", "refuses", "buggy", "ranks", "walks")} | {
    "fails-once": "FailsOnce"
}
PRESETS = {
    f"methods/{name}": f"implementation: tests.cli.fakes:{made}\n" for name, made in FAKES.items()
} | {
    "methods/echo": "summary: says one word\nimplementation: tests.cli.fakes:Echo\n",
    "methods/echo-loud": "extends: echo\nparams: {mode: loud}\nby_dataset: {musique: {k: 9}}\n",
    "methods/echo-evidence": "extends: echo\nview: evidence\n",
    "methods/walks-fixed": "extends: walks\nparams: {max_nodes: from:walks}\n",
    "methods/walks-fixed-printed": "extends: walks-fixed\nparams: {max_nodes: 9}\n",
    "methods/trips": "extends: walks\nparams: {fails: 0}\n",
    "methods/stops": "extends: walks\nparams: {stops: 1}\n",
    "suites/pair": "summary: two rows\nmethods: [echo, fails-once]\ndatasets: [pocket/musique]\n",
    "profiles/tiny": "summary: small\nlimit: 2\nmethods: {'*': {rate: 0.25}, echo: {word: tiny}}\n",
}


class Ended(subprocess.CompletedProcess[str]):
    def checked(self, code: int = 0) -> "Ended":
        """Itself, if it ended with this exit code."""
        assert self.returncode == code, self.stderr
        return self


Cli = Callable[..., Ended]


@pytest.fixture
def configs(tmp_path):
    """A user's own configuration folder with the fake methods."""
    folder = tmp_path / "own"
    for name, text in PRESETS.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def environment(tmp_path, configs):
    return {
        **os.environ,
        "PYTHONPATH": os.environ["PYTHONPATH"],
        "HARNESS_CONFIGS": str(configs),
        "HARNESS_HOME": str(tmp_path / "home"),
        "HARNESS_CACHE": str(tmp_path / "cache"),
        "HF_ENDPOINT": "http://127.0.0.1:9",  # nothing listens there: no test leaves this machine
    }


@pytest.fixture
def here(tmp_path, environment, monkeypatch, capfd):
    """Run the command in this process: the same code, a tenth of the time."""
    for name in ("HARNESS_CONFIGS", "HARNESS_HOME", "HARNESS_CACHE", "HF_ENDPOINT"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.cli.main._exit_at_once", sys.exit)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["harness", *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capfd.readouterr()
        return Ended(arguments, int(exit_.value.code or 0), out, err)

    return call


@pytest.fixture
def cli(tmp_path, environment):
    """Run the command in a fresh process in an empty folder."""

    def call(*arguments, **more):
        command, place = (
            [sys.executable, "-m", "harness", *arguments],
            {"cwd": tmp_path, "env": environment | more},
        )
        done = subprocess.run(
            command, **place, capture_output=True, text=True, timeout=120, check=False
        )
        return Ended(arguments, done.returncode, done.stdout, done.stderr)

    return call
