"""The lines of a run folder's files as typed values: parsed where a file is read, written here alone.

    documents.jsonl   {"document_id": "d1", "key": "9f…", "status": "built", "usage": {"index": {...}}}
                      -> IndexLine(document_id="d1", key="9f…", status="built", usage={...})

Keys of other versions are held in `other` and written back. The files: run_files.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.storage import run_schema
from harness.storage.json_lines import read_lines
from harness.storage.run_files import DOCUMENTS

Usage = dict[str, dict[str, Any]]
"""Costs by phase, as harness.cost.usage sums them."""

Status = Literal["built", "hit", "failed"]
"""How a run got an index: built now, found in the cache, or not at all."""

_INDEX_KEYS = frozenset({"document_id", "key", "status", "usage", "question_id"})


@dataclass(frozen=True, slots=True)
class IndexLine:
    """One line of documents.jsonl: the index of one document, and what it cost.

    Attributes:
        document_id: The document.
        key: Digest of the index's key in the cache; None in older runs.
        status: How the run got it.
        usage: What building it cost, also where it was found in the cache.
        question_id: The question that the index belongs to; None where all share it.
        other: Keys of other versions.
    """

    document_id: str
    key: str | None
    status: Status
    usage: Usage
    question_id: str | None = None
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether there is no index."""
        return self.status == "failed"

    @property
    def place(self) -> tuple[str, str | None]:
        """(document, question or None): equal for lines of one index in several starts."""
        return self.document_id, self.question_id

    @property
    def identity(self) -> tuple[str, str | None, str | None]:
        """(document, question or None, key): equal for lines of one index with equal settings."""
        return self.document_id, self.question_id, self.key

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> IndexLine:
        """Parse the values of a line, which run_schema.DOCUMENT has checked."""
        return cls(
            document_id=values["document_id"],
            key=values.get("key"),
            status=values["status"],
            usage=values["usage"],
            question_id=values.get("question_id"),
            other={name: value for name, value in values.items() if name not in _INDEX_KEYS},
        )

    def to_json(self) -> dict[str, Any]:
        """The values of the line, in the order of the file."""
        values: dict[str, Any] = {"document_id": self.document_id}
        if self.key is not None:
            values["key"] = self.key
        values["status"] = self.status
        values["usage"] = self.usage
        if self.question_id is not None:
            values["question_id"] = self.question_id
        values.update(self.other)
        return values


def read_index_lines(folder: Path, notes: list[str] | None = None) -> Iterator[IndexLine]:
    """Yield the lines of the folder's documents.jsonl.

    Args:
        folder: A run folder, or that of a part.
        notes: Gets a sentence on a torn last line.

    Raises:
        DataError: A line before the last is damaged.
    """
    path = folder / DOCUMENTS
    for values in read_lines(path, "document_id", notes, run_schema.DOCUMENT):
        yield IndexLine.from_json(values)
