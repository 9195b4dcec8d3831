"""What the checks of a run's records found, kept in the user's cache folder: a second table of the
same runs does not pass over all texts again.

    found = checked(run, ["em.squad"])
    found.examined, found.misfits, found.scores["em.squad"]

    <user's cache>/checks/<first 2>/<key>.npz     six arrays of 8 bytes a record, and a JSON header

The key is a sha256 over the content of records.jsonl and documents.jsonl, settings, manifest and
summary, what the method declares, versions of the scorers, and the code of the checks. A time of
change is no part of it, so an edited file is always examined anew. The folder may be deleted.
"""

import contextlib
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from harness import scorers
from harness.config.schema import canonical
from harness.errors import SaveError
from harness.storage.file_hash import file_hash
from harness.storage.files import make_folder, replacing, user_home
from harness.storage.run_files import DOCUMENTS, RECORDS
from harness.storage.run_folder import StoredRun
from reports.consistency import record_misfits
from reports.declared import declared
from reports.examined import Examined, examine
from reports.rescored import Rescoring

_FOLDER = "checks"
_FEWEST = 200  # records that are worth a file: fewer are examined in 0.1 s
_COLUMNS = tuple(field.name for field in fields(Examined) if field.name != "problems")

Rescored = tuple[str | None, bool]
"""A sentence on scores that are not those of the answers, or None; whether all were checked."""


@dataclass(frozen=True)
class Checked:
    """What was found in a run's records.

    examined: of the pass over their texts; misfits: what does not fit between them and the other
    files; scores: by name of those that were computed again.
    """

    examined: Examined
    misfits: list[str]
    scores: dict[str, Rescored]


def checked(run: StoredRun, names: Sequence[str]) -> Checked:
    """Check the records of a run, or read what an earlier check of the same files found.

    Args:
        run: A whole stored run.
        names: Scores that are computed again.
    """
    if not run.is_in_file or len(run.records) < _FEWEST:
        return _check(run, names)
    key = _key(run, names)
    path = user_home() / _FOLDER / key[:2] / f"{key}.npz"
    kept = _read(path)
    if kept is not None:
        return kept
    found = _check(run, names)
    with contextlib.suppress(SaveError):  # it is examined again next time
        _write(path, found)
    return found


def _check(run: StoredRun, names: Sequence[str]) -> Checked:
    rescorings = [Rescoring(run, name) for name in names]
    examined = examine(run, rescorings)
    scores = {one.name: one.result for one in rescorings}
    return Checked(examined, record_misfits(run, examined), scores)


def _key(run: StoredRun, names: Sequence[str]) -> str:
    """The sha256 of all that the checks read."""
    says, documents = declared(run), run.path / DOCUMENTS
    installed = [name for name in names if name in scorers.names()]
    read = {
        "records": file_hash(run.path / RECORDS),
        "documents": file_hash(documents) if documents.is_file() else None,
        "folder": run.path.name,
        "config": run.config,
        "manifest": run.manifest,
        "summary": run.summary.to_json(),
        "declared": None if says is None else says.as_json(),
        "scores": list(names),
        "versions": {name: scorers.version(name) for name in installed},
        "problems": {name: scorers.problems([name]) for name in installed},
        "code": _code(),
    }
    return hashlib.sha256(canonical(read).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """A hash of the code that checks and scores, and of what reads it."""
    whole = hashlib.sha256(f"{platform.python_version()} {np.__version__}".encode())
    reports, harness = Path(__file__).parent, Path(scorers.__file__).parents[1]
    for folder in (reports, harness):
        for path in sorted(folder.rglob("*.py")):
            whole.update(f"{path.relative_to(folder)}\0{file_hash(path)}\n".encode())
    return whole.hexdigest()


def _write(path: Path, found: Checked) -> None:
    """Write what was found. Raises SaveError."""
    header = {
        "problems": dict(found.examined.problems),
        "misfits": found.misfits,
        "scores": found.scores,
    }
    columns = {name: getattr(found.examined, name) for name in _COLUMNS}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    make_folder(path.parent)
    with replacing(path, sync_folder=False) as file:
        np.savez(file, header=text, **columns)


def _read(path: Path) -> Checked | None:
    """What is kept at `path`; None where nothing is, or a torn file."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            header: Mapping[str, Any] = json.loads(kept["header"].tobytes())
            columns = {name: kept[name] for name in _COLUMNS}
            scores = {name: (why, bool(all_)) for name, (why, all_) in header["scores"].items()}
            examined = Examined(**columns, problems=header["problems"])
            return Checked(examined, header["misfits"], scores)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
