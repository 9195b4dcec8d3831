"""Merge the shards of a run: records.jsonl and the other files become those of one process.

    records.jsonl + parts/1-of-16/records.jsonl + ...  ──►  records.jsonl    by question, in the data set's order

Of a question with several records the first answered one counts, in one file the last one. Every
file is replaced in one step and the shards are removed last, so the next merge repeats one that was
killed.
"""

import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.engine.manifest import changed_keys
from harness.errors import UserError
from harness.storage.checksums import file_checksums
from harness.storage.files import delete_drafts, write_atomic
from harness.storage.json_lines import json_line, read_lines, read_with_older
from harness.storage.json_values import json_file
from harness.storage.manifest_file import RunManifest, Shard
from harness.storage.records import IndexLine, StoredRecord, read_index_lines
from harness.storage.run_files import (
    DOCUMENTS,
    MANIFEST,
    PARTS,
    RECORDS,
    REQUESTS,
    RUN,
    SUMMARY,
    TEXTS,
    UNSCORED,
    folder_lock,
    part_folders,
    read_manifest,
    read_summary,
)
from harness.storage.run_folder import run_yaml
from harness.storage.run_summary import summarise
from harness.storage.summary_file import FINISHED, RunSummary, summary_of_counts

ORDER = "order.jsonl"
"""The questions in the order of the data set, written by every shard."""


def merge(folder: Path, note: Callable[[str], None]) -> RunSummary:
    """Merge the shards of a run folder and return its new summary.

    Without shards it only returns the summary that is there.

    Args:
        folder: The run folder.
        note: Called with sentences on damaged lines, and one on what was merged.

    Raises:
        UserError: It is no run folder, or its shards do not fit each other.
        RunLocked: A shard is being written.
        DataError: A file is damaged.
        SaveError: A file cannot be written.
    """
    if not (folder / RUN).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RUN}.")
    with folder_lock(folder):
        parts = part_folders(folder)
        if not parts:
            return read_summary(folder)
        for part in parts:
            # Nobody writes it; who starts it now is refused by the folder's lock.
            with folder_lock(part):
                pass
        delete_drafts(folder)
        return _merge_parts(folder, parts, note)


def _merge_parts(folder: Path, parts: Sequence[Path], note: Callable[[str], None]) -> RunSummary:
    """Merge every file of the shards into the run folder, remove the shards, and return the
    summary.

    Records are written after what they point to.

    Args:
        folder: The run folder, locked; its files are replaced.
        parts: The folders of the shards.
        note: Called with sentences on damaged lines, and one on what was merged.
    """
    sources = [folder, *parts]
    manifest = _merged_manifest(folder, parts)
    records = _MergedRecords()
    for source in sources:
        records.add(source, note)
    _write_lines(folder, sources, TEXTS, _distinct_texts(sources))
    _write_lines(folder, sources, REQUESTS, _requests_of_merged(sources, records.folders))
    indexes = _merged_indexes(sources)
    _write_lines(folder, sources, DOCUMENTS, (line.to_json() for line in indexes))
    ordered_lines = records.ordered(folder / ORDER)
    write_atomic(folder / RECORDS, ordered_lines)
    unscored = records.unscored(sources)
    _write_lines(folder, sources, UNSCORED, unscored)  # the next start scores them
    merged_records = (StoredRecord.from_json(json.loads(line)) for line in ordered_lines)
    numbers = summarise(merged_records, indexes, run_yaml(folder).config)
    n_questions = _number_of_questions(folder, manifest)
    summary = _write_summary(folder, manifest, numbers, n_questions)
    _remove_merged_files(folder, has_unscored=bool(unscored), is_finished=summary.is_finished)
    shards_text = "1 shard"
    if len(parts) > 1:
        shards_text = f"{len(parts)} shards"
    note(f"merged {shards_text}: {summary.n_total} of {n_questions} questions have a record")
    return summary


def _remove_merged_files(folder: Path, *, has_unscored: bool, is_finished: bool) -> None:
    """Remove the shards, and the files of the run folder that nothing needs any more: answers that
    wait to be scored, if none waits, and then the order of questions, if no question is left.

    Args:
        folder: The run folder.
        has_unscored: Whether answers wait to be scored by the next start.
        is_finished: Whether every question has a record.
    """
    shutil.rmtree(folder / PARTS)
    if has_unscored:
        return
    (folder / UNSCORED).unlink(missing_ok=True)
    if is_finished:
        (folder / ORDER).unlink(missing_ok=True)


def _number_of_questions(folder: Path, manifest: RunManifest) -> int:
    """How many questions the run asks: the larger of what its summary and its shards say."""
    n_in_summary = read_summary(folder).n_to_record
    if manifest.shard is None:
        return n_in_summary
    return max(manifest.shard.asked, n_in_summary)


