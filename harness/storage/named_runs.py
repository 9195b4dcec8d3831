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


def run_folder(text: str) -> Path:
    """The run folder at a path that the user gave. Raises UserError that names similar ones."""
    _check_named(text)
    folder = local_folder(text)
    if (folder / RUN).is_file():
        return folder
    problem = f"there is no run folder '{text}'"
    if folder.is_dir():
        problem = f"'{text}' holds no run"
    similar = _similar_folders(text, _other_runs(folder))
    if similar:
        raise UserError(f"{problem}; the nearest: {', '.join(similar)}")
    raise UserError(
        f"{problem}; make one with harness run, or name the folder that was given to its --out"
    )


def _other_runs(folder: Path) -> list[str]:
    """Paths of runs to suggest for a `folder` that is no run.

    They are those below the nearest folder above it that exists, else those below results/.
    """
    root = folder
    while not root.is_dir():  # "." at the latest, or "/"
        root = root.parent
    others: list[Path] = []
    if root not in (Path("."), Path("/")):
        others = find_runs(root)
    if not others and Path("results").is_dir():
        others = find_runs(Path("results"))
    return [str(path) for path in others]


def _similar_folders(text: str, folders: list[str]) -> list[str]:
    """Up to three of the folders: those that are written most like `text`, else the first ones."""
    return difflib.get_close_matches(text, folders, n=3, cutoff=0.3) or folders[:3]


def _check_named(text: str) -> None:
    """Raise UserError for an empty path: it would mean the current folder, and often comes of a
    shell variable that is not set.
    """
    if not text.strip():
        raise UserError("the name of a run folder is empty; name one, or '.' for this folder")


def run_folders(texts: Iterable[str]) -> list[Path]:
    """Find the run folders at or below the paths that the user gave, each once, in that order.

    Raises UserError for a path with no run.
    """
    folders: list[Path] = []
    for text in texts:
        _check_named(text)
        folder = local_folder(text)
        below: list[Path] = []
        if folder.is_dir():
            below = find_runs(folder)
        folders += below or [run_folder(text)]
    return list(dict.fromkeys(folders))


def with_distinct_names(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The same runs; where several have the same data set and folder
    name, each is called by its path.
    """
    keys = [(run.config.dataset.name, run.name) for run in runs]
    counts = Counter(keys)
    named: list[StoredRun] = []
    for run, key in zip(runs, keys, strict=True):
        if counts[key] > 1:
            run = replace(run, known_as=str(run.path))
        named.append(run)
    return named


def read_runs(folders: Iterable[Path], *, hold: Hold = "all") -> list[StoredRun]:
    """Read run folders, in their order.

    The garbage collector is off meanwhile: records are trees without cycles, and walking those
    already read again and again takes most of the time (100,000 records on 2 cores: 8.1 s with it,
    1.9 s without).

    Args:
        folders: The run folders.
        hold: What of the records stays in memory: "all", the "numbers" that tables count, or
            "nothing".

    Raises:
        UserError: One is no run folder.
        DataError: A file in one is damaged.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return [read_run(folder, hold=hold) for folder in folders]
    finally:
        if was_on:
            gc.enable()
            gc.freeze()
