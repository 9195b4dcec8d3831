"""Where the pages that an application or a retriever names, and the texts that it quotes, are in the
documents.

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
_FEWEST_WORDS = 4
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
            shown.append(_placed(piece, documents, pages))
    steps = tuple(_placed_step(step, documents) for step in answer.steps)
    return replace(answer, shown=tuple(shown), steps=steps)


def _placed_step(step: Step, documents: Sequence[Document]) -> Step:
    """The step with its quoted text as a span of the documents; unchanged where it quotes nothing,
    or the text is not found whole."""
    if step.shown is None or step.shown.kind != "quote":
        return step
    whole = _quoted(step.shown.text, documents)
    return replace(step, shown=whole or step.shown)


def _placed(piece: Shown, documents: Sequence[Document], pages: Pages) -> Shown:
    """A shown piece that names a page, with the page's place; any other piece as it is.

    Args:
        piece: What an application showed.
        documents: The documents of the question.
        pages: Id of a document -> name of a part of it -> its span.
    """
    if piece.kind == "source":
        place = _page(piece.text, documents, pages)
        if place is not None:
            return replace(piece, document_id=place.document_id, start=place.start, end=place.end)
    return piece


def _spans_of_quote(piece: Shown, documents: Sequence[Document]) -> list[Shown]:
    """The span of a quoted text. Where it is not found as one, the spans of those of its paragraphs
    that are found, as headings are written otherwise in some documents; the quote itself where
    nothing is."""
    whole = _quoted(piece.text, documents)
    if whole is not None:
        return [whole]
    spans: list[Shown] = []
    for paragraph in _PARAGRAPH_ENDS.split(piece.text):
        if len(paragraph.split()) >= _FEWEST_WORDS:
            span = _quoted(paragraph, documents)
            if span is not None:
                spans.append(span)
    return spans or [piece]


def _page(name: str, documents: Sequence[Document], pages: Pages) -> Support | None:
    """The span of the page, section or document with this name; None where none has it.

    Args:
        name: The name that an application gives: "setup.md".
        documents: The documents of the question.
        pages: Id of a document -> name of a part of it -> its span.
    """
    for document in documents:
        named = pages.get(document.id, {})
        if name in named:
            return named[name]
        if name and name in (document.id, document.title):
            return Support(document.id, 0, len(document.text))
    return None


def _quoted(text: str, documents: Sequence[Document]) -> Shown | None:
    """The first span of the documents that has the words of a text in their order, whatever the
    white space; None where no document has them."""
    sought = " ".join(text.split())
    if not sought:
        return None
    for document in documents:
        spaced = _spaced(document.text)
        at = spaced.text.find(sought)
        if at >= 0:
            start = spaced.origin(at)
            end = spaced.origin(at + len(sought) - 1) + 1
            return Shown("span", document.id, start, end)
    return None


@dataclass(frozen=True)
class _Spaced:
    """A text with one space between words.

    Attributes:
        text: The text.
        starts: Where each word starts in `text`.
        origins: Where each of these words starts in the text as it was.
    """

    text: str
    starts: Sequence[int]
    origins: Sequence[int]

    def origin(self, at: int) -> int:
        """Where a character of `text` stands in the text as it was; at: its position, inside a
        word."""
        word = bisect.bisect_right(self.starts, at) - 1
        return self.origins[word] + at - self.starts[word]


# Many texts are looked for in the documents of one question.
@lru_cache(maxsize=64)
def _spaced(text: str) -> _Spaced:
    r"""The text with one space between words, and where each word starts in both texts.

    "Two\n  years" -> _Spaced("Two years", starts=[0, 4], origins=[0, 6])
    """
    words: list[str] = []
    starts = array("q")
    origins = array("q")
    length = 0
    for match in _WORD.finditer(text):
        words.append(match.group())
        starts.append(length)
        origins.append(match.start())
        length += len(match.group()) + 1
    return _Spaced(" ".join(words), starts, origins)
