"""`harness track RUN...`: fill MLflow from run folders, as often as wanted."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.errors import CannotRun, HarnessError
from harness.storage.named_runs import run_folders
from harness.tracking.uri import own_place

_MOST_FAILURES = 2


def main(runs: list[str], *, uri: str | None) -> int:
    """Log each run; one that cannot be logged is named and the others go on. Exit code 3 when any was not logged.

    A store that let two runs down one after the other is not asked for the others. Raises UserError for what is no run
    and for a URI that cannot be used at all.
    """
    folders = run_folders(runs)
    uri = uri and own_place(uri)
    from harness.tracking import track as tracking

    for place in dict.fromkeys(uri or tracking.default_uri(folder.parent.parent) for folder in folders):
        if found := tracking.problems(place):
            raise CannotRun(". ".join(found))
    logged: list[Path] = []
    down = 0
    for n, folder in enumerate(folders):
        if down == _MOST_FAILURES:
            sys.stderr.write(f"error: not tried for the other {len(folders) - n} of {len(folders)} runs\n")
            return 3
        try:
            tracking.track(folder, uri)
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
