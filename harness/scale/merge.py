"""Merge the shards of a run into records.jsonl and the other files of one process.

    records.jsonl + records.1.jsonl + records.2.jsonl ...  ──►  records.jsonl    by question, in the data set's order

Of a question with several records the first complete one wins: answered before answered and not scored before failed;
the shards come in the order of their numbers, after what was merged before. Memory holds each record's place, and one
record. Every file is replaced in one step and shards are removed last, so the next merge repeats one that was killed.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from harness.engine.manifest import asked_counts, changes
from harness.errors import UserError
from harness.storage.failures import has_answer
from harness.storage.files import delete_drafts, replacing, write_atomic
from harness.storage.json_lines import indexed_lines, json_line, read_lines, read_with_older
from harness.storage.kept_requests import REQUESTS
from harness.storage.lock import FolderLock
from harness.storage.run_folder import (
    DOCUMENTS,
    LOCK,
    MANIFEST,
    RECORDS,
    RUN,
    SUMMARY,
    UNSCORED,
    read_json,
    run_yaml,
)
from harness.storage.run_summary import summarise_with
from harness.storage.shard_files import ORDER, part_name, parts_in, read_order
from harness.storage.shown_texts import TEXTS

Note = Callable[[str], None]
_OPEN = 64  # files that are open at a time
_REMOVERS = 8  # threads that remove files: one alone waits milliseconds for the disk at each
Line = tuple[int, int, int, int]
"""Rank of a line among those of its question or document, the file it is in, its place and its length in bytes."""


def merge(folder: Path, note: Note, *, locked: bool = False) -> dict[str, Any]:
    """Merge the shards of a run folder and return its new summary; without shards, the one that is there.

    locked: the caller holds the folder's lock. Raises UserError where it is no run folder, RunLocked while a shard is
    being written, DataError for a damaged file, SaveError.
    """
    if not (folder / RUN).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RUN}.")
    with ExitStack() as stack:
        if not locked:
            stack.enter_context(FolderLock(folder))
        numbers = parts_in(folder)
        if not numbers:
            return read_json(folder / SUMMARY)
        for number in numbers:
            with FolderLock(folder, number):  # nobody writes it; who starts it now is refused by the folder's lock
                pass
        delete_drafts(folder)
        return _Merge(folder, numbers, note).run()


class _Merge:
    """Merges the shards `numbers` of a run folder, whose locks are free."""

    def __init__(self, folder: Path, numbers: list[int], note: Note) -> None:
        self.folder, self.numbers, self.note = folder, numbers, note
        self.parts: list[int | None] = [None, *numbers]  # the merged files are the first source
        self.records: dict[str, Line] = {}  # by question
        self.documents: dict[str, Line] = {}
        self._files: OrderedDict[Path, IO[bytes]] = OrderedDict()

    def run(self) -> dict[str, Any]:
        """Merge every file, records after texts and documents, remove the shards, and return the summary."""
        notes: list[str] = []
        manifest = merge_manifests(self.folder, self.numbers)
        self._read(notes)
        self._merge_texts()
        self._merge_requests()
        with replacing(self.folder / DOCUMENTS) as file:
            for line in self.documents.values():
                file.write(self._read_line(DOCUMENTS, line))
        asked = int((manifest.get("shard") or {}).get("asked") or 0)
        config = run_yaml(self.folder)["config"]
        with replacing(self.folder / RECORDS) as file:
            built = read_lines(self.folder / DOCUMENTS, "document_id")
            numbers = summarise_with(config, self._copy_records(file), built)
        unscored = self._merge_unscored()
        for opened in self._files.values():
            opened.close()
        before = read_json(self.folder / SUMMARY)
        asked = max(asked, before.get("n_asked", 0) - before.get("n_left_out", 0))
        state = "finished" if numbers["n_total"] >= asked else "interrupted"
        summary = {"state": state, **asked_counts(manifest, asked, numbers["n_total"]), **numbers}
        manifest.pop("shard", None)
        if manifest:  # without any, as after a kill of all workers, the next start begins one
            ends = [start["finished"] for start in manifest["starts"] if start.get("finished")]
            manifest["finished"] = max(ends, default=None) if state == "finished" else None
            self._write_json(MANIFEST, manifest)
        self._write_json(SUMMARY, summary)
        self._remove_shards(state == "finished" and not unscored)
        for sentence in notes:
            self.note(sentence)
        count = len(self.numbers)
        self.note(f"merged {count} shard{'s'[: count > 1]}: {numbers['n_total']} of {asked} questions have a record")
        return summary

    def _read(self, notes: list[str]) -> None:
        """Read all parts and note the line to keep for every question and document."""
        for file, part in enumerate(self.parts):
            for at, size, row in indexed_lines(self.folder / part_name(RECORDS, part), "question_id", notes):
                rank = 2 if row["error"] is None else int(has_answer(row))
                before = self.records.get(row["question_id"])
                # Of a file the last line counts, and of failures the last one.
                if before is None or before[1] == file or rank > before[0] or rank == before[0] == 0:
                    self.records[row["question_id"]] = rank, file, at, size
            for at, size, row in indexed_lines(self.folder / part_name(DOCUMENTS, part), "document_id", notes):
                rank, failed = _STATUS_RANK[row["status"]], row["status"] == "failed"
                # A try that failed is kept each time, as each has a cost.
                key = json.dumps([row["document_id"], row.get("key"), row.get("question_id"), failed and [file, at]])
                if key not in self.documents or rank > self.documents[key][0]:
                    self.documents[key] = rank, file, at, size

    def _merge_texts(self) -> None:
        """Write texts.jsonl with each text once; memory holds checksums."""
        seen: set[bytes] = set()

        def new_texts() -> Iterator[dict[str, Any]]:
            for part in self.parts:
                for row in read_with_older(self.folder / part_name(TEXTS, part), "sha256"):
                    checksum = bytes.fromhex(row["sha256"])
                    if checksum not in seen:
                        seen.add(checksum)
                        yield row

        self._write_rows(TEXTS, new_texts())

    def _merge_requests(self) -> None:
        """Write requests.jsonl: of a question those beside its kept record, of an index those of the first file."""

        def kept_requests() -> Iterator[dict[str, Any]]:
            indexes: dict[tuple[Any, ...], int] = {}  # index -> the first file with its requests
            for file, part in enumerate(self.parts):
                for row in read_with_older(self.folder / part_name(REQUESTS, part), "kind"):
                    question = row.get("question_id")
                    if question is None:
                        kept = indexes.setdefault((row.get("document_id"), row.get("key")), file) == file
                    else:
                        kept = question in self.records and self.records[question][1] == file
                    if kept:
                        yield row

        self._write_rows(REQUESTS, kept_requests())

    def _write_rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows into the file `name` if a shard has that file."""
        if any((self.folder / part_name(name, number)).exists() for number in self.numbers):
            write_atomic(self.folder / name, map(json_line, rows))

    def _read_line(self, name: str, line: Line) -> bytes:
        """The bytes of a line of the file `name` or a shard's; at most _OPEN files are open at a time."""
        _, file, at, size = line
        path = self.folder / part_name(name, self.parts[file])
        if path not in self._files:
            while len(self._files) >= _OPEN:
                self._files.popitem(last=False)[1].close()
            self._files[path] = open(path, "rb")  # noqa: SIM115 - closed by `run`
        self._files.move_to_end(path)
        self._files[path].seek(at)
        return self._files[path].read(size).removesuffix(b"\n") + b"\n"

    def _copy_records(self, into: IO[bytes]) -> Iterator[dict[str, Any]]:
        """Write the records to `into` and yield them: in the data set's order, then those that it has no more."""

        def lines() -> Iterator[Line]:
            """Yield the records' lines in that order."""
            copied = 0
            for line in filter(None, (self.records.get(row["question_id"]) for row in read_order(self.folder))):
                copied += 1
                yield line
            if copied < len(self.records):
                known = {row["question_id"] for row in read_order(self.folder)}
                others = (line for question, line in self.records.items() if question not in known)
                yield from sorted(others, key=lambda line: line[1:3])

        for line in lines():
            copy = self._read_line(RECORDS, line)
            into.write(copy)
            yield json.loads(copy)

    def _merge_unscored(self) -> int:
        """Merge the answers that no shard scored, for the next start; returns their number."""
        rows: dict[str, dict[str, Any]] = {}
        for part in self.parts:
            for row in read_lines(self.folder / part_name(UNSCORED, part), "question_id"):
                record = self.records.get(row["question_id"])
                if record is None or (record[0] == 0 and has_answer(row)):
                    rows[row["question_id"]] = row
        if rows:
            write_atomic(self.folder / UNSCORED, b"".join(map(json_line, rows.values())))
        else:
            (self.folder / UNSCORED).unlink(missing_ok=True)
        return len(rows)

    def _write_json(self, name: str, value: dict[str, Any]) -> None:
        write_atomic(self.folder / name, json.dumps(value, indent=2, allow_nan=False).encode() + b"\n")

    def _remove_shards(self, whole: bool) -> None:
        """Remove the shards' files, their records last; whole: no question is left, so order.jsonl goes too."""
        with ThreadPoolExecutor(_REMOVERS) as pool:
            for name in (LOCK, MANIFEST, SUMMARY, UNSCORED, REQUESTS, TEXTS, DOCUMENTS, RECORDS):
                paths = [self.folder / part_name(name, number) for number in self.numbers]
                list(pool.map(lambda path: path.unlink(missing_ok=True), paths))  # raises what a thread raised
        if whole:
            (self.folder / ORDER).unlink(missing_ok=True)


