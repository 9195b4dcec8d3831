"""The long texts that readers were shown, read back from texts.jsonl (record_texts.py writes them)."""

from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from harness.errors import DataError
from harness.storage.json_lines import read_with_older
from harness.storage.record_texts import POINTER, checksum, shown_pieces
from harness.storage.run_files import TEXTS


def text_pointers(record: Mapping[str, Any]) -> list[str]:
    """The checksums of the long texts that a record points to."""
    return [piece[POINTER] for piece in shown_pieces(record) if piece.get(POINTER)]


def lost_texts(folder: Path, wanted: Set[str]) -> str | None:
    """A sentence on how many of the texts `wanted` (checksums) the folder lacks; None where it has all."""
    if not wanted:
        return None
    try:
        lost = len(wanted - {line["sha256"] for line in read_with_older(folder / TEXTS, "sha256")})
    except DataError as error:
        return str(error)
    return f"{lost} of {len(wanted)} long texts that were shown are missing from {TEXTS}" if lost else None


def read_texts(folder: Path, records: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield (checksum, text) of the texts that records point to and the folder has. Raises DataError for damage."""
    hashes = {pointer for record in records for pointer in text_pointers(record)}
    path = folder / TEXTS
    for line in read_with_older(path, "sha256") if hashes else ():
        if line["sha256"] in hashes:
            text = line.get("text")
            if not isinstance(text, str) or checksum(text) != line["sha256"]:
                raise DataError(path, None, None, f"the text {line['sha256'][:40]} does not fit its checksum")
            yield line["sha256"], text
