"""Cutting a text where sentences end, by rule: no word list, no model.

    packed("One. Two words. Three.", 3, model)  ──►  "One. Two words." | " Three."

Sentences are packed in order up to a number of tokens. A sentence that is longer is cut behind its clauses, and a
clause that is longer where its tokens end, into pieces that are packed the same way but with nothing else.

As RAPTOR's released split_text (docs/methods/raptor.md#raptor-chunks), with these differences: the marks stay in the
text, which the chunks tile; a mark ends a sentence only before white space ("3.14" is whole), those of Chinese and
Japanese everywhere; pieces of a long sentence come behind what is before them, not ahead of it; no chunk is empty; none
is longer than the limit.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from harness.models import MeteredModel
from methods.chunks import Span

# The marks, then quotes and brackets that close behind them. No mark may stand before the first one and nothing is
# given back (++, *+), so that a line of 200,000 dots is read once.
_SENTENCE = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]]*+(?=\s)"  # . ! ? and the ellipsis
    r"|[\u3002\uff01\uff1f\uff61]++[\"'\u201d\u2019\uff09\u300d\u300f]*+"  # the same in full width
    r"|(?<=\S)(?=[^\S\n]*+\n)"  # the end of a line
)
_CLAUSE = re.compile(r"[,;:](?=\s)|[\uff0c\uff1b\uff1a\u3001]")
_ENDS = (_SENTENCE, _CLAUSE)


def packed(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Spans (start, end) of characters in order, of `size` tokens of `model` at most; [] for a text without any.

    They tile the text but for parts of white space alone. Tokens are those of the whole text: a span encoded on its own
    may have one more or less. A character of several tokens is never cut.
    """
    starts = [start for start, _ in model.offsets(text)]
    return [(a, b) for a, b in _Packing(text, starts, size).pack(0, len(text)) if text[a:b].strip()]


class _Packing:
    """One text; starts: where its tokens begin."""

    def __init__(self, text: str, starts: list[int], size: int) -> None:
        self.text, self.starts, self.size = text, starts, size

    def pack(self, start: int, end: int, rank: int = 0) -> Iterator[Span]:
        """Spans that tile text[start:end], cut at ends of this rank (sentences, clauses, tokens) or a lower one."""
        if rank == len(_ENDS):
            yield from self._hard(start, end)
            return
        opened = at = start  # the chunk that grows is text[opened:at]
        for stop in self._stops(start, end, rank):
            if self._count(opened, stop) > self.size:
                if opened < at:
                    yield opened, at
                opened = at
                if self._count(opened, stop) > self.size:
                    yield from self.pack(opened, stop, rank + 1)
                    opened = stop
            at = stop
        if opened < at:
            yield opened, at

    def _stops(self, start: int, end: int, rank: int) -> Iterator[int]:
        for match in _ENDS[rank].finditer(self.text, start, end):
            yield match.end()
        yield end

    def _hard(self, start: int, end: int) -> Iterator[Span]:
        cuts = [start]
        for i in range(bisect_left(self.starts, start) + self.size, bisect_left(self.starts, end), self.size):
            if self.starts[i] > cuts[-1]:
                cuts.append(self.starts[i])
        yield from pairwise([*cuts, end])

    def _count(self, start: int, end: int) -> int:
        """Tokens that begin in text[start:end]."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)
