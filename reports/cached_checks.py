"""What tables take from a run's records, in the user's cache folder: a second table of the
same runs reads arrays alone.

    run = read_numbers(folder)          its columns, and notes on what could not be read
    found = checked(run)
    found.examined, found.misfits, found.scores["em.squad"]

    <user's cache>/checks/<first 2>/<key>.npz     columns, hashes of texts, and a JSON header

The key is a sha256 over the content of all files of the run, what its method declares, versions of
the scorers, and the code of this program. A time of change is no part of it, so an edited file is
always read anew. The folder may be deleted.
"""

import contextlib
import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from harness import scorers
from harness.config.schema import canonical_json
from harness.errors import SaveError
from harness.storage.file_hash import file_hash, hash_named
from harness.storage.files import make_folder, replacing, user_home
from harness.storage.records import StoredRecord
from harness.storage.run_files import DOCUMENTS, RECORDS, REQUESTS, TEXTS, os_error_as_data_error
from harness.storage.run_folder import (
    NumbersInFile,
    RecordPass,
    StoredRun,
    read_run,
    read_without_records,
)
from reports import facts
from reports.cached_columns import as_bytes, from_arrays, from_bytes, to_arrays
from reports.consistency import record_misfits
from reports.declared import declared
from reports.examined import Examination, Examined
from reports.rescored import RescoredScore, Rescoring

_FOLDER = "checks"
_SMALLEST = 200_000  # bytes of records that are worth a file: fewer are examined in 0.1 s
_DAMAGED = (OSError, ValueError, KeyError, EOFError, BadZipFile)
_COLUMNS = tuple(field.name for field in fields(Examined) if field.name != "problems")
_RECALL = "evidence_recall"  # which tables show beside the first score


@dataclass(frozen=True)
class Checked:
    """What was found in a run's records.

    Args:
        examined: What the pass over their texts found.
        misfits: What does not fit between them and the other files, a sentence each.
        scores: Name of each score that was computed again -> what that has found.
    """

    examined: Examined
    misfits: list[str]
    scores: dict[str, RescoredScore]


def read_numbers(folder: Path) -> StoredRun:
    """Read a run with the numbers of its records, without their texts.

    They come from the cache where it has them. Otherwise the records are read and checked in one
    pass, and numbers and checks are written to the cache.

    Raises:
        UserError: It is no run folder, or a file in it is damaged.
    """
    run = read_without_records(folder)
    if not _is_worth_caching(run):
        return read_run(folder, hold="numbers")
    path = _path(run)
    cached = _read_run(run, path)
    if cached is not None:
        return cached
    read, checks = _examined_while_read(run)
    with contextlib.suppress(SaveError):  # it is read again next time
        _write(path, read, checks)
    return read


def checked(run: StoredRun) -> Checked:
    """What a check of the records of a whole stored run finds.

    The result of an earlier check of the same files is read from the cache; a new one is written to
    it, unless the records are too few to be worth a file.
    """
    if not run.is_in_file or not _is_worth_caching(run):
        return _check(run)
    path = _path(run)
    cached = _read_checked(path)
    if cached is not None:
        return cached
    checks = _check(run)
    with contextlib.suppress(SaveError):  # it is examined again next time
        _write(path, run, checks)
    return checks


def _is_worth_caching(run: StoredRun) -> bool:
    """Whether the records are large enough that reading a cached file is faster."""
    records = run.path / RECORDS
    return records.is_file() and records.stat().st_size >= _SMALLEST


def _check(run: StoredRun) -> Checked:
    """Examine each record of the run, and return what was found."""
    examination = _examination(run)
    for record in run.records_with_texts:
        examination.add(record)
    return _finished(run, examination)


def _examined_while_read(run: StoredRun) -> tuple[StoredRun, Checked]:
    """The run with its records, and what was found in them, in one pass over the file.

    Raises:
        DataError: A file of the run is damaged.
    """
    reading = RecordPass(run)
    examination = _examination(run)

    def examined(records: Iterator[StoredRecord]) -> Iterator[StoredRecord]:
        """Yield the records, each after it was examined; a second pass starts a new examination."""
        nonlocal examination
        examination = _examination(run)
        for record in records:
            examination.add(record)
            yield record

    with os_error_as_data_error(run.path):
        columns = reading.columns(examined)
        read = reading.run_with_records(NumbersInFile(run.path / RECORDS, columns))
    return read, _finished(read, examination)


def _examination(run: StoredRun) -> Examination:
    """A new examination of the run, which also computes scores again that can be."""
    return Examination(run, [Rescoring(run, name) for name in _rescored_names(run)])


def _finished(run: StoredRun, examination: Examination) -> Checked:
    """What was found in the records and between them and the other files, once all are examined."""
    found = examination.finished()
    return Checked(found, record_misfits(run, found), examination.scores())


