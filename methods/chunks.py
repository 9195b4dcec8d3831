"""Cutting a document by the model's own tokens (docs/methods/shared.md#chunks), or by words.

fixed_chunks      "abcdefgh", 3 tokens a chunk ──► spans (start, end) of characters that tile the text
overlapping_chunks   the same, each with the end of the one before it
word_chunks       so many words a chunk
with_sentence_ends   no chunk starts with the full stop of the sentence before it
shown_spans       spans of a document as what the reader saw

Chunks that end where sentences do are in packing.py.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from harness.models import MeteredModel
from harness.types import Document, Shown

Span = tuple[int, int]


def tiles(start: int, cuts: Sequence[int], end: int) -> list[Span]:
    """Spans that tile [start, end), cut at each place of `cuts`.

        0, [4, 4, 2, 7], 9 -> [(0, 4), (4, 7), (7, 9)]

    A cut that is not after the one before it is ignored.
    """
    kept = [start]
    for at in cuts:
        if at > kept[-1]:
            kept.append(at)
    return list(pairwise([*kept, end]))


def fixed_chunks(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Cut a text every `size` tokens; the last chunk is shorter, and an empty text has none.

    A cut that would fall inside a character (bytes of one character in two tokens) moves to the
    next boundary.

    Args:
        text: The text.
        size: Tokens of a chunk.
        model: The model whose tokens are counted.
    """
    offsets = model.offsets(text)
    if not offsets:
        return []
    token_starts = [start for start, _ in offsets]
    chunk_starts = token_starts[size::size]  # of the second chunk and those after it
    return tiles(0, chunk_starts, len(text))


def overlapping_chunks(text: str, size: int, overlap: int, model: MeteredModel) -> list[Span]:
    """Cut a text into chunks of tokens, each with the last ones of the chunk before it.

    Args:
        text: The text.
        size: Tokens of a chunk.
        overlap: Tokens that a chunk shares with the next one, fewer than `size`.
        model: The model whose tokens are counted.
    """
    offsets = model.offsets(text)
    spans: list[Span] = []
    for first in range(0, len(offsets), size - overlap):
        chunk = offsets[first : first + size]
        spans.append((chunk[0][0], chunk[-1][1]))
    return spans


def word_chunks(text: str, count: int) -> list[Span]:
    """The spans of chunks of `count` words, the last one with fewer; what stands between white
    space is a word.

        "One two three", 2 -> [(0, 7), (8, 13)]
    """
    words = list(re.finditer(r"\S+", text))
    spans: list[Span] = []
    for first in range(0, len(words), count):
        chunk = words[first : first + count]
        spans.append((chunk[0].start(), chunk[-1].end()))
    return spans


def trimmed(text: str, start: int, end: int) -> Span:
    """The span of text[start:end] without the white space around it.

        " One. ", 0, 6 -> (1, 5)

    Of white space alone the span is empty: its start is not before its end.
    """
    inside = text[start:end]
    return end - len(inside.lstrip()), start + len(inside.rstrip())


_REST_OF_SENTENCE = re.compile(r"[.!?,;:)\]}\"'\u2019\u201d\u3002\uff0c]*(?:\s+|\Z)")


def with_sentence_ends(text: str, spans: Sequence[Span]) -> list[Span]:
    r"""The spans of `text`, where marks that a cut parted from their sentence stay with it, without
    the white space around spans.

        "two years" | ".\n\nThe team"  ->  "two years." | "The team"
    """
    kept: list[Span] = []
    for start, end in spans:
        rest = _REST_OF_SENTENCE.match(text, start, end)
        if rest is not None and kept:
            first, _ = kept[-1]
            kept[-1] = trimmed(text, first, rest.end())
            start = rest.end()
        start, end = trimmed(text, start, end)
        if start < end:
            kept.append((start, end))
    return kept


def shifted(spans: Iterable[Span], by: int) -> list[Span]:
    """The spans of a part of a text as spans of the whole text.

        [(0, 3), (4, 7)], 100 -> [(100, 103), (104, 107)]

    Args:
        spans: Spans that count from the beginning of the part.
        by: Where the part starts in the whole text.
    """
    return [(start + by, end + by) for start, end in spans]


def texts_at(text: str, spans: Iterable[Span]) -> list[str]:
    """The substrings of `text` at `spans`, in their order."""
    return [text[start:end] for start, end in spans]


def stored(spans: Iterable[Span]) -> list[list[int]]:
    """Spans as an index holds them, JSON lists: [(0, 3)] -> [[0, 3]]."""
    return list(map(list, spans))


def shown_spans(document: Document, spans: Sequence[Span]) -> tuple[Shown, ...]:
    """The `spans` of `document` as an Answer says what the reader saw: a Shown of kind "span" for
    each."""
    return tuple(Shown("span", document.id, a, b) for a, b in spans)
