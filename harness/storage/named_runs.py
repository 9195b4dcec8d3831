"""Find and read the runs that a user names by path: run folders, or folders that hold runs.

run_folders(["results"])        every run folder below results
read_runs(run_folders([...]))   their StoredRun
"""

import difflib
import gc
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import UserError
from harness.storage.paths import local_folder
from harness.storage.run_files import RUN
from harness.storage.run_folder import Hold, StoredRun, find_runs, read_run


def run_folder(user_path: str) -> Path:
    """The run folder at a path that the user gave. Raises UserError that names similar ones."""
    _check_not_empty(user_path)
    folder = local_folder(user_path)
    if (folder / RUN).is_file():
        return folder
    problem = f"there is no run folder '{user_path}'"
    if folder.is_dir():
        problem = f"'{user_path}' holds no run"
    similar = _similar_folders(user_path, _other_runs(folder))
    if similar:
        raise UserError(f"{problem}; the nearest: {', '.join(similar)}")
    raise UserError(
        f"{problem}; make one with harness run, or name the folder that was given to its --out"
    )


def _other_runs(folder: Path) -> list[str]:
    """Paths of runs to suggest for a `folder` that is no run.

    They are those below the nearest folder above it that exists, else those below results/.
    """
    existing_folder = folder
    while not existing_folder.is_dir():  # "." at the latest, or "/"
        existing_folder = existing_folder.parent
    other_runs: list[Path] = []
    if existing_folder not in (Path("."), Path("/")):
        other_runs = find_runs(existing_folder)
    if not other_runs and Path("results").is_dir():
        other_runs = find_runs(Path("results"))
    return [str(path) for path in other_runs]


def _similar_folders(user_path: str, folders: list[str]) -> list[str]:
    """Up to three of the folders: those that are written most like `user_path`, else the first
    ones.
    """
    return difflib.get_close_matches(user_path, folders, n=3, cutoff=0.3) or folders[:3]


def _check_not_empty(user_path: str) -> None:
    """Raise UserError for an empty path: it would mean the current folder, and often comes of a
    shell variable that is not set.
    """
    if not user_path.strip():
        raise UserError("the name of a run folder is empty; name one, or '.' for this folder")


def run_folders(user_paths: Iterable[str]) -> list[Path]:
    """Find the run folders at or below the paths that the user gave, each once, in that order.

    Raises UserError for a path with no run.
    """
    folders: list[Path] = []
    for user_path in user_paths:
        _check_not_empty(user_path)
        folder = local_folder(user_path)
        folders_below: list[Path] = []
        if folder.is_dir():
            folders_below = find_runs(folder)
        folders += folders_below or [run_folder(user_path)]
    return list(dict.fromkeys(folders))


def with_distinct_names(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The same runs; where several have the same data set and folder
    name, each is called by its path.
    """
    names = [(run.config.dataset.name, run.name) for run in runs]
    counts = Counter(names)
    renamed: list[StoredRun] = []
    for run, name in zip(runs, names, strict=True):
        if counts[name] > 1:
            run = replace(run, display_name=str(run.path))
        renamed.append(run)
    return renamed


def read_runs(folders: Iterable[Path], *, hold: Hold = "all") -> list[StoredRun]:
    """Read run folders, in their order.

    The garbage collector is off meanwhile: records are trees without cycles, and walking those
    already read again and again takes most of the time (100,000 records on 2 cores: 8.1 s with it,
    1.9 s without). What was read is taken out of later collections too (gc.freeze).

    Args:
        folders: The run folders.
        hold: What of the records stays in memory: "all", the "numbers" that tables count, or
            "nothing".

    Raises:
        UserError: One is no run folder.
        DataError: A file in one is damaged.
    """
    collector_was_on = gc.isenabled()
    gc.disable()
    try:
        return [read_run(folder, hold=hold) for folder in folders]
    finally:
        if collector_was_on:
            gc.enable()
            gc.freeze()
