"""Merge the shards of a run: records.jsonl and the other files become those of one process.

    records.jsonl + parts/1-of-16/records.jsonl + ...  ──►  records.jsonl    by question, in the data set's order

Of a question with several records the first answered one counts, in one file the last one. Every
file is replaced in one step and the shards are removed last, so the next merge repeats one that was
killed.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engine.manifest import asked_counts, changes
from harness.errors import UserError
from harness.storage.checksums import FILES, checksums
from harness.storage.files import delete_drafts, write_atomic
from harness.storage.json_lines import json_line, read_lines, read_with_older
from harness.storage.records import IndexLine, read_index_lines
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
    parts_in,
    read_json,
)
from harness.storage.run_folder import run_yaml
from harness.storage.run_summary import summarise
from harness.types import has_answer

ORDER = "order.jsonl"
"""The questions in the order of the data set, written by every shard."""


def merge(folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
    """Merge the shards of a run folder and return its new summary; without shards, the one that is
    there.

    Raises UserError where it is no run folder, RunLocked while a shard is being written, DataError
    for a damaged file, SaveError.
    """
    if not (folder / RUN).is_file():
        raise UserError(f"{folder} is not a run folder: it has no {RUN}.")
    with folder_lock(folder):
        parts = parts_in(folder)
        if not parts:
            return read_json(folder / SUMMARY)
        for part in parts:
            with folder_lock(
                part
            ):  # nobody writes it; who starts it now is refused by the folder's lock
                pass
        delete_drafts(folder)
        return _merge_parts(folder, parts, note)


def _merge_parts(
    folder: Path, parts: Sequence[Path], note: Callable[[str], None]
) -> dict[str, Any]:
    """Merge every file, records after what they point to, remove the shards, and return the
    summary."""
    sources = [folder, *parts]
    manifest = _merged_manifest(folder, parts)
    records: dict[str, bytes] = {}  # question -> its line: a tenth of the memory of the record
    owner: dict[str, Path] = {}  # question -> the folder that its record is from
    answered: set[str] = set()
    for source in sources:
        notes: list[str] = []
        for record in read_lines(source / RECORDS, "question_id", notes):
            question = record["question_id"]
            if owner.get(question) in (None, source) or question not in answered:
                records[question], owner[question] = json_line(record), source
                (answered.add if has_answer(record) else answered.discard)(question)
        for sentence in notes:
            note(sentence)

    def write(name: str, lines: Iterable[Mapping[str, Any]]) -> None:
        if any((source / name).exists() for source in sources):
            write_atomic(folder / name, map(json_line, lines))

    write(
        TEXTS,
        _distinct(
            (line for s in sources for line in read_with_older(s / TEXTS, "sha256")), "sha256"
        ),
    )
    write(REQUESTS, _requests(sources, owner))
    documents = _merged_indexes(sources)
    write(DOCUMENTS, (line.to_json() for line in documents))
    position = {
        line["question_id"]: n for n, line in enumerate(read_lines(folder / ORDER, "question_id"))
    }
    ordered = [records[q] for q in sorted(records, key=lambda q: position.get(q, len(position)))]
    write_atomic(folder / RECORDS, ordered)
    kept = {
        r["question_id"]: r
        for source in sources
        for r in read_lines(source / UNSCORED, "question_id")
    }
    unscored = [
        line
        for q, line in kept.items()
        if q not in records or (has_answer(line) and q not in answered)
    ]
    write(UNSCORED, unscored)  # the next start scores them

    before, asked = read_json(folder / SUMMARY), manifest.pop("shard", {}).get("asked", 0)
    asked = max(asked, before.get("n_asked", 0) - before.get("n_left_out", 0))
    numbers = summarise(map(json.loads, ordered), documents, run_yaml(folder)["config"])
    state = "finished" if numbers["n_total"] >= asked else "interrupted"
    summary = {"state": state, **asked_counts(manifest, asked, numbers["n_total"]), **numbers}
    if manifest:  # without any, as after a kill of all shards, the next start begins one
        ends = [start["finished"] for start in manifest["starts"] if start.get("finished")]
        manifest["finished"] = max(ends, default=None) if state == "finished" else None
        _write_json(folder / MANIFEST, manifest)
    summary[FILES] = checksums(folder)
    _write_json(folder / SUMMARY, summary)
    shutil.rmtree(folder / PARTS)
    for name in [UNSCORED] * (not unscored) + [ORDER] * (state == "finished" and not unscored):
        (folder / name).unlink(missing_ok=True)
    count = len(parts)
    note(
        f"merged {count} shard{'s'[: count > 1]}: {numbers['n_total']} of {asked} questions have a "
        "record"
    )
    return summary


def _merged_indexes(sources: Sequence[Path]) -> list[IndexLine]:
    """The index lines of all folders: of an index that several have, the one that was built.

    Tries that failed stay, as each has a cost; only equal ones, which an earlier merge copied,
    become one.
    """
    lines: list[IndexLine] = []
    for source in sources:
        lines.extend(read_index_lines(source))
    indexes: dict[tuple[str, str | None, str | None], IndexLine] = {}
    for status in ("built", "hit"):
        for line in lines:
            if line.status == status:
                indexes.setdefault(line.identity, line)
    failed: dict[str, IndexLine] = {}
    for line in lines:
        if line.failed:
            failed.setdefault(json.dumps(line.to_json()), line)
    return [*indexes.values(), *failed.values()]


def _distinct(lines: Iterable[dict[str, Any]], *keys: str) -> Iterator[dict[str, Any]]:
    """Yield the first line of each combination of values of `keys`."""
    seen: set[str] = set()
    for line in lines:
        values = json.dumps([line.get(key) for key in keys])
        if values not in seen:
            seen.add(values)
            yield line


def _requests(
    sources: Sequence[Path], folder_of_record: Mapping[str, Path]
) -> Iterator[dict[str, Any]]:
    """Yield the requests of each question beside its kept record, and those of each index from the
    first folder."""
    first_folder: dict[tuple[Any, ...], Path] = {}
    for source in sources:
        for line in read_with_older(source / REQUESTS, "kind"):
            if "question_id" in line:
                folder = folder_of_record.get(line["question_id"])
            else:
                folder = first_folder.setdefault((line.get("document_id"), line.get("key")), source)
            if source == folder:
                yield line


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_atomic(path, json.dumps(value, indent=2, allow_nan=False).encode() + b"\n")


def _merged_manifest(folder: Path, parts: Sequence[Path]) -> dict[str, Any]:
    """The manifest of the whole run: the first one with records, with the starts of all, each with
    its shard's name.

    The first start of a shard that answered with other code, packages or on another machine has
    them as "changed".
    "shard" stays in it, with the largest "asked". Raises UserError for shards with different data
    or scorers.
    """
    merged = read_json(folder / MANIFEST)
    empty = {
        part for part in parts if not any(True for _ in read_lines(part / RECORDS, "question_id"))
    }
    for part in sorted(parts, key=empty.__contains__):
        manifest = read_json(part / MANIFEST)
        if not manifest:
            continue  # a merge was killed after it had removed it
        name = part.name.replace("-of-", "/")
        starts = [{**start, "shard": name} for start in manifest["starts"]]
        if not merged:
            merged = {**manifest, "starts": starts}
            continue
        for key in ("hash", "scorers"):
            if merged.get(key) != manifest.get(key):
                raise UserError(
                    f"{folder}: shard {name} has other {key} ({manifest.get(key)}) than the rest "
                    f"({merged.get(key)}); "
                    "run that shard again with the same command, then merge"
                )
        manifest["gpu"] = merged["gpu"] = manifest.get("gpu") or merged.get("gpu")
        if part not in empty and (odd := changes(merged, manifest)):
            starts[0]["changed"] = odd | starts[0].get("changed", {})
        merged["starts"] = merged["starts"] + [
            start for start in starts if start not in merged["starts"]
        ]
        merged["first_prompts"] = {
            **manifest.get("first_prompts", {}),
            **merged.get("first_prompts", {}),
        }
        asked = max((m.get("shard") or {}).get("asked", 0) for m in (merged, manifest))
        merged["shard"] = {"asked": asked}
    return merged