def merge_manifests(folder: Path, numbers: Sequence[int]) -> dict[str, Any]:
    """The manifest of the whole run: the first one found, with the starts of all, each with its shard's name.

    The first start of a shard that answered with other code, packages or on another machine has them as "changed".
    "shard" stays in it, with the largest "asked". Raises UserError for shards with different data or scorers.
    """
    merged = read_json(folder / MANIFEST)
    for number in numbers:
        manifest = read_json(folder / part_name(MANIFEST, number))
        if not manifest:
            continue  # a merge was killed after it had removed it
        shard = manifest.get("shard") or {}
        name = f"{shard.get('number', number)}/{shard.get('of', '?')}"
        starts = [{**start, "shard": name} for start in manifest["starts"]]
        if not merged:
            merged = {**manifest, "starts": starts}
            continue
        for key in ("hash", "scorers"):
            if merged.get(key) != manifest.get(key):
                raise UserError(
                    f"{folder}: shard {name} has other {key} ({manifest.get(key)}) than the rest ({merged.get(key)}); "
                    "run that shard again with the same command, then merge"
                )
        manifest["gpu"] = merged["gpu"] = manifest.get("gpu") or merged.get("gpu")
        odd = changes(merged, manifest)
        if odd and any(True for _ in read_lines(folder / part_name(RECORDS, number), "question_id")):
            starts[0]["changed"] = odd | starts[0].get("changed", {})
        merged["starts"] = merged["starts"] + [start for start in starts if start not in merged["starts"]]
        merged["first_prompts"] = {**manifest.get("first_prompts", {}), **merged.get("first_prompts", {})}
        asked = max((m.get("shard") or {}).get("asked", 0) for m in (merged, manifest))
        merged["shard"] = {"asked": asked}
    return merged


_STATUS_RANK = {"failed": 0, "hit": 1, "built": 2}
