"""Documents that a method sees in place of the data set's.

documents ──evidence_view──► only their supporting parts       (view "evidence": oracle-evidence)
          ──joined_view────► one document, a blank line between (a method that takes one document)
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.engine.document_view import EVIDENCE, NO_EVIDENCE, Piece, View
from harness.types import GAP, Document, Passage, Support


def view_for_method(
    documents: Sequence[Document],
    supporting: Sequence[Support] | None,
    *,
    joins_documents: bool,
) -> View:
    """The documents of one question as the method is to see them.

    Args:
        documents: The documents as the data set has them.
        supporting: The parts that alone are shown; None for all of the text.
        joins_documents: Whether several documents are joined into one.
    """
    view = View.unchanged(documents)
    if supporting is not None:
        view = evidence_view(documents, supporting)
    if joins_documents and len(view.documents) > 1:
        view = joined_view(view)
    return view


def evidence_view(documents: Sequence[Document], supporting: Sequence[Support]) -> View:
    """The view of the supporting parts alone, in text order, a blank line between them; documents
    without any are left out. Says whether there is such a part (EVIDENCE or NO_EVIDENCE).

    If nothing is marked, as for a question that cannot be answered: the first document without its
    text.
    """
    cut_documents: list[Document] = []
    pieces: dict[str, tuple[Piece, ...]] = {}
    for document in documents:
        own_supports = [each for each in supporting if each.document_id == document.id]
        spans = _merge_overlaps((each.start, each.end) for each in own_supports)
        if spans:
            cut_document, pieces_of_document = _cut_to_spans(document, spans)
            cut_documents.append(cut_document)
            pieces[document.id] = pieces_of_document
    if not cut_documents:
        empty_document = replace(documents[0], text="", passages=())
        return View((empty_document,), {empty_document.id: ()}, NO_EVIDENCE)
    evidence = NO_EVIDENCE  # also where the marked spans lie behind the end of the text
    if any(document.text for document in cut_documents):
        evidence = EVIDENCE
    return View(tuple(cut_documents), pieces, evidence)


def joined_view(view: View) -> View:
    """The view of the documents of `view` joined into a single one, a blank line between them.

    Its passages are those of the documents; where some documents have passages, one without becomes
    a passage as a whole. It has a title where all documents have the same.
    """
    some_have_passages = any(document.passages for document in view.documents)
    passages: list[Passage] = []
    pieces: list[Piece] = []
    texts: list[str] = []
    ids: list[str] = []
    offset = 0
    for document in view.documents:
        passages_of_document = document.passages
        if some_have_passages and not passages_of_document:
            passages_of_document = (Passage(document.title, 0, len(document.text)),)
        for passage in passages_of_document:
            start = passage.start + offset
            end = passage.end + offset
            passages.append(replace(passage, start=start, end=end))
        for piece in view.pieces[document.id]:
            pieces.append(replace(piece, start=piece.start + offset))  # noqa: PERF401
        texts.append(document.text)
        ids.append(document.id)
        offset += len(document.text) + len(GAP)
    titles = {document.title for document in view.documents}
    title = ""
    if len(titles) == 1:
        title = titles.pop()
    combined = Document(
        id=joined_id(ids), text=GAP.join(texts), title=title, passages=tuple(passages)
    )
    return View(
        documents=(combined,),
        pieces={combined.id: tuple(pieces)},
        evidence=view.evidence,
        n_joined=len(view.documents),
    )


def _merge_overlaps(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans (start, end) and merge those that overlap; empty ones are left out.

    [(5, 9), (0, 6), (9, 12), (3, 3)] -> [(0, 9), (9, 12)]
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cut_to_spans(
    document: Document, spans: Sequence[tuple[int, int]]
) -> tuple[Document, tuple[Piece, ...]]:
    """Cut a document to some of its spans, with a blank line between them.

    Args:
        document: The document.
        spans: (start, end) of each, sorted, without overlaps.

    Returns:
        (the document with its text and passages cut, where the pieces of its text come from).
    """
    pieces: list[Piece] = []
    passages: list[Passage] = []
    texts: list[str] = []
    offset = 0
    for start, end in spans:
        texts.append(document.text[start:end])
        pieces.append(
            Piece(start=offset, length=end - start, document_id=document.id, original_start=start)
        )
        shift = offset - start
        for passage in document.passages:
            overlap_start = max(passage.start, start)
            overlap_end = min(passage.end, end)
            if overlap_start < overlap_end:
                passages.append(
                    replace(passage, start=overlap_start + shift, end=overlap_end + shift)
                )
        offset += end - start + len(GAP)
    cut_document = replace(document, text=GAP.join(texts), passages=tuple(passages))
    return cut_document, tuple(pieces)


def joined_id(ids: Sequence[str]) -> str:
    """The id of a document that joins several: "a+b", shortened to a hash beyond 80 characters."""
    name = "+".join(ids)
    if len(name) <= 80:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{ids[0]}+{len(ids) - 1} more, {digest[:12]}"
