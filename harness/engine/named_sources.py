"""Where the pages that an application or a retriever names, and the texts that it quotes, are in
the documents.

    Shown("source", text="setup.md")         -> Shown("source", "all pages", 120, 480, text="setup.md")
    Shown("quote", text="Two  years of ...") -> Shown("span", "all pages", 200, 260)

A page is known by its whole name, never by a part of it; a text, by its words in their order,
whatever the white space. What is not found stays as it is, and hits no supporting passage.
"""

from __future__ import annotations

import bisect
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from harness.types import Answer, Document, Shown, Step, Support

_PARAGRAPH_ENDS = re.compile(r"\n\s*\n|^#{1,6} .*$", re.MULTILINE)
_WORD = re.compile(r"\S+")
_MIN_WORDS = 4
"""Of a paragraph that is looked for alone; a shorter one may stand anywhere."""

Pages = Mapping[str, Mapping[str, Support]]
"""Id of a document -> name of a page or section of it -> its span."""


def with_places(answer: Answer, documents: Sequence[Document], pages: Pages) -> Answer:
    """The answer with the places, in the documents, of the pages that it names and the texts that
    it quotes; what is not found stays as it is.

    Args:
        answer: The answer of a method.
        documents: The documents of its question.
        pages: Id of a document -> name of a part of it -> its span.
    """
    shown: list[Shown] = []
    for piece in answer.shown:
        if piece.kind == "quote":
            shown += _spans_of_quote(piece, documents)
        else:
            shown.append(_with_place_of_page(piece, documents, pages))
    steps = tuple(_with_place_of_quote(step, documents) for step in answer.steps)
    return replace(answer, shown=tuple(shown), steps=steps)


def _with_place_of_quote(step: Step, documents: Sequence[Document]) -> Step:
    """The step with its quoted text as a span of the documents; unchanged where it quotes nothing,
    or the text is not found whole."""
    if step.shown is None or step.shown.kind != "quote":
        return step
    span = _find_words(step.shown.text, documents)
    return replace(step, shown=span or step.shown)


def _with_place_of_page(piece: Shown, documents: Sequence[Document], pages: Pages) -> Shown:
    """A shown piece that names a page, with the page's place; any other piece as it is.

    Args:
        piece: What an application showed.
        documents: The documents of the question.
        pages: Id of a document -> name of a part of it -> its span.
    """
    if piece.kind == "source":
        place = _span_of_page(piece.text, documents, pages)
        if place is not None:
            return replace(piece, document_id=place.document_id, start=place.start, end=place.end)
    return piece


def _spans_of_quote(piece: Shown, documents: Sequence[Document]) -> list[Shown]:
    """The span of a quoted text. Where it is not found as one, as headings are written otherwise in
    some documents: the spans of those of its paragraphs that are found, short ones (of fewer than
    _MIN_WORDS words) left out. The quote itself where nothing is found."""
    span_of_all = _find_words(piece.text, documents)
    if span_of_all is not None:
        return [span_of_all]
    spans: list[Shown] = []
    for paragraph in _PARAGRAPH_ENDS.split(piece.text):
        if len(paragraph.split()) >= _MIN_WORDS:
            span = _find_words(paragraph, documents)
            if span is not None:
                spans.append(span)
    return spans or [piece]


def _span_of_page(name: str, documents: Sequence[Document], pages: Pages) -> Support | None:
    """The span of the page, section or document with this name; None where none has it.

    Args:
        name: The name that an application gives: "setup.md".
        documents: The documents of the question.
        pages: Id of a document -> name of a part of it -> its span.
    """
    for document in documents:
        pages_by_name = pages.get(document.id, {})
        if name in pages_by_name:
            return pages_by_name[name]
        if name and name in (document.id, document.title):
            return Support(document.id, 0, len(document.text))
    return None


def _find_words(text: str, documents: Sequence[Document]) -> Shown | None:
    """The first span of the documents that has the words of a text in their order, whatever the
    white space; None where no document has them."""
    sought_words = " ".join(text.split())
    if not sought_words:
        return None
    for document in documents:
        single_spaced = _single_spaced(document.text)
        position = single_spaced.text.find(sought_words)
        if position >= 0:
            start = single_spaced.original_position(position)
            end = single_spaced.original_position(position + len(sought_words) - 1) + 1
            return Shown("span", document.id, start, end)
    return None


@dataclass(frozen=True)
class _SingleSpacedText:
    """A text with one space between words.

    Attributes:
        text: The text.
        starts: Where each word starts in `text`.
        original_starts: Where each of these words starts in the text as it was.
    """

    text: str
    starts: Sequence[int]
    original_starts: Sequence[int]

    def original_position(self, position: int) -> int:
        """Where a character of `text` stands in the text as it was; position: that of the character
        in `text`, inside a word."""
        word = bisect.bisect_right(self.starts, position) - 1
        return self.original_starts[word] + position - self.starts[word]


# Many texts are looked for in the documents of one question.
@lru_cache(maxsize=64)
def _single_spaced(text: str) -> _SingleSpacedText:
    r"""The text with one space between words, and where each word starts in both texts.

    "Two\n  years" -> _SingleSpacedText("Two years", starts=[0, 4], original_starts=[0, 6])
    """
    words: list[str] = []
    starts = array("q")
    original_starts = array("q")
    offset = 0
    for match in _WORD.finditer(text):
        words.append(match.group())
        starts.append(offset)
        original_starts.append(match.start())
        offset += len(match.group()) + 1
    return _SingleSpacedText(" ".join(words), starts, original_starts)
