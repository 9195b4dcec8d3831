"""`harness ui`: MLflow's pages over a results folder, with telemetry off."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harness.errors import CannotRun, UserError
from harness.storage.paths import masked
from harness.tracking.uri import own_place, sqlite_path

# The server of the user's own results must not report home; MLflow reads both names.
TELEMETRY_OFF = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def main(out: str, *, uri: str | None, port: int) -> int:
    """Replace this process by MLflow's server. Raises CannotRun without MLflow and UserError without a database."""
    from harness.tracking import track as tracking

    uri = own_place(uri) if uri else tracking.default_uri(Path(out).expanduser())
    if problems := tracking.problems(uri):
        raise CannotRun(". ".join(problems))
    file = sqlite_path(uri)
    if file is not None and not file.is_file():
        raise UserError(f"there is no MLflow database '{file}'; fill one with: harness track {out} --uri {masked(uri)}")
    sys.stderr.write(f"MLflow over {masked(uri)}: http://127.0.0.1:{port} (end it with Ctrl-C)\n")
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "ui",
        "--backend-store-uri",
        uri,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    os.execve(command[0], command, {**os.environ, **TELEMETRY_OFF})
