"""Cutting a document by the model's own tokens (facts 1.6, points 1 and 31).

"abcdefgh", 3 tokens a chunk ──► spans (start, end) of characters that tile the text without gap or overlap
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.llm.base import MeteredModel
from harness.types import Document, Shown

__all__ = ["Span", "fixed_chunks", "keep_middle_out", "shown_spans"]

Span = tuple[int, int]


def fixed_chunks(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Hard cut every `size` tokens of `model`'s tokenizer, the last chunk short; [] for an empty text.

    A cut that would fall inside a character (bytes of one character in two tokens) moves to the next boundary.
    """
    offsets = model.offsets(text)
    if not offsets:
        return []
    cuts = [0]
    for i in range(size, len(offsets), size):
        at = max(offsets[i][0], cuts[-1])
        if at > cuts[-1]:
            cuts.append(at)
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))


def keep_middle_out(text: str, most: int, model: MeteredModel) -> tuple[list[Span], int]:
    """Spans that keep the first and the last half of `most` tokens, and the number of tokens of the whole text.

    LongBench's truncation (facts 8.1): int(most / 2) tokens at each end, fewer where a cut inside a word or character
    makes a half longer when it is encoded on its own; one span when everything fits.
    """
    offsets = model.offsets(text)
    if len(offsets) <= most:
        return [(0, len(text))], len(offsets)
    half = most // 2
    while half > 0:
        spans = [(0, offsets[half - 1][1]), (offsets[-half][0], len(text))]
        over = sum(model.count(text[a:b]) for a, b in spans) - most
        if over <= 0:
            return spans, len(offsets)
        half -= (over + 1) // 2
    return [], len(offsets)


def shown_spans(document: Document, spans: Sequence[Span]) -> tuple[Shown, ...]:
    """The spans of `document` as what the reader saw."""
    return tuple(Shown("span", document.id, a, b) for a, b in spans)
