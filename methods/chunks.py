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


def spans_between_cuts(start: int, cuts: Sequence[int], end: int) -> list[Span]:
    """Spans that tile [start, end), cut at each place of `cuts`.

        0, [4, 4, 2, 7], 9 -> [(0, 4), (4, 7), (7, 9)]

    A cut that is not after the one before it is ignored.
    """
    boundaries = [start]
    for cut in cuts:
        if cut > boundaries[-1]:
            boundaries.append(cut)
    return list(pairwise([*boundaries, end]))


def fixed_chunks(text: str, chunk_tokens: int, model: MeteredModel) -> list[Span]:
    """Cut a text every `chunk_tokens` tokens; the last chunk is shorter, and an empty text has
    none.

    Where two tokens are bytes of one character, a cut between them falls where the offsets say that
    the second one starts: before the character or after it.

    Args:
        text: The text.
        chunk_tokens: Tokens of a chunk.
        model: The model whose tokens are counted.
    """
    offsets = model.offsets(text)
    if not offsets:
        return []
    token_starts = [start for start, _ in offsets]
    starts_after_first_chunk = token_starts[chunk_tokens::chunk_tokens]
    return spans_between_cuts(0, starts_after_first_chunk, len(text))


def overlapping_chunks(
    text: str, chunk_tokens: int, overlap_tokens: int, model: MeteredModel
) -> list[Span]:
    """Cut a text into chunks of tokens, each with the last ones of the chunk before it.

    Of 10 tokens, with chunks of 4 and an overlap of 2, these are tokens 0-4, 2-6, 4-8, 6-10, 8-10.

    Args:
        text: The text.
        chunk_tokens: Tokens of a chunk.
        overlap_tokens: Tokens that a chunk shares with the next one, fewer than `chunk_tokens`.
        model: The model whose tokens are counted.
    """
    offsets = model.offsets(text)
    spans: list[Span] = []
    for first_token in range(0, len(offsets), chunk_tokens - overlap_tokens):
        chunk = offsets[first_token : first_token + chunk_tokens]
        spans.append((chunk[0][0], chunk[-1][1]))
    return spans


def word_chunks(text: str, chunk_words: int) -> list[Span]:
    """The spans of chunks of `chunk_words` words, the last one with fewer; what stands between
    white space is a word.

        "One two three", 2 -> [(0, 7), (8, 13)]
    """
    words = list(re.finditer(r"\S+", text))
    spans: list[Span] = []
    for first_word in range(0, len(words), chunk_words):
        chunk = words[first_word : first_word + chunk_words]
        spans.append((chunk[0].start(), chunk[-1].end()))
    return spans


def trimmed(text: str, start: int, end: int) -> Span:
    """The span of text[start:end] without the white space around it.

        " One. ", 0, 6 -> (1, 5)

    Of white space alone the span is empty: its start is not before its end.
    """
    part = text[start:end]
    return end - len(part.lstrip()), start + len(part.rstrip())


_REST_OF_SENTENCE = re.compile(r"[.!?,;:)\]}\"'\u2019\u201d\u3002\uff0c]*(?:\s+|\Z)")


def with_sentence_ends(text: str, spans: Sequence[Span]) -> list[Span]:
    r"""The spans of `text`, where marks that a cut parted from their sentence stay with it, without
    the white space around spans.

        "two years" | ".\n\nThe team"  ->  "two years." | "The team"
    """
    mended: list[Span] = []
    for start, end in spans:
        rest_of_sentence = _REST_OF_SENTENCE.match(text, start, end)
        if rest_of_sentence is not None and mended:
            start_before, _ = mended[-1]
            mended[-1] = trimmed(text, start_before, rest_of_sentence.end())
            start = rest_of_sentence.end()
        start, end = trimmed(text, start, end)
        if start < end:
            mended.append((start, end))
    return mended


def shifted(spans: Iterable[Span], offset: int) -> list[Span]:
    """The spans of a part of a text as spans of the whole text.

        [(0, 3), (4, 7)], 100 -> [(100, 103), (104, 107)]

    Args:
        spans: Spans that count from the beginning of the part.
        offset: Where the part starts in the whole text.
    """
    return [(start + offset, end + offset) for start, end in spans]


def texts_at(text: str, spans: Iterable[Span]) -> list[str]:
    """The substrings of `text` at `spans`, in their order."""
    return [text[start:end] for start, end in spans]


def spans_as_lists(spans: Iterable[Span]) -> list[list[int]]:
    """Spans as an index holds them, JSON lists: [(0, 3)] -> [[0, 3]]."""
    return list(map(list, spans))


def shown_spans(document: Document, spans: Sequence[Span]) -> tuple[Shown, ...]:
    """The `spans` of `document` as an Answer says what the reader saw: a Shown of kind "span" for
    each."""
    return tuple(Shown("span", document.id, start, end) for start, end in spans)
