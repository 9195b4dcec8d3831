"""A run folder, read back; its files are in run_files.py.

read_run(folder) -> StoredRun            any number of readers; the one writer is harness/storage/run_store.py
read_question(folder, id) -> StoredRun   one record of a large run, without reading the others
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from harness.cost.prices import ENCODER_ROLES, Prices
from harness.cost.usage import PhaseUsage, Usage
from harness.errors import DataError, UserError
from harness.storage import run_schema
from harness.storage.files import WrongValue, check_form, parse_object
from harness.storage.json_lines import LinePlace, indexed_lines, read_with_older
from harness.storage.kept_requests import StoredRequest, read_requests
from harness.storage.manifest_file import RunManifest
from harness.storage.packed_records import PackedRecords
from harness.storage.record_texts import text_checksum
from harness.storage.records import (
    IndexLine,
    StoredRecord,
    StoredStep,
    read_index_lines,
    read_records,
)
from harness.storage.run_files import (
    RECORDS,
    REQUESTS,
    RUN,
    TEXTS,
    os_error_as_data_error,
    read_manifest,
    read_summary,
    used_settings,
)
from harness.storage.stored_config import RunFile, StoredConfig
from harness.storage.summary_file import RunSummary
from harness.storage.yaml_text import YAMLProblem, parse_yaml

if TYPE_CHECKING:
    from harness.storage.record_columns import RecordColumns

Hold = Literal["all", "numbers", "nothing"]
"""How much of its records a run holds in memory: all, what a table counts (no texts), or nothing
(StreamedRecords)."""

# No table reads these keys of a step.
_STEP_KEYS_OF_NO_TABLE = {"shown", "scores", "flops", "probe_flops", "answer", "answer_flops"}
_UNKNOWN_WHERE_MISSING = {
    "tokens_in",
    "tokens_out",
    "seconds",
}  # costs that are unknown where a usage lacks them
_ZERO_IS_KNOWN = {*_UNKNOWN_WHERE_MISSING, "queued"}  # 0 is another thing than unknown

_ChecksumsByQuestion = dict[str, list[str]]
"""Question -> checksums of the long texts that its last record points to."""
RecordObserver = Callable[[Iterator[StoredRecord]], Iterable[StoredRecord]]
"""A generator function: it is given the records of a pass, sees each, and yields it unchanged."""


class LongText(NamedTuple):
    """A text of texts.jsonl, and the checksum by which records point to it."""

    sha256: str
    text: str


@dataclass(frozen=True)
class StoredRun:
    """A run as it is on disk.

    Attributes:
        path: Its folder.
        config: Its settings.
        manifest: manifest.json.
        records: records.jsonl, maybe without texts (Hold).
        index_lines: documents.jsonl, a line for each index that was built or looked up.
        summary: summary.json.
        origins: Path of a setting -> what set it.
        notes: What could not be read, a sentence each.
        whole_run: The run that this is a part of (reports/by_kind.py), whose indexes and costs it
            has; None for a run that is no part of another.
        repeats: The runs of several seeds whose mean this is (reports/repeats.py); () for a run that
            is no mean.
        display_name: Its name where runs of two results folders have one.
    """

    path: Path
    config: StoredConfig
    manifest: RunManifest
    records: Sequence[StoredRecord]
    index_lines: list[IndexLine]
    summary: RunSummary
    origins: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    whole_run: StoredRun | None = None
    repeats: tuple[StoredRun, ...] = ()
    display_name: str = ""

    @property
    def name(self) -> str:
        """The name that tables show: the folder's name, or `display_name` where two shown runs of one
        data set have the same folder name.
        """
        return self.display_name or self.path.name

    @property
    def runs_as_made(self) -> tuple[StoredRun, ...]:
        """The runs whose files are on disk: the repeats of a mean, else the whole run alone."""
        whole_run = self.whole_run or self
        return whole_run.repeats or (whole_run,)

    @functools.cached_property
    def columns(self) -> RecordColumns:
        """The numbers of the records that tables count, one array a column; read once, then
        kept.
        """
        if isinstance(self.records, NumbersInFile):
            return self.records.columns
        return _make_columns(self.records, self.config.dataset.format)

    @functools.cached_property
    def prices(self) -> Prices:
        """What a token of each of the run's models costs, as its settings say."""
        return self.config.prices

    @functools.cached_property
    def score_names(self) -> list[str]:
        """The names of all scores that records have, in the order in which the records name
        them.
        """
        return list(self.columns.scores)

    @property
    def cost_keys(self) -> frozenset[str]:
        """The keys of what records cost in any phase: {"tokens_in", "tokens_out", "seconds"}."""
        return self.columns.usage_keys

    @property
    def records_with_texts(self) -> Sequence[StoredRecord]:
        """The records with their texts. They are read from disk again at each pass where the run
        holds only their numbers.
        """
        if isinstance(self.records, NumbersInFile):
            return self.records.records_with_texts
        return self.records

    @property
    def is_in_file(self) -> bool:
        """Whether the run holds only the numbers of its records, and their texts stay in the
        file.
        """
        return isinstance(self.records, NumbersInFile)

    def usages(self) -> Iterator[Usage]:
        """Yield what each record cost, then what each index cost, those of failed builds too."""
        for record in self.records:
            yield record.usage
        for line in self.index_lines:
            yield line.usage

    def texts(self, records: Iterable[StoredRecord]) -> dict[str, str]:
        """Read the long texts that these records point to: sha256 of a text -> the text.

        Texts that texts.jsonl lacks are left out. Raises DataError for a damaged texts.jsonl.
        """
        return dict(self.stream_texts(records))

    def stream_texts(self, records: Iterable[StoredRecord]) -> Iterator[LongText]:
        """Yield each long text in texts.jsonl that the records point to.

        One at a time, as the texts of a large run may not fit in memory. Raises DataError for a
        damaged texts.jsonl.
        """
        wanted_checksums: set[str] = set()
        for record in records:
            wanted_checksums.update(text_pointers(record))
        if not wanted_checksums:
            return
        path = self.path / TEXTS
        with os_error_as_data_error(path):
            for line in read_with_older(path, "sha256"):
                sha256 = str(line["sha256"])
                if sha256 not in wanted_checksums:
                    continue
                text = line.get("text")
                if not isinstance(text, str) or text_checksum(text) != sha256:
                    problem = f"the text {sha256[:40]} does not fit its checksum"
                    raise DataError.of_file(path, problem)
                yield LongText(sha256, text)

    def requests(self, question_id: str) -> list[StoredRequest]:
        """The stored requests of one question, in order; none where the run kept no prompts
        (--keep-prompts). Raises DataError for a damaged requests.jsonl.
        """
        with os_error_as_data_error(self.path / REQUESTS):
            return read_requests(self.path, {question_id}).get(question_id, [])


