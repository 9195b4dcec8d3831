"""The one writer of a run folder: every answer is on disk before the next question starts.

with RunStore.open(folder, fingerprint, note) as store:
    store.describe(config, origins)      run.yaml
    store.keep_texts({checksum: text})   what the reader was shown, before the record that points to it
    store.keep_answer(row)               an answer that is not scored yet
    store.append_record(row)             its record
    store.write(SUMMARY, numbers)        a file, replaced in one step
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.errors import UserError
from harness.storage.failures import has_answer
from harness.storage.files import save_error, write_atomic
from harness.storage.json_lines import (
    append_line,
    check_in_place,
    cut_torn_line,
    is_in_place,
    json_line,
    read_lines,
    read_with_older,
)
from harness.storage.kept_requests import REQUESTS, without_requests
from harness.storage.paths import without_home
from harness.storage.run_folder import BATCHES, DOCUMENTS, MANIFEST, RECORDS, RUN, UNSCORED, read_json, used_settings
from harness.storage.run_parts import Part, lines_of, lock_folder
from harness.storage.run_schema import DOCUMENT, RECORD
from harness.storage.shown_texts import TEXTS

Note = Callable[[str], None]
_KEYS = dict.fromkeys((RECORDS, UNSCORED), "question_id") | {
    DOCUMENTS: "document_id",
    TEXTS: "sha256",
    REQUESTS: "kind",
}
"""The files of lines, and a key that every line of each has."""


class RunStore:
    """The writer of one run folder; holds its lock from `open` to the end of the `with` block.

    run: the folder; part: the part of the run that it writes, None for all; folder: of its files.
    Any thread may call keep_answer, keep_texts, keep_requests and add_document; after that end they do nothing.
    """

    def __init__(self, run: Path, part: Part | None, stack: ExitStack) -> None:
        self.run, self.part, self._stack = run, part, stack
        self.folder = run if part is None else part.folder(run)
        self._path = self.folder.joinpath
        self._fresh = not (self.folder / MANIFEST).exists()
        self._write_lock = threading.RLock()  # documents are added by every thread of a run
        self._records = self._open_to_append(RECORDS)
        self._documents = self._open_to_append(DOCUMENTS)
        self._unscored_fd = self._open_to_append(UNSCORED)
        self._unscored_ids = {row["question_id"] for row in self.unscored_answers()}  # kept, and not appended yet
        self._closed = False
        self._document_keys = {_document_key(row) for row in self.documents()}
        self._side_fds: dict[str, int] = {}  # the side files are opened at their first write
        self._texts = {row["sha256"] for row in read_with_older(self._path(TEXTS), "sha256")}

    @classmethod
    def open(cls, run: Path, fingerprint: str | None, note: Note, part: Part | None = None) -> RunStore:
        """Lock the folder, repair what a killed writer left, and check the fingerprint of the data (None: no check).

        note: gets a sentence for each repair. run.yaml stays as it is until `describe`. Raises RunLocked, SaveError,
        DataError (damaged), and UserError where the data changed, or parts are not merged.
        """
        with ExitStack() as stack:
            folder = lock_folder(run, part, stack)
            for name, key in _KEYS.items():
                if problem := cut_torn_line(folder / name, key, {RECORDS: RECORD, DOCUMENTS: DOCUMENT}.get(name)):
                    note(problem)
            for path in dict.fromkeys([run / MANIFEST, folder / MANIFEST]):
                before = read_json(path).get("dataset", {}).get("fingerprint")
                if before is not None and fingerprint is not None and before != fingerprint:
                    raise UserError(
                        f"the rows of the data set are not those that {path.parent} was begun with "
                        f"({before[:12]} then, {fingerprint[:12]} now); choose another --out, or delete that folder."
                    )
            store = cls(run, part, stack)
            store._stack = stack.pop_all()  # from here on the store closes the files, not this block
        return store

    def _open_to_append(self, name: str) -> int:
        """Open a file of the run until the store closes, and return its descriptor. Raises SaveError."""
        path = self._path(name)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise save_error(path, error) from error
        self._stack.callback(os.close, fd)
        return fd

    def _is_in_place(self) -> bool:
        """Whether records.jsonl is the file that this writer opened, so the folder is its own."""
        return is_in_place(self._records, self._path(RECORDS))

    def _replace(self, name: str, data: bytes | Iterable[bytes], sync_folder: bool = True) -> None:
        """Replace a file of the run in one step. Raises SaveError, also where the folder is another one by now."""
        with self._write_lock:
            check_in_place(self._records, self._path(RECORDS))
            write_atomic(self._path(name), data, sync_folder=sync_folder)

    def describe(self, config: dict[str, Any], origins: dict[str, str]) -> None:
        """Write run.yaml: the settings and where each came from. Raises SaveError."""
        import yaml

        config, origins = used_settings(config, origins)
        plain = without_home({"config": config, "origins": origins})
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # C: the same bytes in a fifth of the time, 4 ms a run
        check_in_place(self._records, self._path(RECORDS))
        write_atomic(self.run / RUN, yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True).encode())

    def append_record(self, row: dict[str, Any]) -> None:
        """Append a record to records.jsonl; it is on disk when this returns. Raises SaveError."""
        with self._write_lock:
            append_line(self._records, self._path(RECORDS), json_line(row))
            self._unscored_ids.discard(row["question_id"])
            if not self._unscored_ids:
                with contextlib.suppress(OSError):  # what is left there is recorded, so it counts as nothing
                    os.ftruncate(self._unscored_fd, 0)

    def keep_answer(self, row: dict[str, Any]) -> None:
        """Append an answer that is not scored yet, a record without scores, to answered.jsonl. Raises SaveError."""
        with self._write_lock:
            if self._closed:
                return
            append_line(self._unscored_fd, self._path(UNSCORED), json_line(row))
            self._unscored_ids.add(row["question_id"])
            check_in_place(self._records, self._path(RECORDS))  # before further questions are asked

    def keep_texts(self, texts: Mapping[str, str]) -> None:
        """Append texts (checksum -> text) that texts.jsonl lacks, before a row points to them. Raises SaveError."""
        with self._write_lock:
            if new := [{"sha256": key, "text": text} for key, text in texts.items() if key not in self._texts]:
                self._append_rows(TEXTS, new)
                self._texts |= texts.keys()

    def keep_requests(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append the requests of a question or an index to requests.jsonl. Raises SaveError."""
        with self._write_lock:
            self._append_rows(REQUESTS, rows)

    def drop_requests(self, questions: Container[str]) -> None:
        """Remove the requests of these questions that an earlier try left. Raises SaveError."""
        if not any(self._path(name).exists() for name in (REQUESTS, f"{REQUESTS}.gz")):
            return
        if (rows := without_requests(self._path(REQUESTS), questions)) is not None:
            self._replace(REQUESTS, map(json_line, rows))
            self._remove(f"{REQUESTS}.gz")

    def _append_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a side file, opened at the first; a closed store does nothing. Raises SaveError."""
        if self._closed:
            return
        if name not in self._side_fds:
            self._side_fds[name] = self._open_to_append(name)
        append_line(self._side_fds[name], self._path(name), b"".join(map(json_line, rows)))

    def drop_texts(self) -> None:
        """Delete texts.jsonl and requests.jsonl, before a record points to them. Raises SaveError."""
        for name in (TEXTS, REQUESTS, f"{TEXTS}.gz", f"{REQUESTS}.gz"):
            self._remove(name)
        self._texts.clear()

    def _remove(self, name: str) -> None:
        """Delete a file of the run, if it is there. Raises SaveError."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise save_error(self._path(name), error) from error

    def unscored_answers(self) -> list[dict[str, Any]]:
        """Rows that `keep_answer` wrote in a run that was stopped before it scored them."""
        rows = {row["question_id"]: row for row in lines_of(self.run, self.part, UNSCORED)}
        answered = {row["question_id"]: has_answer(row) for row in self.known_records()} if rows else {}

        def adds_an_answer(question_id: str) -> bool:
            recorded = question_id in answered
            return not recorded or (has_answer(rows[question_id]) and not answered[question_id])

        return [row for question_id, row in rows.items() if adds_an_answer(question_id)]

    def replace(self, rows: Iterable[dict[str, Any]]) -> None:
        """Replace all records by `rows` in one step; later records are appended. Raises SaveError."""
        path = self._path(RECORDS)
        self._replace(RECORDS, map(json_line, rows))
        try:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise save_error(path, error) from error
        os.dup2(fd, self._records, inheritable=False)  # the open file is the one that was replaced
        os.close(fd)

    def add_document(self, row: dict[str, Any]) -> None:
        """Append an index's line to documents.jsonl, unless it is there already. Raises SaveError.

        A try that failed is a line each time, as each has a cost.
        """
        with self._write_lock:
            key, failed = _document_key(row), row.get("status") == "failed"
            if not self._closed and (failed or key not in self._document_keys):
                append_line(self._documents, self._path(DOCUMENTS), json_line(row))
                self._document_keys.add(key)

    def records(self) -> Iterator[dict[str, Any]]:
        """Stream all records in file order. A question may have several: its last one counts."""
        return read_lines(self._path(RECORDS), "question_id")

    def known_records(self) -> Iterator[dict[str, Any]]:
        """Stream the records of this writer's questions: for a part, first those that were merged before it."""
        return lines_of(self.run, self.part, RECORDS)

    def documents(self) -> Iterator[dict[str, Any]]:
        """Stream the lines of documents.jsonl."""
        return read_lines(self._path(DOCUMENTS), "document_id")

    def manifest(self) -> dict[str, Any]:
        """The manifest on disk, {} before the first one."""
        return read_json(self._path(MANIFEST))

    def write(self, name: str, value: dict[str, Any], *, sync_folder: bool = True) -> None:
        """Replace manifest.json or summary.json in one step; sync_folder: as in write_atomic. Raises SaveError."""
        self._replace(name, json.dumps(value, indent=2, allow_nan=False).encode() + b"\n", sync_folder)

    def sort(self, order: Sequence[str]) -> None:
        """Sort records.jsonl by `order` (question ids), keeping the last record of each question. Raises SaveError.

        A file in order is not written again; the unsorted one stays where the write fails.
        """
        position = {question_id: n for n, question_id in enumerate(order)}
        question_ids = [row["question_id"] for row in self.records()]
        in_order = sorted(dict.fromkeys(question_ids), key=lambda q: position.get(q, len(position)))
        if question_ids == in_order:
            return
        rows = {row["question_id"]: row for row in self.records()}
        self.replace(rows[q] for q in in_order)

    def discard(self) -> None:
        """Delete the folder of a run that this process began if no question was recorded and no batch was sent."""
        paid = self._path(BATCHES).exists()
        if self._is_in_place() and next(self.records(), None) is None and self._fresh and not paid:
            self._close()
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # the folder above, unless it holds others
                self.folder.parent.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        """Close the files and release the lock."""
        with self._write_lock:
            if not self._closed and not self._unscored_ids and self._is_in_place():
                with contextlib.suppress(OSError):
                    self._path(UNSCORED).unlink()
            self._closed = True
            self._stack.close()  # the lock goes last


def _document_key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["document_id"], row.get("key"), row.get("question_id"), row.get("status") == "failed"
