"""A run whose questions several processes answer: each writes a part, files of its own in the same run folder.

records.jsonl      what was merged; every reader sees this file alone
records.3.jsonl    part 3, written by one process; also documents.3.jsonl, texts.3.jsonl, manifest.3.json, lock.3 ...
order.jsonl        the questions in the order of the data set, for the merge (harness/scale/merge.py)

part_name("records.jsonl", 3)   "records.3.jsonl"
parts_in(folder)                [1, 2, 3]        parts whose files are not merged yet
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.storage.files import write_atomic
from harness.storage.json_lines import json_line, read_lines

ORDER = "order.jsonl"
_PART = re.compile(r"(?:records|documents|answered|manifest|summary)\.([1-9]\d{0,6})\.jsonl?")


@dataclass(frozen=True)
class Part:
    """One part of a run.

    number: from 1; of: how many parts there are; ids: its questions.
    """

    number: int
    of: int
    ids: frozenset[str]


def part_name(name: str, part: int | None) -> str:
    """The name of a part's file ("records.3.jsonl"); `name` itself for the whole run (None)."""
    if part is None:
        return name
    stem, dot, ending = name.partition(".")
    return f"{stem}.{part}{dot}{ending}"


def parts_in(folder: Path) -> list[int]:
    """The numbers of the parts with files in `folder`, sorted."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return sorted({int(match[1]) for name in names if (match := _PART.fullmatch(name))})


def check_no_parts(folder: Path) -> None:
    """Raise UserError if the folder holds parts: one writer of the whole run would ask their questions again."""
    if numbers := parts_in(folder):
        some = ", ".join(map(str, numbers[:5])) + (" ..." if len(numbers) > 5 else "")
        raise UserError(f"{folder} holds shards that are not merged ({some}); first run: harness merge {folder}")


def write_order(folder: Path, question_ids: Sequence[str]) -> None:
    """Write order.jsonl unless it has these questions already. Raises SaveError."""
    data = b"".join(json_line({"question_id": question_id}) for question_id in question_ids)
    path = folder / ORDER
    if not path.exists() or path.stat().st_size < len(data):  # that of a larger --limit has more questions
        write_atomic(path, data)


def read_order(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of order.jsonl, {"question_id"}; none without the file."""
    return read_lines(folder / ORDER, "question_id")
