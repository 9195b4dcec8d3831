"""Settings of the whole suite."""

import contextlib
import faulthandler
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from harness.config import registry
from tests import ROOT
from tests.cli.conftest import configs, environment, here
from tests.datasets.fake_hub import hub
from tests.tracking.conftest import uri

Source = pytest.Config.ArgsSource

# Fixtures of a folder that others use too.
__all__ = ["configs", "environment", "here", "hub", "uri"]

# A deadline of 200 ms for one example says how busy the machine is, not whether the code is right.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A suite started behind "&" or nohup inherits signals that are ignored, which a run respects and
# its children inherit; the tests say what a run does at a terminal.
for _signal, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)


def pytest_runtest_setup() -> None:
    """Let the small model answer real rows too; before each test, as some clear the table.

    SmolLM2-135M's weights are converted once to HARNESS_HOME, 30 s for each test with a home of its
    own. Tests of the default itself put it back.
    """
    registry.targets("readers")["any other"] = "pocket-llama"


# numba compiles UMAP anew in every process; optimising it takes longer than it saves on graphs of
# forty chunks (10 s of a test, 8 s without).
os.environ.setdefault("NUMBA_OPT", "0")

# A run syncs about 25 times, and each waits for the disk (35 ms where others write too). No test
# cuts the power: what a killed process wrote is in the files without it. Tests of failing syncs put
# their own function here.
os.fsync = lambda fd: None


def pytest_collection(session: pytest.Session) -> None:
    """Let the second worker import the test files from the last on, before it collects all as the
    first one does.

    Each then compiles half of them and reads the other's bytecode: in a new checkout, compiling
    takes half of collecting.
    """
    if (
        os.environ.get("PYTEST_XDIST_WORKER") != "gw1"
        or session.config.args_source is not Source.TESTPATHS
    ):
        return
    for path in sorted((ROOT / "tests").glob("*/test_*.py"), reverse=True):
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting reports it
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


# The tests of these import the same heavy libraries and let numba compile UMAP, 25 s in all.
# Collected first, they run in the first worker, whose share is the first half; the slowest file
# leads, so that no worker waits for it at the end.
_FIRST = ("test_smoke", "engine", "methods", "embed", "llm", "training", "pocket")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests by the heavy libraries that they share."""

    def rank(item: pytest.Item) -> int:
        room = item.path.relative_to(ROOT).parts[1].removesuffix(".py")
        return _FIRST.index(room) if room in _FIRST else len(_FIRST)

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Leave what collecting made out of garbage collection: a full one takes 0.5 s in a process of
    all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sqlite file with MLflow's tables and nothing in them: making one takes seconds, copying it
    does not.

    The workers of pytest-xdist share it.
    """
    root = tmp_path_factory.getbasetemp()
    path = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "empty.db"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            code = f"from mlflow import MlflowClient; MlflowClient('sqlite:///{path}').search_experiments()"
            subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return path


@pytest.fixture
def fake_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, and the fake model of tests.engine.fakes in place of any other."""
    from tests.engine import fakes

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.llm.backend.load_model", fakes.FakeModel)


@pytest.fixture
def no_deadlock(monkeypatch):
    """A deadlock ends the process with everyone's stack, instead of a suite that hangs; and no pass
    begins early."""
    monkeypatch.setattr("harness.parallel.scheduler.MAX_WAIT_SECONDS", 200.0)
    faulthandler.dump_traceback_later(900, exit=True)
    before = threading.active_count()
    yield
    faulthandler.cancel_dump_traceback_later()
    assert threading.active_count() == before, "a member outlived its scheduler"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]):
    """Run `harness ARGUMENTS` in this process; returns the exit code, stdout and stderr."""
    from harness.cli.main import main

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run
