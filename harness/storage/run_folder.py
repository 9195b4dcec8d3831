"""A run folder, read back; its files are in run_files.py.

read_run(folder) -> StoredRun            any number of readers; the one writer is harness/storage/run_store.py
read_question(folder, id) -> StoredRun   one record of a large run, without reading the others
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from harness.cost.usage import PhaseUsage, Usage
from harness.errors import DataError, UserError
from harness.storage import run_schema
from harness.storage.files import WrongValue, as_object, check
from harness.storage.json_lines import indexed_lines, read_with_older
from harness.storage.kept_requests import read_requests
from harness.storage.packed_records import PackedRecords
from harness.storage.record_texts import checksum
from harness.storage.records import (
    IndexLine,
    StoredRecord,
    StoredStep,
    read_index_lines,
    read_records,
)
from harness.storage.run_files import (
    MANIFEST,
    RECORDS,
    REQUESTS,
    RUN,
    TEXTS,
    os_error_as_data_error,
    read_json,
    read_summary,
    used_settings,
)
from harness.storage.summary_file import RunSummary
from harness.storage.yaml_text import YAMLProblem, parse_yaml

Hold = Literal["all", "numbers", "nothing"]
"""How much of its records a run holds in memory: all, what a table counts (no texts), or nothing
(StreamedRecords)."""

# No table reads these keys of a step.
_STEP_KEYS = {"shown", "scores", "flops", "probe_flops", "answer", "answer_flops"}
_COSTS = {"tokens_in", "tokens_out", "seconds"}  # costs that are unknown where a usage lacks them
_KEPT = {*_COSTS, "queued"}  # 0 is another thing than unknown

_Pointers = dict[
    str, list[str]
]  # question -> checksums of the long texts that its last record points to


@dataclass(frozen=True)
class StoredRun:
    """A run as it is on disk; manifest, records, documents and summary: the files of these names.

    config, origins: settings (RunConfig) and where each came from; records: maybe without texts
    (Hold); notes: what could not be read; whole: the run that this is a part of
    (reports/by_kind.py), whose indexes and costs it has;
    known_as: its name where runs of two results folders have one.
    """

    path: Path
    config: dict[str, Any]
    manifest: dict[str, Any]
    records: Sequence[StoredRecord]
    documents: list[IndexLine]
    summary: RunSummary
    origins: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    whole: StoredRun | None = None
    known_as: str = ""

    @property
    def name(self) -> str:
        """The run's name among those of its data set that are shown: its folder's, unless two have
        that."""
        return self.known_as or self.path.name

    @functools.cached_property
    def keys(self) -> tuple[list[str], set[str]]:
        """(Names of all scores of the records in order, keys of all phases of their usage), of one
        pass."""
        scores, usage = dict[str, None](), set[str]()
        for record in self.records:
            scores.update(dict.fromkeys(record.scores))
            usage.update(*record.usage.values())
        return list(scores), usage

    @property
    def whole_records(self) -> Sequence[StoredRecord]:
        """The records with their texts, read again from disk where `records` are their numbers."""
        return self.records.whole if isinstance(self.records, _NumbersOfRecords) else self.records

    @property
    def is_in_file(self) -> bool:
        """Whether `records` are the numbers of those in the folder's records.jsonl."""
        return isinstance(self.records, _NumbersOfRecords)

    def usages(self) -> Iterator[Usage]:
        """The costs of all records, then those of all indexes, failed ones too."""
        for record in self.records:
            yield record.usage
        for line in self.documents:
            yield line.usage

    def texts(self, records: Iterable[StoredRecord]) -> dict[str, str]:
        """Long texts that these records point to, by text_sha256. Raises DataError for a damaged
        texts.jsonl."""
        return dict(self.stream_texts(records))

    def stream_texts(self, records: Iterable[StoredRecord]) -> Iterator[tuple[str, str]]:
        """Yield (text_sha256, text) as `texts` does: those of a large run may not fit in memory."""
        hashes = {pointer for record in records for pointer in text_pointers(record)}
        path = self.path / TEXTS
        with os_error_as_data_error(path):
            for line in read_with_older(path, "sha256") if hashes else ():
                if line["sha256"] in hashes:
                    text = line.get("text")
                    if not isinstance(text, str) or checksum(text) != line["sha256"]:
                        raise DataError(
                            path,
                            None,
                            None,
                            f"the text {line['sha256'][:40]} does not fit its checksum",
                        )
                    yield line["sha256"], text

    def requests(self, question_id: str) -> list[dict[str, Any]]:
        """A question's requests (--keep-prompts) in order: phase, role, kind, prompt, reply. Raises
        DataError."""
        with os_error_as_data_error(self.path / REQUESTS):
            return read_requests(self.path, {question_id}).get(question_id, [])


