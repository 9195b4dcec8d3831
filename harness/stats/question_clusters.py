"""Which questions of a data set belong together when error bars are drawn.

    question_labels("musique", ids, documents)       questions that share a document have one label
    question_labels("retrieved", ids, documents)     each question has its own

A cluster is the unit of sampling. For stories and papers that is the document: a data set has a
sample of them, with all questions about each. For open-domain questions it is the question: its
passages come from one corpus that is the same for every sample. Two questions that share a passage
are independent draws, as two about one encyclopedia are; joined by passages, 500 questions with 8
of 1,500 passages each would be one cluster: no interval.
"""

from array import array
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

WHOLE_FOLDER = "the whole folder"
"""The document of a question about all pages of a user's folder: such questions are independent
draws, too."""

_BY_QUESTION = frozenset({"retrieved"})  # formats whose documents are drawn with their question


def document_clusters(document_ids: Sequence[Sequence[str]]) -> list[str]:
    """Return a cluster label for each question: questions joined by any shared document get the
    same label.

    document_ids[i] are the documents of question i; the label is the first document id of the
    cluster in sorted order, so it does not depend on the order of the questions. A question without
    documents is a cluster of its own.

    >>> document_clusters([("a", "b"), ("c",), ("b", "d")])
    ['a', 'c', 'a']
    """
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        """The name that stands for a set of names, found by path halving (union-find)."""
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for ids in document_ids:
        for name in ids:
            parent.setdefault(name, name)
            low, high = sorted((root(ids[0]), root(name)))
            parent[high] = low
    return [root(ids[0]) if ids else f"\0question {i}" for i, ids in enumerate(document_ids)]


def question_labels(
    form: str, question_ids: Sequence[str], document_ids: Sequence[Sequence[str]]
) -> list[str]:
    """A label for each question, the same for those resampled as one. form: the data set's
    format."""
    if form in _BY_QUESTION:
        return list(question_ids)
    return document_clusters([() if tuple(ids) == (WHOLE_FOLDER,) else ids for ids in document_ids])


def cluster_numbers(form: str, questions: Iterable[tuple[str, Sequence[str]]]) -> NDArray[np.int32]:
    """A number for each question's cluster (`question_labels`), in text order of the labels.

    form: the data set's format; questions: (id, documents). They are read one by one: memory holds
    4 bytes of one without documents.
    """
    sets: dict[tuple[str, ...], int] = {}  # documents of a question, or its id -> a number
    set_of_question = array("i")  # -1: a question without documents, or about all of them
    for question_id, document_ids in questions:
        documents = (question_id,) if form in _BY_QUESTION else tuple(document_ids)
        known = documents not in ((), (WHOLE_FOLDER,))
        set_of_question.append(sets.setdefault(documents, len(sets)) if known else -1)
    labels = document_clusters(list(sets))
    places = np.array(set_of_question, dtype=np.int32)
    alone = np.flatnonzero(
        places < 0
    )  # their labels, "\0question 10", come before those that name a document
    order = {label: n for n, label in enumerate(sorted(set(labels)), start=len(alone))}
    numbers = np.array([order[label] for label in labels] or [0], dtype=np.int32)[places]
    in_text_order = alone[np.argsort(alone.astype("S10"))]  # "10" before "9"
    numbers[in_text_order] = np.arange(len(alone), dtype=np.int32)
    return numbers
