from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.cli.ui import ui
from harness.errors import UserError


def test_the_server_starts_with_telemetry_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mlflow.db").touch()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    calls: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(os, "execve", lambda _file, command, env: calls.append((command, env)))
    ui(str(tmp_path), uri=None, port=5001)
    ((command, env),) = calls
    assert env["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert command[-1] == "5001"
    assert f"sqlite:///{tmp_path.resolve() / 'mlflow.db'}" in command


def test_a_missing_database_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UserError, match="no MLflow database .* fill one with: harness track"):
        ui(str(tmp_path), uri=None, port=5000)
