"""Meta-Chunking by perplexity (arXiv 2410.12788; docs/methods/longrefiner.md#meta-chunking).

    PPL_i = mean negative log-probability of the tokens of sentence i behind all sentences before it
    a segment ends behind sentence i where PPL_i is a local minimum: below PPL_{i-1}, not above PPL_{i+1}, and the fall
    to it or the rise behind it is the threshold at least (where PPL_i = PPL_{i+1}, it is the fall that counts)

    long text:  | context ............ | window of whole sentences, scored |     context and window: `most` tokens

The first sentence of a text counts without its first token, which nothing comes before. Differences from the released
code: a long sentence loses no text, a rule finds the sentences, white space between them stays, and what a window of
a long text is read behind is fed anew, the latest tokens before it, where the released code goes on with its cache and
trims it above 24,576.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from harness.models import MeteredModel
from methods.chunks import Span, packed_chunks, sentences

CONTEXT = 24_576  # tokens that a sentence is scored behind, its window included, as in the released code
SLACK = 8  # tokens that a part of a text may have more when it is encoded on its own


def boundaries(ppl: Sequence[float], threshold: float) -> list[int]:
    """Numbers of the sentences that end a segment, but for the last one."""
    minima = []
    for i in range(1, len(ppl) - 1):
        fall, rise = ppl[i - 1] - ppl[i], ppl[i + 1] - ppl[i]
        strict = fall > 0 and rise > 0 and (fall >= threshold or rise >= threshold)
        if strict or (rise == 0 and fall > 0 and fall >= threshold):
            minima.append(i)
    return minima


def perplexities(text: str, spans: Sequence[Span], model: MeteredModel, most: int, window: int) -> list[float]:
    """PPL of each sentence of text[a:b], in nats.

    The text is scored in windows of whole sentences, `window` tokens each (half of `most` where that is fewer and the
    text has several), behind the tokens before it that make it `most` together. A sentence longer than a window is
    scored by its beginning.
    """
    if not spans:
        return []
    starts = [start for start, _ in model.offsets(text)]

    def token(character: int) -> int:
        return bisect_left(starts, character)

    size = min(window, most)
    if len(spans) > 1 and token(spans[-1][1]) - token(spans[0][0]) > size:
        size = max(1, min(window, most // 2))
    values: list[float] = []
    at = 0
    while at < len(spans):
        begin = spans[at - 1][1] if at else spans[0][0]  # the white space before a sentence is scored with it
        end = at + 1
        while end < len(spans) and token(spans[end][1]) - token(begin) <= size:
            end += 1
        first = max(0, token(begin) - max(0, most - size - SLACK)) if at else token(begin)
        before = text[starts[first] : begin] if first < token(begin) else ""
        values += _window(before, text[begin : spans[end - 1][1]], [a - begin for a, _ in spans[at:end]], size, model)
        at = end
    return values


def _window(before: str, inside: str, firsts: list[int], size: int, model: MeteredModel) -> list[float]:
    """PPL of the sentences of `inside` that begin at characters `firsts`, behind `before`."""
    offsets = model.offsets(inside)
    if len(offsets) > size + (SLACK if len(firsts) > 1 else 0):
        inside = inside[: offsets[size - 1][1]]
        offsets = model.offsets(inside)
    with model.session() as s:
        s.begin_text()
        s.user(before)
        scores = s.score(inside)
    sums, counts = [0.0] * len(firsts), [0] * len(firsts)
    for (_, stop), score in list(zip(offsets, scores, strict=True))[0 if before else 1 :]:
        # A token may begin with the space before a sentence: its last character says where it belongs.
        owner = max(0, bisect_right(firsts, max(stop - 1, 0)) - 1)
        sums[owner] -= score
        counts[owner] += 1
    return [total / count if count else 0.0 for total, count in zip(sums, counts, strict=True)]


def segments(text: str, threshold: float, most: int, model: MeteredModel, window: int) -> list[Span]:
    """The segments of `text`; one of more than `most` tokens is cut at the ends of sentences.

    window: tokens that are scored together at most (fewer where the model's window is shorter); they are read behind
    as many as make it CONTEXT, or the model's window.
    """
    spans = sentences(text)
    if not spans:
        return []
    room = max(1, min(CONTEXT, model.window - model.turn_tokens() - SLACK))
    ends = [*boundaries(perplexities(text, spans, model, room, window), threshold), len(spans) - 1]
    pieces: list[Span] = []
    first = 0
    for last in ends:
        a, b = spans[first][0], spans[last][1]
        first = last + 1
        if model.count(text[a:b]) <= most:
            pieces.append((a, b))
        else:
            pieces += [(a + c, a + d) for c, d in packed_chunks(text[a:b], most, model)]
    return pieces
