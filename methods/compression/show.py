"""A compressed text as pieces, read by the reader: kept pieces of the document are spans, so the
record tells them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from harness.method import Index, Indexes, MethodConfig, Needs, Tools
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span
from methods.kept_text import kept_spans
from methods.reading import Reading, ReadingMethod, ask, room_for_text

SEPARATOR = "\n\n"  # between contexts

Piece = Span | str  # characters of the document, or what stands between two of them


@dataclass
class Compressed:
    """A compressed document.

    Attributes:
        pieces: Spans of the document and texts between them, in reading order.
        before: Tokens of the document, by the compressor's tokenizer.
        after: Tokens of the pieces, by the same.
        steps: The steps of the trace.
    """

    pieces: Sequence[Piece]
    before: int
    after: int
    steps: list[Step] = field(default_factory=list)

    def to_index(self) -> Index:
        """The document as an index, without the steps: {"pieces": [text or [start, end], ...],
        "tokens": [before, after]}."""
        pieces: list[str | list[int]] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                pieces.append(list(piece))
        return {"pieces": pieces, "tokens": [self.before, self.after]}

    @classmethod
    def from_index(cls, index: Index) -> Compressed:
        """The document of an index that `to_index` made; the cache turns tuples into lists."""
        pieces: list[Piece] = []
        for piece in index["pieces"]:
            if isinstance(piece, str):
                pieces.append(piece)
            else:
                start, end = piece
                pieces.append((int(start), int(end)))
        return cls(pieces, *index["tokens"])


def answer_from(
    question: Question,
    document: Document,
    compressed: Compressed,
    tools: Tools,
    config: MethodConfig,
) -> Answer:
    """Show a compressed text and answer; what is beyond the window is cut off at the end, and the
    answer's `truncated` says so.

    Args:
        question: The question.
        document: The document.
        compressed: The pieces that are left of the document.
        tools: The engine's tools.
        config: The method's settings; its window counts where it has that setting, else the
            reader's.
    """
    model = tools.model()
    request = Reading(tools.task, getattr(config, "window", None), config)
    room = max(room_for_text(question, tools, model, request), 0)
    everything = "".join(_text_of(piece, document) for piece in compressed.pieces)
    spans, tokens = kept_spans(everything, room, model, "left")
    stop = 0
    if spans:
        _, stop = spans[0]  # the only one: "left" keeps the beginning
    text = everything[:stop]
    note = f"{compressed.before} tokens compressed to {compressed.after}"
    compress = Step("compress", tokens=tokens, flops=tools.meter.flops(), note=note)
    texts: list[str] = []
    shown: tuple[Shown, ...] = ()
    if text.strip():
        texts.append(text)
        shown = _shown_up_to(stop, compressed.pieces, document)
    is_cut = stop < len(everything)
    truncated = None
    if is_cut:
        truncated = {
            "side": "right",
            "tokens_before": tokens,
            "tokens_after": model.count(text),
        }
    answer = ask(question, texts, tools, model, request)
    reason = _stop_reason(document, text, is_cut, compressed)
    return Answer(answer, shown, reason, (compress, *compressed.steps), truncated)


def _text_of(piece: Piece, document: Document) -> str:
    """The text of a piece: itself, or its span of the document."""
    if isinstance(piece, str):
        return piece
    start, end = piece
    return document.text[start:end]


def _shown_up_to(stop: int, pieces: Sequence[Piece], document: Document) -> tuple[Shown, ...]:
    """The spans of the document among the first characters of a compressed text, as an Answer says
    what the reader saw.

    Args:
        stop: How many characters are read.
        pieces: The pieces of the compressed text.
        document: The document, of which some pieces are spans.
    """
    shown: list[Shown] = []
    at = 0
    for piece in pieces:
        if isinstance(piece, str):
            at += len(piece)
            continue
        start, end = piece
        length = min(end - start, stop - at)
        if length > 0:
            shown.append(Shown("span", document.id, start, start + length))
        at += end - start
    return tuple(shown)


def _stop_reason(document: Document, text: str, cut: bool, compressed: Compressed) -> str:
    """Why the compressed text is what it is: "the text is empty", "truncated", "compressed" and so
    on.

    Args:
        document: The document.
        text: The compressed text that is read.
        cut: Whether the window cut it.
        compressed: Its tokens before and after.
    """
    if not document.text.strip():
        return "the text is empty"
    if not text.strip():
        if cut:
            return "no text fits beside the question"
        return "nothing was kept of the text"
    if cut:
        return "truncated"
    if compressed.after >= compressed.before:
        return "whole"
    return "compressed"


def with_blank_lines(groups: Sequence[Sequence[Span]]) -> list[Piece]:
    r"""Contexts, each of spans of the document, as pieces with a blank line between them; empty
    ones are left out.

        [[(0, 3)], [], [(5, 8)]] -> [(0, 3), "\n\n", (5, 8)]
    """
    pieces: list[Piece] = []
    for group in filter(None, groups):
        if pieces:
            pieces.append(SEPARATOR)
        pieces += group
    return pieces


def spans_in_document(layout: list[Piece], runs: list[Span]) -> list[Piece]:
    r"""What is kept of a compressed text as spans of the document; text between contexts stays
    text.

        [(10, 13), "\n\n", (20, 23)], [(1, 6)] -> [(11, 13), "\n\n", (20, 21)]

    Args:
        layout: The pieces of the contexts before tokens were dropped.
        runs: The spans that are kept, in characters of these pieces joined.
    """
    pieces: list[Piece] = []
    at = 0
    number = 0
    for piece in layout:
        length = _length(piece)
        while number < len(runs) and runs[number][0] < at + length:
            run_start, run_end = runs[number]
            start = max(run_start - at, 0)
            end = min(run_end - at, length)
            if start < end:
                pieces.append(_part(piece, start, end))
            if run_end > at + length:
                break  # the run goes on in the next piece
            number += 1
        at += length
    return pieces


def _length(piece: Piece) -> int:
    """How many characters a piece has, a text or a span."""
    if isinstance(piece, str):
        return len(piece)
    piece_start, piece_end = piece
    return piece_end - piece_start


def _part(piece: Piece, start: int, end: int) -> Piece:
    """The characters [start, end) of a piece: of a text a text, of a span a span of the
    document."""
    if isinstance(piece, str):
        return piece[start:end]
    piece_start, _ = piece
    return piece_start + start, piece_start + end


class CompressedMethod(ReadingMethod):
    """A method that compresses a document by a model's surprise once, when it is indexed; `index`
    says how."""

    needs: ClassVar[Needs] = {"reader": frozenset(), "compressor": frozenset({"score"})}
    scope = "document"
    index_roles: ClassVar[tuple[str, ...]] = ("compressor",)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from the compressed document of the index."""
        (document,) = documents
        (index,) = indexes
        return answer_from(question, document, Compressed.from_index(index), tools, self.config)