def find_runs(root: Path) -> list[Path]:
    """Find every run folder at or below `root`, sorted by path. Raises UserError when `root` is no
    folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise UserError(
            f"there is no folder {root}; name the folder that was given to --out, or run something "
            "first."
        )
    return sorted(path.parent for path in root.rglob(RUN))


class StreamedRecords(Sequence[StoredRecord]):
    """The last record of each question in a file, read and checked again at each pass.

    So 100,000 records take the memory of their ids and offsets, 20 MB; a pass takes 3 s.

    Attributes:
        path: The file.
        line_places: Question -> where its line is in the file.
    """

    def __init__(
        self,
        path: Path,
        notes: list[str] | None = None,
        text_checksums: _ChecksumsByQuestion | None = None,
    ) -> None:
        """Read once through the file, to learn where the last record of each question lies.

        Args:
            path: A records.jsonl.
            notes: A sentence on a torn last line is added to it.
            text_checksums: Filled with question id -> checksums of the long texts that its record
                points to.

        Raises:
            DataError: The file is damaged. A later pass also raises it where the file was replaced.
        """
        self.path = path
        self.line_places: dict[str, LinePlace] = {}
        for line in indexed_lines(path, "question_id", notes, run_schema.RECORD):
            question_id = line.value["question_id"]
            self.line_places[question_id] = line.place
            if text_checksums is not None:
                record = StoredRecord.from_json(line.value)
                text_checksums[question_id] = text_pointers(record)

    def __len__(self) -> int:
        """How many questions have a record."""
        return len(self.line_places)

    def __iter__(self) -> Iterator[StoredRecord]:
        """Read the file again, and yield the last record of each question."""
        return self._read(self.line_places)

    def __getitem__(self, position_or_slice: Any) -> Any:
        """The record at a position, or the list of records of a slice; read from the file now."""
        id_or_ids = list(self.line_places)[position_or_slice]
        if isinstance(id_or_ids, str):
            return self.record_of(id_or_ids)
        return list(self._read(id_or_ids))

    def record_of(self, question_id: str) -> StoredRecord:
        """Read the record of a question from the file. Raises KeyError for a question without
        one.
        """
        return next(self._read([question_id]))

    def _read(self, ids: Iterable[str]) -> Iterator[StoredRecord]:
        """Yield the records of these questions, each read at its remembered offset in the file.

        Raises DataError where another record lies at that offset: the file was replaced meanwhile.
        """
        if not self.line_places:
            return
        with open(self.path, "rb") as file:
            for question_id in ids:
                place = self.line_places[question_id]
                file.seek(place.offset)
                record = _parse_record(file.read(place.length))
                if record is None or record.question_id != question_id:
                    raise DataError.of_file(
                        self.path, "it was replaced while it was read; run the command again"
                    )
                yield record


def _parse_record(line: bytes) -> StoredRecord | None:
    """Parse a line of records.jsonl; None where it is no JSON object or lacks keys of a record."""
    try:
        values = parse_object(line)
        check_form(values, run_schema.RECORD)
    except ValueError:
        return None
    return StoredRecord.from_json(values)


class RecordsByQuestion(Mapping[str, StoredRecord]):
    """Question id -> record; records that stay on disk are read at each access."""

    def __init__(self, records: Sequence[StoredRecord]) -> None:
        """Keep the records in a dict by question; of records that stay on disk keep where their
        lines are.
        """
        self._line_or_record_by_question: Mapping[str, object]
        self._read: Callable[[str], StoredRecord]
        if isinstance(records, StreamedRecords):
            self._line_or_record_by_question = records.line_places
            self._read = records.record_of
        else:
            by_question = {record.question_id: record for record in records}
            self._line_or_record_by_question = by_question
            self._read = by_question.__getitem__

    def __getitem__(self, question_id: str) -> StoredRecord:
        """The record of a question, read from the file if it is not in memory. Raises KeyError."""
        return self._read(question_id)

    def __iter__(self) -> Iterator[str]:
        """Yield the ids of the questions that have a record."""
        return iter(self._line_or_record_by_question)

    def __len__(self) -> int:
        """How many questions have a record."""
        return len(self._line_or_record_by_question)


class NumbersInFile(Sequence[StoredRecord]):
    """The records of a run's file as columns; the records themselves, without their texts, are
    read when one of them is asked for."""

    def __init__(self, path: Path, columns: RecordColumns) -> None:
        """Keep the columns and the file; no record is read yet.

        Args:
            path: The records.jsonl that the columns were read from.
            columns: The numbers of its records.
        """
        self.columns = columns
        self._path = path

    def __len__(self) -> int:
        """How many records there are, by the columns; no record is read."""
        return len(self.columns)

    def __iter__(self) -> Iterator[StoredRecord]:
        """Yield the records without their texts; all are read from the file at the first use."""
        return iter(self._records)

    def __getitem__(self, position_or_slice: Any) -> Any:
        """The record at a position, or the list of records of a slice, without their texts."""
        return self._records[position_or_slice]

    @functools.cached_property
    def _records(self) -> PackedRecords:
        """The records without their texts, all read from the file at the first use, and packed."""
        return PackedRecords(map(reduced_to_numbers, self.records_with_texts))

    @functools.cached_property
    def records_with_texts(self) -> StreamedRecords:
        """The records with their texts; their offsets are found at the first use, and each record
        is read from the file at each access.
        """
        return StreamedRecords(self._path)


def _make_columns(records: Iterable[StoredRecord], dataset_format: str | None) -> RecordColumns:
    """Turn records into columns of numbers.

    Args:
        records: The records, one a question; read once.
        dataset_format: The format of their data set ("longbench"), which decides which questions
            are resampled together; None for an unknown one.
    """
    # Loaded here: a run and its trackers read records without numpy.
    from harness.storage.record_columns import columns_of

    return columns_of(records, dataset_format or "")


@dataclass
class RecordPass:
    """One pass over a run's records, from disk; each question comes once, as its last record.

    Attributes:
        run: The run, without records.
        notes: A sentence on a torn line is added to it.
        text_checksums: Filled with question id -> checksums of its long texts.
    """

    run: StoredRun
    notes: list[str] = field(default_factory=list)
    text_checksums: _ChecksumsByQuestion = field(default_factory=dict)

    def columns(self, observe: RecordObserver = iter) -> RecordColumns:
        """Read the records from disk into columns of numbers, the last record of each question.

        Also fills `notes` and `text_checksums`. Raises DataError for a damaged file.

        Args:
            observe: Is given an iterator of the records, texts included, and yields each of them
                unchanged; so it sees them as they are read. It is called once more, for the last
                record of each question, where a question turns out to have several.
        """
        path = self.run.path / RECORDS
        try:
            records = _raising_at_repeated_question(read_records(path, self.notes))
            return self._columns(observe(records))
        except _RepeatedQuestion:
            # A question has several records, of which only the last counts. So the pass begins anew
            # with StreamedRecords, which reads the file twice: for the places of the last records,
            # and then these.
            self.notes.clear()
            self.text_checksums.clear()
            last_records = StreamedRecords(path, self.notes)
            return self._columns(observe(iter(last_records)))

    def _columns(self, records: Iterable[StoredRecord]) -> RecordColumns:
        """Turn records into columns of numbers; the checksums of their long texts go to
        `self.text_checksums`.
        """
        noted_records = _noting_text_checksums(records, self.text_checksums)
        return _make_columns(map(reduced_to_numbers, noted_records), self.run.config.dataset.format)

    def run_with_records(self, records: Sequence[StoredRecord]) -> StoredRun:
        """A copy of the run with `records`, and with notes on torn lines and missing texts that this
        pass found.
        """
        notes = [*self.notes, *self.run.notes]
        all_checksums = set(chain.from_iterable(self.text_checksums.values()))
        problem = missing_texts(self.run.path, all_checksums)
        if problem:
            notes.append(problem)
        return replace(self.run, records=records, notes=tuple(notes))


class _RepeatedQuestion(Exception):
    """Raised within a pass: a question has several records."""


def _raising_at_repeated_question(records: Iterable[StoredRecord]) -> Iterator[StoredRecord]:
    """Yield the records unchanged. Raises _RepeatedQuestion at the second record of a question."""
    seen_ids: set[str] = set()
    for record in records:
        if record.question_id in seen_ids:
            raise _RepeatedQuestion
        seen_ids.add(record.question_id)
        yield record


def read_run(folder: Path, *, hold: Hold = "all") -> StoredRun:
    """Read a run folder; the run may still be going on.

    A summary or manifest that is not written yet has no values. If a question has several records,
    the last one counts.

    Args:
        folder: The run folder.
        hold: What of its records stays in memory: "all", the "numbers" that tables count, or
            "nothing" (each access reads the file).

    Raises:
        UserError: It is no run folder.
        DataError: A file in it is damaged.
    """
    reading = RecordPass(read_without_records(Path(folder)))
    with os_error_as_data_error(folder):
        return reading.run_with_records(_read_records_to_hold(reading, hold))


def _read_records_to_hold(reading: RecordPass, hold: Hold) -> Sequence[StoredRecord]:
    """The last record of each question of the pass's run, held in memory as `hold` says.

    Also fills the notes and text checksums of `reading`.

    Args:
        reading: The pass, which names the folder.
        hold: "all": a list; "numbers": columns, texts on disk; "nothing": offsets, all on disk.
    """
    path = reading.run.path / RECORDS
    if hold == "nothing":
        return StreamedRecords(path, reading.notes, reading.text_checksums)
    if hold == "numbers":
        return NumbersInFile(path, reading.columns())
    records = _noting_text_checksums(read_records(path, reading.notes), reading.text_checksums)
    last_by_question = {record.question_id: record for record in records}
    return list(last_by_question.values())


def _noting_text_checksums(
    records: Iterable[StoredRecord], text_checksums: _ChecksumsByQuestion
) -> Iterator[StoredRecord]:
    """Yield the records unchanged, and note which long texts each one points to.

    Args:
        records: The records; of several of one question the last one counts.
        text_checksums: Filled with question id -> checksums of the long texts of its record.
    """
    for record in records:
        checksums = text_pointers(record)
        has_earlier_record = record.question_id in text_checksums
        if checksums or has_earlier_record:
            text_checksums[record.question_id] = checksums
        yield record


def reduced_to_numbers(record: StoredRecord) -> StoredRecord:
    """A copy of a record with only what tables read: without prediction, question, gold and shown
    texts, without texts and scores of steps, and without counters that are 0.
    """
    usage = {phase: _without_zeros(costs) for phase, costs in record.usage.items()}
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


def _without_zeros(costs: PhaseUsage) -> PhaseUsage:
    """Leave out a phase's counters that are 0, to save memory.

    {"tokens_in": 9, "tokens_out": 0, "seconds": 1.2, "retries": 0}
        -> {"tokens_in": 9, "tokens_out": 0, "seconds": 1.2}

    Tokens, seconds and waiting stay, as there 0 is another thing than unknown. A phase that lacks
    tokens or seconds is returned as it is.
    """
    has_tokens_and_seconds = costs.keys() >= _UNKNOWN_WHERE_MISSING
    if not has_tokens_and_seconds:
        return costs
    informative = {key: value for key, value in costs.items() if value or key in _ZERO_IS_KNOWN}
    return cast(PhaseUsage, informative)


def _without_step_texts(step: StoredStep) -> StoredStep:
    """A copy of a search step without its texts, node scores and FLOPs, which no table reads."""
    step_without_texts = step.copy()
    for key in _STEP_KEYS_OF_NO_TABLE:
        step_without_texts.pop(key, None)  # type: ignore[misc]
    return step_without_texts


def read_question(folder: Path, question_id: str) -> StoredRun:
    """Read a run with the record of one question alone, its last one.

    Only lines that contain the id are parsed, so that damage elsewhere in records.jsonl raises
    nothing. If the question has no record, the whole run is read.

    Raises:
        UserError: It is no run folder.
        DataError: A file in it is damaged.
    """
    ways_to_write_id = _written_keys(question_id)

    def may_be_of_question(line: bytes) -> bool:
        """Whether a line contains the question's id, as a line of records.jsonl would write it."""
        return any(written_id in line for written_id in ways_to_write_id)

    reading = RecordPass(read_without_records(folder))
    with os_error_as_data_error(folder):
        records = read_records(folder / RECORDS, reading.notes, may_be_of_question)
        matching = [record for record in records if record.question_id == question_id]
        last_record = matching[-1:]  # [] for a question without a record
        for record in last_record:
            reading.text_checksums[question_id] = text_pointers(record)
        run = reading.run_with_records(last_record)
    if not run.records:
        return read_run(folder)
    return run


