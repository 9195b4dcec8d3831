"""The one writer of a run folder: an answer is on disk before its thread starts the next question.

with RunStore.open(folder, fingerprint, note) as store:
    store.write_run_yaml(config, origins)    run.yaml
    store.append_texts({checksum: text})     what the reader was shown, before the record that points to it
    store.append_answer(record)              an answer that is not scored yet
    store.append_record(record)              its record
    store.write_manifest(manifest)           manifest.json, replaced in one step
    store.write_summary(numbers)             summary.json, with checksums of the others
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import yaml

from harness.errors import SaveError, UserError
from harness.storage.checksums import changed_files, file_checksums
from harness.storage.files import save_error, write_atomic
from harness.storage.json_lines import (
    LinePlace,
    append_line,
    check_in_place,
    indexed_lines,
    json_line,
    lines_at,
    read_lines,
    read_with_older,
)
from harness.storage.json_values import json_file
from harness.storage.kept_requests import without_requests
from harness.storage.manifest_file import RunManifest
from harness.storage.paths import without_home
from harness.storage.records import IndexLine, StoredRecord, read_index_lines
from harness.storage.run_files import (
    BATCHES,
    DOCUMENTS,
    MANIFEST,
    RECORDS,
    REQUESTS,
    RUN,
    SUMMARY,
    TEXTS,
    UNSCORED,
    Part,
    locked_folder,
    read_manifest,
    read_summary,
    used_settings,
)
from harness.storage.run_schema import DOCUMENT, RECORD
from harness.storage.shared_writes import SharedWrites
from harness.storage.stored_config import StoredConfig
from harness.storage.summary_file import RunSummary
from harness.storage.torn_lines import cut_torn_line

_KEY_OF_EVERY_LINE = {
    RECORDS: "question_id",
    UNSCORED: "question_id",
    DOCUMENTS: "document_id",
    TEXTS: "sha256",
    REQUESTS: "kind",
}
"""Name of each file of JSON lines -> a key that all of its lines have."""


class RunStore:
    """The writer of one run folder; holds its lock while the `with` block of `open` runs.

    Any thread may write; once the block has ended, nothing is written.

    Attributes:
        run_folder: The folder of the run.
        part: The part of the run that it writes, None for all.
        folder: The folder of its files.
        is_new_run: Whether this process began it.
        edited_files: Files that had been changed since its last end.
        unscored_answers: Answers by question that are stored and have no record.
    """

    def __init__(self, run_folder: Path, part: Part | None, folder: Path) -> None:
        """Note what the folder holds; `open` then opens its files.

        Args:
            run_folder: The folder of the run.
            part: The part of the run that it writes, None for all.
            folder: The folder of its files, locked.
        """
        self.run_folder = run_folder
        self.part = part
        self.folder = folder
        self.unscored_answers: dict[str, StoredRecord] = {}
        self.edited_files: list[str] = []
        self.is_new_run = {MANIFEST, RECORDS, UNSCORED}.isdisjoint(_names_in(folder))
        self._lock = threading.RLock()  # documents are added by every thread of a run
        self._open_descriptors: dict[str, int] = {}  # the files of lines that are open
        self._closed = False
        self._written_index_keys: set[tuple[str | bool | None, ...]] = set()
        self._text_checksums: set[str] = set()
        # Questions in flight are answered at about the same time: one sync serves several.
        self._answers = SharedWrites(self._write_answers_of_threads)
        self._texts = SharedWrites(self._write_texts_of_threads)
        self._requests = SharedWrites(self._write_requests_of_threads)

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        run_folder: Path,
        fingerprint: str | None,
        note: Callable[[str], None],
        part: Part | None = None,
    ) -> Iterator[RunStore]:
        """Lock a run folder and yield its store; the files are closed when the `with` block ends.

        Before, it cuts off the torn lines that a killed writer left, and checks that the data set
        is the one that the run was begun with. run.yaml stays as it is until `write_run_yaml`.

        Args:
            run_folder: The folder of the run.
            fingerprint: The hash of the rows; None: no check.
            note: Called with a sentence for each repair.
            part: The part of the run that is written, None for all.

        Raises:
            RunLocked: Another process writes it.
            SaveError: It cannot be written.
            DataError: A file is damaged.
            UserError: The data changed, or parts are not merged.
        """
        with locked_folder(run_folder, part) as folder:
            edited_files = _files_edited_by_others(folder)
            _repair_torn_lines(folder, note)
            _check_same_data([run_folder, folder], fingerprint)
            store = cls(run_folder, part, folder)
            store.edited_files = edited_files
            try:
                store._open_files()
                yield store
            finally:
                store._close()

    def _open_files(self) -> None:
        """Open the files that every run has, and read what this store must know of them.

        That is: which indexes and texts they hold, and answers without scores. Raises SaveError.
        """
        for name in (RECORDS, DOCUMENTS, UNSCORED):
            self._open_descriptors[name] = self._open_to_append(name)
        self._written_index_keys |= {_index_line_key(line) for line in self.index_lines()}
        for row in read_with_older(self.folder / TEXTS, "sha256"):
            self._text_checksums.add(str(row["sha256"]))
        self.unscored_answers = self._read_answers_without_record()

    def records(self) -> Iterator[StoredRecord]:
        """Stream all lines of records.jsonl in order. A question that was asked again has several,
        of which the caller lets the last one count.
        """
        yield from _unchecked_records(self.folder / RECORDS)

    def known_records(self) -> Iterator[StoredRecord]:
        """Stream the records that are on disk for the questions that this store writes.

        A store of the whole run reads its records.jsonl. A store of a part of the run reads two
        files: first the whole run's records.jsonl, of which it yields the part's questions alone,
        then its own.
        """
        yield from self._records_of_own_questions(RECORDS)

    def _records_of_own_questions(self, name: str) -> Iterator[StoredRecord]:
        """Stream the records of a file for the questions that this store writes.

        A store of a part of the run first yields what the whole run's file has of the part's
        questions, then what its own file has.

        Args:
            name: RECORDS or UNSCORED, the name of the file in both folders.
        """
        if self.part is not None:
            for record in _unchecked_records(self.run_folder / name):
                if record.question_id in self.part.question_ids:
                    yield record
        yield from _unchecked_records(self.folder / name)

    def _read_answers_without_record(self) -> dict[str, StoredRecord]:
        """Read the stored answers that are still to be scored: question id -> answer.

        An answer counts where its question has no record, or only a record of a failure.
        """
        stored_answers = self._records_of_own_questions(UNSCORED)
        last_answers = {answer.question_id: answer for answer in stored_answers}
        if not last_answers:
            return {}
        record_has_answer: dict[str, bool] = {}
        for record in self.known_records():
            record_has_answer[record.question_id] = record.has_answer
        unscored_answers = {}
        for question_id, answer in last_answers.items():
            has_record = question_id in record_has_answer
            is_better = answer.has_answer and not record_has_answer.get(question_id)
            if not has_record or is_better:
                unscored_answers[question_id] = answer
        return unscored_answers

    def manifest(self) -> RunManifest:
        """Read the manifest on disk; one without values before the first is written."""
        return read_manifest(self.folder)

    def write_run_yaml(self, config: StoredConfig, origins: Mapping[str, str]) -> None:
        """Write run.yaml: the settings that are set, and where each came
        from, with the home folder as ~.

        Raises SaveError.
        """
        set_settings = used_settings(config.to_json(), origins)
        values = without_home({"config": set_settings.values, "origins": set_settings.origins})
        # C: the same bytes in a fifth of the time, 4 ms a run.
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        text = yaml.dump(values, Dumper=dumper, sort_keys=False, allow_unicode=True)
        self._replace_file(self.run_folder / RUN, text.encode())

    def write_manifest(self, manifest: RunManifest) -> None:
        """Replace manifest.json in one step; it is on disk when this returns. Raises SaveError."""
        self._replace_file(self.folder / MANIFEST, json_file(manifest))

    def write_summary(self, summary: RunSummary) -> RunSummary:
        """Write summary.json, the last file that a writer writes, and return what it holds.

        That is `summary` with the checksums of all other files, and with the names of files that
        were changed by others since the last end. Raises SaveError.
        """
        complete = summary.with_values(files=file_checksums(self.folder))
        if self.edited_files:
            complete = complete.with_values(edited=self.edited_files)
        self._replace_file(self.folder / SUMMARY, json_file(complete))
        return complete

    def _replace_file(
        self, path: Path, data: bytes | Iterable[bytes], sync_folder: bool = True
    ) -> None:
        """Replace a file of the run in one step.

        Args:
            path: The file.
            data: Its bytes, whole or in pieces that are written one after the other.
            sync_folder: Whether the new name is on disk too when this returns.

        Raises:
            SaveError: It cannot be written, or the folder was removed or replaced.
        """
        with self._lock:
            check_in_place(self._open_descriptors[RECORDS], self.folder / RECORDS)
            write_atomic(path, data, sync_folder=sync_folder)

    def _append(self, name: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Append rows to a JSON-lines file of the folder, which is opened at its first row.

        Nothing is written once the store is closed. Raises SaveError.

        Args:
            name: The file's name in the folder.
            rows: A JSON object for each line.
        """
        with self._lock:
            if self._closed or not rows:
                return
            if name not in self._open_descriptors:
                self._open_descriptors[name] = self._open_to_append(name)
            append_line(
                self._open_descriptors[name], self.folder / name, b"".join(map(json_line, rows))
            )

    def _open_to_append(self, name: str) -> int:
        """Open a file of the folder to append and return its descriptor. Raises SaveError."""
        path = self.folder / name
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise save_error(path, error) from error

    def append_answer(self, answer: StoredRecord) -> None:
        """Append an answer, a record without scores, to the file of unscored answers.

        It is on disk when this returns. Raises SaveError.
        """
        self._answers.write(answer)

    def _write_answers_of_threads(self, answers: Sequence[StoredRecord]) -> None:
        """Append answers, records without scores, to the file of unscored answers.

        Called with what several threads gave to `append_answer` at about the same time. Raises
        SaveError, also where the folder was moved away.
        """
        with self._lock:
            if self._closed:
                return
            self._append(UNSCORED, [answer.to_json() for answer in answers])
            for answer in answers:
                self.unscored_answers[answer.question_id] = answer
            check_in_place(self._open_descriptors[RECORDS], self.folder / RECORDS)

    def append_record(self, record: StoredRecord) -> None:
        """Append a record to records.jsonl; it is on disk when this returns. Raises SaveError."""
        self.append_records([record])

    def append_records(self, records: Sequence[StoredRecord]) -> None:
        """Append records to records.jsonl; all of them are on disk when this returns.

        Also empties the file of unscored answers once each answer in it has a record. Raises
        SaveError where they cannot be written, and then none of them is in the file.
        """
        with self._lock:
            if self._closed or not records:
                return
            self._append(RECORDS, [record.to_json() for record in records])
            for record in records:
                self.unscored_answers.pop(record.question_id, None)
            if not self.unscored_answers:
                # What is left there is recorded, so it counts as nothing.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._open_descriptors[UNSCORED], 0)

    def append_texts(self, texts: Mapping[str, str]) -> None:
        """Append those of the texts (sha256 -> text) that texts.jsonl lacks; called before a record
        points to them. Raises SaveError.
        """
        if texts:
            self._texts.write(texts)

    def _write_texts_of_threads(self, texts_of_threads: Sequence[Mapping[str, str]]) -> None:
        """Append those texts that texts.jsonl lacks, each once.

        Args:
            texts_of_threads: The texts of each thread that writes now: sha256 -> text.
        """
        with self._lock:
            all_texts: dict[str, str] = {}
            for texts in texts_of_threads:
                all_texts.update(texts)
            new_checksums = [key for key in all_texts if key not in self._text_checksums]
            self._append(TEXTS, [{"sha256": key, "text": all_texts[key]} for key in new_checksums])
            self._text_checksums.update(new_checksums)

    def append_requests(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Append the requests of a question or an index, a row each, to
        requests.jsonl. Raises SaveError.
        """
        if rows:
            self._requests.write(rows)

    def _write_requests_of_threads(
        self, rows_of_threads: Sequence[Sequence[Mapping[str, object]]]
    ) -> None:
        """Append the requests that several threads write now, each a list of rows, in one go."""
        self._append(REQUESTS, list(chain.from_iterable(rows_of_threads)))

    def index_lines(self) -> Iterator[IndexLine]:
        """Stream the lines of documents.jsonl, an index each, in order."""
        return read_index_lines(self.folder)

    def append_index_line(self, line: IndexLine) -> None:
        """Append the line of an index to documents.jsonl, unless an equal one is there.

        A build that failed gets a line each time, as each had a cost. Raises SaveError.
        """
        with self._lock:
            key = _index_line_key(line)
            is_written = key in self._written_index_keys
            if line.failed or not is_written:
                self._append(DOCUMENTS, [line.to_json()])
                self._written_index_keys.add(key)

    def drop_requests(self, question_ids: Container[str]) -> None:
        """Remove these questions' requests, left by an earlier try, from
        requests.jsonl. Raises SaveError.
        """
        remaining_rows = without_requests(self.folder / REQUESTS, question_ids)
        if remaining_rows is not None:
            self._replace_file(self.folder / REQUESTS, map(json_line, remaining_rows))
            self._delete_files(f"{REQUESTS}.gz")

    def drop_texts(self) -> None:
        """Delete texts.jsonl and requests.jsonl; for a run in which no record points to them yet.
        Raises SaveError.
        """
        self._delete_files(TEXTS, REQUESTS, f"{TEXTS}.gz", f"{REQUESTS}.gz")
        self._text_checksums.clear()

    def _delete_files(self, *names: str) -> None:
        """Delete these files of the run folder, as far as they are there. Raises SaveError."""
        for path in (self.folder / name for name in names):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise save_error(path, error) from error

    def replace_records(self, records: Iterable[StoredRecord]) -> None:
        """Replace all lines of records.jsonl in one step; later records
        are appended. Raises SaveError.
        """
        self._replace_record_lines(json_line(record.to_json()) for record in records)

    def _replace_record_lines(self, lines: Iterable[bytes]) -> None:
        """Replace records.jsonl by `lines`, and append to the new file from now on."""
        self._replace_file(self.folder / RECORDS, lines)
        descriptor_of_replaced = self._open_descriptors[RECORDS]
        self._open_descriptors[RECORDS] = self._open_to_append(RECORDS)
        os.close(descriptor_of_replaced)

    def sort_records(self, order: Sequence[str]) -> None:
        """Sort records.jsonl by `order` (question ids), keeping the last record of each question.

        Questions that `order` lacks come last. Lines are copied as they are, one in memory at a
        time. A file in order is not written again. If writing fails (SaveError), the unsorted file
        is kept.
        """
        path = self.folder / RECORDS
        position = {question_id: number for number, question_id in enumerate(order)}
        ids_in_file: list[str] = []
        last_line_places: dict[str, LinePlace] = {}
        for line in indexed_lines(path, _KEY_OF_EVERY_LINE[RECORDS]):
            question_id = line.value["question_id"]
            ids_in_file.append(question_id)
            last_line_places[question_id] = line.place
        ids_in_order = sorted(last_line_places, key=lambda each: position.get(each, len(position)))
        if ids_in_file != ids_in_order:
            places = [last_line_places[question_id] for question_id in ids_in_order]
            self._replace_record_lines(lines_at(path, places))

    def delete_if_nothing_recorded(self) -> None:
        """Delete the run folder, also the folder above if that is then empty.

        Only where this process made the folder, no question is recorded in it and no batch was
        sent.
        """
        has_batch = (self.folder / BATCHES).exists()
        has_record = next(self.records(), None) is not None
        is_used = has_batch or has_record
        if is_used or not self.is_new_run:
            return
        with contextlib.suppress(SaveError, OSError):
            check_in_place(self._open_descriptors[RECORDS], self.folder / RECORDS)
            self._close()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.parent.rmdir()  # the folder above, unless it holds others

    def _close(self) -> None:
        """Close all files; also delete the file of unscored answers where each has a record by
        now.
        """
        with self._lock:
            if RECORDS in self._open_descriptors and not self.unscored_answers:
                with contextlib.suppress(SaveError, OSError):
                    check_in_place(self._open_descriptors[RECORDS], self.folder / RECORDS)
                    (self.folder / UNSCORED).unlink()
            self._closed = True
            while self._open_descriptors:
                _, descriptor = self._open_descriptors.popitem()
                os.close(descriptor)


def _names_in(folder: Path) -> list[str]:
    """The names of the files in a run folder. Raises SaveError where it was moved away
    meanwhile.
    """
    try:
        return os.listdir(folder)
    except OSError as error:
        raise save_error(folder, error) from error


def _repair_torn_lines(folder: Path, note: Callable[[str], None]) -> None:
    """Cut off the torn last lines that a killed writer left in the files of a run folder.

    `note` is called with a sentence for each. Raises DataError for other damage.
    """
    names = sorted(_KEY_OF_EVERY_LINE.keys() & _names_in(folder))
    form_of_lines = {RECORDS: RECORD, DOCUMENTS: DOCUMENT}
    for name in names:
        repair = cut_torn_line(folder / name, _KEY_OF_EVERY_LINE[name], form_of_lines.get(name))
        if repair:
            note(repair)


def _check_same_data(folders: Iterable[Path], fingerprint: str | None) -> None:
    """Raise UserError where a run was begun with other rows of its data set.

    Args:
        folders: The folders of the run and of its part.
        fingerprint: The hash of the rows now; None: no check.
    """
    if fingerprint is None:
        return
    for folder in dict.fromkeys(folders):
        first_fingerprint = read_manifest(folder).dataset.fingerprint
        if first_fingerprint is not None and first_fingerprint != fingerprint:
            raise UserError(
                f"the rows of the data set are not those that {folder} was begun with "
                f"({first_fingerprint[:12]} then, {fingerprint[:12]} now); choose another --out, or "
                "delete that folder."
            )


def _unchecked_records(path: Path) -> Iterator[StoredRecord]:
    """Yield the records of a file without checking their values, as opening the store has checked
    them.
    """
    for values in read_lines(path, "question_id"):
        yield StoredRecord.from_json(values)


def _files_edited_by_others(folder: Path) -> list[str]:
    """The sorted names of a run folder's files that were changed by others than this program, since
    the last end of the run or before.
    """
    summary = read_summary(folder)
    changed = changed_files(folder, read_manifest(folder), summary) or []
    return sorted({*summary.edited, *changed})


def _index_line_key(line: IndexLine) -> tuple[str | bool | None, ...]:
    """What two lines on the same index with the same outcome share: (document, question or None,
    cache key or None, whether it failed). The second of two such lines is not written.
    """
    return *line.identity, line.failed
