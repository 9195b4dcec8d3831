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
from methods.chunks import Span, spans_between_cuts, trimmed
from methods.sentences import sentence_ends

_CLAUSE = re.compile(r"[,;:](?=\s)|[\uff0c\uff1b\uff1a\u3001]")


def clause_chunks(text: str, max_tokens: int, model: MeteredModel) -> list[Span]:
    """Cut a text into spans of characters, in order, each of whole sentences where these fit.

    They tile the text but for parts of white space alone. Tokens are those of the whole text: a
    span encoded on its own may have one more or less. A character of several tokens is never cut.

    Args:
        text: The text.
        max_tokens: Tokens of a span at most.
        model: The model whose tokens are counted.

    Returns:
        (start, end) of each span; [] for a text of white space alone.
    """
    token_starts = [start for start, _ in model.offsets(text)]
    spans = _SentencePacking(text, token_starts, max_tokens).pack(0, len(text))
    return [(start, end) for start, end in spans if text[start:end].strip()]


class Packing(abc.ABC):
    """Cuts a text into spans of at most `max_tokens` tokens: at places of rank 0, such as the ends
    of sentences; what is longer between two of them, at places of rank 1, then 2 ...

    Attributes:
        text: The text.
        token_starts: The first character of each token.
        max_tokens: Most tokens of a span.
        last_rank: The last rank; what is still too long there stays so.
    """

    last_rank: int

    def __init__(self, text: str, token_starts: list[int], max_tokens: int) -> None:
        """Keep the text, the first character of each of its tokens, and the most tokens of a
        span."""
        self.text = text
        self.token_starts = token_starts
        self.max_tokens = max_tokens

    @abc.abstractmethod
    def places_to_cut(self, start: int, end: int, rank: int) -> Iterable[int]:
        """The places at which text[start:end] may be cut, in order; a cut is made before the
        character of that number.

        Args:
            start: The first character.
            end: The character after the last one.
            rank: Which places: those of rank 0 are the best to cut at, such as ends of sentences.
        """

    @abc.abstractmethod
    def token_count(self, start: int, end: int) -> int:
        """Tokens of text[start:end]."""

    def pack(self, start: int, end: int, rank: int = 0) -> Iterator[Span]:
        """Yield spans that tile text[start:end], each as long as it can be with `max_tokens` tokens
        at most.

        A part between two places that is too long alone is cut at places of the next rank, and
        stays too long after the rank `last_rank`.

        Args:
            start: Where the spans begin.
            end: Where they end.
            rank: The rank of the places at which they are cut.
        """
        places = [start, *self.places_to_cut(start, end, rank), end]
        open_start = start  # the span that grows is text[open_start:place]
        for place, next_place in pairwise(places):
            if self.token_count(open_start, next_place) <= self.max_tokens:
                continue
            if open_start < place:
                yield open_start, place
                open_start = place
            if self.token_count(place, next_place) > self.max_tokens and rank < self.last_rank:
                yield from self.pack(place, next_place, rank + 1)
                open_start = next_place
        if open_start < end:
            yield open_start, end


