"""Search in a question's own documents, for runs without a corpus.

Their passages are the titled parts that the data set has, cut into passages of 100 words where they
have more than 200; of a document without parts, every 100 words. BM25 of harness/bm25.py.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter

from harness.bm25 import bm25
from harness.types import Document, Passage, SearchHit, Shown
from harness.words import words

WORDS_PER_PASSAGE = 100
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _CutPassage:
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
    passages: list[SearchHit] = []
    for document in documents:
        passages += _passages_without_scores(document)
    scores = bm25(query, [passage.titled_text for passage in passages])
    query_words = set(words(query))
    hits: list[SearchHit] = []
    for passage, score in zip(passages, scores.tolist(), strict=True):
        # A score can be 0 where words match (harness/bm25.py), so it does not tell.
        shares_a_word = query_words.intersection(words(passage.titled_text))
        if shares_a_word:
            hits.append(replace(passage, score=score))
    best_first = sorted(hits, key=attrgetter("score"), reverse=True)
    return best_first[:k]


@lru_cache(maxsize=64)
def _cut_document(document: Document) -> tuple[_CutPassage, ...]:
    """The passages of a document, in order; kept for the 64 documents used last."""
    parts = document.passages or (Passage(title="", start=0, end=len(document.text)),)
    has_titled_parts = bool(document.passages)
    passages: list[_CutPassage] = []
    for part in parts:
        passages += _cut_part(document.text, part, keeps_short_part=has_titled_parts)
    return tuple(passages)


def _cut_part(text: str, part: Passage, *, keeps_short_part: bool) -> Iterator[_CutPassage]:
    """Yield the passages of 100 words that a part of a document is cut into.

    Args:
        text: The document's text.
        part: A titled part of it, or all of it.
        keeps_short_part: Whether a part of at most 200 words stays one passage.
    """
    word_spans = [match.span() for match in _WORD.finditer(text, part.start, part.end)]
    n_words = len(word_spans)
    words_per_passage = WORDS_PER_PASSAGE
    if keeps_short_part and n_words <= 2 * WORDS_PER_PASSAGE:
        words_per_passage = max(n_words, 1)
    for first_word in range(0, n_words, words_per_passage):
        spans_of_passage = word_spans[first_word : first_word + words_per_passage]
        start, _ = spans_of_passage[0]
        _, end = spans_of_passage[-1]
        yield _CutPassage(part.title, start, end)


def _passages_without_scores(document: Document) -> Iterator[SearchHit]:
    """Yield the passages of a document as hits with the score 0.0.

    Their ids are "DOCUMENT:0", "DOCUMENT:1", ..; a title that begins the text is left out of it.
    """
    for number, passage in enumerate(_cut_document(document)):
        text = document.text[passage.start : passage.end]
        title_line = f"{passage.title}\n"
        if passage.title and text.startswith(title_line):
            text = text.removeprefix(title_line).lstrip()
        shown = Shown("span", document.id, passage.start, passage.end)
        yield SearchHit(f"{document.id}:{number}", passage.title, text, score=0.0, shown=shown)
