"""Recall of searches: how much of what supports the answer any search of the question found.

    search 1: "Who wrote Velindra?"  -> [Velindra, Mira]     supporting: Velindra, Toren
    search 2: "Where does Toren live?" -> [Toren, Kelford]   -> 2 / 2

`evidence_recall` is that of what the reader saw. A supporting passage counts as found where at least
half of its characters are in the texts that were found (by their words, whatever the white space);
by page, where a passage with its title was found: for a corpus whose texts are not the data set's.
A data set whose rows name `gold_passages` is judged by these, ids or titles of the corpus.
"""

from collections.abc import Sequence

from harness.scorers.base import mean, published
from harness.scorers.evidence import Span, shown_spans, supporting_hits
from harness.types import RecordedSearch, Support

scorer = published("this project")


@scorer("search_recall", "share of supporting passages that a search found", "searches")
def search_recall(
    searches: Sequence[RecordedSearch],
    supporting: Sequence[Support],
    *,
    gold_passages: Sequence[str] = (),
) -> float | None:
    """The share of the supporting passages that the searches of a question found.

    A passage counts as found where at least half of its characters are in the found texts.

    Args:
        searches: All searches of the question.
        supporting: The passages that support the answer, in the question's own documents.
        gold_passages: Ids or titles of passages of the corpus; where given, the share of these that
            was found is returned instead.

    Returns:
        The share; None where nothing is marked.
    """
    if gold_passages:
        ids_and_titles: set[str] = set()
        for search in searches:
            for hit in search.found:
                ids_and_titles |= {hit.id, hit.title}
        return mean([id_or_title in ids_and_titles for id_or_title in gold_passages])
    if not supporting:
        return None
    spans: list[Span] = []
    for search in searches:
        for hit in search.found:
            spans += shown_spans(hit.shown)
    return mean(supporting_hits(spans, supporting))


@scorer(
    "search_recall_answer", "share of passages holding the answer that a search found", "searches"
)
def search_recall_answer(
    searches: Sequence[RecordedSearch],
    supporting: Sequence[Support],  # noqa: ARG001 - other passages than these
    *,
    holding_answer: Sequence[Sequence[str | int]] = (),
) -> float | None:
    """`search_recall` of the passages that hold the answer.

    Args:
        searches: All searches of a question.
        supporting: The passages that support the answer.
        holding_answer: Those that hold it: [document id, start, end] of each, in characters.

    Returns:
        The share; None where no passage is marked so.
    """
    passages = [
        Support(str(document_id), int(start), int(end))
        for document_id, start, end in holding_answer
    ]
    return search_recall(searches, passages)


@scorer(
    "search_recall_pages",
    "share of supporting passages with whose title a search found one",
    "searches",
)
def search_recall_pages(
    searches: Sequence[RecordedSearch], supporting: Sequence[Support]
) -> float | None:
    """The share of the supporting passages whose title a found passage has: at least half of their
    characters must be in places of the documents with such a title (`hit.pages`).

    Args:
        searches: All searches of the question.
        supporting: The passages that support the answer, in the question's own documents.

    Returns:
        The share; None where nothing is marked.
    """
    if not supporting:
        return None
    spans: list[Span] = []
    for search in searches:
        for hit in search.found:
            for document_id, start, end in hit.pages:
                spans.append(Span(document_id, start, end))
    return mean(supporting_hits(spans, supporting))
