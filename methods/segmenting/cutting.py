"""Cutting by rule: at blank lines first, then at line breaks, then where sentences end, then where tokens do.

    recursive("A. B.\\n\\nC.", 4, model)  ──►  "A. B." | "C."

The segmenter of LongRefiner's table is a web service whose rules are not published, so this takes its place
(docs/methods/longrefiner.md#jina). Neighbours are packed together as long as they fit.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from harness.models import MeteredModel
from methods.chunks import Span, sentences

_ENDS = (re.compile(r"\n[^\S\n]*\n\s*"), re.compile(r"\n\s*"))


def recursive(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Spans of `size` tokens of `model` at most, in order, that cover every word; [] for a text without any.

    Tokens are those of the whole text: a span encoded on its own may have one or two more.
    """
    starts = [start for start, _ in model.offsets(text)]
    spans = []
    for a, b in _Cutting(text, starts, size).pack(0, len(text), 0):
        inside = text[a:b]
        if inside.strip():
            spans.append((b - len(inside.lstrip()), a + len(inside.rstrip())))
    return spans


class _Cutting:
    """One text; starts: where its tokens begin."""

    def __init__(self, text: str, starts: list[int], size: int) -> None:
        self._text, self._starts, self._size = text, starts, size

    def pack(self, start: int, end: int, rank: int) -> Iterator[Span]:
        """Spans that tile text[start:end], cut at ends of this rank or a lower one."""
        opened = start
        for a, b in pairwise([start, *self._stops(start, end, rank), end]):
            if self._count(opened, b) <= self._size:
                continue
            if opened < a:
                yield opened, a
                opened = a
            if self._count(a, b) > self._size and rank < len(_ENDS) + 1:
                yield from self.pack(a, b, rank + 1)
                opened = b
        if opened < end:
            yield opened, end

    def _stops(self, start: int, end: int, rank: int) -> list[int]:
        """Positions at which text[start:end] may be cut."""
        if rank < len(_ENDS):
            # White space goes with what follows, as it does in the tokens.
            stops = [match.start() for match in _ENDS[rank].finditer(self._text, start, end)]
        elif rank == len(_ENDS):
            stops = [start + b for _, b in sentences(self._text[start:end])]
        else:
            first = self._first(start)
            stops = self._starts[first + self._size : bisect_left(self._starts, end) : self._size]
        return [at for at in dict.fromkeys(stops) if start < at < end]

    def _count(self, start: int, end: int) -> int:
        """Tokens that text[start:end] touches; white space before a word may belong to the token of one before it."""
        return bisect_left(self._starts, end) - self._first(start)

    def _first(self, start: int) -> int:
        """The token that the character at `start` belongs to."""
        return max(0, bisect_right(self._starts, start) - 1)