def find_runs(root: Path) -> list[Path]:
    """Every run folder at or below `root`, sorted. Raises UserError when `root` is no folder."""
    root = Path(root)
    if not root.is_dir():
        raise UserError(
            f"there is no folder {root}; name the folder that was given to --out, or run something "
            "first."
        )
    return sorted(path.parent for path in root.rglob(RUN))


class StreamedRecords(Sequence[StoredRecord]):
    """The last record of each question in a file, read and checked again at each pass.

    So 100,000 records take the memory of their ids and offsets, 20 MB; a pass takes 3 s. notes:
    gets a sentence on a torn line; texts: gets question id -> checksums of its long texts. Raises
    DataError for a damaged or replaced file.
    """

    def __init__(
        self, path: Path, notes: list[str] | None = None, texts: _Pointers | None = None
    ) -> None:
        self.path = path
        self.offsets: dict[str, tuple[int, int]] = {}
        for at, size, values in indexed_lines(path, "question_id", notes, run_schema.RECORD):
            self.offsets[values["question_id"]] = at, size
            if texts is not None:
                texts[values["question_id"]] = text_pointers(StoredRecord.from_json(values))

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[StoredRecord]:
        return self._read(self.offsets)

    def __getitem__(self, at: Any) -> Any:
        ids = list(self.offsets)[at]
        return self.record_of(ids) if isinstance(ids, str) else list(self._read(ids))

    def record_of(self, question_id: str) -> StoredRecord:
        """The record of a question. Raises KeyError for one without a record."""
        return next(self._read([question_id]))

    def _read(self, ids: Iterable[str]) -> Iterator[StoredRecord]:
        """Yield the records of these questions. Raises DataError for one that is not at its offset
        any more."""
        if not self.offsets:
            return
        with open(self.path, "rb") as file:
            for question_id in ids:
                at, size = self.offsets[question_id]
                file.seek(at)
                record = _record_in(file.read(size))
                if record is None or record.question_id != question_id:
                    raise DataError(
                        self.path,
                        None,
                        None,
                        "it was replaced while it was read; run the command again",
                    )
                yield record


def _record_in(line: bytes) -> StoredRecord | None:
    """The record of a line; None where it is no record."""
    try:
        values = as_object(line)
        check(values, run_schema.RECORD)
    except ValueError:
        return None
    return StoredRecord.from_json(values)


