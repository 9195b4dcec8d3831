"""What of a search was evidence: spans that overlap a supporting part of the data set's
documents."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from harness.engine.document_view import View
from harness.engine.made_documents import evidence_view, joined_view
from harness.storage.record_notes import is_joined
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import StoredRun
from harness.types import Answer, Document, Example, Shown
from reports.gold_rows import QuestionRows

Evidence = Literal["yes", "source", "no", "-", ""]
"""Whether a step showed evidence, as `evidence_of_piece` explains."""
UNKNOWN_EVIDENCE: Evidence = "-"


class _DocumentSpan(NamedTuple):
    """The characters of a document from `start` to `end`, the last not included."""

    document_id: str
    start: int
    end: int


def evidence_of_piece(shown: StoredPiece | None, example: Example | None) -> Evidence:
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
        return UNKNOWN_EVIDENCE
    if shown["kind"] == "span":
        span = _DocumentSpan(shown["document_id"], shown["start"], shown["end"])
        if _overlaps_support([span], example):
            return "yes"
    sources = [_DocumentSpan(*source) for source in shown["sources"]]
    if _overlaps_support(sources, example):
        return "source"
    return "no"


def _overlaps_support(spans: Iterable[_DocumentSpan], example: Example) -> bool:
    """Whether any of the spans overlaps a supporting passage of the question."""
    for span in spans:
        for passage in example.gold.supporting:
            if passage.document_id != span.document_id:
                continue
            if passage.start < span.end and span.start < passage.end:
                return True
    return False


def nodes_with_evidence(
    spans: Sequence[tuple[int, int] | None],
    run: StoredRun,
    record: StoredRecord,
    rows: QuestionRows,
) -> frozenset[int]:
    """The nodes of a graph whose text overlaps a supporting passage of the question.

    Their spans are in the one document that the method was handed; where that was cut or joined
    from several, they are mapped back to the data set's documents. Empty where the rows are not at
    hand, and where the method was handed several documents, each with a graph of its own.

    Args:
        spans: (start, end) of each node's text in the index; None for a node without one.
        run: The run.
        record: The record of the question.
        rows: The rows of the data set.
    """
    example = rows.examples.get(record.question_id)
    if example is None or not example.gold.supporting:
        return frozenset()
    lengths = rows.document_lengths(example.question.document_ids)
    if lengths is None:
        return frozenset()
    view = _view_of_question(run, record, example, lengths)
    if len(view.documents) > 1:
        return frozenset()
    nodes = set()
    for node, span in enumerate(spans):
        if span is None:
            continue
        start, end = span
        if _overlaps_support(_spans_in_dataset(view, start, end), example):
            nodes.add(node)
    return frozenset(nodes)


def _view_of_question(
    run: StoredRun, record: StoredRecord, example: Example, lengths: Mapping[str, int]
) -> View:
    """What the method was handed of a question's documents: the whole, the supporting passages alone,
    or all joined to one document. Texts are spaces, as only lengths count.

    Args:
        run: The run.
        record: The record of the question.
        example: The question with its supporting passages.
        lengths: Document id -> characters.
    """
    ids = example.question.document_ids
    documents = [Document(document_id, " " * lengths[document_id]) for document_id in ids]
    view = View.unchanged(documents)
    if run.config.method.view == "evidence":
        view = evidence_view(documents, example.gold.supporting)
    if is_joined(record.notes):
        view = joined_view(view)
    return view


def _spans_in_dataset(view: View, start: int, end: int) -> list[_DocumentSpan]:
    """The spans in the data set's documents that a span in the one document of a view is made of.

    Args:
        view: What the method was handed.
        start: Start of the span.
        end: End of the span.

    Returns:
        The spans; [] for a span outside of the view's document.
    """
    document = view.documents[0]
    if not 0 <= start <= end <= len(document.text):
        return []
    shown_in_view = Shown("span", document.id, start, end)
    answer = view.with_original_spans(Answer(text="", shown=(shown_in_view,)))
    return [_DocumentSpan(shown.document_id, shown.start, shown.end) for shown in answer.shown]
