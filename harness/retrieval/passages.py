"""All passages of a corpus by number, and the document of each; made once for a corpus and kept in
its index folder.

    table = open_table(Corpus(path, 100), folder, report)      reads the corpus once; later: checks that it is the same
    table.passage_texts(start=200_000)                         "Title\\npassage", streamed from that passage on
    table.documents_of(numbers)                                document numbers

A row of the corpus is a line that holds a Page, which is cut into passages. Only stretches of
consecutive rows of one document are kept (runs.npz), 20 bytes each: 120 MB for 5.9 million pages.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from harness.errors import DataError, UserError
from harness.retrieval.corpus import Corpus, Page
from harness.storage.file_hash import file_hash
from harness.storage.files import read_object, write_atomic

Report = Callable[[str, int, int | None], None]
"""report(stage, done, total): called often; total is None where it is unknown."""

_FACTS_FILE = "corpus.json"
_STRETCHES_FILE = "runs.npz"


@dataclass(frozen=True)
class CorpusCounts:
    """What corpus.json says of the corpus that an index was made from.

    Attributes:
        name: The name of the corpus file.
        form: "rows", "flashrag", "dpr" or "kilt".
        words: The number of words of a passage.
        rows: How many the file has.
        passages: How many were cut from them.
        documents: How many the rows belong to.
        without_text: Rows without text, which have no passage.
        sha256: The sha256 of the file.
    """

    name: str
    form: str
    words: int
    rows: int
    passages: int
    documents: int
    without_text: int
    sha256: str

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> CorpusCounts:
        """Parse what `to_json` returned.

        Raises:
            LookupError: A value is missing; tables of older versions have no "without text", as
                they count a row without text as a passage.
            ValueError: A count is no number.
        """
        return cls(
            name=str(values["name"]),
            form=str(values["form"]),
            words=_whole_number(values, "words"),
            rows=_whole_number(values, "rows"),
            passages=_whole_number(values, "passages"),
            documents=_whole_number(values, "documents"),
            without_text=_whole_number(values, "without text"),
            sha256=str(values["sha256"]),
        )

    def to_json(self) -> dict[str, object]:
        """The counts as corpus.json and manifests hold them: {"name": .., "without text": 0,
        ..}.
        """
        return {
            "name": self.name,
            "form": self.form,
            "words": self.words,
            "rows": self.rows,
            "passages": self.passages,
            "documents": self.documents,
            "without text": self.without_text,
            "sha256": self.sha256,
        }


def _whole_number(values: Mapping[str, object], key: str) -> int:
    """The whole number in a field. Raises LookupError if it is missing, ValueError if it is no
    number.
    """
    return int(str(values[key]))


@dataclass(frozen=True)
class FileState:
    """Size and time of change of a file, by which an unchanged one is known without reading it."""

    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileState:
        """The size and time of the last change of a file now. Raises OSError."""
        stat = path.stat()
        return cls(stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class Stretches:
    """The stretches of a corpus: rows that follow each other and belong to one document.

    Attributes:
        lines: The line (from 0) of each stretch's first row [stretches].
        starts: The number of its first passage [stretches].
        documents: The number of its document [stretches].
    """

    lines: np.ndarray
    starts: np.ndarray
    documents: np.ndarray

    @classmethod
    def load(cls, path: Path) -> Stretches:
        """Read the file that `save` wrote.

        Raises OSError, ValueError, LookupError, EOFError or BadZipFile for a damaged one.
        """
        with np.load(path) as arrays:
            return cls(arrays["lines"], arrays["starts"], arrays["documents"])

    def save(self, path: Path) -> None:
        """Write the arrays to one .npz file. Raises SaveError."""
        buffer = io.BytesIO()
        np.savez(buffer, lines=self.lines, starts=self.starts, documents=self.documents)
        write_atomic(path, buffer.getvalue(), setting="--index")


@dataclass(frozen=True)
class Passages:
    """The passages of a corpus, numbered from 0 in the order of its rows.

    Attributes:
        corpus: The file.
        counts: What corpus.json says of it.
        file_size: The size of the corpus file in bytes, when the table was made.
        stretches: Which passages belong to which document.
    """

    corpus: Corpus
    counts: CorpusCounts
    file_size: int
    stretches: Stretches

    def __len__(self) -> int:
        """The number of passages."""
        return self.counts.passages

    def manifest_entry(self) -> dict[str, object]:
        """The corpus as manifests describe it: its counts, and the size of its file in bytes."""
        return {**self.counts.to_json(), "size": self.file_size}

    def documents_of(self, passages: np.ndarray) -> np.ndarray:
        """The number of the document that each passage belongs to.

        Documents are numbered from 0 in the order in which they appear in the corpus.

        Args:
            passages: The numbers of passages [n].

        Returns:
            The numbers of their documents [n].
        """
        places = np.searchsorted(self.stretches.starts, passages, "right") - 1
        return np.asarray(self.stretches.documents[places])

    def passage_texts(self, start: int = 0) -> Iterator[str]:
        r"""Yield the texts of the passages from number `start` on, as "Title\npassage" or without a
        title.

        The corpus is read from its beginning, but only rows near `start` and after it are parsed.
        """
        if start >= len(self):
            return
        stretch = int(np.searchsorted(self.stretches.starts, start, "right")) - 1
        passage_number = int(self.stretches.starts[stretch])
        for number, line in self.corpus.lines():
            if number < self.stretches.lines[stretch]:
                continue
            page = self.corpus.page(number, line)
            heading = ""
            if page.title:
                heading = f"{page.title}\n"
            for passage in self.corpus.passages(page):
                if passage_number >= start:
                    yield heading + passage
                passage_number += 1

    def pages(self, documents: Collection[int]) -> Iterator[tuple[int, Page]]:
        """Yield (document number, row) for each row of these documents, in the order of the
        corpus.

        Rows of other documents are not parsed.

        Args:
            documents: The numbers of the documents.
        """
        numbers = self.stretches.documents
        first_lines = self.stretches.lines
        selected = np.isin(numbers, np.fromiter(documents, dtype=np.int64))
        stretch, last = -1, len(first_lines) - 1
        for number, line in self.corpus.lines():
            while stretch < last and number >= first_lines[stretch + 1]:
                stretch += 1
            if selected[stretch]:
                yield int(numbers[stretch]), self.corpus.page(number, line)


def open_table(corpus: Corpus, folder: Path, report: Report) -> Passages:
    """Load the passage table of a corpus from its index folder, or make it there.

    Args:
        corpus: The file.
        folder: The index's folder.
        report: Called with the progress of reading the corpus.

    Raises:
        UserError: The folder was made from another corpus, or is damaged.
        DataError: A row of the corpus cannot be used.
        SaveError: The table cannot be written.
    """
    if (folder / _FACTS_FILE).exists():
        return _load_table(corpus, folder)
    # Taken before the scan, so that a change during it is noticed at the next start.
    state = FileState.of(corpus.path)
    counts, stretches = _scan_corpus(corpus, report)
    stretches.save(folder / _STRETCHES_FILE)
    content = json.dumps({**counts.to_json(), **asdict(state)}, indent=2).encode()
    write_atomic(folder / _FACTS_FILE, content, setting="--index")
    return Passages(corpus, counts, state.size, stretches)


def _load_table(corpus: Corpus, folder: Path) -> Passages:
    """Load the passage table from a folder that has one.

    Args:
        corpus: The file, to check that it has not changed.
        folder: The index's folder.

    Raises:
        UserError: The corpus has changed since, or a file of the table is damaged.
    """
    try:
        values = read_object(folder / _FACTS_FILE)
        stored_state = FileState(values["size"], values["modified"])
        counts = CorpusCounts.from_json(values)
        stretches = Stretches.load(folder / _STRETCHES_FILE)
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"the index in {folder} is damaged ({error}); remove that folder") from None
    if stored_state != FileState.of(corpus.path) and file_hash(corpus.path) != counts.sha256:
        raise UserError(
            f"{corpus.path} has changed since its index was made; remove the folder {folder}, "
            "or name another one"
        )
    return Passages(corpus, counts, stored_state.size, stretches)


def _scan_corpus(corpus: Corpus, report: Report) -> tuple[CorpusCounts, Stretches]:
    """Read and check the whole corpus, and count its rows, passages and documents.

    Args:
        corpus: The file.
        report: Called with the progress.

    Returns:
        The counts, and which passages belong to which document.

    Raises:
        DataError: A row cannot be used, or the corpus has no text.
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
        if count == 0:
            empty += 1
        passages += count
        report("reading rows", rows, None)
    if not passages:
        raise DataError(corpus.path, None, None, "the corpus has no text")
    documents, n_documents = _number_documents(np.asarray(keys))
    counts = CorpusCounts(
        name=corpus.name,
        form=corpus.form,
        words=corpus.words,
        rows=rows,
        passages=passages,
        documents=n_documents,
        without_text=empty,
        sha256=file_hash(corpus.path),
    )
    return counts, Stretches(np.asarray(lines), np.asarray(starts), documents)


def _number_documents(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Number documents from 0 in the order of their first row: keys [70, 5, 70] -> ([0, 1, 0], 2).

    Args:
        keys: The key of each stretch's document [stretches].

    Returns:
        The number of each stretch's document [stretches], and how many documents there are.
    """
    unique_keys, first_stretches, places = np.unique(keys, return_index=True, return_inverse=True)
    n_documents = len(unique_keys)
    # np.unique sorts by key, so each sorted key is given the rank of its first stretch.
    numbers = np.empty(n_documents, dtype=np.int32)
    numbers[np.argsort(first_stretches)] = np.arange(n_documents, dtype=np.int32)
    return numbers[places], n_documents