class _SentencePacking(Packing):
    """Cut at the ends of sentences, then of clauses, then where tokens begin."""

    last_rank = 2

    def places_to_cut(self, start: int, end: int, rank: int) -> Iterable[int]:
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
        (`Packing.pack`); a clause that is still too long is cut before every `max_tokens`-th token.

        Args:
            start: Where the spans begin.
            end: Where they end.
            rank: 0: cut at sentences first; 1: at clauses; 2: at tokens.
        """
        if rank < self.last_rank:
            return super().pack(start, end, rank)
        first_token = bisect_left(self.token_starts, start)
        end_token = bisect_left(self.token_starts, end)
        cuts = self.token_starts[first_token + self.max_tokens : end_token : self.max_tokens]
        return iter(spans_between_cuts(start, cuts, end))

    def token_count(self, start: int, end: int) -> int:
        """How many tokens begin in text[start:end]."""
        return bisect_left(self.token_starts, end) - bisect_left(self.token_starts, start)


def sentences(text: str) -> list[Span]:
    """Spans of the sentences, without the white space around them; a single line break ends
    none.

        "One. Two\nwords." -> [(0, 4), (5, 15)]
    """
    cuts = [0, *sentence_ends(text), len(text)]
    spans = [trimmed(text, start, end) for start, end in pairwise(cuts)]
    return [(start, end) for start, end in spans if start < end]


def sentence_chunks(
    text: str, sentences_per_chunk: int, max_tokens: int, model: MeteredModel
) -> list[Span]:
    """Cut a text into chunks of so many sentences; the last chunk may have fewer.

    Args:
        text: The text.
        sentences_per_chunk: Sentences of a chunk.
        max_tokens: A sentence of more tokens is cut hard, and counts as several.
        model: The model whose tokens are counted.

    Returns:
        (start, end) of each chunk.
    """
    parts = _sentence_parts(text, max_tokens, model)
    chunks: list[Span] = []
    for first_part in range(0, len(parts), sentences_per_chunk):
        group = parts[first_part : first_part + sentences_per_chunk]
        chunks.append((group[0].start, group[-1].end))
    return chunks


def packed_chunks(text: str, max_tokens: int, model: MeteredModel) -> list[Span]:
    """Pack whole sentences into chunks of at most `max_tokens` tokens; a longer sentence is cut
    hard.

    Tokens are those of the whole text: a chunk encoded on its own may have one or two more.

    Args:
        text: The text.
        max_tokens: Tokens of a chunk at most.
        model: The model whose tokens are counted.

    Returns:
        (start, end) of each chunk.
    """
    groups: list[list[_SentencePart]] = []
    for part in _sentence_parts(text, max_tokens, model):
        if groups and part.end_token - groups[-1][0].first_token <= max_tokens:
            groups[-1].append(part)
        else:
            groups.append([part])
    return [(group[0].start, group[-1].end) for group in groups]


def passage_chunks(document: Document, max_tokens: int, model: MeteredModel) -> list[Span]:
    """The spans (start, end) of a document's paragraphs, each with its title.

    A document that is not divided into paragraphs is one.

    Args:
        document: The document.
        max_tokens: Tokens of a paragraph at most; a longer one is cut as `clause_chunks` cuts it.
        model: The model whose tokens are counted.
    """
    text = document.text
    paragraphs = [(passage.start, passage.end) for passage in document.passages]
    chunks: list[Span] = []
    if not paragraphs:
        paragraphs = [(0, len(text))]
    for start, end in paragraphs:
        part_spans = clause_chunks(text[start:end], max_tokens, model)
        chunks += [(start + part_start, start + part_end) for part_start, part_end in part_spans]
    return chunks


class _SentencePart(NamedTuple):
    """A sentence, or a piece of a long one: text[start:end], tokens [first_token, end_token) of the
    whole text."""

    start: int
    end: int
    first_token: int
    end_token: int


def _sentence_parts(text: str, max_tokens: int, model: MeteredModel) -> list[_SentencePart]:
    """The sentences of a text in order, with their tokens.

    Args:
        text: The text.
        max_tokens: A sentence of more tokens is cut hard into several.
        model: The model whose tokens are counted.
    """
    token_starts = [start for start, _ in model.offsets(text)]
    parts: list[_SentencePart] = []
    for sentence_start, sentence_end in sentences(text):
        first_token, end_token = _touched_tokens(token_starts, sentence_start, sentence_end)
        cuts = token_starts[first_token + max_tokens : end_token : max_tokens]
        for part_start, part_end in pairwise([sentence_start, *cuts, sentence_end]):
            start, end = trimmed(text, part_start, part_end)
            # Bytes of one character in two tokens share its offset: such a cut falls away.
            if start < end:
                parts.append(_SentencePart(start, end, *_touched_tokens(token_starts, start, end)))
    return parts


def _touched_tokens(token_starts: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """The range of tokens that overlap a range of characters, as
    [first_token, end_token).

    Args:
        token_starts: The first character of each token; it may be the space before a word.
        start: The first character.
        end: The character after the last one.

    Returns:
        The number of the first token, and the number after that of the last.
    """
    # The last token that starts at or before `start`.
    first_token = bisect_right(token_starts, start) - 1
    end_token = bisect_left(token_starts, end)
    return max(0, first_token), end_token
