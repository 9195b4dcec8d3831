"""A compressed text as pieces, read by the reader: kept pieces of the document are spans, so the
record tells them.

A compressor learns to find a question likely behind its text, and a text behind its question; a
model that learns replies only finds every text about equally surprising.

"compressor ranking"   scene "followed": the text, then the question and the restrictive sentence are scored
"compressor text"      scene "guessed":  the question (or nothing), then the text is scored, token by token
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from harness.method import Indexes, MethodConfig, Needs, Tools
from harness.method.training import Scene, Skill
from harness.types import Answer, Document, Question, Shown, Step
from methods.chunks import Span
from methods.compression.contexts import RESTRICTIVE
from methods.compression.surprise import open_context
from methods.kept_text import kept_spans
from methods.reading import Reading, ReadingMethod, ask, room_for_text


def _play_text(scene: Scene, tools: Tools) -> None:
    """Score a scene's text behind its question, or behind nothing where there is none."""
    text = scene.question.text
    with open_context(tools.model("compressor")) as s:
        s.feed(text + SEPARATOR if text else "")
        s.score(scene.texts[0])


def _play_ranking(scene: Scene, tools: Tools) -> None:
    """Score a scene's question and the restrictive sentence after its text."""
    with open_context(tools.model("compressor")) as s:
        s.feed(scene.texts[0])
        s.score(scene.question.text + RESTRICTIVE)


RANKING = Skill("compressor ranking", "followed", _play_ranking)
TEXT = Skill("compressor text", "guessed", _play_text)


SEPARATOR = "\n\n"  # between contexts

Piece = Span | str  # characters of the document, or what stands between two of them


@dataclass
class Compressed:
    """pieces in reading order; tokens before and after, by the compressor's tokenizer; steps for
    `harness trace`."""

    pieces: Sequence[Piece]
    before: int
    after: int
    steps: list[Step] = field(default_factory=list)

    def to_index(self) -> dict[str, Any]:
        """The index as JSON values, without the steps."""
        return {
            "pieces": [list(p) if isinstance(p, tuple) else p for p in self.pieces],
            "tokens": [self.before, self.after],
        }

    @classmethod
    def from_index(cls, index: dict[str, Any]) -> Compressed:
        """The inverse of `to_index`."""
        pieces: list[Piece] = [
            p if isinstance(p, str) else (int(p[0]), int(p[1])) for p in index["pieces"]
        ]
        return cls(pieces, *index["tokens"])


def answer_from(
    question: Question,
    document: Document,
    compressed: Compressed,
    tools: Tools,
    config: MethodConfig,
) -> Answer:
    """Show the compressed text, ask, answer; what the window does not hold is cut off at the end
    and reported.

    The window is that of `config` where it has one, else the reader's.
    """
    model, request = tools.model(), Reading(tools.task, getattr(config, "window", None), config)
    texts, ends = [], []
    length = 0
    for piece in compressed.pieces:
        texts.append(piece if isinstance(piece, str) else document.text[slice(*piece)])
        length += len(texts[-1])
        ends.append(length)
    whole = "".join(texts)
    spans, tokens = kept_spans(
        whole, max(room_for_text(question, tools, model, request), 0), model, "left"
    )
    stop = 0
    if spans:
        stop = spans[0][1]
    shown = tuple(
        Shown("span", document.id, piece[0], piece[1] - max(end - stop, 0))
        for piece, end in zip(compressed.pieces, ends, strict=True)
        if isinstance(piece, tuple) and piece[1] - max(end - stop, 0) > piece[0]
    )
    text = whole[:stop]
    note = f"{compressed.before} tokens compressed to {compressed.after}"
    steps = (
        Step("compress", tokens=tokens, flops=tools.meter.flops(), note=note),
        *compressed.steps,
    )
    cut = stop < len(whole)
    after = None
    if cut:
        after = {"side": "right", "tokens_before": tokens, "tokens_after": model.count(text)}
    answer = ask(question, [text] if text.strip() else [], tools, model, request)
    return Answer(
        answer,
        shown if text.strip() else (),
        _stop_reason(document, text, cut, compressed),
        steps,
        after,
    )


def _stop_reason(document: Document, text: str, cut: bool, compressed: Compressed) -> str:
    """The stop reason; text: what is read; cut: whether the window cut it."""
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
    """Contexts, each of spans of the document, with a blank line between them; empty ones are left
    out."""
    pieces: list[Piece] = []
    for number, group in enumerate(group for group in groups if group):
        pieces += [SEPARATOR] * (number > 0)
        pieces += group
    return pieces


def spans_in_document(layout: list[Piece], runs: list[Span]) -> list[Piece]:
    """The kept `runs` of the joined contexts as spans of the document; text between contexts stays
    text."""
    pieces: list[Piece] = []
    at = number = 0
    for piece in layout:
        length = len(piece) if isinstance(piece, str) else piece[1] - piece[0]
        while number < len(runs) and runs[number][0] < at + length:
            a, b = max(runs[number][0] - at, 0), min(runs[number][1] - at, length)
            if a < b:
                pieces.append(
                    piece[a:b] if isinstance(piece, str) else (piece[0] + a, piece[0] + b)
                )
            if runs[number][1] > at + length:
                break
            number += 1
        at += length
    return pieces


class CompressedMethod(ReadingMethod):
    """A method that compresses a document by a model's surprise once, when it is indexed; `index`
    says how."""

    needs: ClassVar[Needs] = {"reader": frozenset(), "compressor": frozenset({"score"})}
    scope = "document"
    index_roles: ClassVar[tuple[str, ...]] = ("compressor",)

    def skills(self) -> list[Skill]:
        """Short answers and choices after a text, and texts with a high likelihood."""
        return [*super().skills(), TEXT]

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Read the compressed document."""
        (document,), (index,) = documents, indexes
        return answer_from(question, document, Compressed.from_index(index), tools, self.config)
