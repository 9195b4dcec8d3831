"""The files of a run beside its records, merged out of its shards: manifest, shown texts, requests."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.storage.files import json_line, replacing
from harness.storage.kept_requests import REQUESTS
from harness.storage.packed_lines import read_packed
from harness.storage.parts import part_name
from harness.storage.run_folder import MANIFEST, read_json
from harness.storage.shown_texts import TEXTS

_TOGETHER = 200  # texts in one gzip member


def merge_manifests(folder: Path, numbers: Sequence[int]) -> dict[str, Any]:
    """The manifest of the whole run: the first description, the starts of all, each with its shard.

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
        merged["starts"] = merged["starts"] + [start for start in starts if start not in merged["starts"]]
        merged["first_prompts"] = {**manifest.get("first_prompts", {}), **merged.get("first_prompts", {})}
        merged["gpu"] = merged.get("gpu") or manifest.get("gpu")
        asked = max((m.get("shard") or {}).get("asked", 0) for m in (merged, manifest))
        merged["shard"] = {"asked": asked}
    return merged


def merge_texts(folder: Path, parts: Sequence[int | None]) -> None:
    """Write texts.jsonl.gz with each text of the parts once; memory holds their checksums. Raises SaveError."""
    if not _has(folder, TEXTS, parts[1:]):
        return
    seen: set[bytes] = set()

    def new() -> Iterator[dict[str, Any]]:
        for row in _rows(folder, TEXTS, "sha256", parts):
            key = bytes.fromhex(row["sha256"])
            if key not in seen:
                seen.add(key)
                yield row

    _write(folder / TEXTS, _batches(new()))


def merge_requests(folder: Path, parts: Sequence[int | None], source: Callable[[str], int | None]) -> None:
    """Write requests.jsonl.gz with the requests of each question out of the part whose record of it was taken.

    source: question id -> place in `parts`. Of an index the first part's requests are kept. Raises SaveError.
    """
    if not _has(folder, REQUESTS, parts[1:]):
        return

    def owners() -> Iterator[list[dict[str, Any]]]:
        indexes: dict[tuple[Any, ...], int] = {}
        for file, part in enumerate(parts):
            rows = read_packed(folder / part_name(REQUESTS, part), "kind")
            for owner, group in itertools.groupby(rows, _owner):
                kept = source(owner[0]) if owner[0] is not None else indexes.setdefault(owner, file)
                if kept == file:
                    yield list(group)

    _write(folder / REQUESTS, owners())


def _owner(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(key) for key in ("question_id", "document_id", "key"))


def _has(folder: Path, name: str, parts: Iterable[int | None]) -> bool:
    return any((folder / part_name(name, part)).exists() for part in parts)


def _rows(folder: Path, name: str, field: str, parts: Iterable[int | None]) -> Iterator[dict[str, Any]]:
    for part in parts:
        yield from read_packed(folder / part_name(name, part), field)


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(itertools.islice(rows, _TOGETHER)):
        yield batch


def _write(path: Path, groups: Iterable[Sequence[Mapping[str, Any]]]) -> None:
    with replacing(path) as file:
        for rows in groups:
            file.write(gzip.compress(b"".join(map(json_line, rows)), mtime=0))
