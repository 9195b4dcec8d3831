"""Where the shortened paragraphs of an outline stand in the original text.

    fill(["Toren was ... of the river.", "In 1719 ... the lake."], text)  ──►  [(0, 120), (121, 310)]

A clip is looked for wherever its head and, after it, its tail occur; white space may differ. Of
all ways to place clips in order without overlap the one with the most clips is taken, and among
these the one that covers the most text. (The released code cuts the text after the last match of
each clip in turn, so one wrong match loses all that follows.) A head or tail that does not occur is
tried with its outer four words, as that code does always. Source:
docs/methods/longrefiner.md#longrefiner-filling.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from methods.chunks import Span
from methods.longrefiner.outline import Clip

_WORDS = 4  # of a head or tail that the released code looks for
# Places of a head, and of a tail after each, that are tried: a text may repeat itself for ever.
_MAX_PLACES = 40


@dataclass(frozen=True)
class _Chain:
    """One placement of clips: count, characters covered, the last clip and its place, and the chain
    before it."""

    count: int = 0
    covered: int = 0
    clip: int = -1
    span: Span = (0, 0)
    before: _Chain | None = None

    def beats(self, other: _Chain) -> bool:
        """Whether this chain places more clips than another, or as many that cover more text."""
        return (self.count, self.covered) > (other.count, other.covered)


def place_clips(clips: Sequence[Clip], text: str) -> list[Span | None]:
    """Place the clips of an outline in the text, in order and without overlap (the head of this
    file).

    Returns:
        The span of each clip, None for one without a place.
    """
    places = [sorted(set(_places_of_clip(clip, text))) for clip in clips]
    every_end: set[int] = set()
    for spans in places:
        every_end.update(end for _, end in spans)
    ends = sorted(every_end)
    best = _Best(len(ends))
    for number, spans in enumerate(places):
        # First compute the chains of all places of a clip, then store them: a chain has each clip
        # at most once.
        chains: list[_Chain] = []
        for start, end in spans:
            before = best.up_to(bisect_left(ends, start + 1))
            covered = before.covered + end - start
            chains.append(_Chain(before.count + 1, covered, number, (start, end), before))
        for chain in chains:
            best.put(bisect_left(ends, chain.span[1]), chain)
    placed: list[Span | None] = [None] * len(clips)
    last: _Chain | None = best.up_to(len(ends))
    while last is not None and last.clip >= 0:
        placed[last.clip] = last.span
        last = last.before
    return placed


class _Best:
    """The best chain that ends at or before an end: a Fenwick tree of prefix maxima over the sorted
    ends."""

    def __init__(self, size: int) -> None:
        """Begin with an empty chain at each of `size` ends."""
        self._tree = [_Chain()] * (size + 1)

    def up_to(self, count: int) -> _Chain:
        """The best chain that ends at one of the first `count` ends."""
        best = _Chain()
        while count > 0:
            if self._tree[count].beats(best):
                best = self._tree[count]
            count -= count & -count
        return best

    def put(self, at: int, chain: _Chain) -> None:
        """Offer a chain that ends at the end of number `at`, counted from 0."""
        at += 1
        while at < len(self._tree):
            if chain.beats(self._tree[at]):
                self._tree[at] = chain
            at += at & -at


def _places_of_clip(clip: Clip, text: str) -> Iterator[Span]:
    """Yield the spans of a text that a clip may stand for: from a place of its head to a place of
    its tail after it, by each way to read the clip."""
    for head, tail in _readings(clip):
        heads = _spans_of_piece(head, text, first=True)
        if tail is None:
            yield from heads
            continue
        tails: list[Span] = []
        if heads:
            tails = _spans_of_piece(tail, text, first=False)
        starts = [start for start, _ in tails]
        for start, end in heads:
            first = bisect_left(starts, end)
            after = tails[first:]
            # The nearest tails, and the last one: the paragraph may be all that is left.
            for _, stop in {*after[:_MAX_PLACES], *after[-1:]}:
                yield start, stop


def _readings(clip: Clip) -> Iterator[tuple[str, str | None]]:
    """Each way to read a clip, as (head, tail); a tail of None says that the head is all of it.

    The clip's own head and tail come first. Dots in "a ... b ... c" may be those of the paragraph,
    so the clip is split at each of them too, and at none.
    """
    if clip.tail is None:
        yield clip.head, None
        return
    yield clip.head, clip.tail
    whole = f"{clip.head}...{clip.tail}"
    for dots in re.finditer(r"(?=\.\.\.)", whole):
        head = whole[: dots.start()].strip()
        tail = whole[dots.start() + len("...") :].strip()
        if head and tail and (head, tail) != (clip.head, clip.tail):
            yield head, tail
    yield whole, None


def _spans_of_piece(piece: str, text: str, first: bool) -> list[Span]:
    """Find the head or the tail of a clip in the text, white space aside.

    Args:
        piece: The text of the head or the tail.
        text: The text.
        first: Whether it is the head. Where the whole does not occur, of a head the first words are
            looked for, of a tail the last ones.
    """
    words = piece.split()
    outer = words[-_WORDS:]
    if first:
        outer = words[:_WORDS]
    spans = _spans_of_words(words, text) or _spans_of_words(outer, text)
    if first:
        return spans[:_MAX_PLACES]
    return spans


def _spans_of_words(words: Sequence[str], text: str) -> list[Span]:
    """All spans of the text with these words in a row, any white space between them."""
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    return [match.span() for match in pattern.finditer(text)]


def coverage(spans: Sequence[Span], text: str) -> float:
    """The share of a text's characters, white space aside, that is in the spans; these do not
    overlap."""
    total = _count_letters(text)
    if total == 0:
        return 1.0
    inside = sum(_count_letters(text[start:end]) for start, end in spans)
    return inside / total


def _count_letters(text: str) -> int:
    """How many characters of a text are no white space."""
    return sum(map(len, text.split()))
