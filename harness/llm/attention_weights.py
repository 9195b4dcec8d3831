"""Attention weights of some query rows from queries and keys, for blocks of rows at a time."""

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 64
Ranges = Sequence[tuple[int, int]]


def block_weights(query: Tensor, key: Tensor, first: int, spans: Ranges, scaling: float) -> Tensor:
    """Mean attention of each query row to each span of keys, averaged over heads and the span's tokens.

    query: [heads, rows, size], row i standing at position `first` + i; key: [kv_heads, tokens, size]; scaling: factor
    of the scores. Returns float32 [rows, spans]. At most BLOCK x tokens weights a head exist at a time.
    """
    picked = span_indicator(spans, key.shape[1], key.device)
    out = torch.zeros(query.shape[1], len(spans), device=key.device)
    for r, weights in weight_blocks(query, key, first, scaling):
        out[r : r + BLOCK] = weights.mean(0) @ picked[: weights.shape[-1]]
    return out


def weight_blocks(query: Tensor, key: Tensor, first: int, scaling: float) -> Iterator[tuple[int, Tensor]]:
    """Yield (first row, weights [heads, BLOCK rows, keys up to the last]) of each block; parameters: block_weights."""
    heads, rows, _ = query.shape
    kv_heads = key.shape[0]
    for r in range(0, rows, BLOCK):
        q = query[:, r : r + BLOCK].float()
        last = first + r + q.shape[1]
        k = key[:, :last].float()
        # Heads that share a key/value head are laid side by side as rows: no copy of the keys.
        q = q.reshape(kv_heads, heads // kv_heads * q.shape[1], -1)
        scores = (q @ k.transpose(-1, -2)).mul_(scaling).view(heads, -1, last)
        position = torch.arange(first + r, last, device=key.device)
        later = torch.arange(last, device=key.device)[None] > position[:, None]
        yield r, scores.masked_fill_(later, float("-inf")).softmax(-1)


def span_columns(spans: Ranges, device: torch.device) -> tuple[Tensor, Tensor]:
    """Positions of the spans' keys, int64 [columns], and the `span_indicator` [columns, spans] of these columns."""
    ends = list(itertools.accumulate((b - a for a, b in spans), initial=0))
    columns = torch.tensor([n for a, b in spans for n in range(a, b)], device=device)
    return columns, span_indicator(list(itertools.pairwise(ends)), ends[-1], device)


def column_weights(query: Tensor, key: Tensor, lse: Tensor, columns: Tensor, picked: Tensor, scaling: float) -> Tensor:
    """As `block_weights`, from the log-sum-exp [heads, rows] of the rows' scores: only the spans' keys are read.

    columns, picked: of `span_columns`. Every span precedes the rows, so that no score is masked.
    """
    heads, _, size = query.shape
    kv_heads = key.shape[0]
    k = key.index_select(1, columns).float().transpose(-1, -2)
    step = max(BLOCK, BLOCK * 256 // len(columns))  # as many weights as BLOCK rows of 256 columns, or BLOCK rows
    parts = []
    for q, sums in zip(torch.split(query.float(), step, 1), torch.split(lse.float(), step, 1), strict=True):
        scores = (q.reshape(kv_heads, -1, size) @ k).mul_(scaling).view(heads, -1, len(columns))
        parts.append(scores.sub_(sums[:, :, None]).exp_().mean(0) @ picked)
    return torch.cat(parts)


def span_indicator(spans: Ranges, tokens: int, device: torch.device) -> Tensor:
    """Float32 [tokens, spans]: 1 / length of the span for the tokens that stand in it, 0 for the others."""
    picked = torch.zeros(tokens, len(spans))
    for i, (a, b) in enumerate(spans):
        picked[a:b, i] = 1 / (b - a)
    return picked.to(device)
