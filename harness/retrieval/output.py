"""The file of retrieved documents, one row a question, in the form that
harness.datasets.row_documents reads.

    retrieved/nq-bm25.jsonl          {"id": "test_0", "question": "..", "docs": [{"id", "title", "text", "score"}]}
    retrieved/nq-bm25.jsonl.manifest.json     what made it: checksum of the corpus, retriever, versions, answer recall

The texts of the documents are read from the corpus once more and kept in a temporary file, not in
memory.
"""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from harness.datasets.open_rows import OpenRow
from harness.retrieval.maxp import Hit
from harness.retrieval.passages import Passages, Report
from harness.scorers.flashrag import acc
from harness.scorers.squad import normalize_answer, spaced_words
from harness.storage.files import delete_drafts, replacing, save_error
from harness.storage.json_lines import json_line

_MOST_WORDS = 10
"""Words of an answer that a text can be expected to hold as it is; a longer one is a sentence of
its author."""


def _short_gold_answers(row: OpenRow) -> list[str]:
    """The accepted answers of a question that a passage can be expected to hold (`_can_be_held`).

    Those of its sub-questions where there are any.
    """
    accepted: list[str] = []
    for group in row.short_answers:
        accepted += group
    accepted = accepted or list(row.answers)
    return list(filter(_can_be_held, accepted))


def _can_be_held(answer: str) -> bool:
    """Whether a passage can be expected to hold an answer as it is: one of at most 10 words.

    An answer of which normalising leaves nothing, "the", is not.
    """
    return bool(normalize_answer(answer)) and len(answer.split()) <= _MOST_WORDS


def _holds_words(texts: Sequence[str], answers: Sequence[str]) -> bool:
    """Whether one of the texts has one of the answers in whole words; both are normalised
    first.
    """
    spaced_texts = [spaced_words(text) for text in texts]
    for answer in answers:
        spaced_answer = spaced_words(answer)
        if any(spaced_answer in text for text in spaced_texts):
            return True
    return False


@dataclass
class Recall:
    """How many questions have an answer in their documents.

    Attributes:
        questions: How many were counted.
        words: Those whose documents have an answer in whole words, both texts normalised as SQuAD
            does.
        characters: Those whose documents have one as FlashRAG counts, so that "art" is in "party".
        left_out: Further questions, without a short answer.
    """

    questions: int = 0
    words: int = 0
    characters: int = 0
    left_out: int = 0

    def add(self, row: OpenRow, texts: Sequence[str]) -> None:
        """Count one question.

        Args:
            row: The question with its gold answers; it is counted as left out where none of
                them has at most 10 words.
            texts: The title and text of each document retrieved for it.
        """
        answers = _short_gold_answers(row)
        if not answers:
            self.left_out += 1
            return
        self.questions += 1
        self.words += _holds_words(texts, answers)
        self.characters += any(acc(text, answers) > 0 for text in texts)

    def share(self, count: int) -> float | None:
        """`count` as a percentage of the questions; None without questions."""
        if not self.questions:
            return None
        return 100 * count / self.questions


@dataclass(frozen=True, slots=True)
class RetrievedDocument:
    """A document of a question, as the file holds it. score: of its best passage."""

    id: str
    title: str
    text: str
    score: float


class _DocumentTexts:
    """Documents by number: id and title in memory, the text in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        """Keep the texts in `file`, which `read` fills.

        `_heads` maps a document's number to its id and title, `_places` to the offset and length in
        bytes of each of its rows in the file.
        """
        self._file = file
        self._heads: dict[int, tuple[str, str]] = {}
        self._places: dict[int, list[tuple[int, int]]] = {}

    def read(self, table: Passages, documents: set[int], report: Report) -> None:
        """Copy the texts of documents from the corpus into the file, so that `entry` can give
        them.

        Args:
            table: The passages of the corpus.
            documents: The numbers of the documents.
            report: Called with the progress.
        """
        for document, page in table.pages(documents):
            self._heads.setdefault(document, (page.id, page.title))
            text = page.text.encode()
            self._places.setdefault(document, []).append((self._file.tell(), len(text)))
            self._file.write(text)
            report("reading documents", len(self._heads), len(documents))
        self._file.flush()

    def entry(self, hit: Hit) -> RetrievedDocument:
        """A retrieved document with its title and text; the texts of its rows are joined by a
        space.

        Args:
            hit: The document's number, which `read` was given, and its score.
        """
        document, score = hit
        parts = []
        for offset, length in self._places[document]:
            self._file.seek(offset)
            parts.append(self._file.read(length).decode())
        number, title = self._heads[document]
        text = " ".join(filter(None, parts))
        return RetrievedDocument(number, title, text, round(score, 4))


def write(
    out: Path,
    rows: Sequence[OpenRow],
    hits: Sequence[Sequence[Hit]],
    table: Passages,
    report: Report,
) -> Recall:
    """Write the file of retrieved documents in one step; an older one stays where that fails.

    Args:
        out: The file.
        rows: The questions.
        hits: The documents of each question, best first; a question without any is left out.
        table: The passages of the corpus.
        report: Called with the progress.

    Returns:
        How many questions have an answer in their documents.

    Raises:
        SaveError: The file could not be written.
    """
    recall = Recall()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for path in (out, manifest_path(out)):
            delete_drafts(out.parent, glob.escape(path.name))
        with tempfile.TemporaryFile(dir=out.parent) as spill, replacing(out) as file:
            texts = _DocumentTexts(spill)
            texts.read(table, _all_documents(hits), report)
            for number, (row, hits_of_row) in enumerate(zip(rows, hits, strict=True)):
                report("writing questions", number, len(rows))
                found = list(map(texts.entry, hits_of_row))
                recall.add(row, [f"{document.title}\n{document.text}" for document in found])
                if found:
                    documents = list(map(asdict, found))
                    line = {"id": row.id, "question": row.question, "docs": documents}
                    file.write(json_line(line))
    except OSError as error:
        raise save_error(out, error, "--out") from error
    return recall


def _all_documents(hits: Iterable[Sequence[Hit]]) -> set[int]:
    """The numbers of all documents that were found for any question.

    [[(3, 7.2), (1, 5.0)], [(3, 4.1)]] -> {1, 3}
    """
    documents = set[int]()
    for hits_of_row in hits:
        documents.update(document for document, _ in hits_of_row)
    return documents


def manifest_path(out: Path) -> Path:
    """The path of the manifest beside a file of retrieved documents: "a.jsonl.manifest.json"."""
    return out.with_name(f"{out.name}.manifest.json")
