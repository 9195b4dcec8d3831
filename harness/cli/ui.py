"""`harness ui`: open MLflow's user interface on a results folder, with telemetry off."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from harness.cli.command import execution
from harness.cli.options import MlflowUri, Out
from harness.errors import CannotRun, UserError
from harness.storage.paths import masked
from harness.tracking.uri import own_place, sqlite_path

# MLflow must not send usage data about the user's own results; it reads both names.
TELEMETRY_OFF = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def ui(
    out: Out = "results",
    uri: MlflowUri = None,
    port: Annotated[int, execution("--port N", "Port on this machine.", min=1, max=65535)] = 5000,
) -> int:
    """Open the MLflow user interface on a results folder; MLflow's own telemetry is off.

    Replaces this process by MLflow's server.
    """
    from harness.tracking import track as tracking

    uri = own_place(uri) if uri else tracking.default_uri(Path(out).expanduser())
    if problems := tracking.problems(uri):
        raise CannotRun(". ".join(problems))
    file = sqlite_path(uri)
    if file is not None and not file.is_file():
        raise UserError(f"there is no MLflow database '{file}'; fill one with: harness track {out} --uri {masked(uri)}")
    sys.stderr.write(f"MLflow over {masked(uri)}: http://127.0.0.1:{port} (press Ctrl-C to stop)\n")
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    os.execve(command[0], command, {**os.environ, **TELEMETRY_OFF})
