"""`harness track RUN...`: fill MLflow from run folders, as often as wanted."""

from __future__ import annotations

import sys

from harness.commands.common import run_folders
from harness.errors import HarnessError


def main(runs: list[str], *, uri: str | None) -> int:
    """Log each run; one that cannot be logged is named and the others go on. Exit code 3 when any was not logged."""
    folders = run_folders(runs)
    from harness import tracking

    failed = 0
    for folder in folders:
        try:
            tracking.track(folder, uri)
        except HarnessError as e:
            failed += 1
            sys.stderr.write(f"error: {folder}: {e}\n")
        else:
            print(folder)
    return 3 if failed else 0
