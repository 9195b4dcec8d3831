"""`harness ui`: open MLflow's user interface on a results folder, with telemetry off."""

import contextlib
import os
import sqlite3
import sys
from pathlib import Path
from typing import Annotated

from harness.cli.command import execution
from harness.cli.options import RESULTS, MlflowUri, Out
from harness.errors import CannotRun, UserError
from harness.storage.paths import with_address_secrets_masked
from harness.tracking import track as tracking
from harness.tracking.mlflow_view import VIEW_TAG, view_url
from harness.tracking.store import artifacts_folder, expand_home, sqlite_path

# MLflow must not send usage data about the user's own results; it reads both names.
TELEMETRY_OFF = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
# One process in the place of thirteen: one user, and nothing here is run by MLflow.
_NO_JOBS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
_NEWEST_FIRST = """
    SELECT e.experiment_id, e.name FROM experiments e JOIN experiment_tags t USING (experiment_id)
    WHERE t.key = ? AND e.lifecycle_stage = 'active'
    ORDER BY (SELECT max(start_time) FROM runs r WHERE r.experiment_id = e.experiment_id) DESC
"""


def ui(
    out: Out = RESULTS,
    uri: MlflowUri = None,
    port: Annotated[int, execution("--port N", "Port on this machine.", min=1, max=65535)] = 5000,
) -> int:
    """Open the MLflow user interface on a results folder; MLflow's own telemetry is off.

    Replaces this process by MLflow's server, and prints the address of each data set's comparison,
    the newest first.
    """
    uri = uri or tracking.default_uri(Path(out).expanduser())
    uri = expand_home(uri)
    problems = tracking.uri_problems(uri)
    if problems:
        raise CannotRun(". ".join(problems))
    file = sqlite_path(uri)
    if file is not None and not file.is_file():
        raise UserError(
            f"there is no MLflow database '{file}'; fill one with: harness track {out} --uri "
            f"{with_address_secrets_masked(uri)}"
        )
    server = f"http://127.0.0.1:{port}"
    sys.stderr.write(
        f"MLflow over {with_address_secrets_masked(uri)}: {server} (press Ctrl-C to stop)\n"
    )
    if file is not None:
        _say_comparisons(file, server)
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    artifacts = artifacts_folder(uri)
    if artifacts:
        command += ["--artifacts-destination", str(artifacts)]
    os.execve(command[0], command, {**os.environ, **TELEMETRY_OFF, **_NO_JOBS})


def _say_comparisons(database: Path, server: str) -> None:
    """Print the address of each data set's comparison in MLflow, the newest first: of each
    experiment that has our saved view (VIEW_TAG).

    Prints nothing where the database cannot be read.

    Args:
        database: The SQLite file of MLflow.
        server: The address of MLflow's server.
    """
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(database)) as store:
        experiments = store.execute(_NEWEST_FIRST, (VIEW_TAG,)).fetchall()
        for number, name in experiments:
            sys.stderr.write(f"  {name}: {server}/{view_url(str(number))}\n")
