"""From passages to whole documents by MaxP: a document's score is that of its best passage (Dai and
Callan, 2019)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from harness.retrieval.rankers import RankedPassages

# Passages for each document that is wanted; a page of Wikipedia has 7 of 100 words on average.
_PASSAGES_PER_DOCUMENT = 16
_MORE_PASSAGES = 8  # times as many are searched where they belong to too few documents


class DocumentHit(NamedTuple):
    """A retrieved document by its number, with the score of its best passage."""

    number: int
    score: float


def best_documents(
    search: Callable[[Sequence[str], int], RankedPassages],
    document_numbers: Callable[[np.ndarray], np.ndarray],
    questions: Sequence[str],
    max_documents: int,
    n_passages: int,
) -> list[list[DocumentHit]]:
    """The best documents of each question by MaxP, which gives a document the score of its best
    passage; fewer where fewer have a passage that matches.

    The result is exact: more passages are searched until the best ones belong to `max_documents`
    documents.

    Args:
        search: (questions, k) -> the k best passages of each question; the number -1 stands for
            no further one that matches.
        document_numbers: Passage numbers -> their documents' numbers.
        questions: The texts of the questions.
        max_documents: How many documents of each question.
        n_passages: The number of passages of the whole corpus.

    Returns:
        For each question its documents, best first.
    """
    documents_of_questions: list[list[DocumentHit]] = [[] for _ in questions]
    unfinished = list(range(len(questions)))
    k = min(_PASSAGES_PER_DOCUMENT * max_documents, n_passages)
    while unfinished:
        all_scores, all_numbers = search([questions[index] for index in unfinished], k)
        still_unfinished = []
        for index, scores, numbers in zip(unfinished, all_scores, all_numbers, strict=True):
            is_match = numbers >= 0
            documents = _rank_by_best_passage(document_numbers(numbers[is_match]), scores[is_match])
            documents_of_questions[index] = documents[:max_documents]
            may_have_more_matches = is_match.all() and k < n_passages
            if len(documents) < max_documents and may_have_more_matches:
                still_unfinished.append(index)
        unfinished = still_unfinished
        k = min(_MORE_PASSAGES * k, n_passages)
    return documents_of_questions


def _rank_by_best_passage(
    documents_of_passages: np.ndarray, scores: np.ndarray
) -> list[DocumentHit]:
    """Each document once, with the score of its first passage, best first.

    ([7, 3, 7], [9, 8, 5]) -> [(7, 9.0), (3, 8.0)]

    Args:
        documents_of_passages: The number of each passage's document [passages], the best passage
            first.
        scores: The score of each passage [passages].
    """
    best_score_by_document: dict[int, float] = {}
    for document, score in zip(documents_of_passages.tolist(), scores.tolist(), strict=True):
        best_score_by_document.setdefault(document, score)
    return [DocumentHit(*pair) for pair in best_score_by_document.items()]
