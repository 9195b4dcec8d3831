"""Which questions of a data set belong together when error bars are drawn.

    question_labels("musique", ids, documents)       questions that share a document have one label
    question_labels("retrieved", ids, documents)     each question has its own
    cluster_notes(documents, labels)                 sentences where clusters are few, or one holds most questions

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
ALPHA = 0.05  # of the tests between methods
_MANY = 20  # fewer questions are not worth a word about the size of their clusters


def by_question(form: str) -> bool:
    """Whether each question of a data set of this format is a cluster of its own."""
    return form in _BY_QUESTION


def question_labels(form: str, question_ids: Sequence[str], document_ids: Sequence[Sequence[str]]) -> list[str]:
    """A label for each question, the same for those resampled as one. form: the data set's format."""
    if by_question(form):
        return list(question_ids)
    return document_clusters([() if tuple(ids) == (WHOLE_FOLDER,) else ids for ids in document_ids])


def cluster_notes(document_ids: Sequence[Sequence[str]], labels: Sequence[str]) -> list[str]:
    """What few or unequal clusters do to intervals and tests, a sentence each; [] where they do no harm.

    labels: the clusters. A sign-flip test over G of them has no smaller p than 2 / 2^G.
    """
    sizes = Counter(labels)
    largest, total, few = max(sizes.values(), default=0), len(labels), len(sizes) > 0 and 2 / 2 ** len(sizes) > ALPHA
    notes = [f"documents: {len(sizes)}; no test can find a difference with fewer than 6"] if few else []
    if len(sizes) == 1:
        shared = set.intersection(*map(set, document_ids))
        linked = f"all {total} questions are linked through documents that they share"
        return [f"{'all questions share one document' if shared else linked}: no interval", *notes]
    if total < _MANY or 2 * largest <= total:
        return notes
    linked = f"{largest} of {total} questions are linked through documents that they share"
    return [f"{linked}, one of {len(sizes)} clusters: intervals are wide", *notes]
