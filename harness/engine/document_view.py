"""The view of the documents that a method gets, and the mapping of its spans back to the documents'
offsets.

View.unchanged(documents)           as they are; made_documents.py cuts and joins them
view.with_original_spans(answer)    every span of the answer, in the documents of the data set
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.types import Answer, Document, Shown, Step

EVIDENCE = "evidence"
NO_EVIDENCE = "no evidence"
"""The record's stop reason where nothing is marked as supporting: the method reads an empty
text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a part of a view's document comes from: text[start : start + length] of the view's
    document is text[original_start : original_start + length] of the data set's document
    `document_id`."""

    start: int
    length: int
    document_id: str
    original_start: int


class OriginalSpan(NamedTuple):
    """A span of a document of the data set, as records hold it."""

    document_id: str
    start: int
    end: int


@dataclass(frozen=True)
class View:
    """Documents as a method sees them.

    Attributes:
        documents: The documents of the view.
        pieces: Id of a document of the view -> the parts of the data set's documents that it
            consists of, in the order of its text.
        evidence: EVIDENCE or NO_EVIDENCE where the supporting parts alone are shown, else None.
        n_joined: How many documents are joined into one; 0 for none.
    """

    documents: tuple[Document, ...]
    pieces: dict[str, tuple[Piece, ...]]
    evidence: str | None = None
    n_joined: int = 0

    @property
    def notes(self) -> dict[str, object]:
        """What the record's notes say of the view: {"view": "evidence", "joined": 3}, each only
        where it applies."""
        notes: dict[str, object] = {}
        if self.evidence is not None:
            notes["view"] = self.evidence
        if self.n_joined:
            notes["joined"] = self.n_joined
        return notes

    @classmethod
    def unchanged(cls, documents: Sequence[Document]) -> View:
        """The view of the documents as they are: each consists of one piece, itself."""
        pieces: dict[str, tuple[Piece, ...]] = {}
        for document in documents:
            whole = Piece(
                start=0, length=len(document.text), document_id=document.id, original_start=0
            )
            pieces[document.id] = (whole,)
        return cls(tuple(documents), pieces)

    def with_original_spans(self, answer: Answer) -> Answer:
        """The answer with what was shown, in its steps too, as spans of the data set's documents.
        Its stop reason becomes NO_EVIDENCE where the view has no supporting part.

        Raises ValueError when a span names a document the method was not handed, or leaves its
        text.
        """
        shown: list[Shown] = []
        for shown_piece in answer.shown:
            shown += self._original_pieces(shown_piece)
        stop_reason = answer.stop_reason
        if self.evidence == NO_EVIDENCE:
            stop_reason = NO_EVIDENCE
        steps = tuple(self._step_with_original_spans(step) for step in answer.steps)
        return replace(answer, shown=tuple(shown), steps=steps, stop_reason=stop_reason)

    def _step_with_original_spans(self, step: Step) -> Step:
        """A copy of a step whose shown piece is at its place in the data set's documents; the step
        itself where it shows nothing.

        A piece of the view that comes from several parts of these documents, or from none, has no
        one place in them: it becomes a piece without a document, with a source for each part.
        """
        if step.shown is None:
            return step
        originals = self._original_pieces(step.shown)
        if len(originals) == 1:
            return replace(step, shown=originals[0])
        sources = tuple(OriginalSpan(each.document_id, each.start, each.end) for each in originals)
        shown = replace(step.shown, document_id="", start=0, end=0, sources=sources)
        return replace(step, shown=shown)

    def _original_pieces(self, shown: Shown) -> list[Shown]:
        """The places of a shown piece in the data set's documents.

        A span of the view gives a span for each part of a document that it covers. Any other piece,
        as a text that a model wrote, stays one piece, with its sources mapped.
        """
        if shown.kind != "span":
            sources: list[OriginalSpan] = []
            for document_id, start, end in shown.sources:
                sources += self._original_spans(document_id, start, end)
            return [replace(shown, sources=tuple(sources))]
        originals: list[Shown] = []
        for span in self._original_spans(shown.document_id, shown.start, shown.end):
            original = replace(shown, document_id=span.document_id, start=span.start, end=span.end)
            originals.append(original)
        return originals

    def _original_spans(self, document_id: str, start: int, end: int) -> list[OriginalSpan]:
        """The parts of the data set's documents that a span of the view shows.

        Args:
            document_id: The view's document that the span is in.
            start: The span's first character.
            end: The character after its last one.

        Returns:
            The span of each part, in the view's order.

        Raises:
            ValueError: The view has no such document, or the document no such span.
        """
        if document_id not in self.pieces:
            raise ValueError(f"the method showed document '{document_id}', which it was not handed")
        n_characters = next(len(each.text) for each in self.documents if each.id == document_id)
        if not 0 <= start <= end <= n_characters:
            raise ValueError(
                f"the method showed [{start}, {end}) of '{document_id}', which has {n_characters} "
                "characters"
            )
        spans = []
        for piece in self.pieces[document_id]:
            overlap_start = max(start, piece.start)
            overlap_end = min(end, piece.start + piece.length)
            if overlap_start < overlap_end:
                shift = piece.original_start - piece.start
                span = OriginalSpan(piece.document_id, overlap_start + shift, overlap_end + shift)
                spans.append(span)
        return spans
