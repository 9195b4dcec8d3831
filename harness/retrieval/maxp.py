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
    """The best documents of each question by MaxP; fewer where fewer have a passage that matches.

    The result is exact: more passages are searched until the best ones belong to `top` documents.

    Args:
        search: (questions, k) -> scores and passage numbers [questions, k], best first, -1 where
            there are no more.
        documents_of: Passage numbers -> their documents' numbers.
        questions: The texts of the questions.
        top: How many documents of each question.
        passages: The number of passages of the whole corpus.

    Returns:
        For each question its documents, best first.
    """
    hits: list[list[Hit]] = [[] for _ in questions]
    pending = list(range(len(questions)))
    k = min(_PASSAGES_PER_DOCUMENT * top, passages)
    while pending:
        scores, numbers = search([questions[q] for q in pending], k)
        unfinished = []
        for place, q in enumerate(pending):
            matched = numbers[place] >= 0
            documents = documents_of(numbers[place][matched])
            ranked = _first_scores(documents, scores[place][matched])
            hits[q] = ranked[:top]
            if len(ranked) < top and matched.all() and k < passages:
                unfinished.append(q)
        pending = unfinished
        k = min(8 * k, passages)
    return hits


def _first_scores(documents: np.ndarray, scores: np.ndarray) -> list[Hit]:
    """Each document once, with its first score: ([7, 3, 7], [9, 8, 5]) -> [(7, 9.0), (3, 8.0)].

    Args:
        documents: The document of each passage [passages], the best passage first.
        scores: The score of each passage [passages].
    """
    ranked: dict[int, float] = {}
    for document, score in zip(documents.tolist(), scores.tolist(), strict=True):
        ranked.setdefault(document, score)
    return list(ranked.items())
