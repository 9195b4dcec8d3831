"""What is kept of a text that is too long: its first, its last, or its first and its last
tokens."""

from collections.abc import Sequence
from typing import Literal

from harness.models import MeteredModel
from methods.chunks import Span

Side = Literal["ends", "left", "right"]


def kept_spans(
    text: str, max_tokens: int, model: MeteredModel, side: Side = "ends"
) -> tuple[list[Span], int]:
    """Spans that keep `max_tokens` of the text, and the number of tokens of the whole text; one
    span if all fits.

    "ends" is LongBench's truncation: int(max_tokens / 2) tokens at each end; "left" and "right"
    keep one end (docs/methods/retrieval.md#window). Fewer are kept where a cut inside a word or
    character makes a part longer when encoded on its own.
    """
    offsets = model.offsets(text)
    if len(offsets) <= max_tokens:
        return [(0, len(text))], len(offsets)
    ends = 2 if side == "ends" else 1
    share = max_tokens // ends
    while share > 0:
        left, right = (0, offsets[share - 1][1]), (offsets[-share][0], len(text))
        spans = {"ends": [left, right], "left": [left], "right": [right]}[side]
        over = sum(model.count(text[a:b]) for a, b in spans) - max_tokens
        if over <= 0:
            return spans, len(offsets)
        share -= -(-over // ends)
    return [], len(offsets)


def join_spans(spans: Sequence[Span]) -> list[Span]:
    """Spans in order, those that touch joined."""
    whole: list[Span] = []
    for start, end in spans:
        if whole and whole[-1][1] == start:
            whole[-1] = (whole[-1][0], end)
        else:
            whole.append((start, end))
    return whole
