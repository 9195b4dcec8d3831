"""Weights & Biases: what is sent of a run, and what becomes of failures. Nothing here needs a
connection."""

import sys
from types import ModuleType

import pytest

from harness.errors import CannotRun
from harness.tracking import wandb_address
from harness.tracking.track import StoreError, track, uri_problems
from tests.reports.build import SCORE, record, write_run


class FakeRun:
    def __init__(self, **arguments):
        self.arguments, self.summary, self.history, self.exit_code = arguments, {}, [], None

    def log(self, values, step):
        self.history.append((step, values))

    def finish(self, exit_code):
        self.exit_code = exit_code


@pytest.fixture
def sent(monkeypatch):
    """The runs that a stand-in for the package was asked to log."""
    runs = []
    package, errors = ModuleType("wandb"), ModuleType("wandb.errors")

    def init(**arguments):
        if arguments["project"] == "down":
            raise errors.Error("nobody answers")
        runs.append(FakeRun(**arguments))
        return runs[-1]

    errors.Error = type("Error", (Exception,), {})
    package.init, package.Settings, package.errors = init, dict, errors
    monkeypatch.setitem(sys.modules, "wandb", package)
    monkeypatch.setitem(sys.modules, "wandb.errors", errors)
    monkeypatch.setattr(wandb_address, "install_problem", list)
    return runs


def test_settings_means_and_final_numbers_are_logged(tmp_path, sent):
    folder = write_run(tmp_path, [record(0, 1.0), record(1, None), record(2, 0.5)])
    track(folder, "wandb:qa", suite="first")
    (run,) = sent
    assert [run.arguments[key] for key in ("project", "name", "group")] == [
        "qa",
        folder.name,
        "first",
    ]
    assert run.arguments["config"]["method.k"] == "5"
    assert [values[SCORE] for _, values in run.history] == [100.0, 50.0, 50.0]
    assert (run.summary[SCORE], run.summary["failed"], run.exit_code) == (50.0, 1.0, 0)
    assert str(tmp_path) not in str(run.arguments["config"])


def test_a_run_is_logged_once_it_ends_and_again_under_the_same_id(tmp_path, sent):
    folder = write_run(tmp_path, [record(0, 1.0)], summary={"state": "interrupted"})
    track(folder, "wandb:qa", running=True)
    assert sent == []
    track(folder, "wandb:")
    track(folder, "wandb:")
    assert (len({run.arguments["id"] for run in sent}), sent[0].exit_code) == (1, 1)
    assert sent[0].arguments["project"] == wandb_address.PROJECT
    assert len(sent) == 2
    track(
        write_run(
            tmp_path / "other", [record(0, 1.0)], manifest={"id": "another run of that second"}
        ),
        "wandb:qa",
    )
    assert sent[2].arguments["id"] != sent[0].arguments["id"]


def test_a_failure_names_the_command_that_logs_it_later(tmp_path, sent):
    folder = write_run(tmp_path, [record(0, 1.0)])
    sentence = "nobody answers.*fill W&B from there with: harness track .* --uri wandb:down"
    with pytest.raises(StoreError, match=sentence):
        track(folder, "wandb:down")


def test_without_the_package_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'longdoc-harness[wandb]'" in uri_problems("wandb:qa")[0]
    with pytest.raises(CannotRun, match="is not installed"):
        track(write_run(tmp_path, [record(0, 1.0)]), "wandb:qa")


def test_offline_mode_writes_a_file_and_asks_nobody(tmp_path, monkeypatch):
    package = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    track(write_run(tmp_path, [record(0, 1.0)]), "wandb:qa")
    package.teardown()  # its own process writes the file
    (written,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    assert SCORE.encode() in written.read_bytes()


def test_another_tracker_is_refused(command):
    code, _, err = command("run", "-m", "bm25", "-d", "pocket/musique", "--track", "comet")
    assert (code, "unknown tracker 'comet'" in err) == (2, True)
