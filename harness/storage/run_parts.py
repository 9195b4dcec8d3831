"""A part of a run, answered by one of several processes: a filter of questions, and a folder for its files.

records.jsonl                    what was merged; every reader sees this file alone
parts/3-of-16/records.jsonl      written by one process; there are also its documents.jsonl, manifest.json, lock ...
order.jsonl                      the questions in the order of the data set, for the merge (harness/scale/merge.py)
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.storage.files import check_writable, delete_drafts, write_atomic
from harness.storage.json_lines import json_line, read_lines
from harness.storage.lock import FolderLock

ORDER, PARTS = "order.jsonl", "parts"


@dataclass(frozen=True)
class Part:
    """Part `number` (from 1) of `of`, which together ask `asked` questions; ids: its own."""

    number: int
    of: int
    asked: int
    ids: frozenset[str]

    def folder(self, run: Path) -> Path:
        """The folder of its files in the folder of the run."""
        return run / PARTS / f"{self.number}-of-{self.of}"

    @property
    def described(self) -> dict[str, Any]:
        """{"shard": {"number", "of", "asked"}} for its manifest.json."""
        return {"shard": {"number": self.number, "of": self.of, "asked": self.asked}}


def parts_in(run: Path) -> list[Path]:
    """The folders of the parts that are not merged yet, by number."""
    return sorted((run / PARTS).glob("*-of-*"), key=lambda folder: int(folder.name.partition("-")[0]))


def lock_folder(run: Path, part: Part | None, stack: ExitStack) -> Path:
    """Become the writer of a run, or a part of it, until `stack` closes; returns the folder of its files.

    Raises RunLocked, SaveError (it cannot be written), and UserError for a whole run with parts: their questions would
    be asked again.
    """
    folder = run if part is None else part.folder(run)
    if part is not None:
        FolderLock(run).check_free()  # a writer of the whole run would ask the same questions
    check_writable(folder)
    stack.enter_context(FolderLock(folder))
    if part is not None:
        FolderLock(run).check_free()  # who came between
    elif parts := parts_in(run):
        some = ", ".join(each.name for each in parts[:5]) + (" ..." if len(parts) > 5 else "")
        raise UserError(f"{run} holds shards that are not merged ({some}); first run: harness merge {run}")
    delete_drafts(folder)
    return folder


def lines_of(run: Path, part: Part | None, name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file by question; for a part, first those of its questions that were merged before."""
    if part is not None:
        yield from (row for row in read_lines(run / name, "question_id") if row["question_id"] in part.ids)
    yield from read_lines((run if part is None else part.folder(run)) / name, "question_id")


def write_order(run: Path, question_ids: Sequence[str]) -> None:
    """Write order.jsonl unless it has these questions already. Raises SaveError."""
    data = b"".join(json_line({"question_id": question_id}) for question_id in question_ids)
    path = run / ORDER
    if not path.exists() or path.stat().st_size < len(data):  # that of a larger --limit has more questions
        write_atomic(path, data)


def read_order(run: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of order.jsonl, {"question_id"}; none without the file."""
    return read_lines(run / ORDER, "question_id")
