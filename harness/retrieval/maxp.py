"""From passages to whole documents by MaxP: a document's score is that of its best passage (Dai and
Callan, 2019)."""

from collections.abc import Callable, Sequence

import numpy as np

_PASSAGES_PER_DOCUMENT = (
    16  # passages for each document asked for; a page of Wikipedia has 7 of 100 words on average
)


Hit = tuple[int, float]
"""A retrieved document by number, with the score of its best passage."""


def best_documents(
    search: Callable[[Sequence[str], int], tuple[np.ndarray, np.ndarray]],
    documents_of: Callable[[np.ndarray], np.ndarray],
    questions: Sequence[str],
    top: int,
    passages: int,
) -> list[list[Hit]]:
    """The best documents of each question; fewer where fewer have a passage that matches.

    The result is exact: `k` grows until the best passages belong to `top` documents.

    Args:
        search: (questions, k) -> scores and passage numbers [questions, k], best first, -1 where
            there are no more.
        documents_of: Passage numbers -> their documents' numbers.
        questions: Their texts.
        top: Documents of each question.
        passages: Of the whole corpus.

    Returns:
        For each question its documents, best first.
    """
    hits: list[list[Hit]] = [[] for _ in questions]
    pending = list(range(len(questions)))
    k = min(_PASSAGES_PER_DOCUMENT * top, passages)
    while pending:
        scores, numbers = search([questions[q] for q in pending], k)
        unfinished = []
        for q, row, values in zip(pending, numbers, scores, strict=True):
            matched = row >= 0
            ranked: dict[int, float] = {}
            for document, score in zip(
                documents_of(row[matched]).tolist(), values[matched].tolist(), strict=True
            ):
                ranked.setdefault(document, score)
            hits[q] = list(ranked.items())[:top]
            if len(ranked) < top and matched.all() and k < passages:
                unfinished.append(q)
        pending, k = unfinished, min(8 * k, passages)
    return hits
