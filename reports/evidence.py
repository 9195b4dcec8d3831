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
    """Classify what a step showed.

    Returns:
        "yes": A span that overlaps supporting text. "source": Text that was written from such a
            span.
        "no": Neither. UNKNOWN: The data set marks no supporting text. "": The step shows nothing.
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
    """Numbers of the spans that overlap a supporting part; none where the rows are not at hand.

    Spans of an index are those of what the method was handed: cut or joined documents are mapped
    back.

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
    (indexed, *more) = view.documents
    if more:
        return frozenset()
    nodes = set()
    for node, span in enumerate(spans):
        if span is None or not 0 <= span[0] <= span[1] <= len(indexed.text):
            continue
        shown = view.original(Answer("", (Shown("span", indexed.id, *span),))).shown
        if _overlaps_support([(s.document_id, s.start, s.end) for s in shown], example):
            nodes.add(node)
    return frozenset(nodes)
