"""What of a search was evidence: spans that overlap a supporting part of the data set's
documents."""

from collections.abc import Iterable, Sequence

from harness.engine.document_view import View
from harness.engine.made_documents import evidence_view, joined_view
from harness.storage.record_notes import is_joined
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import StoredRun
from harness.types import Answer, Document, Example, Shown
from reports.gold_rows import Rows

UNKNOWN = "-"


def evidence(shown: StoredPiece | None, example: Example | None) -> str:
    """Whether what a step showed was evidence: text that the data set marks as supporting.

    Args:
        shown: What the step showed, as a record holds it; None for nothing.
        example: The question with its supporting passages; None where it is not at hand.

    Returns:
        "yes": A span that overlaps supporting text. "source": Text that was written from such a
        span. "no": Neither. "-": The data set marks no supporting text. "": The step shows nothing.
    """
    if not shown:
        return ""
    if example is None or not example.gold.supporting:
        return UNKNOWN
    if shown["kind"] == "span":
        span = shown["document_id"], shown["start"], shown["end"]
        if _overlaps_support([span], example):
            return "yes"
    if _overlaps_support(shown["sources"], example):
        return "source"
    return "no"


def _overlaps_support(spans: Iterable[tuple[str, int, int]], example: Example) -> bool:
    """Whether any span (document, start, end) overlaps a supporting passage of the question."""
    for document, start, end in spans:
        for passage in example.gold.supporting:
            if passage.document_id != document:
                continue
            if passage.start < end and start < passage.end:
                return True
    return False


def overlapping_spans(
    spans: Sequence[tuple[int, int] | None], run: StoredRun, record: StoredRecord, rows: Rows
) -> frozenset[int]:
    """The places in `spans` of those that overlap a supporting passage of the question.

    Spans are places in the one document that the method was handed; where that was cut or joined
    from several, they are mapped back to the data set's documents. Empty where the rows are not at
    hand.

    Args:
        spans: (start, end) of each node's text in the index; None for a node without one.
        run: The run.
        record: The record of the question.
        rows: The rows of the data set.
    """
    example = rows.examples.get(record.question_id)
    if example is None or not example.gold.supporting:
        return frozenset()
    sizes = rows.sizes(example.question.document_ids)
    if sizes is None:
        return frozenset()
    # Only lengths count here: a run folder holds no whole texts.
    documents = [Document(name, " " * sizes[name]) for name in example.question.document_ids]
    view = View.of(documents)
    if run.config.method.view == "evidence":
        view = evidence_view(documents, example.gold.supporting)
    if is_joined(record.notes):
        view = joined_view(view)
    if len(view.documents) > 1:
        return frozenset()
    nodes = set()
    for node, span in enumerate(spans):
        if span is not None and _overlaps_support(_original_spans(view, *span), example):
            nodes.add(node)
    return frozenset(nodes)


def _original_spans(view: View, start: int, end: int) -> list[tuple[str, int, int]]:
    """The places in the data set's documents of a span in the one document of a view.

    Args:
        view: What the method was handed.
        start: Start of the span.
        end: End of the span.

    Returns:
        (document, start, end) of each; [] for a span outside of the view's document.
    """
    indexed = view.documents[0]
    if not 0 <= start <= end <= len(indexed.text):
        return []
    answer = view.original(Answer("", (Shown("span", indexed.id, start, end),)))
    return [(shown.document_id, shown.start, shown.end) for shown in answer.shown]
