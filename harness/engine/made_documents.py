"""Documents that a method sees in place of the data set's.

documents ──evidence_view──► only their supporting parts       (view "evidence": oracle-evidence)
          ──joined_view────► one document, a blank line between (a method that takes one document)
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from harness.engine.document_view import NO_EVIDENCE, Piece, View
from harness.types import GAP, Document, Passage, Support


def view_for_method(
    documents: Sequence[Document],
    supporting: Sequence[Support] | None,
    one_document: bool,
) -> View:
    """The view of one question's documents.

    Args:
        documents: As the data set has them.
        supporting: The parts that alone are shown; None for all of the text.
        one_document: Whether several documents are joined into one.
    """
    view = View.of(documents)
    if supporting is not None:
        view = evidence_view(documents, supporting)
    if one_document and len(view.documents) > 1:
        view = joined_view(view)
    return view


def evidence_view(documents: Sequence[Document], supporting: Sequence[Support]) -> View:
    """The view of the supporting parts alone, in text order; documents without any are left out.

    If nothing is marked, as for a question that cannot be answered: the first document without its
    text.
    """
    kept: list[Document] = []
    pieces: dict[str, tuple[Piece, ...]] = {}
    for document in documents:
        spans = _merge_overlaps(
            (s.start, s.end) for s in supporting if s.document_id == document.id
        )
        if spans:
            cut, parts = _cut_to_spans(document, spans)
            kept.append(cut)
            pieces[document.id] = parts
    if not kept:
        first = replace(documents[0], text="", passages=())
        return View((first,), {first.id: ()}, {"view": NO_EVIDENCE})
    shows_text = any(document.text for document in kept)
    return View(tuple(kept), pieces, {"view": "evidence" if shows_text else NO_EVIDENCE})


def joined_view(view: View) -> View:
    """The view of the documents of `view` in order as a single one, a blank line between them."""
    titled = any(d.passages for d in view.documents)
    passages: list[Passage] = []
    pieces: list[Piece] = []
    offset = 0
    for document in view.documents:
        passages_here = document.passages
        if titled and not passages_here:
            passages_here = (Passage(document.title, 0, len(document.text)),)
        passages += [replace(p, start=p.start + offset, end=p.end + offset) for p in passages_here]
        pieces += [replace(p, start=p.start + offset) for p in view.pieces[document.id]]
        offset += len(document.text) + len(GAP)
    titles = {d.title for d in view.documents}
    combined = Document(
        id=joined_id([d.id for d in view.documents]),
        text=GAP.join(d.text for d in view.documents),
        title=titles.pop() if len(titles) == 1 else "",
        passages=tuple(passages),
    )
    notes = {**view.notes, "joined": len(view.documents)}
    return View((combined,), {combined.id: tuple(pieces)}, notes)


def _merge_overlaps(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans and merge those that overlap; empty ones are left out."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(s for s in spans if s[0] < s[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cut_to_spans(
    document: Document, spans: Sequence[tuple[int, int]]
) -> tuple[Document, tuple[Piece, ...]]:
    """Return (the document and its passages cut to `spans`, a blank line between them; where its
    pieces come from)."""
    pieces: list[Piece] = []
    passages: list[Passage] = []
    at = 0
    for start, end in spans:
        pieces.append(Piece(at, end - start, document.id, start))
        for p in document.passages:
            a, b = max(p.start, start), min(p.end, end)
            if a < b:
                passages.append(Passage(p.title, a - start + at, b - start + at))
        at += end - start + len(GAP)
    text = GAP.join(document.text[a:b] for a, b in spans)
    return replace(document, text=text, passages=tuple(passages)), tuple(pieces)


def joined_id(ids: Sequence[str]) -> str:
    """The id of the document that joins those of `ids`: "a+b", shortened to a hash beyond 80
    characters."""
    name = "+".join(ids)
    if len(name) <= 80:
        return name
    return f"{ids[0]}+{len(ids) - 1} more, {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
