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

    k1 = 1.5, b = 0.75, epsilon = 0.25, its defaults. Its idf of a word that n of N texts have,
    ln((N - n + 0.5) / (n + 0.5)), breaks on few texts (docs/methods/retrieval.md#bm25): of two
    texts, a word of one weighs 0, and a word of both a negative epsilon x mean, so that the text
    with fewer of the words is first. Where that mean is not positive, all words weigh
    ln(1 + (N - n + 0.5) / (n + 0.5)) instead, as in Lucene, which is always positive.

    Args:
        question: Its words.
        texts: The words of each text.

    Returns:
        Scores [texts], higher is better; zeros where no text has a word.
    """
    a_text_has_a_word = any(texts)
    if not a_text_has_a_word:
        return np.zeros(len(texts))
    return np.asarray(_index_of_words(texts).get_scores(list(question)))


def bm25(question: str, texts: Sequence[str]) -> np.ndarray:
    """Score texts for a question by BM25 over their words (`bm25_scores`).

    Returns a float array of shape (texts,); higher is better.
    """
    index = _cached_index_of_texts(tuple(texts))
    if index is None:
        return np.zeros(len(texts))
    return np.asarray(index.get_scores(words(question)))


# Questions on one document follow each other, and to count a book takes a tenth of a second.
@lru_cache(maxsize=8)
def _cached_index_of_texts(texts: tuple[str, ...]) -> BM25Okapi | None:
    """Split texts into words and count them for BM25; None where no text has a word. Cached."""
    words_of_texts = list(map(words, texts))
    a_text_has_a_word = any(words_of_texts)
    if not a_text_has_a_word:
        return None
    return _index_of_words(words_of_texts)


def _index_of_words(texts: Sequence[Sequence[str]]) -> BM25Okapi:
    """Count the words of texts for BM25, and weigh each word.

    Where rank_bm25's mean weight is not positive, as on few texts, each word gets Lucene's weight,
    which is always positive: ln(1 + (N - n + 0.5) / (n + 0.5)) for a word that n of N texts have.

    Args:
        texts: The words of each text; at least one text has a word.
    """
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([list(text_words) for text_words in texts])
    if index.average_idf > 0:
        return index
    texts_with_word: Counter[str] = Counter()
    for counts_of_text in index.doc_freqs:
        texts_with_word.update(counts_of_text.keys())
    for word, n in texts_with_word.items():
        index.idf[word] = math.log1p((len(texts) - n + 0.5) / (n + 0.5))
    return index