class RecordsByQuestion(Mapping[str, StoredRecord]):
    """Question id -> record; records that stay on disk are read at each access."""

    def __init__(self, records: Sequence[StoredRecord]) -> None:
        self._places: Mapping[str, Any]
        self._read: Callable[[str], StoredRecord]
        if isinstance(records, StreamedRecords):
            self._places = records.offsets
            self._read = records.record_of
        else:
            by_question = {record.question_id: record for record in records}
            self._places = by_question
            self._read = by_question.__getitem__

    def __getitem__(self, question_id: str) -> StoredRecord:
        return self._read(question_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _NumbersOfRecords(PackedRecords):
    """The records of a file without their texts."""

    def __init__(self, path: Path, records: Iterable[StoredRecord]) -> None:
        super().__init__()
        self._path = path
        places: dict[str, int] = {}
        again: dict[int, StoredRecord] = {}
        for record in records:
            place = places.setdefault(record.question_id, len(self))
            if place == len(self):
                self.append(record)
            else:
                again[place] = record
        self.replace(again)

    @functools.cached_property
    def whole(self) -> StreamedRecords:
        """The records with their texts, read from the file."""
        return StreamedRecords(self._path)


def read_run(folder: Path, *, hold: Hold = "all") -> StoredRun:
    """Read a run folder, a running one too; hold: how much of its records stays in memory.

    Raises UserError when it is no run folder, DataError when a file in it is damaged. A summary or
    manifest that is not written yet is {}. If a question has several records, the last one counts.
    """

    def records(path: Path, notes: list[str], texts: _Pointers) -> Sequence[StoredRecord]:
        """The records as `hold` says; notes, texts: as of StreamedRecords."""
        if hold == "nothing":
            return StreamedRecords(path, notes, texts)
        read = _with_pointers(read_records(path, notes), texts)
        if hold == "numbers":
            return _NumbersOfRecords(path, map(numbers_of, read))
        by_question = {record.question_id: record for record in read}
        return list(by_question.values())

    return _read(Path(folder), records)


def _with_pointers(records: Iterable[StoredRecord], texts: _Pointers) -> Iterator[StoredRecord]:
    """Yield the records; texts: gets question id -> checksums of its long texts."""
    for record in records:
        pointers = text_pointers(record)
        if pointers or record.question_id in texts:
            texts[record.question_id] = pointers
        yield record


def numbers_of(record: StoredRecord) -> StoredRecord:
    """The part of a record that tables read: no texts, scores of nodes, or zero counters."""
    usage = {phase: _without_zeros(used) for phase, used in record.usage.items()}
    steps = [_without_step_texts(step) for step in record.steps]
    return StoredRecord(
        question_id=record.question_id,
        document_ids=record.document_ids,
        prediction="",
        scores=record.scores,
        usage=usage,
        stop_reason=record.stop_reason,
        steps=steps,
        truncated=record.truncated,
        error=record.error,
        notes=record.notes,
        key_order=record.key_order,
        other=record.other,
    )


def _without_zeros(used: PhaseUsage) -> PhaseUsage:
    """The costs of a phase without counters of 0, where it has all costs."""
    if used.keys() >= _COSTS:
        kept = {key: value for key, value in used.items() if value or key in _KEPT}
        return cast(PhaseUsage, kept)
    return used


def _without_step_texts(step: StoredStep) -> StoredStep:
    kept = step.copy()
    for key in _STEP_KEYS:
        kept.pop(key, None)  # type: ignore[misc]
    return kept


def read_question(folder: Path, question_id: str) -> StoredRun:
    """Read a run with the record of one question alone; with all records if it has none of that
    question.

    Only lines that contain the id are parsed: damage elsewhere in records.jsonl raises nothing.
    Else as `read_run`.
    """
    keys = {
        b'"question_id": ' + json.dumps(question_id, ensure_ascii=a).encode("utf-8", "replace")
        for a in (True, False)
    }

    def has_key(line: bytes) -> bool:
        return any(key in line for key in keys)

    def records(path: Path, notes: list[str], texts: _Pointers) -> Sequence[StoredRecord]:
        read = read_records(path, notes, has_key)
        matching = [record for record in read if record.question_id == question_id][-1:]
        for record in matching:
            texts[question_id] = text_pointers(record)
        return matching

    run = _read(folder, records)
    return run if run.records else read_run(folder)


def _read(
    folder: Path, records: Callable[[Path, list[str], _Pointers], Sequence[StoredRecord]]
) -> StoredRun:
    """Read a run folder. records(path, notes, texts) reads records.jsonl and fills the other
    two."""
    if not (folder / RUN).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RUN}.")
    run, manifest = run_yaml(folder), read_json(folder / MANIFEST, run_schema.MANIFEST)
    origins, models = run.get("origins") or {}, manifest.get("models") or {}
    # Runs of before December 2026 list every setting, also of models that they do not use.
    unused = [role for role in ("encoder", "reranker") if models and role not in models]
    listed = {key: value for key, value in run["config"].items() if key not in unused}
    config, origins = used_settings(listed, origins)
    notes: list[str] = []
    texts: _Pointers = {}
    with os_error_as_data_error(folder):
        found = records(folder / RECORDS, notes, texts)
        documents = list(read_index_lines(folder, notes))
        lost = lost_texts(folder, {pointer for own in texts.values() for pointer in own})
        notes += [lost] if lost else []
    return StoredRun(
        path=folder,
        config=config,
        manifest=manifest,
        records=found,
        documents=documents,
        summary=read_summary(folder),
        origins=origins,
        notes=tuple(notes),
    )


def run_yaml(folder: Path) -> dict[str, Any]:
    """Parse and check run.yaml, {"config", "origins"}. Raises DataError for a damaged one."""
    path = folder / RUN
    try:
        with os_error_as_data_error(path):
            value = parse_yaml(path.read_bytes())
    except YAMLProblem as problem:
        raise DataError(path, problem.line, None, f"not valid YAML ({problem})") from None
    if not isinstance(value, dict) or not isinstance(value.get("config"), dict):
        raise DataError(
            path, None, "config", "missing; the run folder was not written by this program"
        )
    try:
        check(value, run_schema.RUN)
    except WrongValue as error:
        raise DataError(
            path, None, error.key, f"{error}; the run folder was not written by this program"
        ) from None
    return value


def text_pointers(record: StoredRecord) -> list[str]:
    """The checksums of the long texts that a record points to."""
    pointers = []
    for piece in record.pieces():
        pointer = piece.get("text_sha256")
        if pointer:
            pointers.append(pointer)
    return pointers


def _is_its_text(line: Mapping[str, Any]) -> bool:
    text = line.get("text")
    return isinstance(text, str) and checksum(text) == line["sha256"]


def lost_texts(folder: Path, wanted: Set[str]) -> str | None:
    """A sentence on how many of the texts `wanted` (checksums) the folder lacks; None where it has
    all."""
    if not wanted:
        return None
    try:
        lines = read_with_older(folder / TEXTS, "sha256")
        held = {line["sha256"] for line in lines if _is_its_text(line)}
        lost = len(wanted - held)
    except DataError as error:
        return str(error)
    return (
        f"{lost} of {len(wanted)} long texts that were shown are missing from {TEXTS}"
        if lost
        else None
    )
