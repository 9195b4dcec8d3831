"""Meta-Chunking by perplexity (arXiv 2410.12788; facts 7.5).

    PPL_i = mean negative log-probability of the tokens of sentence i behind all sentences before it
    a segment ends behind sentence i where PPL_i is a local minimum: below PPL_{i-1}, not above PPL_{i+1}, and the fall
    to it or the rise behind it is the threshold at least (where PPL_i = PPL_{i+1}, it is the fall that counts)

The first sentence of a window counts without its first token, which nothing comes before. Differences from the released
code: a long sentence loses no text, sentences are found by rule, and white space between them stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from harness.llm.base import MeteredModel
from methods.chunks import Span, packed_chunks, sentences

__all__ = ["boundaries", "perplexities", "segments"]


def boundaries(ppl: Sequence[float], threshold: float) -> list[int]:
    """Numbers of the sentences that end a segment, but for the last one."""
    found = []
    for i in range(1, len(ppl) - 1):
        fall, rise = ppl[i - 1] - ppl[i], ppl[i + 1] - ppl[i]
        strict = fall > 0 and rise > 0 and (fall >= threshold or rise >= threshold)
        if strict or (rise == 0 and fall > 0 and fall >= threshold):
            found.append(i)
    return found


def perplexities(text: str, spans: Sequence[Span], model: MeteredModel, room: int) -> list[float]:
    """PPL of each sentence of text[a:b], in nats; the text is scored in windows of whole sentences, `room` tokens each.

    A sentence longer than that is scored by its first `room` tokens.
    """
    found: list[float] = []
    at = 0
    while at < len(spans):
        end = at + 1
        while end < len(spans) and model.count(text[spans[at][0] : spans[end][1]]) <= room:
            end += 1
        found += _window(text, spans[at:end], model, room)
        at = end
    return found


def _window(text: str, spans: Sequence[Span], model: MeteredModel, room: int) -> list[float]:
    """PPL of sentences that are scored together."""
    start = spans[0][0]
    inside = text[start : spans[-1][1]]
    offsets = model.offsets(inside)
    if len(offsets) > room:
        inside = inside[: offsets[room - 1][1]]
    with model.session() as s:
        s.user()
        scores = s.score(inside)
    offsets = model.offsets(inside)
    sums, counts = [0.0] * len(spans), [0] * len(spans)
    firsts = [a - start for a, _ in spans]
    for (_, stop), score in list(zip(offsets, scores, strict=True))[1:]:
        # A token may begin with the space before a sentence: its last character says where it belongs.
        owner = max(0, bisect_right(firsts, max(stop - 1, 0)) - 1)
        sums[owner] -= score
        counts[owner] += 1
    return [total / count if count else 0.0 for total, count in zip(sums, counts, strict=True)]


def segments(text: str, threshold: float, most: int, model: MeteredModel, window: int) -> list[Span]:
    """The segments of `text`; one of more than `most` tokens is cut at the ends of sentences.

    window: tokens that are scored together at most (fewer where the model's window is shorter).
    """
    spans = sentences(text)
    if not spans:
        return []
    room = max(1, min(window, model.window - model.turn_tokens()))
    ends = [*boundaries(perplexities(text, spans, model, room), threshold), len(spans) - 1]
    found: list[Span] = []
    first = 0
    for last in ends:
        a, b = spans[first][0], spans[last][1]
        first = last + 1
        if model.count(text[a:b]) <= most:
            found.append((a, b))
        else:
            found += [(a + c, a + d) for c, d in packed_chunks(text[a:b], most, model)]
    return found
