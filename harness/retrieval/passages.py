"""All passages of a corpus by number, and the document of each; made once for a corpus and kept in
its index folder.

    table = open_table(Corpus(path, 100), folder, report)      reads the corpus once; later: checks that it is the same
    table.passage_texts(start=200_000)                         "Title\\npassage", streamed from that passage on
    table.documents_of(numbers)                                document numbers

A row of the corpus is a line that holds a Page, which is cut into passages. Only stretches of
consecutive rows of one document are kept (runs.npz), 20 bytes each: 120 MB for 5.9 million pages.
"""

import hashlib
import io
import json
import zipfile
from array import array
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import DataError, UserError
from harness.retrieval.corpus import Corpus, Page
from harness.storage.file_hash import file_hash
from harness.storage.files import read_object, write_atomic

Report = Callable[[str, int, int | None], None]
"""report(stage, done, total): called often; total is None where it is unknown."""

_FACTS_FILE, _RUNS_FILE = "corpus.json", "runs.npz"


@dataclass(frozen=True)
class Passages:
    """The passages of a corpus. facts: what corpus.json holds (counts, checksum).

    lines, starts, documents: of each stretch (consecutive rows of one document) the line of its
    first row (from 0), the number of its first passage, and the number of its document.
    """

    corpus: Corpus
    facts: dict[str, Any]
    lines: np.ndarray
    starts: np.ndarray
    documents: np.ndarray

    def __len__(self) -> int:
        return int(self.facts["passages"])

    def documents_of(self, passages: np.ndarray) -> np.ndarray:
        """The document number of each passage number; documents are numbered by first appearance in
        the corpus."""
        return np.asarray(self.documents[np.searchsorted(self.starts, passages, "right") - 1])

    def passage_texts(self, start: int = 0) -> Iterator[str]:
        """Yield the texts of the passages from number `start` on, each after a line with its
        title."""
        if start >= len(self):
            return
        stretch = int(np.searchsorted(self.starts, start, "right")) - 1
        passage_number = int(self.starts[stretch])
        for number, line in self.corpus.lines():
            if number < self.lines[stretch]:
                continue
            page = self.corpus.page(number, line)
            for passage in self.corpus.passages(page):
                if passage_number >= start:
                    yield f"{page.title}\n{passage}" if page.title else passage
                passage_number += 1

    def pages(self, documents: Collection[int]) -> Iterator[tuple[int, Page]]:
        """Yield (document number, row) for each row of these documents, in corpus order; others are
        not parsed."""
        selected = np.isin(self.documents, np.fromiter(documents, dtype=np.int64))
        stretch, last = -1, len(self.lines) - 1
        for number, line in self.corpus.lines():
            while stretch < last and number >= self.lines[stretch + 1]:
                stretch += 1
            if selected[stretch]:
                yield int(self.documents[stretch]), self.corpus.page(number, line)


def open_table(corpus: Corpus, folder: Path, report: Report) -> Passages:
    """Load the passage table of a corpus from its index folder, or make it.

    Raises UserError if the corpus is not the one that the folder was made from, DataError for a bad
    row.
    """
    stat = corpus.path.stat()
    file_state = {"size": stat.st_size, "modified": stat.st_mtime_ns}
    if (folder / _FACTS_FILE).exists():
        try:
            facts = read_object(folder / _FACTS_FILE)
            same = all(facts[key] == value for key, value in file_state.items())
            digest, _ = (
                facts["sha256"],
                facts["without text"],
            )  # older tables count a row without text as a passage
            with np.load(folder / _RUNS_FILE) as runs:
                arrays = {name: runs[name] for name in ("lines", "starts", "documents")}
        except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(
                f"the index in {folder} is damaged ({error}); remove that folder"
            ) from None
        if not same and file_hash(corpus.path) != digest:
            raise UserError(
                f"{corpus.path} has changed since its index was made; remove the folder {folder}, "
                "or name another one"
            )
        return Passages(corpus, facts, **arrays)
    facts, arrays = _scan_corpus(corpus, report)
    buffer = io.BytesIO()
    np.savez(buffer, lines=arrays["lines"], starts=arrays["starts"], documents=arrays["documents"])
    write_atomic(folder / _RUNS_FILE, buffer.getvalue(), setting="--index")
    facts |= {"sha256": file_hash(corpus.path), **file_state}
    content = json.dumps(facts, indent=2).encode()
    write_atomic(folder / _FACTS_FILE, content, setting="--index")
    return Passages(corpus, facts, **arrays)


def _scan_corpus(corpus: Corpus, report: Report) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read and check the whole corpus.

    Rows of one document that follow each other are a run; Passages keeps three numbers for each.

    Returns:
        Facts: the corpus and counts of its rows, passages and documents; and the arrays of
        Passages, an entry a run: its first line, its first passage and its document.
    """
    keys, lines, starts = array("Q"), array("q"), array("q")
    rows = passages = empty = 0
    previous = b""
    for rows, (number, line) in enumerate(corpus.lines(), start=1):
        page = corpus.page(number, line)
        key = hashlib.blake2b(page.document.encode(errors="surrogatepass"), digest_size=8).digest()
        if key != previous:
            keys.append(int.from_bytes(key, "little"))
            lines.append(number)
            starts.append(passages)
            previous = key
        count = len(corpus.passages(page))
        empty += not count
        passages += count
        report("reading rows", rows, None)
    if not passages:
        raise DataError(corpus.path, None, None, "the corpus has no text")
    documents, n_documents = _number_documents(np.asarray(keys))
    facts = {
        "name": corpus.name,
        "form": corpus.form,
        "words": corpus.words,
        "rows": rows,
        "passages": passages,
        "documents": n_documents,
        "without text": empty,
    }
    return facts, {
        "lines": np.asarray(lines),
        "starts": np.asarray(starts),
        "documents": documents,
    }


def _number_documents(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Number documents from 0 in the order of their first row.

    Args:
        keys: The key of each run's document [runs].

    Returns:
        The number of each run's document [runs], and how many documents there are.
    """
    unique_keys, first_runs, places = np.unique(keys, return_index=True, return_inverse=True)
    n_documents = len(unique_keys)
    # np.unique sorts by key, so each sorted key is given the rank of its first run.
    numbers = np.empty(n_documents, dtype=np.int32)
    numbers[np.argsort(first_runs)] = np.arange(n_documents, dtype=np.int32)
    return numbers[places], n_documents
