"""The passages of an index by number, read from one file that is mapped into memory.

    passages.jsonl   {"id": "290#2", "title": "A", "text": "..."} a line
    offsets.npy      int64 [passages + 1]: where each line begins

A row that is one passage keeps its id; of a longer row, cut into passages, they are 290#1, 290#2.
"""

import io
import json
import mmap
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.retrieval.passages import Passages, Report
from harness.storage.files import replacing, write_atomic
from harness.storage.json_lines import json_line

_LINES_FILE = "passages.jsonl"
_OFFSETS_FILE = "offsets.npy"


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage of a corpus; title: "" for none."""

    id: str
    title: str
    text: str


def read_passages(table: Passages) -> Iterator[StoredPassage]:
    """Read the corpus, and yield its passages in their order.

    The row "290" cut into two passages gives the ids "290#1" and "290#2"; one passage keeps "290".
    """
    corpus = table.corpus
    for line_index, line in corpus.lines():
        page = corpus.parse_page(line_index, line)
        texts = corpus.cut_passages(page)
        for number, text in enumerate(texts, start=1):
            passage_id = page.id
            if len(texts) > 1:
                passage_id = f"{page.id}#{number}"
            yield StoredPassage(passage_id, page.title, text)


def write_passages(table: Passages, folder: Path, report: Report) -> None:
    """Write the passages of a corpus, a line of JSON each, and the offsets of these lines in bytes
    with the end of the last one, unless that was done before.

    Args:
        table: The passages.
        folder: The folder of the index.
        report: Called with the progress.

    Raises:
        SaveError: A file cannot be written.
    """
    if (folder / _OFFSETS_FILE).exists():
        return
    offsets = array("q", [0])
    with replacing(folder / _LINES_FILE, setting="--out") as file:
        for number, passage in enumerate(read_passages(table)):
            line = json_line({"id": passage.id, "title": passage.title, "text": passage.text})
            file.write(line)
            offsets.append(offsets[-1] + len(line))
            report("writing passages", number, len(table))
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(offsets))
    write_atomic(folder / _OFFSETS_FILE, buffer.getvalue(), setting="--out")


class PassageStore:
    """The passages that `write_passages` wrote."""

    def __init__(self, folder: Path) -> None:
        """Map the two files of `write_passages` in a folder into memory."""
        self._offsets = np.load(folder / _OFFSETS_FILE, mmap_mode="r")
        with open(folder / _LINES_FILE, "rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __getitem__(self, number: int) -> StoredPassage:
        """Read the passage with this number, from 0."""
        start, end = self._offsets[number : number + 2]
        return StoredPassage(**json.loads(self._lines[start:end]))
