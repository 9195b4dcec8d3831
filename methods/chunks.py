"""Cutting a document: by the model's own tokens (docs/methods/shared.md#chunks), by sentences, or down to its ends.

fixed_chunks      "abcdefgh", 3 tokens a chunk ──► spans (start, end) of characters that tile the text
sentence_chunks   so many whole sentences a chunk          packed_chunks   whole sentences up to so many tokens
keep              the first, the last, or the first and the last tokens of a text
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from harness.models import MeteredModel
from harness.types import Document, Shown

Span = tuple[int, int]
Side = Literal["ends", "left", "right"]

# A sentence ends behind its closing marks (and quotes or brackets) where white space follows, behind Chinese marks
# wherever they stand, and at a blank line; a single line break is how a printed page wraps, not an end. The look-behind
# and the possessive "+" keep a text of 200,000 full stops linear.
_END = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019)\]]*+(?=\s)"
    r"|[\u3002\uff01\uff1f]++[\"'\u201d\u2019\u300d\u300f\uff09)\]]*+"
    r"|\n[^\S\n]*+\n\s*+"
)


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


def sentences(text: str) -> list[Span]:
    """Spans of the sentences, without the white space around them. Rules only: "Dr. No" is cut in two."""
    cuts = [0, *(match.end() for match in _END.finditer(text)), len(text)]
    return [span for a, b in pairwise(cuts) if (span := _trimmed(text, a, b))[0] < span[1]]


def sentence_chunks(text: str, count: int, most: int, model: MeteredModel) -> list[Span]:
    """`count` sentences a chunk, the last one short; one of more than `most` tokens counts as several, cut hard."""
    parts = _parts(text, most, model)
    groups = (parts[i : i + count] for i in range(0, len(parts), count))
    return [(group[0].start, group[-1].end) for group in groups]


def packed_chunks(text: str, size: int, model: MeteredModel) -> list[Span]:
    """Whole sentences packed up to `size` tokens; a longer one is cut hard.

    Tokens are those of the whole text: a chunk encoded on its own may have one or two more.
    """
    groups: list[list[_Part]] = []
    for part in _parts(text, size, model):
        if groups and part.last - groups[-1][0].first <= size:
            groups[-1].append(part)
        else:
            groups.append([part])
    return [(group[0].start, group[-1].end) for group in groups]


class _Part(NamedTuple):
    """A sentence, or a piece of a long one: text[start:end], tokens [first, last) of the whole text."""

    start: int
    end: int
    first: int
    last: int


def _parts(text: str, most: int, model: MeteredModel) -> list[_Part]:
    """Sentences of `most` tokens at most, longer ones cut hard."""
    starts = [start for start, _ in model.offsets(text)]
    parts: list[_Part] = []
    for a, b in sentences(text):
        first, last = _tokens(starts, a, b)
        cuts = [a, *(starts[i] for i in range(first + most, last, most)), b]
        for c, d in pairwise(cuts):
            start, end = _trimmed(text, c, d)
            if start < end:  # bytes of one character in two tokens share its offset: such a cut falls away
                parts.append(_Part(start, end, *_tokens(starts, start, end)))
    return parts


def _tokens(starts: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """The tokens that characters [start, end) touch; a token may begin with the space before `start`."""
    return max(0, bisect_right(starts, start) - 1), bisect_left(starts, end)


def _trimmed(text: str, start: int, end: int) -> Span:
    inside = text[start:end]
    return end - len(inside.lstrip()), start + len(inside.rstrip())


def keep(text: str, most: int, model: MeteredModel, side: Side = "ends") -> tuple[list[Span], int]:
    """Spans that keep `most` tokens of the text, and the number of tokens of the whole text; one span if all fits.

    "ends" is LongBench's truncation: int(most / 2) tokens at each end; "left" and "right" keep one end
    (docs/methods/retrieval.md#window). Fewer are kept where a cut inside a word or character makes a part longer when
    encoded on its own.
    """
    offsets = model.offsets(text)
    if len(offsets) <= most:
        return [(0, len(text))], len(offsets)
    ends = 2 if side == "ends" else 1
    share = most // ends
    while share > 0:
        left, right = (0, offsets[share - 1][1]), (offsets[-share][0], len(text))
        spans = {"ends": [left, right], "left": [left], "right": [right]}[side]
        over = sum(model.count(text[a:b]) for a, b in spans) - most
        if over <= 0:
            return spans, len(offsets)
        share -= -(-over // ends)
    return [], len(offsets)


def keep_middle_out(text: str, most: int, model: MeteredModel) -> tuple[list[Span], int]:
    """As `keep` with both ends: its middle is cut out."""
    return keep(text, most, model, "ends")


def shown_spans(document: Document, spans: Sequence[Span]) -> tuple[Shown, ...]:
    """The spans of `document` as what the reader saw."""
    return tuple(Shown("span", document.id, a, b) for a, b in spans)