def _rescored_names(run: StoredRun) -> list[str]:
    """The scores that tables show and that may be computed again, sorted: the first score of the
    data set and evidence recall."""
    return sorted({facts.first_score(run), _RECALL})


def _path(run: StoredRun) -> Path:
    """The file in the cache that holds, or will hold, the checks of a run."""
    key = _key(run, _rescored_names(run))
    return user_home() / _FOLDER / key[:2] / f"{key}.npz"


def _key(run: StoredRun, names: Sequence[str]) -> str:
    """The sha256 of all that the checks read: files, settings, scorers and code.

    Args:
        run: The run.
        names: The scores that are computed again.
    """
    declaration = declared(run)
    declares = None
    if declaration is not None:
        declares = declaration.as_json()
    installed = [name for name in names if name in scorers.names()]
    read = {
        "records": file_hash(run.path / RECORDS),
        "others": hash_named(run.path, (DOCUMENTS, TEXTS, f"{TEXTS}.gz", REQUESTS)),
        "folder": run.path.name,
        "config": run.config.to_json(),
        "manifest": run.manifest.to_json(),
        "summary": run.summary.to_json(),
        "declared": declares,
        "scores": list(names),
        "versions": {name: scorers.version(name) for name in installed},
        "problems": {name: scorers.problems([name]) for name in installed},
        "code": _code(),
    }
    return hashlib.sha256(canonical_json(read).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """A hash of the code of reports and harness, and of the versions of Python and numpy."""
    whole = hashlib.sha256(f"{platform.python_version()} {np.__version__}".encode())
    reports = Path(__file__).parent
    harness = Path(scorers.__file__).parents[1]
    for folder in (reports, harness):
        for path in sorted(folder.rglob("*.py")):
            whole.update(f"{path.relative_to(folder)}\0{file_hash(path)}\n".encode())
    return whole.hexdigest()


@dataclass(frozen=True)
class _Header:
    """What a cached file holds beside arrays.

    Args:
        notes: Sentences of the run on what could not be read.
        problems: What does not fit in records -> number of records.
        misfits: What does not fit between the records and the other files.
        scores: Name of each score that was computed again -> what that has found.
    """

    notes: Sequence[str]
    problems: Mapping[str, int]
    misfits: list[str]
    scores: dict[str, RescoredScore]

    @classmethod
    def parse(cls, array: NDArray[np.uint8]) -> "_Header":
        """The header from the array of bytes that holds it in a cached file.

        Raises:
            KeyError: The array holds another value.
            ValueError: It holds none.
        """
        values = from_bytes(array)
        scores = {}
        for name, (problem, all_checked) in values["scores"].items():
            scores[name] = RescoredScore(problem, bool(all_checked))
        return cls(values["notes"], values["problems"], values["misfits"], scores)


def _write(path: Path, run: StoredRun, found: Checked) -> None:
    """Write the columns of a run and what was found in its records to the cache.

    Args:
        path: The cached file, which is replaced.
        run: The run.
        found: What was found in its records.

    Raises:
        SaveError: The file cannot be written.
    """
    problems = dict(found.examined.problems)
    header = _Header(run.notes, problems, found.misfits, found.scores)
    arrays: dict[str, Any] = {"header": as_bytes(asdict(header))}
    for name in _COLUMNS:
        arrays[name] = getattr(found.examined, name)
    for name, column in to_arrays(run.columns).items():
        arrays[f"columns.{name}"] = column
    make_folder(path.parent)
    with replacing(path, sync_folder=False) as file:
        np.savez(file, **arrays)


def _read_run(run: StoredRun, path: Path) -> StoredRun | None:
    """A run with its records' numbers from the cached file; None where there is none, or a torn
    one.

    Args:
        run: The run as it was read without its records.
        path: The cached file.
    """
    try:
        with np.load(path, allow_pickle=False) as cached:
            arrays = {}
            for name in cached.files:
                if name.startswith("columns."):
                    arrays[name.removeprefix("columns.")] = cached[name]
            records = NumbersInFile(run.path / RECORDS, from_arrays(arrays))
            notes = _Header.parse(cached["header"]).notes
            return replace(run, records=records, notes=tuple(notes))
    except _DAMAGED:
        return None


def _read_checked(path: Path) -> Checked | None:
    """What an earlier check found in the records, from the cached file `path`; None where there is
    none, or a torn one."""
    try:
        with np.load(path, allow_pickle=False) as cached:
            header = _Header.parse(cached["header"])
            columns = {name: cached[name] for name in _COLUMNS}
            examined = Examined(**columns, problems=header.problems)
            return Checked(examined, header.misfits, header.scores)
    except _DAMAGED:
        return None
