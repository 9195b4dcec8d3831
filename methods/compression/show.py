"""A compressed text as pieces, read by the reader: kept pieces of the document are spans, so the
record tells them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from harness.method import Index, Indexes, MethodConfig, Needs, Tools
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span, texts_at
from methods.kept_text import kept_spans
from methods.reading import Reading, ReadingMethod, ask, room_for_text

SEPARATOR = "\n\n"  # between contexts

Piece = Span | str  # characters of the document, or what stands between two of them


@dataclass
class Compressed:
    """A compressed document.

    Attributes:
        pieces: Spans of the document and texts between them, in reading order.
        tokens_before: Tokens of the document, by the compressor's tokenizer.
        tokens_after: Tokens of the pieces, by the same.
        steps: The steps of the trace.
    """

    pieces: Sequence[Piece]
    tokens_before: int
    tokens_after: int
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
        return {"pieces": pieces, "tokens": [self.tokens_before, self.tokens_after]}

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


def answer_from_compressed(
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
    request = Reading(tools.task, window=getattr(config, "window", None), config=config)
    max_tokens = max(room_for_text(question, tools, model, request), 0)
    whole_text = "".join(_text_of_piece(piece, document) for piece in compressed.pieces)
    # The beginning that fits: one span, or none.
    spans, tokens_of_whole_text = kept_spans(whole_text, max_tokens, model, kept_side="left")
    text = "".join(texts_at(whole_text, spans))
    note = f"{compressed.tokens_before} tokens compressed to {compressed.tokens_after}"
    compress_step = Step(
        "compress", tokens=tokens_of_whole_text, flops=tools.meter.flops(), note=note
    )
    texts: list[str] = []
    shown: tuple[Shown, ...] = ()
    if text.strip():
        texts.append(text)
        shown = _shown_up_to(len(text), compressed.pieces, document)
    is_cut = len(text) < len(whole_text)
    truncated = None
    if is_cut:
        truncated = {
            "side": "right",  # what is missing
            "tokens_before": tokens_of_whole_text,
            "tokens_after": model.count(text),
        }
    answer = ask(question, texts, tools, model, request)
    reason = _stop_reason(document, text, is_cut, compressed)
    return Answer(answer, shown, reason, (compress_step, *compressed.steps), truncated)


def _text_of_piece(piece: Piece, document: Document) -> str:
    """The text of a piece: itself, or its span of the document."""
    if isinstance(piece, str):
        return piece
    start, end = piece
    return document.text[start:end]


def _shown_up_to(
    n_characters: int, pieces: Sequence[Piece], document: Document
) -> tuple[Shown, ...]:
    """The spans of the document among the first characters of a compressed text, as an Answer says
    what the reader saw.

    Args:
        n_characters: How many characters are read.
        pieces: The pieces of the compressed text.
        document: The document, of which some pieces are spans.
    """
    shown: list[Shown] = []
    characters_so_far = 0
    for piece in pieces:
        if isinstance(piece, str):
            characters_so_far += len(piece)
            continue
        start, end = piece
        length = min(end - start, n_characters - characters_so_far)
        if length > 0:
            shown.append(Shown("span", document.id, start, start + length))
        characters_so_far += end - start
    return tuple(shown)


def _stop_reason(document: Document, text: str, is_cut: bool, compressed: Compressed) -> str:
    """What became of the document, as the answer's stop reason: "truncated" by the window, "whole"
    where compressing left all tokens, else "compressed"; or why no text is shown.

    Args:
        document: The document.
        text: The compressed text that is read.
        is_cut: Whether the window cut it.
        compressed: Its tokens before and after.
    """
    if not document.text.strip():
        return "the text is empty"
    if not text.strip():
        if is_cut:
            return "no text fits beside the question"
        return "nothing was kept of the text"
    if is_cut:
        return "truncated"
    if compressed.tokens_after >= compressed.tokens_before:
        return "whole"
    return "compressed"


def contexts_as_pieces(groups: Sequence[Sequence[Span]]) -> list[Piece]:
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


def pieces_that_are_kept(all_pieces: list[Piece], kept_runs: list[Span]) -> list[Piece]:
    r"""What is kept of a compressed text as spans of the document; text between contexts stays
    text.

        [(10, 13), "\n\n", (20, 23)], [(1, 6)] -> [(11, 13), "\n\n", (20, 21)]

    Args:
        all_pieces: The pieces of the contexts before tokens were dropped.
        kept_runs: The spans that are kept, in characters of these pieces joined.
    """
    pieces: list[Piece] = []
    piece_start = 0
    run_number = 0
    for piece in all_pieces:
        length = _piece_length(piece)
        while run_number < len(kept_runs) and kept_runs[run_number][0] < piece_start + length:
            run_start, run_end = kept_runs[run_number]
            start = max(run_start - piece_start, 0)
            end = min(run_end - piece_start, length)
            if start < end:
                pieces.append(_part_of_piece(piece, start, end))
            if run_end > piece_start + length:
                break  # the run goes on in the next piece
            run_number += 1
        piece_start += length
    return pieces


def _piece_length(piece: Piece) -> int:
    """How many characters a piece has, a text or a span."""
    if isinstance(piece, str):
        return len(piece)
    piece_start, piece_end = piece
    return piece_end - piece_start


def _part_of_piece(piece: Piece, start: int, end: int) -> Piece:
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
        return answer_from_compressed(
            question, document, Compressed.from_index(index), tools, self.config
        )
