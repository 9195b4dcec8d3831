import os

import pytest

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


def test_it_names_the_comparison_of_every_data_set_the_newest_first(
    tmp_path, uri, monkeypatch, capsys
):
    for name, day in (("musique", 2), ("hotpotqa", 3)):
        track(
            run_folder(
                tmp_path, dataset=name, manifest={"started": f"2026-01-0{day}T03:04:05+00:00"}
            ),
            uri,
            traces=0,
        )
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    commands = []
    monkeypatch.setattr(os, "execve", lambda _file, command, _env: commands.append(command))
    ui(str(tmp_path), uri=None, port=5001)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["hotpotqa", "musique"]
    assert "runs?viewStateShareKey=harness&workflowType=machine_learning" in lines[1]
    assert commands[0][-2:] == ["--artifacts-destination", str(tmp_path.resolve() / "mlartifacts")]
