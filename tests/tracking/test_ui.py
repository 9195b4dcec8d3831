import os
import socket
import sys
import webbrowser

import pytest

from harness.cli import ui as cli_ui
from harness.cli.ui import ui
from harness.errors import UserError
from harness.tracking.track import track
from tests.tracking.store import run_folder


def test_the_server_starts_with_telemetry_off(tmp_path, monkeypatch):
    (tmp_path / "mlflow.db").touch()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    calls = []
    monkeypatch.setattr(os, "execve", lambda _file, command, env: calls.append((command, env)))
    ui(str(tmp_path), uri=None, port=5001)
    ((command, env),) = calls
    assert env["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert command[command.index("--port") + 1] == "5001"
    assert f"sqlite:///{tmp_path.resolve() / 'mlflow.db'}" in command


def test_a_missing_database_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match="no MLflow database .* fill one with: harness track"):
        ui(str(tmp_path), uri=None, port=5000)


def test_it_names_the_comparison_of_every_data_set_and_opens_the_newest(tmp_path, uri, monkeypatch, capsys):
    for name, day in (("musique", 2), ("hotpotqa", 3)):
        track(run_folder(tmp_path, dataset=name, manifest={"started": f"2026-01-0{day}T03:04:05+00:00"}), uri, traces=0)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    opened = []
    monkeypatch.setattr(cli_ui, "_open_when_ready", lambda port, page: opened.append((port, page)))
    commands = []
    monkeypatch.setattr(os, "execve", lambda _file, command, _env: commands.append(command))
    ui(str(tmp_path), uri=None, port=5001)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["hotpotqa", "musique"]
    assert opened == [(5001, lines[1].partition(": ")[2])]
    assert "runs?viewStateShareKey=harness&workflowType=machine_learning" in opened[0][1]
    assert commands[0][-2:] == ["--artifacts-destination", str(tmp_path.resolve() / "mlartifacts")]
    ui(str(tmp_path), uri=None, port=5001, no_browser=True)
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    ui(str(tmp_path), uri=None, port=5001)
    assert len(opened) == 1, "not where nobody sees it"


def test_a_page_is_opened_once_its_server_answers(monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        monkeypatch.setattr(cli_ui, "_START_TIMEOUT", 0.2)
        cli_ui.open_page(port, "http://page")
        assert opened == [], "nobody listens yet"
        server.listen()
        cli_ui.open_page(port, "http://page")
        assert opened == ["http://page"]