def _written_keys(question_id: str) -> set[bytes]:
    r"""The bytes by which a line of records.jsonl names its question,
    with JSON's escapes and without.

    "q1" -> {b'"question_id": "q1"'}
    "é"  -> {b'"question_id": "\\u00e9"', b'"question_id": "\xc3\xa9"'}
    """
    keys: set[bytes] = set()
    for escaped in (True, False):
        text = json.dumps(question_id, ensure_ascii=escaped).encode("utf-8", "replace")
        keys.add(b'"question_id": ' + text)
    return keys


def read_without_records(folder: Path) -> StoredRun:
    """Read a run folder's settings, manifest, index lines and summary; `records` stays empty.

    Settings of encoders that the run did not use, which old runs list, are dropped. Raises
    UserError for no run folder, DataError for a damaged file.
    """
    if not (folder / RUN).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RUN}.")
    file = run_yaml(folder)
    manifest = read_manifest(folder)
    settings = file.config.to_json()
    # Runs of before December 2026 list every setting, also of models that they do not use.
    for role in ENCODER_ROLES:
        if manifest.models and role not in manifest.models:
            settings.pop(role, None)
    set_settings = used_settings(settings, file.origins)
    notes: list[str] = []
    with os_error_as_data_error(folder):
        index_lines = list(read_index_lines(folder, notes))
    return StoredRun(
        path=folder,
        config=StoredConfig.from_json(set_settings.values),
        manifest=manifest,
        records=(),
        index_lines=index_lines,
        summary=read_summary(folder),
        origins=set_settings.origins,
        notes=tuple(notes),
    )


