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
    """The answer with the places of what it names.

    Args:
        answer: The answer of a method.
        documents: The documents of its question.
        pages: Their named parts.
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
    """The step with the place of a text that it quotes, where it has one place."""
    if step.shown is None or step.shown.kind != "quote":
        return step
    whole = _quoted(step.shown.text, documents)
    return replace(step, shown=whole or step.shown)


def _placed(piece: Shown, documents: Sequence[Document], pages: Pages) -> Shown:
    """A named page with its place; any other piece as it is.

    Args:
        piece: What an application showed.
        documents: The documents of the question.
        pages: Named parts of these documents.
    """
    if piece.kind == "source":
        place = _page(piece.text, documents, pages)
        if place is not None:
            return replace(piece, document_id=place.document_id, start=place.start, end=place.end)
    return piece


def _spans_of_quote(piece: Shown, documents: Sequence[Document]) -> list[Shown]:
    """The spans of a text, or of its paragraphs where it is not found as one: headings, for
    example, are written otherwise in the documents. The text itself where nothing is found."""
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
    """The span of the page, section or document of a name; None where there is none.

    Args:
        name: As an application gives it.
        documents: The documents of the question.
        pages: Named parts of these documents.
    """
    for document in documents:
        named = pages.get(document.id, {})
        if name in named:
            return named[name]
        if name and name in (document.id, document.title):
            return Support(document.id, 0, len(document.text))
    return None


def _quoted(text: str, documents: Sequence[Document]) -> Shown | None:
    """The first span of the documents with the words of a text."""
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
        """Where a character of a word was."""
        word = bisect.bisect_right(self.starts, at) - 1
        return self.origins[word] + at - self.starts[word]


# Many texts are looked for in the documents of one question.
@lru_cache(maxsize=64)
def _spaced(text: str) -> _Spaced:
    """The words of a text joined by single spaces, with where each word starts in both texts."""
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
