"""`harness track RUN...`: log stored runs to MLflow, as often as wanted."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.cli.options import MlflowUri, Runs, Traces
from harness.errors import CannotRun, HarnessError
from harness.storage.named_runs import run_folders
from harness.tracking.store import own_place
from harness.tracking.track import MOST_FAILURES, MOST_TRACES


def track(runs: Runs, uri: MlflowUri = None, traces: Traces = MOST_TRACES) -> int:
    """Log stored runs to MLflow; what is already logged is skipped.

    A run that cannot be logged is named and the others go on. After two failures of the MLflow server in a row, the
    others are not tried. The exit code is 3 if any run was not logged.
    """
    folders = run_folders(runs)
    uri = uri and own_place(uri)
    from harness.tracking import track as tracking  # the command has the same name

    for place in dict.fromkeys(uri or tracking.default_uri(folder.parent.parent) for folder in folders):
        if problems := tracking.problems(place):
            raise CannotRun(". ".join(problems))
    logged: list[Path] = []
    down = 0
    for n, folder in enumerate(folders):
        if down == MOST_FAILURES:
            sys.stderr.write(f"error: not tried for the other {len(folders) - n} of {len(folders)} runs\n")
            return 3
        try:
            tracking.track(folder, uri, traces=traces)
        except HarnessError as e:
            down = down + 1 if isinstance(e, tracking.StoreError) else 0
            sys.stderr.write(f"error: {folder}: {e}\n")
        else:
            down = 0
            logged.append(folder)
            print(folder, flush=True)
    try:
        tracking.track_suites(logged, uri)
    except HarnessError as e:
        sys.stderr.write(f"error: {e}\n")
        return 3
    return 0 if logged == folders else 3
