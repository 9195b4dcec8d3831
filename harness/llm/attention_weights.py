"""Attention weights of some query rows from queries and keys, for blocks of rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

BLOCK = 64
Ranges = Sequence[tuple[int, int]]


def block_weights(query: Tensor, key: Tensor, first: int, spans: Ranges, scaling: float) -> Tensor:
    """Mean attention of each query row to each span of keys, averaged over heads and the span's
    tokens.

    query: [heads, rows, size], row i standing at position `first` + i; key: [kv_heads, tokens,
    size]; scaling: factor of the scores. Returns float32 [rows, spans]. At most BLOCK x tokens
    weights a head exist at a time.
    """
    picked = span_indicator(spans, key.shape[1], key.device)
    out = torch.zeros(query.shape[1], len(spans), device=key.device)
    for r, weights in weight_blocks(query, key, first, scaling):
        out[r : r + BLOCK] = weights.mean(0) @ picked[: weights.shape[-1]]
    return out


def weight_blocks(
    query: Tensor, key: Tensor, first: int, scaling: float
) -> Iterator[tuple[int, Tensor]]:
    """Yield (first row, weights [heads, BLOCK rows, keys up to the last]) of each block;
    parameters: block_weights."""
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


def span_weights(query: Tensor, key: Tensor, lse: Tensor, picked: Tensor, scaling: float) -> Tensor:
    """As `block_weights` for several layers and requests, from log-sum-exps: only the spans' keys
    are read.

    query: [layers, requests, heads, rows, size]; key: [layers, requests, columns, kv_heads, size],
    of the spans; lse: [layers, requests, heads, rows], of the rows' scores; picked: [requests,
    columns, spans], 1 / length of a column's span (`span_columns`). Every span precedes the rows,
    so no score is masked. Returns float32 [requests, rows, spans], summed over the layers.
    """
    layers, requests, heads, rows, size = query.shape
    kv_heads = key.shape[3]
    # Heads that share a key/value head are laid side by side as rows: no copy of the keys.
    q = query.float().reshape(layers * requests * kv_heads, -1, size)
    k = key.float().permute(0, 1, 3, 4, 2).reshape(len(q), size, -1)
    weights = torch.baddbmm(lse.float().reshape(len(q), -1, 1), q, k, beta=-1, alpha=scaling).exp_()
    return weights.view(layers, requests, heads, rows, -1).sum((0, 2)).div_(heads) @ picked


@dataclass
class _Group:
    """Requests of about one size, padded to the same numbers of rows and columns.

    totals: where each one's sums belong, and how many rows it has; rows, columns: int64 [requests,
    rows or columns], indices into the batch's queries and the keys; picked: [requests, columns,
    spans]; sums: [requests, rows, spans].
    """

    totals: list[tuple[np.ndarray, int]]
    rows: Tensor
    columns: Tensor
    picked: Tensor
    sums: Tensor


class WatchedRows:
    """The watched rows of one batch: of each layer their queries, log-sum-exps and watched keys,
    then one reduction.

    A layer costs three launches, whatever the number of requests; reduced layer by layer they were
    15 a request.
    requests: for each the array that its sums over the layers are added to ([rows, spans]; [spans]
    for the sum over its rows, too), its rows among the batch's, its spans of keys. layers: at most
    so many are reduced at once; 1 on a CPU.
    """

    def __init__(self, requests: Sequence[tuple[np.ndarray, range, Ranges]], layers: int) -> None:
        self._requests, self._layers = requests, layers
        self._groups: list[_Group] = []
        self._held: list[tuple[Tensor, Tensor, Tensor]] = []
        self._most = 1
        self._scaling = 1.0

    def take(self, query: Tensor, key: Tensor, lse: Tensor, scaling: float) -> None:
        """Add one layer. query: [heads, rows of the batch, size]; key: [tokens, kv_heads, size];
        lse: [heads, rows]."""
        if not self._requests:
            return
        if self._groups and self._groups[0].rows.device != query.device:
            self.finish()  # the next layers are on another device
            self._groups = []
        if not self._groups:
            self._plan(query.device, query.shape[0], query.shape[2], key.shape[1] * key.shape[2])
        self._scaling = scaling
        self._held.append((query[:, self._rows], key[self._columns], lse[:, self._rows]))
        if len(self._held) >= self._most:
            self._reduce()

    def _plan(self, device: torch.device, heads: int, size: int, key_size: int) -> None:
        """Group the requests, and decide how many layers are held at once. size, key_size: of a row
        and of a key."""
        # Weights of a head: 1 GiB for all heads and layers together, or as many as the cache of a
        # CPU core holds.
        room = 2**28 // heads if self._layers > 1 else BLOCK * 256
        sized = [
            (sum(b - a for a, b in spans), total, rows, spans)
            for total, rows, spans in self._requests
        ]
        pieces = [
            (columns, rows[n : n + step], total if total.ndim == 1 else total[n : n + step], spans)
            for columns, total, rows, spans in sorted(sized, key=lambda item: item[0])
            for step in [max(BLOCK, room // columns)]
            for n in range(0, len(rows), step)
        ]
        groups: list[list[Any]] = []
        for piece in pieces:
            most_rows = max(len(rows) for _, rows, *_ in [*(groups[-1] if groups else []), piece])
            fits = groups and (len(groups[-1]) + 1) * most_rows * piece[0] * self._layers <= room
            if not groups or not fits or piece[0] > 2 * groups[-1][0][0] + BLOCK:
                groups.append([])
            groups[-1].append(piece)
        self._groups = [_padded(group, device) for group in groups]
        self._rows, self._columns = (
            torch.cat([getattr(group, name).flatten() for group in self._groups])
            for name in ("rows", "columns")
        )
        largest = max(group.rows.numel() * group.columns.shape[1] for group in self._groups)
        kept = (
            len(self._columns) * key_size // heads + len(self._rows) * size
        )  # numbers of a layer and head
        self._most = max(1, min(self._layers, room // max(largest, kept)))

    def _reduce(self) -> None:
        """Add the weights of the layers that are held to the sums of each group."""
        if not self._held:
            return
        query, key, lse = (torch.stack(states) for states in zip(*self._held, strict=True))
        self._held = []
        layers, heads, _, size = query.shape
        row = column = 0
        for group in self._groups:
            (requests, rows), columns = group.rows.shape, group.columns.shape[1]
            part = slice(row, row := row + requests * rows)
            q = query[:, :, part].reshape(layers, heads, requests, rows, size).transpose(1, 2)
            sums = lse[:, :, part].reshape(layers, heads, requests, rows).transpose(1, 2)
            k = key[:, column : (column := column + requests * columns)].reshape(
                layers, requests, columns, -1, size
            )
            group.sums += span_weights(q, k, sums, group.picked, self._scaling)

    def finish(self) -> None:
        """Add the sums so far to the arrays of the requests."""
        self._reduce()
        if self._groups:
            flat_sums, start = (
                torch.cat([group.sums.flatten() for group in self._groups]).cpu().numpy(),
                0,
            )
            for group in self._groups:
                flat = flat_sums[start : (start := start + group.sums.numel())]
                for (total, rows), sums in zip(
                    group.totals, flat.reshape(group.sums.shape), strict=True
                ):
                    part = sums[:rows, : total.shape[-1]]
                    total += part if total.ndim == 2 else part.sum(0)
                group.sums.zero_()


def span_columns(spans: Ranges) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the spans' keys, int64 [columns], and float32 [columns, spans]: 1 / length of a
    column's span."""
    size, offset = sum(b - a for a, b in spans), 0
    columns, picked = np.zeros(size, np.int64), np.zeros((size, len(spans)), np.float32)
    for i, (a, b) in enumerate(spans):
        columns[offset : offset + b - a] = range(a, b)
        picked[offset : (offset := offset + b - a), i] = 1 / (b - a)
    return columns, picked