def _write_summary(
    folder: Path, manifest: RunManifest, numbers: RunSummary, n_questions: int
) -> RunSummary:
    """Write the manifest, no longer as that of a shard and with the run's end where it is finished,
    and the summary with the checksums of all files, which is returned.

    Args:
        folder: The run folder, with all other files merged.
        manifest: The manifest of all shards.
        numbers: The numbers of all records.
        n_questions: How many questions the run asks.
    """
    n_recorded = numbers.n_total or 0
    state = "interrupted"
    finished = None
    if n_recorded >= n_questions:
        state = FINISHED
        finished = _last_end(manifest)
    if manifest.has_values:  # without any, as after a kill of all shards, the next start begins one
        manifest = manifest.without("shard").with_values(finished=finished)
        write_atomic(folder / MANIFEST, json_file(manifest))
    counts = summary_of_counts(n_questions, n_recorded, manifest.dataset.skipped)
    summary = counts.with_values(state=state).with_numbers(numbers)
    summary = summary.with_values(files=file_checksums(folder))
    write_atomic(folder / SUMMARY, json_file(summary))
    return summary


class _MergedRecords:
    """The record of each question: of several the first answered one, in one file the last one.

    Attributes:
        lines: Question -> its line, a tenth of the memory of the record.
        folders: Question -> the folder that its record is from.
    """

    def __init__(self) -> None:
        """Begin without records; `_answered` holds the questions whose record has an answer."""
        self.lines: dict[str, bytes] = {}
        self.folders: dict[str, Path] = {}
        self._answered: set[str] = set()

    def add(self, source: Path, note: Callable[[str], None]) -> None:
        """Add the records of a folder; `note` is called with sentences on damaged lines.

        A question that an earlier folder answered keeps that record; of several in one file the
        last one counts.
        """
        notes: list[str] = []
        for values in read_lines(source / RECORDS, "question_id", notes):
            record = StoredRecord.from_json(values)
            question = record.question_id
            is_of_this_file = self.folders.get(question) in (None, source)
            if not is_of_this_file and question in self._answered:
                continue
            self.lines[question] = json_line(values)
            self.folders[question] = source
            self._answered.discard(question)
            if record.has_answer:
                self._answered.add(question)
        for sentence in notes:
            note(sentence)

    def ordered(self, order: Path) -> list[bytes]:
        """The lines of all records in the order of the data set, which the file `order` lists.

        Questions that it does not list come last.
        """
        position_of: dict[str, int] = {}
        for number, line in enumerate(read_lines(order, "question_id")):
            position_of[line["question_id"]] = number
        after_all = len(position_of)
        questions = sorted(self.lines, key=lambda question: position_of.get(question, after_all))
        return [self.lines[question] for question in questions]

    def unscored(self, sources: Sequence[Path]) -> list[dict[str, object]]:
        """The stored answers of all folders that still need a record,
        each question's last one, as JSON.
        """
        last_answers: dict[str, StoredRecord] = {}
        for source in sources:
            for values in read_lines(source / UNSCORED, "question_id"):
                answer = StoredRecord.from_json(values)
                last_answers[answer.question_id] = answer
        unscored: list[dict[str, object]] = []
        for question, answer in last_answers.items():
            is_better = answer.has_answer and question not in self._answered
            if question not in self.lines or is_better:
                unscored.append(answer.to_json())
        return unscored


def _write_lines(
    folder: Path, sources: Sequence[Path], name: str, lines: Iterable[Mapping[str, object]]
) -> None:
    """Replace a JSON-lines file of the run folder, unless no folder has it.

    Args:
        folder: The run folder.
        sources: The run folder and its shards.
        name: The name of the file.
        lines: The JSON objects that it will hold.
    """
    if any((source / name).exists() for source in sources):
        write_atomic(folder / name, map(json_line, lines))


def _distinct_texts(sources: Sequence[Path]) -> Iterator[dict[str, object]]:
    """Yield the lines of the texts.jsonl of all folders, each text once."""
    lines = itertools.chain.from_iterable(
        read_with_older(source / TEXTS, "sha256") for source in sources
    )
    return _distinct_lines(lines, "sha256")


def _last_end(manifest: RunManifest) -> str | None:
    """When the last start of the run ended; None where none did."""
    ends = [start.finished for start in manifest.starts if start.finished]
    return max(ends, default=None)


def _merged_indexes(sources: Sequence[Path]) -> list[IndexLine]:
    """The index lines of all folders, each index once: where several
    have it, the one that was built.

    Builds that failed stay, as each has a cost; only equal lines, which an earlier merge copied,
    become one.
    """
    lines: list[IndexLine] = []
    for source in sources:
        lines.extend(read_index_lines(source))
    indexes: dict[tuple[str, str | None, str | None], IndexLine] = {}
    for status in ("built", "hit"):  # "hit": it was read from the cache
        for line in lines:
            if line.status == status:
                indexes.setdefault(line.identity, line)
    failed: dict[str, IndexLine] = {}
    for line in lines:
        if line.failed:
            failed.setdefault(json.dumps(line.to_json()), line)
    return [*indexes.values(), *failed.values()]


