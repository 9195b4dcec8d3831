"""All passages of a corpus by number, and the document of each; made once for a corpus and kept in
its index folder.

    table = load_or_make_table(Corpus(path, 100), folder, report)   reads the corpus once; later it is checked
    table.passage_texts(200_000)                                    "Title\\npassage", streamed from that passage on
    table.document_numbers(numbers)                                 the documents of passages

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

_COUNTS_FILE = "corpus.json"
_STRETCHES_FILE = "runs.npz"


@dataclass(frozen=True)
class CorpusCounts:
    """What corpus.json says of the corpus that an index was made from.

    Attributes:
        name: The name of the corpus file.
        form: "rows", "flashrag", "dpr" or "kilt".
        words_per_passage: The number of words of a passage.
        n_rows: How many rows the file has.
        n_passages: How many passages were cut from them.
        n_documents: How many documents the rows belong to.
        n_rows_without_text: Rows without text, which have no passage.
        sha256: The sha256 of the file.
    """

    name: str
    form: str
    words_per_passage: int
    n_rows: int
    n_passages: int
    n_documents: int
    n_rows_without_text: int
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
            words_per_passage=_whole_number(values, "words"),
            n_rows=_whole_number(values, "rows"),
            n_passages=_whole_number(values, "passages"),
            n_documents=_whole_number(values, "documents"),
            n_rows_without_text=_whole_number(values, "without text"),
            sha256=str(values["sha256"]),
        )

    def to_json(self) -> dict[str, object]:
        """The counts as corpus.json and manifests hold them: {"name": .., "without text": 0,
        ..}.
        """
        return {
            "name": self.name,
            "form": self.form,
            "words": self.words_per_passage,
            "rows": self.n_rows,
            "passages": self.n_passages,
            "documents": self.n_documents,
            "without text": self.n_rows_without_text,
            "sha256": self.sha256,
        }


def _whole_number(values: Mapping[str, object], key: str) -> int:
    """The whole number in a field. Raises LookupError if it is missing, ValueError if it is no
    number.
    """
    return int(str(values[key]))


@dataclass(frozen=True)
class FileState:
    """Size and time of change of a file, by which an unchanged one is known without reading it.

    Attributes:
        size: In bytes.
        modified: The time of the last change in nanoseconds.
    """

    size: int
    modified: int

    @classmethod
    def of_file(cls, path: Path) -> FileState:
        """The size and time of the last change of a file now. Raises OSError."""
        stat = path.stat()
        return cls(stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class Stretches:
    """The stretches of a corpus: rows that follow each other and belong to one document.

    Attributes:
        first_lines: The line (from 0) of each stretch's first row [stretches].
        first_passages: The number of its first passage [stretches].
        document_numbers: The number of its document [stretches].
    """

    first_lines: np.ndarray
    first_passages: np.ndarray
    document_numbers: np.ndarray

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
        np.savez(
            buffer,
            lines=self.first_lines,
            starts=self.first_passages,
            documents=self.document_numbers,
        )
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
        return self.counts.n_passages

    def manifest_entry(self) -> dict[str, object]:
        """The corpus as manifests describe it: its counts, and the size of its file in bytes."""
        return {**self.counts.to_json(), "size": self.file_size}

    def document_numbers(self, passage_numbers: np.ndarray) -> np.ndarray:
        """The number of the document that each passage belongs to.

        Documents are numbered from 0 in the order in which they appear in the corpus. A passage
        belongs to the last stretch, rows of one document in a row, that begins at or before it.

        Args:
            passage_numbers: The numbers of passages [n].

        Returns:
            The numbers of their documents [n].
        """
        stretch_numbers = (
            np.searchsorted(self.stretches.first_passages, passage_numbers, "right") - 1
        )
        return np.asarray(self.stretches.document_numbers[stretch_numbers])

    def passage_texts(self, first_passage: int = 0) -> Iterator[str]:
        r"""Yield the texts of the passages from number `first_passage` on, as "Title\npassage" or
        without a title.

        The corpus is read from its beginning, but rows are parsed only from the stretch on, the
        rows of one document in a row, that has this passage.
        """
        if first_passage >= len(self):
            return
        stretches = self.stretches
        stretch = int(np.searchsorted(stretches.first_passages, first_passage, "right")) - 1
        first_line = stretches.first_lines[stretch]
        passage_number = int(stretches.first_passages[stretch])
        for line_index, line in self.corpus.lines():
            if line_index < first_line:
                continue
            page = self.corpus.parse_page(line_index, line)
            title_line = ""
            if page.title:
                title_line = f"{page.title}\n"
            for passage in self.corpus.cut_passages(page):
                if passage_number >= first_passage:
                    yield title_line + passage
                passage_number += 1

    def read_rows_of(self, documents: Collection[int]) -> Iterator[tuple[int, Page]]:
        """Read the corpus, and yield (document number, row) for each row of some documents.

        In the order of the corpus. Rows of other documents are read over without being parsed: the
        table knows at which lines a stretch, rows of one document in a row, begins.

        Args:
            documents: The numbers of the documents.
        """
        document_numbers = self.stretches.document_numbers  # [stretches]
        first_lines = self.stretches.first_lines  # [stretches]
        is_wanted = np.isin(document_numbers, np.fromiter(documents, dtype=np.int64))
        stretch = -1
        last_stretch = len(first_lines) - 1
        for line_index, line in self.corpus.lines():
            while stretch < last_stretch and line_index >= first_lines[stretch + 1]:
                stretch += 1
            if is_wanted[stretch]:
                yield int(document_numbers[stretch]), self.corpus.parse_page(line_index, line)


def load_or_make_table(corpus: Corpus, folder: Path, report: Report) -> Passages:
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
    if (folder / _COUNTS_FILE).exists():
        return _load_table(corpus, folder)
    # Taken before the scan, so that a change during it is noticed at the next start.
    file_state = FileState.of_file(corpus.path)
    counts, stretches = _scan_corpus(corpus, report)
    stretches.save(folder / _STRETCHES_FILE)
    content = json.dumps({**counts.to_json(), **asdict(file_state)}, indent=2).encode()
    write_atomic(folder / _COUNTS_FILE, content, setting="--index")
    return Passages(corpus, counts, file_state.size, stretches)


def _load_table(corpus: Corpus, folder: Path) -> Passages:
    """Load the passage table from a folder that has one. A corpus file of the same size and time as
    then has not changed; of any other the hash decides.

    Args:
        corpus: The file, to check that it has not changed.
        folder: The index's folder.

    Raises:
        UserError: The corpus has changed since, or a file of the table is damaged.
    """
    try:
        values = read_object(folder / _COUNTS_FILE)
        stored_state = FileState(values["size"], values["modified"])
        counts = CorpusCounts.from_json(values)
        stretches = Stretches.load(folder / _STRETCHES_FILE)
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"the index in {folder} is damaged ({error}); remove that folder") from None
    may_have_changed = stored_state != FileState.of_file(corpus.path)
    if may_have_changed and file_hash(corpus.path) != counts.sha256:
        raise UserError(
            f"{corpus.path} has changed since its index was made; remove the folder {folder}, "
            "or name another one"
        )
    return Passages(corpus, counts, stored_state.size, stretches)


def _scan_corpus(corpus: Corpus, report: Report) -> tuple[CorpusCounts, Stretches]:
    """Read and check the whole corpus, and count its rows, passages and documents. Rows of one
    document that follow each other are a stretch; of each its first line and passage are noted.

    Args:
        corpus: The file.
        report: Called with the progress.

    Returns:
        The counts, and which passages belong to which document.

    Raises:
        DataError: A row cannot be used, or the corpus has no text.
    """
    document_hashes = array("Q")  # of each stretch
    first_lines = array("q")
    first_passages = array("q")
    n_rows = 0
    n_passages = 0
    n_rows_without_text = 0
    previous_hash = -1
    for line_index, line in corpus.lines():
        page = corpus.parse_page(line_index, line)
        document_hash = _hash_of_key(page.document_key)
        if document_hash != previous_hash:
            document_hashes.append(document_hash)
            first_lines.append(line_index)
            first_passages.append(n_passages)
            previous_hash = document_hash
        n_passages_of_row = len(corpus.cut_passages(page))
        if n_passages_of_row == 0:
            n_rows_without_text += 1
        n_passages += n_passages_of_row
        n_rows += 1
        report("reading rows", n_rows, None)  # how many there will be is unknown
    if not n_passages:
        raise DataError.of_file(corpus.path, "the corpus has no text")
    document_numbers = _number_documents(np.asarray(document_hashes))
    counts = CorpusCounts(
        name=corpus.name,
        form=corpus.form,
        words_per_passage=corpus.words_per_passage,
        n_rows=n_rows,
        n_passages=n_passages,
        n_documents=int(document_numbers.max()) + 1,
        n_rows_without_text=n_rows_without_text,
        sha256=file_hash(corpus.path),
    )
    stretches = Stretches(np.asarray(first_lines), np.asarray(first_passages), document_numbers)
    return counts, stretches


def _hash_of_key(document_key: str) -> int:
    """The first 64 bits of a hash of a document's key, as a number."""
    digest = hashlib.blake2b(document_key.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _number_documents(document_hashes: np.ndarray) -> np.ndarray:
    """Number documents from 0 in the order of their first stretch: [70, 5, 70] -> [0, 1, 0].

    Args:
        document_hashes: The hash of each stretch's document [stretches].

    Returns:
        The number of each stretch's document [stretches].
    """
    sorted_hashes, first_stretches, places_in_sorted = np.unique(
        document_hashes, return_index=True, return_inverse=True
    )
    # Each of the sorted hashes is given the rank of its first stretch.
    n_documents = len(sorted_hashes)
    number_of_sorted = np.empty(n_documents, dtype=np.int32)
    number_of_sorted[np.argsort(first_stretches)] = np.arange(n_documents, dtype=np.int32)
    return np.asarray(number_of_sorted[places_in_sorted])
