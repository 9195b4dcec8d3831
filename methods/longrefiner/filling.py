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

_WORDS_LOOKED_FOR = 4  # of a head or tail that the released code looks for
# Places of a head, and of a tail after each, that are tried: a text may repeat itself for ever.
_MAX_PLACES = 40


@dataclass(frozen=True)
class _Chain:
    """Clips placed in a text, in order and without overlap.

    Attributes:
        n_clips: How many clips are placed.
        characters_covered: How many characters of the text they stand for.
        last_clip: The number of the last one; -1 for none.
        last_span: The span of the last one in the text.
        chain_before: The chain without it; None for an empty chain.
    """

    n_clips: int = 0
    characters_covered: int = 0
    last_clip: int = -1
    last_span: Span = (0, 0)
    chain_before: _Chain | None = None

    def beats(self, other: _Chain) -> bool:
        """Whether this chain places more clips than another, or as many that cover more text."""
        return (self.n_clips, self.characters_covered) > (other.n_clips, other.characters_covered)


def place_clips(clips: Sequence[Clip], text: str) -> list[Span | None]:
    """Place the clips of an outline in the text, in order and without overlap.

    Of all ways to do so the one with the most clips is taken, of these the one that covers the most
    text.

    Returns:
        The span of each clip, None for one without a place.
    """
    possible_spans = [sorted(set(_places_of_clip(clip, text))) for clip in clips]
    span_of_clip: list[Span | None] = [None] * len(clips)
    chain: _Chain | None = _best_chain(possible_spans)
    while chain is not None and chain.last_clip >= 0:  # the empty chain has clip -1
        span_of_clip[chain.last_clip] = chain.last_span
        chain = chain.chain_before
    return span_of_clip


def _best_chain(possible_spans: Sequence[Sequence[Span]]) -> _Chain:
    """The best way to place clips in order and without overlap.

    It is found clip by clip: a clip at (start, end) goes on with the best chain of earlier clips
    that ends at `start` or before.

    Args:
        possible_spans: For each clip the spans that it may have, sorted.
    """
    all_ends: set[int] = set()
    for spans in possible_spans:
        all_ends.update(end for _, end in spans)
    ends = sorted(all_ends)
    best_chains = _BestChains(len(ends))
    for number, spans in enumerate(possible_spans):
        # First compute the chains of all places of a clip, then store them: a chain has each clip
        # at most once.
        chains: list[_Chain] = []
        for start, end in spans:
            n_ends_before = bisect_left(ends, start + 1)
            chain_before = best_chains.best_up_to(n_ends_before)
            chain = _Chain(
                n_clips=chain_before.n_clips + 1,
                characters_covered=chain_before.characters_covered + end - start,
                last_clip=number,
                last_span=(start, end),
                chain_before=chain_before,
            )
            chains.append(chain)
        for chain in chains:
            _, chain_end = chain.last_span
            number_of_end = bisect_left(ends, chain_end)
            best_chains.offer(number_of_end, chain)
    return best_chains.best_up_to(len(ends))


class _BestChains:
    """The best chain that ends at or before an end: a Fenwick tree of prefix maxima over the sorted
    ends."""

    def __init__(self, n_ends: int) -> None:
        """Begin with an empty chain at each of `n_ends` ends."""
        self._tree = [_Chain()] * (n_ends + 1)

    def best_up_to(self, n_ends: int) -> _Chain:
        """The best chain that ends at one of the first `n_ends` ends; an empty one where none does.

        As in every Fenwick tree, place i, counted from 1, stands for the i & -i ends up to it.
        """
        best = _Chain()
        while n_ends > 0:
            if self._tree[n_ends].beats(best):
                best = self._tree[n_ends]
            n_ends -= n_ends & -n_ends  # without its lowest bit: the range of ends before this one
        return best

    def offer(self, place: int, chain: _Chain) -> None:
        """Offer a chain that ends at the end of number `place`, counted from 0: it is stored for each
        range of ends with this one whose best chain it beats.

        As in every Fenwick tree, place i, counted from 1, stands for the i & -i ends up to it.
        """
        place += 1
        while place < len(self._tree):
            if chain.beats(self._tree[place]):
                self._tree[place] = chain
            place += place & -place  # the next longer range that has this end


def _places_of_clip(clip: Clip, text: str) -> Iterator[Span]:
    """Yield the spans of a text that a clip may stand for: from a place of its head to a place of
    its tail after it, by each way to read the clip.

    Of the tails after a head those at the _MAX_PLACES nearest places count, and the last one.
    """
    for head, tail in _heads_and_tails(clip):
        heads = _spans_of_head_or_tail(head, text, is_head=True)
        if tail is None:
            yield from heads
            continue
        tails: list[Span] = []
        if heads:
            tails = _spans_of_head_or_tail(tail, text, is_head=False)
        tail_starts = [start for start, _ in tails]
        for head_start, head_end in heads:
            first_tail_after_head = bisect_left(tail_starts, head_end)
            tails_after_head = tails[first_tail_after_head:]
            nearest_tails = tails_after_head[:_MAX_PLACES]
            last_tail = tails_after_head[-1:]  # the paragraph may be all that is left of the text
            for _, tail_end in {*nearest_tails, *last_tail}:
                yield head_start, tail_end


def _heads_and_tails(clip: Clip) -> Iterator[tuple[str, str | None]]:
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


def _spans_of_head_or_tail(head_or_tail: str, text: str, is_head: bool) -> list[Span]:
    """Find the head or the tail of a clip in the text, white space aside: all places of a tail, of
    a head the first _MAX_PLACES.

    Args:
        head_or_tail: The text of the head or the tail.
        text: The text.
        is_head: Whether it is the head. Where the whole does not occur, of a head the first words
            are looked for, of a tail the last ones.
    """
    words = head_or_tail.split()
    outer_words = words[-_WORDS_LOOKED_FOR:]
    if is_head:
        outer_words = words[:_WORDS_LOOKED_FOR]
    spans = _spans_of_words(words, text) or _spans_of_words(outer_words, text)
    if is_head:
        return spans[:_MAX_PLACES]
    return spans


def _spans_of_words(words: Sequence[str], text: str) -> list[Span]:
    """All spans of the text with these words in a row, any white space between them."""
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    return [match.span() for match in pattern.finditer(text)]


def share_covered(spans: Sequence[Span], text: str) -> float:
    """The share of a text's characters, white space aside, that is in the spans; these do not
    overlap."""
    n_all = _count_visible_characters(text)
    if n_all == 0:
        return 1.0
    n_inside = sum(_count_visible_characters(text[start:end]) for start, end in spans)
    return n_inside / n_all


def _count_visible_characters(text: str) -> int:
    """How many characters of a text are no white space."""
    return sum(map(len, text.split()))