def _distinct_lines(lines: Iterable[dict[str, object]], *keys: str) -> Iterator[dict[str, object]]:
    """Yield the first line of each combination of values of these keys."""
    seen: set[str] = set()
    for line in lines:
        values = json.dumps([line.get(key) for key in keys])
        if values not in seen:
            seen.add(values)
            yield line


def _requests_of_merged(
    sources: Sequence[Path], folder_of_record: Mapping[str, Path]
) -> Iterator[dict[str, object]]:
    """Yield the stored requests that belong to the merged records and indexes.

    Of a question those in the folder that its record is from, none for a question without a record;
    of an index, which its document and key name, those in the first folder that has it.

    Args:
        sources: The run folder and its shards.
        folder_of_record: Question -> the folder that its record is from.
    """
    first_folder: dict[tuple[object, ...], Path] = {}
    for source in sources:
        for line in read_with_older(source / REQUESTS, "kind"):
            if "question_id" in line:
                folder = folder_of_record.get(str(line["question_id"]))
            else:
                index = (line.get("document_id"), line.get("key"))
                folder = first_folder.setdefault(index, source)
            if source == folder:
                yield line


def _merged_manifest(folder: Path, parts: Sequence[Path]) -> RunManifest:
    """Merge the manifests of the run and its shards.

    It is the first one with records, with the starts of all, each with its shard's name. The first
    start of a shard that answered with other code or packages, or on another machine, has them as
    "changed". Its "shard" says how many questions the run asks ("asked"): the most that a shard
    says. Raises UserError for shards with different data or scorers.

    Args:
        folder: The run folder.
        parts: The folders of the shards.
    """
    merged = read_manifest(folder)
    without_records = [part for part in parts if not _has_records(part)]
    with_records = [part for part in parts if part not in without_records]
    for part in [*with_records, *without_records]:
        manifest = read_manifest(part)
        if not manifest.has_values:
            continue  # a merge was killed after it had removed it
        shard_name = part.name.replace("-of-", "/")  # "3-of-16" -> "3/16"
        starts = [start.with_values(shard=shard_name) for start in manifest.starts]
        manifest = manifest.with_values(starts=starts)
        if not merged.has_values:
            merged = manifest
            continue
        _check_shards_agree(folder, shard_name, manifest, merged)
        merged = _with_shard(merged, manifest, has_records=part not in without_records)
    return merged


def _has_records(folder: Path) -> bool:
    """Whether the records.jsonl of a folder has a line."""
    lines = read_lines(folder / RECORDS, "question_id")
    return next(lines, None) is not None


def _check_shards_agree(
    folder: Path, shard_name: str, shard: RunManifest, merged: RunManifest
) -> None:
    """Raise UserError for a shard with other data or scorers than the others.

    Args:
        folder: The run folder.
        shard_name: The name of the shard.
        shard: The manifest of the shard.
        merged: The manifest of the shards before it.
    """
    pairs = (("hash", shard.hash, merged.hash), ("scorers", shard.scorers, merged.scorers))
    for key, value_of_shard, value_of_others in pairs:
        if value_of_shard != value_of_others:
            raise UserError(
                f"{folder}: shard {shard_name} has other {key} ({value_of_shard}) than the rest "
                f"({value_of_others}); run that shard again with the same command, then merge"
            )


def _with_shard(merged: RunManifest, shard: RunManifest, has_records: bool) -> RunManifest:
    """A copy of the merged manifest with the starts, first prompts and questions of one more shard.

    The GPU becomes the shard's, if it has one; a shard without one is no other machine for that.
    Other keys that differ (code, packages, machine) are noted at the shard's first start.

    Args:
        merged: The manifest.
        shard: The shard's manifest, whose starts have its name.
        has_records: Whether the shard answered anything, so that its code and machine count.
    """
    gpu = shard.gpu or merged.gpu
    merged = merged.with_values(gpu=gpu)
    shard = shard.with_values(gpu=gpu)
    starts = list(shard.starts)
    changed = changed_keys(merged, shard)
    if has_records and changed.has_values:
        starts[0] = starts[0].with_earlier_changes(changed)
    # A merge that was killed may have added some of them before.
    new_starts = [start for start in starts if start not in merged.starts]
    n_questions = 0
    for manifest in (merged, shard):
        if manifest.shard is not None:
            n_questions = max(n_questions, manifest.shard.asked)
    return merged.with_values(
        starts=[*merged.starts, *new_starts],
        first_prompts={**shard.first_prompts, **merged.first_prompts},
        shard=Shard(asked=n_questions),
    )
