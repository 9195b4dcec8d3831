"""The view of the documents that a method gets, and the mapping of its spans back to the documents' offsets.

documents ──evidence(supports)──► only their supporting parts       (view "evidence": oracle-evidence)
          ──joined()────────────► one document, a blank line between (a method that takes one document)

view.original(answer) maps every span in an answer back to (document, start, end) of the data set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.types import Answer, Document, Passage, Shown, Step, Support

GAP = "\n\n"
NO_EVIDENCE = "no evidence"
"""The record's stop reason where nothing is marked as supporting: the method reads an empty text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The view's text[start : start + length] is text[origin : origin + length] of the document `document_id`."""

    start: int
    length: int
    document_id: str
    origin: int


@dataclass(frozen=True)
class View:
    """Documents as a method sees them. pieces: id of a document of the view -> where its characters come from."""

    documents: tuple[Document, ...]
    pieces: dict[str, tuple[Piece, ...]]

    @classmethod
    def for_method(
        cls,
        documents: Sequence[Document],
        supporting: Sequence[Support] | None,
        one_document: bool,
        notes: dict[str, Any],
    ) -> View:
        """The whole documents, or only their `supporting` parts; joined into one where `one_document`.

        notes: of the record; gets "view" ("evidence" or NO_EVIDENCE) and "joined" (number of documents) if they apply.
        """
        view = cls.of(documents)
        if supporting is not None:
            view = cls.evidence(documents, supporting)
            notes["view"] = "evidence" if any(d.text for d in view.documents) else NO_EVIDENCE
        if one_document and len(view.documents) > 1:
            notes["joined"] = len(view.documents)
            view = view.joined()
        return view

    @classmethod
    def of(cls, documents: Sequence[Document]) -> View:
        """The view of the documents as they are."""
        return cls(tuple(documents), {d.id: (Piece(0, len(d.text), d.id, 0),) for d in documents})

    @classmethod
    def evidence(cls, documents: Sequence[Document], supporting: Sequence[Support]) -> View:
        """The view of the supporting parts alone, in text order; documents without any are left out.

        If nothing is marked, as for a question that cannot be answered: the first document without its text.
        """
        kept: list[Document] = []
        pieces: dict[str, tuple[Piece, ...]] = {}
        for document in documents:
            spans = _merge_overlaps((s.start, s.end) for s in supporting if s.document_id == document.id)
            if spans:
                cut, parts = _cut_to_spans(document, spans)
                kept.append(cut)
                pieces[document.id] = parts
        if not kept:
            first = replace(documents[0], text="", passages=())
            return cls((first,), {first.id: ()})
        return cls(tuple(kept), pieces)

    def joined(self) -> View:
        """The view of the documents in order as a single one, a blank line between them."""
        titled = any(d.passages for d in self.documents)
        passages: list[Passage] = []
        pieces: list[Piece] = []
        offset = 0
        for document in self.documents:
            passages_here = document.passages
            if titled and not passages_here:
                passages_here = (Passage(document.title, 0, len(document.text)),)
            passages += [replace(p, start=p.start + offset, end=p.end + offset) for p in passages_here]
            pieces += [replace(p, start=p.start + offset) for p in self.pieces[document.id]]
            offset += len(document.text) + len(GAP)
        titles = {d.title for d in self.documents}
        combined = Document(
            id=joined_id([d.id for d in self.documents]),
            text=GAP.join(d.text for d in self.documents),
            title=titles.pop() if len(titles) == 1 else "",
            passages=tuple(passages),
        )
        return View((combined,), {combined.id: tuple(pieces)})

    def original(self, answer: Answer) -> Answer:
        """The answer with what was shown, in its steps too, as spans of the data set's documents.

        Raises ValueError when a span names a document the method was not handed, or leaves its text.
        """
        return replace(
            answer,
            shown=tuple(s for shown in answer.shown for s in self._to_original(shown)),
            steps=tuple(s if s.shown is None else self._original_step(s) for s in answer.steps),
        )

    def _original_step(self, step: Step) -> Step:
        """The step with what it shows in original documents: one span, or a text whose sources are several spans."""
        assert step.shown is not None
        originals = self._to_original(step.shown)
        if len(originals) == 1:
            return replace(step, shown=originals[0])
        # A step shows one thing: a span over several pieces becomes the sources of a text without a place of its own.
        sources = tuple((s.document_id, s.start, s.end) for s in originals)
        return replace(step, shown=replace(step.shown, document_id="", start=0, end=0, sources=sources))

    def _to_original(self, shown: Shown) -> list[Shown]:
        """A shown span as spans of the original documents; a generated text as one, with its sources mapped back."""
        if shown.kind == "generated":
            sources = tuple(span for source in shown.sources for span in self._original_spans(*source))
            return [replace(shown, sources=sources)]
        return [
            replace(shown, document_id=d, start=start, end=end)
            for d, start, end in self._original_spans(shown.document_id, shown.start, shown.end)
        ]

    def _original_spans(self, document_id: str, start: int, end: int) -> list[tuple[str, int, int]]:
        """(document id, start, end) of the original parts in [start, end) of the view's document. Raises ValueError."""
        if document_id not in self.pieces:
            raise ValueError(f"the method showed document '{document_id}', which it was not handed")
        size = next(len(d.text) for d in self.documents if d.id == document_id)
        if not 0 <= start <= end <= size:
            raise ValueError(f"the method showed [{start}, {end}) of '{document_id}', which has {size} characters")
        spans = []
        for piece in self.pieces[document_id]:
            a, b = max(start, piece.start), min(end, piece.start + piece.length)
            if a < b:
                spans.append((piece.document_id, a - piece.start + piece.origin, b - piece.start + piece.origin))
        return spans


def _merge_overlaps(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans and merge those that overlap; empty ones are left out."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(s for s in spans if s[0] < s[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _cut_to_spans(document: Document, spans: Sequence[tuple[int, int]]) -> tuple[Document, tuple[Piece, ...]]:
    """Return (the document and its passages cut to `spans`, a blank line between them; where its pieces come from)."""
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
    """The id of the document that joins those of `ids`: "a+b", shortened to a hash beyond 80 characters."""
    name = "+".join(ids)
    if len(name) <= 80:
        return name
    return f"{ids[0]}+{len(ids) - 1} more, {hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