def run_yaml(folder: Path) -> RunFile:
    """Parse and check the run.yaml of a run folder: its settings, and where each came from.

    Raises DataError for a damaged file.
    """
    path = folder / RUN
    try:
        with os_error_as_data_error(path):
            value = parse_yaml(path.read_bytes())
    except YAMLProblem as problem:
        raise DataError(
            path, line=problem.line, field=None, problem=f"not valid YAML ({problem})"
        ) from None
    if not isinstance(value, dict) or not isinstance(value.get("config"), dict):
        raise DataError(
            path,
            line=None,
            field="config",
            problem="missing; the run folder was not written by this program",
        )
    try:
        return RunFile.from_json(value)
    except WrongValue as error:
        raise DataError(
            path,
            line=None,
            field=error.key,
            problem=f"{error}; the run folder was not written by this program",
        ) from None


def text_pointers(record: StoredRecord) -> list[str]:
    """The checksums (sha256) by which a record points to long texts in texts.jsonl, in order."""
    pointers = []
    for piece in record.pieces():
        pointer = piece.get("text_sha256")
        if pointer:
            pointers.append(pointer)
    return pointers


def _fits_its_checksum(line: Mapping[str, object]) -> bool:
    """Whether a line of texts.jsonl ({"sha256": ..., "text": ...}) has a text with that
    checksum.
    """
    text = line.get("text")
    return isinstance(text, str) and text_checksum(text) == line["sha256"]


def missing_texts(folder: Path, wanted_checksums: Set[str]) -> str | None:
    """A sentence on how many long texts are missing from a run's texts.jsonl; None where none is.

    Args:
        folder: The run folder.
        wanted_checksums: The checksums of the texts that its records point to.

    Returns:
        For a texts.jsonl that cannot be read, the error's own sentence.
    """
    if not wanted_checksums:
        return None
    try:
        lines = read_with_older(folder / TEXTS, "sha256")
        stored_checksums = {line["sha256"] for line in lines if _fits_its_checksum(line)}
    except DataError as error:
        return str(error)
    n_missing = len(wanted_checksums - stored_checksums)
    if not n_missing:
        return None
    return f"{n_missing} of {len(wanted_checksums)} long texts that were shown are missing from {TEXTS}"
