"""The stored runs that a report or a study is made of."""

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UserError
from harness.storage.named_runs import read_runs, run_folders, with_distinct_names
from harness.storage.run_folder import Hold, StoredRun

FIGURES = ("curves", "front", "nodes", "queries", "sweep", "tokens")


def stored_runs(folders: Sequence[str], *, hold: Hold = "all") -> tuple[list[StoredRun], int]:
    """Every run at or below the folders that can be shown, each once, and how many damaged ones
    were left out.

    Warns of runs left out. hold: what of their records is read (Hold). Raises UserError for a
    folder without such runs.
    """
    runs: dict[str, StoredRun] = {}
    count = 0
    for folder in folders:
        if not Path(folder).is_dir():
            matches = difflib.get_close_matches(folder, FIGURES, n=1, cutoff=0.7)
            figure = (
                f", or did you mean the figure: harness report {matches[0]} RUNS_DIR"
                if matches
                else ""
            )
            problem = (
                "no folder matches the pattern" if set("*?[") & {*folder} else "there is no folder"
            )
            raise UserError(
                f"{problem} '{folder}'; name a folder with runs, as given to harness run "
                f"--out{figure}"
            )
        runs_here: dict[str, StoredRun] = {}
        damaged: list[UserError] = []
        for path in run_folders([folder]):
            try:
                (run,) = read_runs([path], hold=hold)
            except UserError as error:
                damaged.append(error)
                sys.stderr.write(f"warning: left out: {error}\n")
                continue
            if run.records:
                runs_here[str(run.path)] = run
            else:
                sys.stderr.write(f"warning: left out: {path} has no answered question yet\n")
        if not runs_here:
            raise (
                damaged[0]
                if damaged
                else UserError(f"no run below '{folder}' has an answered question yet")
            )
        runs |= runs_here
        count += len(damaged)
    return with_distinct_names([*runs.values()]), count


def with_records(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs that have an answered question; warns about the others. Raises UserError where none
    has."""
    for run in runs:
        if not run.records:
            sys.stderr.write(f"warning: left out: {run.path} has no answered question yet\n")
    answered = [run for run in runs if run.records]
    if not answered:
        raise UserError("none of these runs has an answered question yet")
    return answered


def newest(runs: Sequence[StoredRun], all_code: bool) -> list[StoredRun]:
    """The runs without those that an edited method or prompt made again; all of them for
    --all-code."""
    from reports.superseded import newest_code

    return list(runs) if all_code else newest_code(runs)[0]


def without_copies(runs: list[StoredRun]) -> list[StoredRun]:
    """The runs without copies in other results folders: of several with the same records, the one
    with most questions; warns about those. A run that was made twice, or a copy that was changed,
    stays."""
    from reports.copies import is_copy

    kept: list[StoredRun] = []
    for run in sorted(runs, key=lambda run: -len(run.records)):
        same = next((other for other in kept if is_copy(run, other)), None)
        if same is None:
            kept.append(run)
        else:
            sys.stderr.write(f"warning: left out: {run.path} is the same run as {same.path}\n")
    return [run for run in runs if any(run is one for one in kept)]


def average_seeds(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs for --average-seeds. Raises UserError where no two differ in their seed alone."""
    from reports.repeats import average_over_seeds

    means = average_over_seeds(runs)
    if len(means) == len(runs):
        raise UserError(
            "--average-seeds: no two runs differ in their seed alone; harness run --repeat makes "
            "such"
        )
    return means
