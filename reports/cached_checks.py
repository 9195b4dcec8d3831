"""What tables take from a run's records, in the user's cache folder: a second table of the
same runs reads arrays alone.

    run = read_run_with_numbers(folder)     its columns, and notes on what could not be read
    checks = check_or_read_cached(run)
    checks.examined, checks.inconsistencies, checks.scores["em.squad"]

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
from reports.cached_columns import from_arrays, json_from_bytes, json_to_bytes, to_arrays
from reports.consistency import record_inconsistencies
from reports.declared import method_declaration
from reports.examined import Examination, Examined
from reports.gold_rows import (
    are_rows_made_quickly,
    dataset_inconsistencies,
    made_rows_fingerprint,
)
from reports.rescored import Rescoring, RescoringResult

_FOLDER = "checks"
_MIN_CACHED_BYTES = 200_000  # bytes of records that are worth a file: fewer are examined in 0.1 s
_READ_ERRORS = (OSError, ValueError, KeyError, EOFError, BadZipFile)
_ARRAY_FIELDS = tuple(field.name for field in fields(Examined) if field.name != "problems")
_RECALL = "evidence_recall"  # which tables show beside the first score


@dataclass(frozen=True)
class RecordChecks:
    """What was found in a run's records.

    Args:
        examined: What the pass over their texts found.
        inconsistencies: What does not fit between them and the other files, a sentence each.
        scores: Name of each score that was computed again -> what that has found.
        rows: What the run holds otherwise than rows that the program makes itself, a sentence
            each; None where its rows are others.
    """

    examined: Examined
    inconsistencies: list[str]
    scores: dict[str, RescoringResult]
    rows: list[str] | None


def read_run_with_numbers(folder: Path) -> StoredRun:
    """Read a run with the numbers of its records, without their texts.

    They come from the cache where it has them. Otherwise the records are read and checked in one
    pass, and numbers and checks are written to the cache.

    Raises:
        UserError: It is no run folder, or a file in it is damaged.
    """
    run = read_without_records(folder)
    if not _is_worth_caching(run):
        return read_run(folder, hold="numbers")
    path = _cache_file(run)
    cached = _run_from_cache(run, path)
    if cached is not None:
        return cached
    run_with_numbers, checks = _read_and_check(run)
    with contextlib.suppress(SaveError):  # it is read again next time
        _write_cache_file(path, run_with_numbers, checks)
    return run_with_numbers


def check_or_read_cached(run: StoredRun) -> RecordChecks:
    """What a check of the records of a whole stored run finds.

    The result of an earlier check of the same files is read from the cache; a new one is written to
    it, unless the records are too few to be worth a file.
    """
    if not run.is_in_file or not _is_worth_caching(run):
        return _check_records(run)
    path = _cache_file(run)
    cached = _checks_from_cache(path)
    if cached is not None:
        return cached
    checks = _check_records(run)
    with contextlib.suppress(SaveError):  # it is examined again next time
        _write_cache_file(path, run, checks)
    return checks


def _is_worth_caching(run: StoredRun) -> bool:
    """Whether the records are large enough that reading a cached file is faster."""
    records = run.path / RECORDS
    return records.is_file() and records.stat().st_size >= _MIN_CACHED_BYTES


def _check_records(run: StoredRun) -> RecordChecks:
    """Examine each record of the run, and return what was found."""
    examination = _examination(run)
    for record in run.records_with_texts:
        examination.add(record)
    return _checks_from_examination(run, examination)


def _read_and_check(run: StoredRun) -> tuple[StoredRun, RecordChecks]:
    """Read and check the records of a run in one pass over its file.

    Args:
        run: A run that was read without its records.

    Returns:
        The run with its records, and what was found in them.

    Raises:
        DataError: A file of the run is damaged.
    """
    record_pass = RecordPass(run)
    examination = _examination(run)

    def examine_each(records: Iterator[StoredRecord]) -> Iterator[StoredRecord]:
        """Yield the records, each after it was examined; a second pass starts a new examination."""
        nonlocal examination
        examination = _examination(run)
        for record in records:
            examination.add(record)
            yield record

    with os_error_as_data_error(run.path):
        columns = record_pass.columns(examine_each)  # reads each record through it
        finished_run = record_pass.run_with_records(NumbersInFile(run.path / RECORDS, columns))
    return finished_run, _checks_from_examination(finished_run, examination)


def _examination(run: StoredRun) -> Examination:
    """A new examination of the run, which also computes scores again that can be."""
    return Examination(run, [Rescoring(run, name) for name in _scores_to_rescore(run)])


def _checks_from_examination(run: StoredRun, examination: Examination) -> RecordChecks:
    """What was found in the records and between them and the other files.

    Args:
        run: The run.
        examination: An examination to which every record of the run was added.
    """
    examined = examination.finished()
    return RecordChecks(
        examined=examined,
        inconsistencies=record_inconsistencies(run, examined),
        scores=examination.rescored(),
        rows=_differences_from_made_rows(run),
    )


def _differences_from_made_rows(run: StoredRun) -> list[str] | None:
    """What a run holds otherwise than its rows, a sentence each; None where the program does not
    make them itself in a few seconds."""
    if not are_rows_made_quickly(run):
        return None
    return dataset_inconsistencies(run)


def _scores_to_rescore(run: StoredRun) -> list[str]:
    """The scores that tables show and that may be computed again, sorted: the first score of the
    data set and evidence recall."""
    return sorted({facts.first_score(run), _RECALL})


def _cache_file(run: StoredRun) -> Path:
    """The file in the cache that holds, or will hold, the checks of a run."""
    key = _cache_key(run, _scores_to_rescore(run))
    return user_home() / _FOLDER / key[:2] / f"{key}.npz"


def _cache_key(run: StoredRun, score_names: Sequence[str]) -> str:
    """The sha256 of all that the checks read: files, settings, scorers and code.

    Args:
        run: The run.
        score_names: The scores that are computed again.
    """
    declaration = method_declaration(run)
    declared_values = None
    if declaration is not None:
        declared_values = declaration.as_json()
    installed_scorers = [name for name in score_names if name in scorers.names()]
    checked_inputs = {
        "records": file_hash(run.path / RECORDS),
        "others": hash_named(run.path, (DOCUMENTS, TEXTS, f"{TEXTS}.gz", REQUESTS)),
        "folder": run.path.name,
        "config": run.config.to_json(),
        "manifest": run.manifest.to_json(),
        "summary": run.summary.to_json(),
        "declared": declared_values,
        "scores": list(score_names),
        "versions": {name: scorers.version(name) for name in installed_scorers},
        "problems": {name: scorers.problems([name]) for name in installed_scorers},
        "rows": made_rows_fingerprint(run),
        "code": _code_hash(),
    }
    json_bytes = canonical_json(checked_inputs).encode("utf-8", "surrogatepass")
    return hashlib.sha256(json_bytes).hexdigest()


@lru_cache(maxsize=1)
def _code_hash() -> str:
    """A hash of the code of reports and harness, and of the versions of Python and numpy."""
    digest = hashlib.sha256(f"{platform.python_version()} {np.__version__}".encode())
    reports_folder = Path(__file__).parent
    harness_folder = Path(scorers.__file__).parents[1]
    for folder in (reports_folder, harness_folder):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\0{file_hash(path)}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class _Header:
    """What a cached file holds beside arrays.

    Args:
        notes: Sentences of the run on what could not be read.
        problems: What does not fit in records -> number of records.
        inconsistencies: What does not fit between the records and the other files.
        scores: Name of each score that was computed again -> what that has found.
        rows: What the run holds otherwise than its rows, as in RecordChecks.
    """

    notes: Sequence[str]
    problems: Mapping[str, int]
    inconsistencies: list[str]
    scores: dict[str, RescoringResult]
    rows: list[str] | None

    @classmethod
    def parse(cls, array: NDArray[np.uint8]) -> "_Header":
        """The header from the array of bytes that holds it in a cached file.

        Raises:
            KeyError: The array holds another value.
            ValueError: It holds none.
        """
        values = json_from_bytes(array)
        scores = {}
        for name, (problem, all_checked) in values["scores"].items():
            scores[name] = RescoringResult(problem, bool(all_checked))
        return cls(
            values["notes"], values["problems"], values["inconsistencies"], scores, values["rows"]
        )


def _write_cache_file(path: Path, run: StoredRun, checks: RecordChecks) -> None:
    """Write the columns of a run and what was found in its records to the cache.

    Args:
        path: The cached file, which is replaced.
        run: The run.
        checks: What was found in its records.

    Raises:
        SaveError: The file cannot be written.
    """
    header = _Header(
        notes=run.notes,
        problems=dict(checks.examined.problems),
        inconsistencies=checks.inconsistencies,
        scores=checks.scores,
        rows=checks.rows,
    )
    arrays: dict[str, Any] = {"header": json_to_bytes(asdict(header))}
    for name in _ARRAY_FIELDS:
        arrays[name] = getattr(checks.examined, name)
    for name, column in to_arrays(run.columns).items():
        arrays[f"columns.{name}"] = column
    make_folder(path.parent)
    with replacing(path, sync_folder=False) as file:
        np.savez(file, **arrays)


def _run_from_cache(run: StoredRun, path: Path) -> StoredRun | None:
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
    except _READ_ERRORS:
        return None


def _checks_from_cache(path: Path) -> RecordChecks | None:
    """What an earlier check found in the records, from the cached file `path`; None where there is
    none, or a torn one."""
    try:
        with np.load(path, allow_pickle=False) as cached:
            header = _Header.parse(cached["header"])
            columns = {name: cached[name] for name in _ARRAY_FIELDS}
            examined = Examined(**columns, problems=header.problems)
            return RecordChecks(
                examined=examined,
                inconsistencies=header.inconsistencies,
                scores=header.scores,
                rows=header.rows,
            )
    except _READ_ERRORS:
        return None
