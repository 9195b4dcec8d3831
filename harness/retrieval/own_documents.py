"""Search in a question's own documents, for runs without a corpus.

Their passages are the titled parts that the data set has, cut into passages of 100 words where they
have more than 200; of a document without parts, every 100 words. BM25 of harness/bm25.py.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from harness.bm25 import bm25
from harness.types import Document, Passage, SearchHit, Shown
from harness.words import words

WORDS = 100
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A passage: text[start:end] of a document; title: "" for none, else it may begin the text."""

    title: str
    start: int
    end: int


def search_documents(documents: Sequence[Document], query: str, k: int) -> list[SearchHit]:
    """Search in the documents of a question by BM25 over their passages.

    Args:
        documents: The question's documents.
        query: The text to search for.
        k: The largest number of passages.

    Returns:
        The best passages, best first; only those with a word of the query.
    """
    hits: list[SearchHit] = []
    for document in documents:
        hits += _hits(document, tuple(_pieces(document)))
    scores = bm25(query, [hit.titled_text for hit in hits])
    query_words = set(words(query))
    matching: list[SearchHit] = []
    for hit, score in zip(hits, scores.tolist(), strict=True):
        # A score can be 0 where words match (harness/bm25.py), so it does not tell.
        if query_words.intersection(words(hit.titled_text)):
            matching.append(replace(hit, score=score))
    matching.sort(key=_by_score)
    return matching[:k]


def _by_score(hit: SearchHit) -> float:
    """The key by which hits are sorted with the highest score first."""
    return -hit.score


@lru_cache(maxsize=64)
def _pieces(document: Document) -> tuple[_Piece, ...]:
    """The passages of a document, in order; kept for the 64 documents used last."""
    parts = document.passages or (Passage("", 0, len(document.text)),)
    pieces: list[_Piece] = []
    for part in parts:
        pieces += _cut(document.text, part, whole=bool(document.passages))
    return tuple(pieces)


def _cut(text: str, part: Passage, whole: bool) -> Iterator[_Piece]:
    """Yield the passages of 100 words that a part of a document is cut into.

    Args:
        text: The document's text.
        part: A titled part of it, or all of it.
        whole: Whether a part of at most 200 words stays one passage.
    """
    places = [match.span() for match in _WORD.finditer(text, part.start, part.end)]
    size = WORDS
    if whole and len(places) <= 2 * WORDS:
        size = max(len(places), 1)
    for first in range(0, len(places), size):
        words_of_piece = places[first : first + size]
        start, _ = words_of_piece[0]
        _, end = words_of_piece[-1]
        yield _Piece(part.title, start, end)


def _hits(document: Document, pieces: Sequence[_Piece]) -> Iterator[SearchHit]:
    """Yield the passages of a document as hits with the score 0.0.

    Their ids are "DOCUMENT:0", "DOCUMENT:1", ..; a title that begins the text is left out of it.

    Args:
        document: The document.
        pieces: Its passages.
    """
    for number, piece in enumerate(pieces):
        text = document.text[piece.start : piece.end]
        if piece.title and text.startswith(f"{piece.title}\n"):
            text = text[len(piece.title) + 1 :].lstrip()
        shown = Shown("span", document.id, piece.start, piece.end)
        yield SearchHit(f"{document.id}:{number}", piece.title, text, 0.0, shown)
