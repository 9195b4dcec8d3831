"""Which questions of a data set belong together when error bars are drawn.

    question_labels("musique", ids, documents)       questions that share a document have one label
    question_labels("retrieved", ids, documents)     each question has its own
    cluster_warning(documents, labels)               a sentence where most questions are one cluster

A cluster is the unit of sampling (bootstrap.py). For stories and papers that is the document: a data set has a sample
of them, with all questions about each. For open-domain questions it is the question: its passages come from one corpus
that is the same for every sample. Two questions that share a passage are independent draws, as two about one
encyclopedia are; joined by passages, 500 questions with 8 of 1,500 passages each would be one cluster: no interval.
"""

from collections import Counter
from collections.abc import Sequence

from harness.stats.bootstrap import document_clusters

WHOLE_FOLDER = "the whole folder"
"""The document of a question about all pages of a user's folder: such questions are independent draws, too."""

_BY_QUESTION = frozenset({"retrieved"})  # formats whose documents are drawn with their question
_MANY = 20  # fewer questions are not worth a word about the size of their clusters


def by_question(form: str) -> bool:
    """Whether each question of a data set of this format is a cluster of its own."""
    return form in _BY_QUESTION


def question_labels(form: str, question_ids: Sequence[str], document_ids: Sequence[Sequence[str]]) -> list[str]:
    """A label for each question, the same for those resampled as one. form: the data set's format."""
    if by_question(form):
        return list(question_ids)
    return document_clusters([() if tuple(ids) == (WHOLE_FOLDER,) else ids for ids in document_ids])


def cluster_warning(document_ids: Sequence[Sequence[str]], labels: Sequence[str]) -> str | None:
    """A warning where all questions, or more than half of many, are one cluster; else None. labels: their clusters."""
    sizes = Counter(labels)
    if not sizes:
        return None
    largest, total = max(sizes.values()), len(labels)
    if len(sizes) == 1:
        if set.intersection(*map(set, document_ids)):
            return "all questions share one document"
        return f"all {total} questions are linked through documents that they share"
    if total < _MANY or 2 * largest <= total:
        return None
    return f"{largest} of {total} questions are linked through documents that they share, one of {len(sizes)} clusters"
