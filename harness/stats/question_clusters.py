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


def has_clusters_of_one(form: str | None) -> bool:
    """Whether each question of a data set of this format is a cluster of its own; None stands for a
    format that is not known."""
    return form in _BY_QUESTION


def document_clusters(document_ids: Sequence[Sequence[str]]) -> list[str]:
    """A cluster label for each question: questions joined by any shared document get the same
    label.

    The label is the first document id of the cluster in sorted order, so it does not depend on the
    order of the questions. A question without documents is a cluster of its own.

    >>> document_clusters([("a", "b"), ("c",), ("b", "d")])
    ['a', 'c', 'a']

    Args:
        document_ids: The documents of each question.
    """
    sets = _DisjointSets()
    for ids in document_ids:
        for document_id in ids:
            sets.join(ids[0], document_id)
    labels: list[str] = []
    for index, ids in enumerate(document_ids):
        if ids:
            labels.append(sets.first_of(ids[0]))
        else:
            labels.append(f"\0question {index}")
    return labels


class _DisjointSets:
    """Sets of names, each known by its first name in sorted order (union-find)."""

    def __init__(self) -> None:
        """Begin without names; `_parent` maps a name to a smaller one of its set, the first to
        itself.
        """
        self._parent: dict[str, str] = {}  # a name -> a smaller one of its set, the first -> itself

    def first_of(self, name: str) -> str:
        """The first name, in sorted order, of the set that a name is in.

        Also shortens the chain of parents that leads to it (path halving).
        """
        parent = self._parent
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def join(self, first_name: str, second_name: str) -> None:
        """Make one set of the sets of two names; a name that is new is a set of its own before."""
        self._parent.setdefault(first_name, first_name)
        self._parent.setdefault(second_name, second_name)
        low, high = sorted((self.first_of(first_name), self.first_of(second_name)))
        self._parent[high] = low


def question_labels(
    data_format: str, question_ids: Sequence[str], document_ids: Sequence[Sequence[str]]
) -> list[str]:
    """A label for each question, the same for those that are resampled as one.

    Args:
        data_format: The data set's format; in "retrieved" each question has its own label, its id.
        question_ids: The ids of the questions.
        document_ids: The documents of each question.
    """
    if data_format in _BY_QUESTION:
        return list(question_ids)
    return document_clusters([_without_whole_folder(ids) for ids in document_ids])


def _without_whole_folder(ids: Sequence[str]) -> Sequence[str]:
    """The documents of a question; () for a question about the whole folder."""
    if tuple(ids) == (WHOLE_FOLDER,):
        return ()
    return ids


_ALONE = -1
"""In place of the number of a set of documents: the question is a cluster of its own."""


def cluster_numbers(
    data_format: str, questions: Iterable[tuple[str, Sequence[str]]]
) -> NDArray[np.int32]:
    """The number of each question's cluster, numbered in text order of the clusters' labels
    (`question_labels`).

    Questions that share a document, directly or over further questions, are one cluster. One
    without documents, or about a whole folder, is a cluster of its own, and so is each question of
    a format whose documents are drawn with their question.

    >>> cluster_numbers("story", [("q1", ["b"]), ("q2", ["a"]), ("q3", ["b"])]).tolist()
    [1, 0, 1]

    Args:
        data_format: The data set's format.
        questions: (id, documents) of each question, read one by one; only the different sets of
            documents, and a number of 4 bytes for each question, are held in memory.
    """
    number_of_set: dict[tuple[str, ...], int] = {}
    set_of_question = array("i")
    for question_id, document_ids in questions:
        joining_names = tuple(document_ids)  # questions with a name in common are one cluster
        if data_format in _BY_QUESTION:
            joining_names = (question_id,)
        if joining_names in ((), (WHOLE_FOLDER,)):
            set_of_question.append(_ALONE)
        else:
            set_of_question.append(number_of_set.setdefault(joining_names, len(number_of_set)))
    return _numbered(
        document_clusters(list(number_of_set)), np.array(set_of_question, dtype=np.int32)
    )


def _numbered(labels: Sequence[str], sets: NDArray[np.int32]) -> NDArray[np.int32]:
    r"""The number of each question's cluster, in text order of the clusters' labels.

    Args:
        labels: The cluster's label of each set of documents.
        sets: For each question the index of its set in `labels`, or _ALONE. The labels of these
            ("\0question 10") come before those that name a document.
    """
    cluster_of_question = np.zeros(len(sets), dtype=np.int32)
    indices_alone = np.flatnonzero(sets == _ALONE)
    in_text_order = indices_alone[np.argsort(indices_alone.astype("S10"))]  # "10" before "9"
    cluster_of_question[in_text_order] = np.arange(len(indices_alone), dtype=np.int32)
    if labels:
        different_labels = sorted(set(labels))
        number_of = {label: n for n, label in enumerate(different_labels, start=len(indices_alone))}
        number_of_set = np.array([number_of[label] for label in labels], dtype=np.int32)
        joined = sets != _ALONE
        cluster_of_question[joined] = number_of_set[sets[joined]]
    return cluster_of_question
