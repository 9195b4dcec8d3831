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
from typing import IO, NamedTuple

from harness.datasets.open_rows import OpenRow
from harness.retrieval.maxp import DocumentHit
from harness.retrieval.passages import Passages, Report
from harness.scorers.flashrag import acc
from harness.scorers.squad import normalize_answer, spaced_words
from harness.storage.files import delete_drafts, replacing, save_error
from harness.storage.json_lines import json_line

_MAX_ANSWER_WORDS = 10
"""Words of an answer that a text can be expected to hold as it is; a longer one is a sentence of
its author."""


def _short_gold_answers(row: OpenRow) -> list[str]:
    """The accepted answers of a question that have at most 10 words: a text can be expected to hold
    them as they are.

    Those of its sub-questions where it has any.
    """
    answers: list[str] = []
    for answers_of_part in row.short_answers:
        answers += answers_of_part
    answers = answers or list(row.answers)
    return list(filter(_is_short_answer, answers))


def _is_short_answer(answer: str) -> bool:
    """Whether an answer has at most 10 words, and normalising leaves something of it.

    "the" -> False
    """
    has_words = bool(normalize_answer(answer))
    return has_words and len(answer.split()) <= _MAX_ANSWER_WORDS


def _has_answer_in_words(texts: Sequence[str], answers: Sequence[str]) -> bool:
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

    def add_question(self, row: OpenRow, texts: Sequence[str]) -> None:
        """Count one question: in `questions`, and in `words` and `characters` where one of its
        answers is in a text as whole words, or as characters anywhere.

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
        self.words += _has_answer_in_words(texts, answers)
        self.characters += any(acc(text, answers) > 0 for text in texts)

    def percentage(self, count: int) -> float | None:
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


class _IdAndTitle(NamedTuple):
    """The id and the title of a document, those of its first row."""

    id: str
    title: str


class _BytesInFile(NamedTuple):
    """A part of a file: where it begins, and how many bytes it has."""

    offset: int
    length: int


class _DocumentTexts:
    """Documents by number: id and title in memory, the text in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        """Keep the texts in `file`, into which `copy_from` writes."""
        self._file = file
        self._head_by_document: dict[int, _IdAndTitle] = {}
        self._rows_by_document: dict[int, list[_BytesInFile]] = {}

    def copy_from(self, table: Passages, documents: set[int], report: Report) -> None:
        """Copy the texts of documents from the corpus into the file, so that `read` can give
        them.

        Args:
            table: The passages of the corpus.
            documents: The numbers of the documents.
            report: Called with the progress.
        """
        for document, row in table.read_rows_of(documents):
            self._head_by_document.setdefault(document, _IdAndTitle(row.id, row.title))
            text = row.text.encode()
            rows = self._rows_by_document.setdefault(document, [])
            rows.append(_BytesInFile(self._file.tell(), len(text)))
            self._file.write(text)
            report("reading documents", len(self._head_by_document), len(documents))
        self._file.flush()

    def read(self, hit: DocumentHit) -> RetrievedDocument:
        """A retrieved document with its title and text; the texts of its rows are joined by a
        space.

        Args:
            hit: The document's number, which `copy_from` was given, and its score.
        """
        row_texts = []
        for row in self._rows_by_document[hit.number]:
            self._file.seek(row.offset)
            row_texts.append(self._file.read(row.length).decode())
        document_id, title = self._head_by_document[hit.number]
        text = " ".join(filter(None, row_texts))
        return RetrievedDocument(document_id, title, text, round(hit.score, 4))


def write_documents(
    out: Path,
    rows: Sequence[OpenRow],
    hits_of_rows: Sequence[Sequence[DocumentHit]],
    table: Passages,
    report: Report,
) -> Recall:
    """Write the file of retrieved documents in one step; an older one stays where that fails. Also
    counts in how many of them an answer is.

        {"id": "q1", "question": "Who?", "docs": [{"id": "7", "title": "Ada", "text": "...", "score":
        9.1}]}

    Args:
        out: The file.
        rows: The questions.
        hits_of_rows: The documents of each question, best first; a question without any is left
            out.
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
        with tempfile.TemporaryFile(dir=out.parent) as texts_file, replacing(out) as out_file:
            texts = _DocumentTexts(texts_file)
            texts.copy_from(table, _numbers_of_all(hits_of_rows), report)
            for number, (row, hits) in enumerate(zip(rows, hits_of_rows, strict=True)):
                report("writing questions", number, len(rows))
                documents = list(map(texts.read, hits))
                titled_texts = [f"{document.title}\n{document.text}" for document in documents]
                recall.add_question(row, titled_texts)
                if documents:
                    docs = list(map(asdict, documents))
                    line = {"id": row.id, "question": row.question, "docs": docs}
                    out_file.write(json_line(line))
    except OSError as error:
        raise save_error(out, error, "--out") from error
    return recall


def _numbers_of_all(hits_of_rows: Iterable[Sequence[DocumentHit]]) -> set[int]:
    """The numbers of all documents that were found for any question.

    [[(3, 7.2), (1, 5.0)], [(3, 4.1)]] -> {1, 3}
    """
    numbers = set[int]()
    for hits in hits_of_rows:
        numbers.update(hit.number for hit in hits)
    return numbers


def manifest_path(out: Path) -> Path:
    """The path of the manifest beside a file of retrieved documents: "a.jsonl.manifest.json"."""
    return out.with_name(f"{out.name}.manifest.json")
