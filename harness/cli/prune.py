"""`harness prune [RUNS]`: what is left over below a results folder, and its deletion.

    state       answered  folder
    unfinished  3 / 20    results/musique/pecan--pocket-llama--0123abcd
    superseded  20 / 20   results/musique/lead--pocket-llama--89abcdef
    failed      0 / 20    results/musique/bm25--pocket-llama--4567cdef

unfinished: some questions have no record; failed: no question was answered; superseded: a finished
run of newer code or prompts takes its place (reports/superseded.py).
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from harness.cli.command import execution
from harness.cli.options import RESULTS, RunsFolders
from harness.cli.output import counted
from harness.cli.table_output import aligned_columns
from harness.errors import DataError, HarnessError
from harness.storage.named_runs import read_runs, run_folders
from harness.storage.run_files import locked_folder
from harness.storage.run_folder import StoredRun
from reports.facts import is_unfinished
from reports.superseded import split_by_newest_code

UNFINISHED = "unfinished"
FAILED = "failed"
SUPERSEDED = "superseded"


@dataclass(frozen=True)
class LeftOver:
    """A run that may be deleted.

    Attributes:
        run: The run.
        state: Why it may be deleted.
        n_answered: Number of questions with an answer.
        n_asked: Number of questions asked; None where it is not recorded.
    """

    run: StoredRun
    state: str
    n_answered: int
    n_asked: int | None

    def cells(self) -> tuple[str, str, str]:
        """The cells of its row: (state, "3 / 20" questions answered, folder)."""
        n_asked = "–"
        if self.n_asked is not None:
            n_asked = str(self.n_asked)
        return self.state, f"{self.n_answered} / {n_asked}", str(self.run.path)


def prune(
    folders: RunsFolders = None,
    yes: Annotated[bool, execution("--yes", "Delete them without a question.")] = False,
) -> int:
    """List unfinished, failed and superseded runs, and delete them.

    Failed: no question was answered; superseded: a finished run of newer code takes its place.
    At a terminal it asks before it deletes; elsewhere it only lists, unless --yes is given. A run
    that is being written is left alone. The exit code is 3 if a run could not be deleted.
    """
    runs = _readable_runs(folders or [RESULTS])
    left_over_runs = find_left_over_runs(runs)
    if not left_over_runs:
        print(f"nothing to prune: {counted(len(runs), 'finished run')} of the newest code")
        return 0
    rows = [("state", "answered", "folder")]
    rows += [each.cells() for each in left_over_runs]
    print(aligned_columns(rows))
    if not yes and not sys.stdin.isatty():
        print("nothing was deleted; add --yes to delete these folders")
        return 0
    if not yes and not typer.confirm(f"Delete these {len(left_over_runs)} run folders?"):
        print("nothing was deleted")
        return 0
    return _delete_runs(left_over_runs)


def find_left_over_runs(runs: Sequence[StoredRun]) -> list[LeftOver]:
    """Find the runs that are unfinished, failed or superseded, in the
    given order, each with its state.
    """
    finished = [run for run in runs if not is_unfinished(run)]
    _, superseded = split_by_newest_code(finished)
    superseded_folders = {run.path for run in superseded}
    left_over_runs = []
    for run in runs:
        n_answered = sum(record.error is None for record in run.records)
        if run.path in superseded_folders:
            state = SUPERSEDED
        elif is_unfinished(run):
            state = UNFINISHED
        elif n_answered == 0:
            state = FAILED
        else:
            continue
        left_over_runs.append(
            LeftOver(run=run, state=state, n_answered=n_answered, n_asked=run.summary.n_asked)
        )
    return left_over_runs


def _readable_runs(folders: Sequence[str]) -> list[StoredRun]:
    """Read the runs at or below the folders; a damaged one is left alone, with a warning."""
    runs = []
    for folder in run_folders(folders):
        try:
            runs += read_runs([folder], hold="numbers")
        except DataError as error:
            sys.stderr.write(f"warning: left alone: {error}\n")
    return runs


def _delete_runs(left_over_runs: Sequence[LeftOver]) -> int:
    """Delete the folders of these runs; one that is being written stays. Returns
    the exit code, 3 if one stayed.
    """
    code = 0
    for left_over in left_over_runs:
        folder = left_over.run.path
        try:
            with locked_folder(folder, part=None):
                shutil.rmtree(folder)
        except (HarnessError, OSError) as error:
            sys.stderr.write(f"error: {folder} was not deleted: {error}\n")
            code = 3
        else:
            print(f"deleted: {folder}")
    return code
