"""The stored runs that a report or a study is made of."""

import difflib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from harness.errors import UserError
from harness.storage.named_runs import read_runs, run_folders, with_distinct_names
from harness.storage.run_folder import Hold, StoredRun
from reports.cached_checks import read_run_with_numbers
from reports.copies import is_copy
from reports.repeats import average_over_seeds
from reports.superseded import split_by_newest_code

FIGURES = ("curves", "front", "nodes", "queries", "sweep", "tokens")


class ReadRuns(NamedTuple):
    """Runs that were read, and the names of damaged ones that were left out.

    Attributes:
        runs: The runs.
        damaged: The folder of each damaged one below the given folder, "musique/bm25--tiny--0123abcd".
    """

    runs: list[StoredRun]
    damaged: list[str]


def read_stored_runs(folders: Sequence[str], *, hold: Hold = "all") -> ReadRuns:
    """Read every run at or below the folders that has an answer, each once.

    Warns of each run that is left out.

    Args:
        folders: Run folders, or folders that hold runs.
        hold: What of the records stays in memory: "all", the "numbers" that tables count,
            "nothing".

    Returns:
        The runs, and the names of damaged ones that were left out.

    Raises:
        UserError: A folder that is not there, or without such runs.
    """
    run_by_folder: dict[str, StoredRun] = {}
    damaged: list[str] = []
    for folder in folders:
        if not Path(folder).is_dir():
            raise UserError(_no_folder_sentence(folder))
        answered_runs, errors = _read_answered_runs(folder, hold)
        if not answered_runs and errors:
            raise next(iter(errors.values()))
        if not answered_runs:
            raise UserError(f"no run below '{folder}' has an answered question yet")
        for run in answered_runs:
            run_by_folder[str(run.path)] = run
        damaged += errors
    return ReadRuns(with_distinct_names([*run_by_folder.values()]), damaged)


def _read_answered_runs(folder: str, hold: Hold) -> tuple[list[StoredRun], dict[str, UserError]]:
    """Read the runs below a folder that have records, with a warning for each run that is left out.

    Args:
        folder: A run folder, or one that holds runs.
        hold: What of the records stays in memory.

    Returns:
        (runs, name of each damaged one -> its error)
    """
    answered_runs: list[StoredRun] = []
    errors: dict[str, UserError] = {}
    for path in run_folders([folder]):
        try:
            run = _read_run(path, hold)
        except UserError as error:
            errors[_name_below(path, folder)] = error
            sys.stderr.write(f"warning: left out: {error}\n")
            continue
        if run.records:
            answered_runs.append(run)
        else:
            sys.stderr.write(f"warning: left out: {path} has no answered question yet\n")
    return answered_runs, errors


def _name_below(path: Path, folder: str) -> str:
    """The name of a run's folder from the folder that was given, "musique/bm25--tiny--0123abcd"; its
    own name where it is the given one."""
    relative_path = Path(os.path.relpath(path, folder))
    if relative_path == Path():
        return path.resolve().name
    return relative_path.as_posix()


def _read_run(path: Path, hold: Hold) -> StoredRun:
    """Read the run of a folder; where numbers are enough, from the cache if that has them.

    Raises UserError.
    """
    if hold == "numbers":
        return read_run_with_numbers(path)
    (run,) = read_runs([path], hold=hold)
    return run


def _no_folder_sentence(folder: str) -> str:
    """Say that there is no such folder; a word near a figure's name gets that suggestion."""
    problem = "there is no folder"
    if set("*?[") & set(folder):
        problem = "no folder matches the pattern"
    sentence = f"{problem} '{folder}'; name a folder with runs, as given to harness run --out"
    similar_figures = difflib.get_close_matches(folder, FIGURES, n=1, cutoff=0.7)
    if similar_figures:
        sentence += f", or did you mean the figure: harness report {similar_figures[0]} RUNS_DIR"
    return sentence


def leave_out_unanswered(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Leave out the runs without an answered question, with a warning for each.

    Raises UserError where none has one.
    """
    for run in runs:
        if not run.records:
            sys.stderr.write(f"warning: left out: {run.path} has no answered question yet\n")
    answered_runs = [run for run in runs if run.records]
    if not answered_runs:
        raise UserError("none of these runs has an answered question yet")
    return answered_runs


def with_newest_code(runs: Sequence[StoredRun], all_code: bool) -> list[StoredRun]:
    """Leave out runs that an edited method or prompt made again;
    --all-code (`all_code`) leaves all in.
    """
    if all_code:
        return list(runs)
    newest_runs, _ = split_by_newest_code(runs)
    return newest_runs


def without_copies(runs: list[StoredRun]) -> list[StoredRun]:
    """Leave out copies of a run that are in other results folders, with a warning for each.

    Of several runs with the same records, the one with most questions stays. A run that was made
    twice, or a copy that was changed, stays too. The order stays.
    """
    remaining_runs: list[StoredRun] = []
    for run in sorted(runs, key=lambda run: -len(run.records)):
        originals = [other for other in remaining_runs if is_copy(run, other)]
        if originals:
            original = originals[0]
            sys.stderr.write(f"warning: left out: {run.path} is the same run as {original.path}\n")
        else:
            remaining_runs.append(run)
    remaining_ids = set(map(id, remaining_runs))
    return [run for run in runs if id(run) in remaining_ids]


def average_seeds(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Join runs that differ in their seed alone to one each (--average-seeds).

    Raises UserError where no two are such runs.
    """
    averaged_runs = average_over_seeds(runs)
    if len(averaged_runs) == len(runs):
        raise UserError(
            "--average-seeds: no two runs differ in their seed alone; harness run --repeat makes "
            "such"
        )
    return averaged_runs