def _padded(pieces: Sequence[Any], device: torch.device) -> _Group:
    """The group of these requests (number of columns, rows, sums, spans); the first rows and keys
    pad the shorter."""
    most_rows, most_columns = (max(len(p[1]) for p in pieces), max(p[0] for p in pieces))
    most_spans = max(len(p[3]) for p in pieces)
    rows, columns = (np.zeros((len(pieces), most), np.int64) for most in (most_rows, most_columns))
    picked = np.zeros((len(pieces), most_columns, most_spans), np.float32)
    for n, (size, indices, _, spans) in enumerate(pieces):
        rows[n] = indices[0]
        rows[n, : len(indices)] = indices
        columns[n] = spans[0][0]
        columns[n, :size], picked[n, :size, : len(spans)] = span_columns(spans)
    sums = torch.zeros(len(pieces), most_rows, most_spans, device=device)
    moved = [torch.from_numpy(part).to(device) for part in (rows, columns, picked)]
    return _Group([(p[2], len(p[1])) for p in pieces], moved[0], moved[1], moved[2], sums)


def span_indicator(spans: Ranges, tokens: int, device: torch.device) -> Tensor:
    """Float32 [tokens, spans]: 1 / length of the span for the tokens that stand in it, 0 for the
    others."""
    picked = torch.zeros(tokens, len(spans))
    for i, (a, b) in enumerate(spans):
        picked[a:b, i] = 1 / (b - a)
    return picked.to(device)
