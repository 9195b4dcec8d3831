"""BM25 of a question over its few texts, for all methods and for searches in a question's documents.

A corpus has another BM25 (harness/retrieval/corpus_bm25.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from harness.words import words

if TYPE_CHECKING:
    from rank_bm25 import BM25Okapi


def bm25_scores(question: Sequence[str], texts: Sequence[Sequence[str]]) -> np.ndarray:
    """Score texts for a question by BM25Okapi of rank_bm25.

    k1 = 1.5, b = 0.75, epsilon = 0.25, its defaults. Its idf ln((N - n + 0.5) / (n + 0.5)) breaks
    on few texts (docs/methods/retrieval.md#bm25): of two, a word of one text weighs 0, and a word
    of both a negative epsilon x mean, so that the text with fewer of the words is first. Where that
    mean is not positive, all words weigh ln(1 + (N - n + 0.5) / (n + 0.5)) instead, as in Lucene,
    which is always positive.

    Args:
        question: Its words.
        texts: The words of each text.

    Returns:
        Scores [texts], higher is better; zeros where no text has a word.
    """
    if not any(texts):
        return np.zeros(len(texts))
    return np.asarray(_index_of_words(texts).get_scores(list(question)))


def bm25(question: str, texts: Sequence[str]) -> np.ndarray:
    """Score texts for a question by BM25 over their words (`bm25_scores`).

    Returns a float array of shape (texts,); higher is better.
    """
    counts = _index_of_texts(tuple(texts))
    if counts is None:
        return np.zeros(len(texts))
    return np.asarray(counts.get_scores(words(question)))


# Questions on one document follow each other, and to count a book takes a tenth of a second.
@lru_cache(maxsize=8)
def _index_of_texts(texts: tuple[str, ...]) -> BM25Okapi | None:
    """Split texts into words and count them for BM25; None where no text has a word. Cached."""
    split = list(map(words, texts))
    if not any(split):
        return None
    return _index_of_words(split)


def _index_of_words(texts: Sequence[Sequence[str]]) -> BM25Okapi:
    """Count the words of texts for BM25, and weigh each word.

    Where rank_bm25's mean weight is not positive, as on few texts, each word gets Lucene's weight,
    which is always positive.

    Args:
        texts: The words of each text; at least one text has a word.
    """
    from rank_bm25 import BM25Okapi

    okapi = BM25Okapi([list(text) for text in texts])
    if okapi.average_idf <= 0:
        frequencies: Counter[str] = Counter()
        for counts in okapi.doc_freqs:
            frequencies.update(counts.keys())
        for word, n in frequencies.items():
            okapi.idf[word] = math.log1p((len(texts) - n + 0.5) / (n + 0.5))
    return okapi
