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
    """The run folder at the path `text`. Raises UserError that names similar ones."""
    _check_named(text)
    folder = local_folder(text)
    if (folder / RUN).is_file():
        return folder
    root = folder
    while not root.is_dir():  # "." at the latest, or "/"
        root = root.parent
    other_runs = [str(p) for p in find_runs(root)] if root not in (Path("."), Path("/")) else []
    if not other_runs and Path("results").is_dir():
        other_runs = [str(p) for p in find_runs(Path("results"))]
    best = difflib.get_close_matches(text, other_runs, n=3, cutoff=0.3) or other_runs[:3]
    what = f"'{text}' holds no run" if folder.is_dir() else f"there is no run folder '{text}'"
    if best:
        raise UserError(f"{what}; the nearest: {', '.join(best)}")
    raise UserError(
        f"{what}; make one with harness run, or name the folder that was given to its --out"
    )


def _check_named(text: str) -> None:
    """Raise UserError for an empty path, as of a shell's variable that is not set: it would mean
    the current folder."""
    if not text.strip():
        raise UserError("the name of a run folder is empty; name one, or '.' for this folder")


def run_folders(texts: Iterable[str]) -> list[Path]:
    """The run folders at or below the paths `texts`, each once. Raises UserError."""
    folders: list[Path] = []
    for text in texts:
        _check_named(text)
        folder = local_folder(text)
        folders += (find_runs(folder) if folder.is_dir() else []) or [run_folder(text)]
    return list(dict.fromkeys(folders))


def with_distinct_names(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """The runs; several with the same data set and folder name are called by their paths."""
    keys = [(run.config.dataset.name, run.name) for run in runs]
    counts = Counter(keys)
    return [
        replace(run, known_as=str(run.path)) if counts[key] > 1 else run
        for run, key in zip(runs, keys, strict=True)
    ]


def read_runs(folders: Iterable[Path], *, hold: Hold = "all") -> list[StoredRun]:
    """Read run folders; hold and errors: as for harness.storage.run_folder.read_run.

    The garbage collector is off meanwhile: records are trees without cycles, and walking those
    already read again and again takes most of the time (100,000 records on 2 cores: 8.1 s with it,
    1.9 s without).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return [read_run(folder, hold=hold) for folder in folders]
    finally:
        if was_on:
            gc.enable()
            gc.freeze()
