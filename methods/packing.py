"""Cutting a document where sentences end (docs/methods/shared.md#chunks).

sentence_chunks   so many whole sentences a chunk          packed_chunks   whole sentences up to so many tokens
passage_chunks    the document's own paragraphs
clause_chunks     "One. Two words. Three.", 3 tokens ──► "One. Two words." | " Three."

`clause_chunks` fills chunks with sentences in order. A longer sentence is cut after its clauses, a
longer clause where tokens end, into pieces that are packed with nothing else. Each line ends a sentence
there. RAPTOR's released split_text differs: docs/methods/raptor.md#raptor-chunks.
"""

import abc
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from harness.models import MeteredModel
from harness.types import Document
from methods.chunks import Span, tiles, trimmed
from methods.sentences import sentence_ends

_CLAUSE = re.compile(r"[,;:](?=\s)|[\uff0c\uff1b\uff1a\u3001]")


def clause_chunks(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Cut a text into spans of characters, in order, each of whole sentences where these fit.

    They tile the text but for parts of white space alone. Tokens are those of the whole text: a
    span encoded on its own may have one more or less. A character of several tokens is never cut.

    Args:
        text: The text.
        size: Tokens of a span at most.
        model: The model whose tokens are counted.

    Returns:
        (start, end) of each span; [] for a text of white space alone.
    """
    starts = [start for start, _ in model.offsets(text)]
    spans = _Packing(text, starts, size).pack(0, len(text))
    return [(start, end) for start, end in spans if text[start:end].strip()]


class Packing(abc.ABC):
    """Cuts a text into spans of at most `size` tokens: at places of rank 0, such as the ends of
    sentences; what is longer between two of them, at places of rank 1, then 2 ...

    Attributes:
        text: The text.
        starts: The first character of each token.
        size: Most tokens of a span.
        lowest: The last rank; what is still too long there stays so.
    """

    lowest: int

    def __init__(self, text: str, starts: list[int], size: int) -> None:
        """Keep the text, the first character of each of its tokens, and the most tokens of a
        span."""
        self.text = text
        self.starts = starts
        self.size = size

    @abc.abstractmethod
    def stops(self, start: int, end: int, rank: int) -> Iterable[int]:
        """The places at which text[start:end] may be cut, in order; a cut is made before the
        character of that number.

        Args:
            start: The first character.
            end: The character after the last one.
            rank: Which places: those of rank 0 are the best to cut at, such as ends of sentences.
        """

    @abc.abstractmethod
    def count(self, start: int, end: int) -> int:
        """Tokens of text[start:end]."""

    def pack(self, start: int, end: int, rank: int = 0) -> Iterator[Span]:
        """Yield spans that tile text[start:end], each as long as it can be with `size` tokens at
        most.

        A part between two places that is too long alone is cut at places of the next rank, and
        stays too long after the rank `lowest`.

        Args:
            start: Where the spans begin.
            end: Where they end.
            rank: The rank of the places at which they are cut.
        """
        places = [start, *self.stops(start, end, rank), end]
        open_start = start  # the span that grows is text[open_start:place]
        for place, next_place in pairwise(places):
            if self.count(open_start, next_place) <= self.size:
                continue
            if open_start < place:
                yield open_start, place
                open_start = place
            if self.count(place, next_place) > self.size and rank < self.lowest:
                yield from self.pack(place, next_place, rank + 1)
                open_start = next_place
        if open_start < end:
            yield open_start, end


class _Packing(Packing):
    """Cut at the ends of sentences, then of clauses, then where tokens begin."""

    lowest = 2

    def stops(self, start: int, end: int, rank: int) -> Iterable[int]:
        """The ends of sentences and lines in text[start:end] for rank 0, of clauses for rank 1.

        Args:
            start: The first character.
            end: The character after the last one.
            rank: 0 or 1; `pack` itself cuts where tokens begin.
        """
        if rank == 0:
            return sentence_ends(self.text, start, end, lines=True)
        return (match.end() for match in _CLAUSE.finditer(self.text, start, end))

    def pack(self, start: int, end: int, rank: int = 0) -> Iterator[Span]:
        """Yield spans that tile text[start:end]: of whole sentences, else of whole clauses
        (`Packing.pack`); a clause that is still too long is cut before every `size`-th token.

        Args:
            start: Where the spans begin.
            end: Where they end.
            rank: 0: cut at sentences first; 1: at clauses; 2: at tokens.
        """
        if rank < self.lowest:
            return super().pack(start, end, rank)
        first = bisect_left(self.starts, start)
        last = bisect_left(self.starts, end)
        cuts = self.starts[first + self.size : last : self.size]
        return iter(tiles(start, cuts, end))

    def count(self, start: int, end: int) -> int:
        """How many tokens begin in text[start:end]."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)


def sentences(text: str) -> list[Span]:
    """Spans of the sentences, without the white space around them; a single line break ends
    none.

        "One. Two\nwords." -> [(0, 4), (5, 15)]
    """
    cuts = [0, *sentence_ends(text), len(text)]
    spans = [trimmed(text, start, end) for start, end in pairwise(cuts)]
    return [(start, end) for start, end in spans if start < end]


def sentence_chunks(text: str, count: int, max_tokens: int, model: MeteredModel) -> list[Span]:
    """Cut a text into chunks of so many sentences; the last chunk may have fewer.

    Args:
        text: The text.
        count: Sentences of a chunk.
        max_tokens: A sentence of more tokens is cut hard, and counts as several.
        model: The model whose tokens are counted.

    Returns:
        (start, end) of each chunk.
    """
    parts = _sentence_parts(text, max_tokens, model)
    chunks: list[Span] = []
    for first in range(0, len(parts), count):
        group = parts[first : first + count]
        chunks.append((group[0].start, group[-1].end))
    return chunks


def packed_chunks(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Pack whole sentences into chunks of at most `size` tokens; a longer sentence is cut hard.

    Tokens are those of the whole text: a chunk encoded on its own may have one or two more.

    Args:
        text: The text.
        size: Tokens of a chunk at most.
        model: The model whose tokens are counted.

    Returns:
        (start, end) of each chunk.
    """
    groups: list[list[_Part]] = []
    for part in _sentence_parts(text, size, model):
        if groups and part.last - groups[-1][0].first <= size:
            groups[-1].append(part)
        else:
            groups.append([part])
    return [(group[0].start, group[-1].end) for group in groups]


def passage_chunks(document: Document, size: int, model: MeteredModel) -> list[Span]:
    """The spans (start, end) of a document's paragraphs, each with its title.

    A document that is not divided into paragraphs is one.

    Args:
        document: The document.
        size: Tokens of a paragraph at most; a longer one is cut as `clause_chunks` cuts it.
        model: The model whose tokens are counted.
    """
    text = document.text
    paragraphs = [(passage.start, passage.end) for passage in document.passages]
    chunks: list[Span] = []
    if not paragraphs:
        paragraphs = [(0, len(text))]
    for start, end in paragraphs:
        parts = clause_chunks(text[start:end], size, model)
        chunks += [(start + a, start + b) for a, b in parts]
    return chunks


class _Part(NamedTuple):
    """A sentence, or a piece of a long one: text[start:end], tokens [first, last) of the whole
    text."""

    start: int
    end: int
    first: int
    last: int


def _sentence_parts(text: str, max_tokens: int, model: MeteredModel) -> list[_Part]:
    """The sentences of a text in order, with their tokens.

    Args:
        text: The text.
        max_tokens: A sentence of more tokens is cut hard into several.
        model: The model whose tokens are counted.
    """
    starts = [start for start, _ in model.offsets(text)]
    parts: list[_Part] = []
    for sentence_start, sentence_end in sentences(text):
        first, last = _touched_tokens(starts, sentence_start, sentence_end)
        cuts = starts[first + max_tokens : last : max_tokens]
        for a, b in pairwise([sentence_start, *cuts, sentence_end]):
            start, end = trimmed(text, a, b)
            # Bytes of one character in two tokens share its offset: such a cut falls away.
            if start < end:
                parts.append(_Part(start, end, *_touched_tokens(starts, start, end)))
    return parts


def _touched_tokens(starts: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """The range of tokens that overlap a range of characters, as [first, last).

    Args:
        starts: The first character of each token; it may be the space before a word.
        start: The first character.
        end: The character after the last one.

    Returns:
        The number of the first token, and the number after that of the last.
    """
    first = bisect_right(starts, start) - 1  # the last token that starts at or before `start`
    last = bisect_left(starts, end)
    return max(0, first), last
