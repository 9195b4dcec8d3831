"""What is kept of a text that is too long: its first, its last, or its first and its last
tokens."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from harness.models import MeteredModel
from methods.chunks import Span

Side = Literal["ends", "left", "right"]


_ENDS_KEPT: dict[Side, tuple[str, ...]] = {
    "ends": ("left", "right"),
    "left": ("left",),
    "right": ("right",),
}
"""The ends of a text that stay."""


class KeptSpans(NamedTuple):
    """What stays of a text that is cut.

    Attributes:
        spans: The spans that stay: one if all fits, none if nothing does.
        tokens_of_text: How many tokens the whole text has.
    """

    spans: list[Span]
    tokens_of_text: int


def kept_spans(
    text: str, max_tokens: int, model: MeteredModel, *, kept_side: Side = "ends"
) -> KeptSpans:
    """Cut a text to a number of tokens; no span is left where not one token at each end fits.

    The result may have fewer tokens, where a part that was cut inside a word becomes longer when it
    is encoded on its own.

    Args:
        text: The text.
        max_tokens: Most tokens that stay.
        model: The model whose tokens are counted.
        kept_side: "ends" is LongBench's truncation: int(max_tokens / 2) tokens at each end; "left"
            and "right" keep one end (docs/methods/retrieval.md#window).
    """
    offsets = model.offsets(text)
    if len(offsets) <= max_tokens:
        return KeptSpans([(0, len(text))], len(offsets))
    n_ends = len(_ENDS_KEPT[kept_side])
    tokens_per_end = max_tokens // n_ends
    while tokens_per_end > 0:
        left_end = (0, offsets[tokens_per_end - 1][1])
        right_end = (offsets[-tokens_per_end][0], len(text))
        span_at = {"left": left_end, "right": right_end}
        spans = [span_at[name] for name in _ENDS_KEPT[kept_side]]
        excess_tokens = sum(model.count(text[start:end]) for start, end in spans) - max_tokens
        if excess_tokens <= 0:
            return KeptSpans(spans, len(offsets))
        tokens_per_end -= math.ceil(excess_tokens / n_ends)
    return KeptSpans([], len(offsets))


def join_spans(spans: Sequence[Span]) -> list[Span]:
    """Spans in order, those that touch joined to one: [(0, 3), (3, 5), (6, 8)] -> [(0, 5),
    (6, 8)]."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
