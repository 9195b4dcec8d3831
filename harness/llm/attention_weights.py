"""Attention weights of some query rows from queries and keys, for blocks of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

BLOCK = 64
Ranges = Sequence[tuple[int, int]]


def block_weights(query: Tensor, key: Tensor, first: int, spans: Ranges, scaling: float) -> Tensor:
    """Mean attention of each query row to each span of keys, averaged over heads and the span's
    tokens.

    At most BLOCK x tokens weights a head exist at a time.

    Args:
        query: [heads, rows, size].
        key: [kv_heads, tokens, size].
        first: The position of row 0; row i stands at `first` + i.
        spans: Ranges of keys.
        scaling: The factor of the scores.

    Returns:
        Float32 [rows, spans].
    """
    picked = span_indicator(spans, key.shape[1], key.device)
    out = torch.zeros(query.shape[1], len(spans), device=key.device)
    for r, weights in weight_blocks(query, key, first, scaling):
        out[r : r + BLOCK] = weights.mean(0) @ picked[: weights.shape[-1]]
    return out


def weight_blocks(
    query: Tensor, key: Tensor, first: int, scaling: float
) -> Iterator[tuple[int, Tensor]]:
    """Yield the attention of all heads, BLOCK rows at a time.

    Args:
        query: [heads, rows, size].
        key: [kv_heads, tokens, size].
        first: The position of row 0; row i stands at `first` + i.
        scaling: The factor of the scores.

    Yields:
        (first row of the block, weights [heads, rows of the block, keys up to its last row]).
    """
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
    """The attention of rows to earlier spans, for several layers and requests at once, from
    log-sum-exps: only the keys of the spans are read. Every span precedes the rows, so no score is
    masked.

    Args:
        query: [layers, requests, heads, rows, size].
        key: The keys of the spans' tokens [layers, requests, columns, kv_heads, size].
        lse: Log-sum-exps of the rows' scores [layers, requests, heads, rows].
        picked: [requests, columns, spans], 1 / length of a column's span (`span_columns`).
        scaling: The factor of the scores.

    Returns:
        Float32 [requests, rows, spans]: means over heads and the tokens of a span, summed over the
        layers.
    """
    layers, requests, heads, rows, size = query.shape
    kv_heads = key.shape[3]
    # Heads that share a key/value head are laid side by side as rows: no copy of the keys.
    q = query.float().reshape(layers * requests * kv_heads, -1, size)
    k = key.float().permute(0, 1, 3, 4, 2).reshape(len(q), size, -1)
    weights = torch.baddbmm(lse.float().reshape(len(q), -1, 1), q, k, beta=-1, alpha=scaling).exp_()
    return weights.view(layers, requests, heads, rows, -1).sum((0, 2)).div_(heads) @ picked


@dataclass(frozen=True)
class WatchRequest:
    """A context's wish to know how much attention its new rows pay to watched spans before them.

    Attributes:
        total: Where the sums over the layers are added: [rows, spans]; [spans] for the sum over the
            rows, too.
        rows: Which of the batch's queries are its own.
        spans: The watched ranges of keys, [start, end) each.
    """

    total: np.ndarray
    rows: range
    spans: Ranges

    @property
    def columns(self) -> int:
        """How many keys all spans have together."""
        return sum(end - start for start, end in self.spans)

    def pieces(self, rows: int) -> Iterator[WatchRequest]:
        """Yield the same wish for at most `rows` of its rows at a time; the pieces add to parts of
        the same `total`."""
        for first in range(0, len(self.rows), rows):
            total = self.total
            if total.ndim == 2:
                total = total[first : first + rows]
            yield WatchRequest(total, self.rows[first : first + rows], self.spans)


@dataclass
class _Group:
    """Requests of about one size, padded to the same numbers of rows and columns.

    Attributes:
        requests: The requests.
        rows: Which of the batch's queries are each one's, int64 [requests, rows].
        columns: Which of the keys each one watches, int64 [requests, columns].
        picked: 1 / length of a column's span [requests, columns, spans].
        sums: The sums of the weights so far [requests, rows, spans].
    """

    requests: list[WatchRequest]
    rows: Tensor
    columns: Tensor
    picked: Tensor
    sums: Tensor


@dataclass(frozen=True)
class _LayerStates:
    """What one layer's weights are computed from.

    Attributes:
        query: The queries of all groups' rows [heads, rows, size].
        key: The keys of all their columns [columns, kv_heads, size].
        lse: Log-sum-exps of the rows' scores [heads, rows].
    """

    query: Tensor
    key: Tensor
    lse: Tensor


class WatchedRows:
    """Computes the weights of the watched rows of one batch: `take` collects queries, log-sum-exps
    and watched keys layer by layer, and several layers are reduced at once.

    A layer costs three launches, whatever the number of requests; reduced layer by layer they were
    15 a request.
    """

    def __init__(self, requests: Sequence[WatchRequest], layers: int) -> None:
        """Begin without any layer. `_held` has the layers that are not reduced yet, `_most` says
        how many of them are held at most.

        Args:
            requests: What is watched; their totals are added to.
            layers: The most layers that are reduced at once; 1 on a CPU.
        """
        self._requests, self._layers = requests, layers
        self._groups: list[_Group] = []
        self._held: list[_LayerStates] = []
        self._most = 1
        self._scaling = 1.0

    def take(self, query: Tensor, key: Tensor, lse: Tensor, scaling: float) -> None:
        """Add the attention of one layer; it may be held until several layers are reduced at once.

        Args:
            query: [heads, rows of the batch, size].
            key: [tokens, kv_heads, size].
            lse: Log-sum-exps of the rows' scores [heads, rows].
            scaling: The factor of the scores.
        """
        if not self._requests:
            return
        if self._groups and self._groups[0].rows.device != query.device:
            self.finish()  # the next layers are on another device
            self._groups = []
        if not self._groups:
            self._plan(query.device, query.shape[0], query.shape[2], key.shape[1] * key.shape[2])
        self._scaling = scaling
        states = _LayerStates(query[:, self._rows], key[self._columns], lse[:, self._rows])
        self._held.append(states)
        if len(self._held) >= self._most:
            self._reduce()

    def _plan(self, device: torch.device, heads: int, size: int, key_size: int) -> None:
        """Group the requests, and decide the weights of how many layers are in memory at once.

        Args:
            device: Where the layer is.
            heads: Number of query heads.
            size: Numbers in a query vector.
            key_size: Numbers in a token's keys.
        """
        # Weights of a head: 1 GiB for all heads and layers together, or as many as the cache of a
        # CPU core holds.
        room = BLOCK * 256
        if self._layers > 1:
            room = 2**28 // heads
        self._groups = [_padded(group, device) for group in self._grouped(room)]
        self._rows = torch.cat([group.rows.flatten() for group in self._groups])
        self._columns = torch.cat([group.columns.flatten() for group in self._groups])
        largest = max(group.rows.numel() * group.columns.shape[1] for group in self._groups)
        # Numbers of a layer and head that are held.
        held = len(self._columns) * key_size // heads + len(self._rows) * size
        self._most = max(1, min(self._layers, room // max(largest, held)))

    def _grouped(self, room: int) -> list[list[WatchRequest]]:
        """Cut the requests into pieces that fit in memory, and put those of about one size
        together: each group has pieces of ascending numbers of columns.

        Args:
            room: The most weights of one head that a group may have.
        """
        groups: list[list[WatchRequest]] = []
        for request in sorted(self._requests, key=lambda request: request.columns):
            for piece in request.pieces(max(BLOCK, room // request.columns)):
                if not groups or not self._fits(groups[-1], piece, room):
                    groups.append([])
                groups[-1].append(piece)
        return groups

    def _fits(self, group: list[WatchRequest], piece: WatchRequest, room: int) -> bool:
        """Whether a piece can be padded with a group without much waste.

        Args:
            group: Pieces of about one size, the shortest first.
            piece: Longer than all of these.
            room: The most weights of one head that a group may have.
        """
        most_rows = max(len(request.rows) for request in [*group, piece])
        weights = (len(group) + 1) * most_rows * piece.columns * self._layers
        return weights <= room and piece.columns <= 2 * group[0].columns + BLOCK

    def _reduce(self) -> None:
        """Add the weights of the layers that are held to the sums of each group, and hold none any
        more."""
        if not self._held:
            return
        query = torch.stack([states.query for states in self._held])
        key = torch.stack([states.key for states in self._held])
        lse = torch.stack([states.lse for states in self._held])
        self._held = []
        layers, heads, _, size = query.shape
        first_row = first_column = 0
        for group in self._groups:
            requests, rows = group.rows.shape
            columns = group.columns.shape[1]
            part = slice(first_row, first_row + requests * rows)
            keys = slice(first_column, first_column + requests * columns)
            q = query[:, :, part].reshape(layers, heads, requests, rows, size).transpose(1, 2)
            sums = lse[:, :, part].reshape(layers, heads, requests, rows).transpose(1, 2)
            k = key[:, keys].reshape(layers, requests, columns, -1, size)
            group.sums += span_weights(q, k, sums, group.picked, self._scaling)
            first_row, first_column = part.stop, keys.stop

    def finish(self) -> None:
        """Reduce the layers that are left, and add the sums to the totals of the requests."""
        self._reduce()
        if not self._groups:
            return
        # One copy to the host for all of them.
        flat_sums = torch.cat([group.sums.flatten() for group in self._groups]).cpu().numpy()
        start = 0
        for group in self._groups:
            end = start + group.sums.numel()
            sums = flat_sums[start:end].reshape(group.sums.shape)
            for request, own in zip(group.requests, sums, strict=True):
                _add_sums(request, own)
            group.sums.zero_()
            start = end


def _add_sums(request: WatchRequest, sums: np.ndarray) -> None:
    """Add a request's sums [rows, spans], without their padding, to its total, which is written
    into."""
    own = sums[: len(request.rows), : request.total.shape[-1]]
    if request.total.ndim == 1:
        own = own.sum(0)
    np.add(request.total, own, out=request.total)


class SpanColumns(NamedTuple):
    """The keys of some spans, one after the other.

    Attributes:
        positions: The position of each key, int64 [columns].
        shares: 1 / length of its span at that span, else 0: float32 [columns, spans].
    """

    positions: np.ndarray
    shares: np.ndarray


def span_columns(spans: Ranges) -> SpanColumns:
    """The keys of all spans as columns, and what averages each column into its span.

    [(2, 4), (7, 8)] -> SpanColumns([2, 3, 7], [[1/2, 0], [1/2, 0], [0, 1]])
    """
    size = sum(end - start for start, end in spans)
    columns = np.zeros(size, np.int64)
    picked = np.zeros((size, len(spans)), np.float32)
    first = 0
    for i, (start, end) in enumerate(spans):
        last = first + end - start
        columns[first:last] = range(start, end)
        picked[first:last, i] = 1 / (end - start)
        first = last
    return SpanColumns(columns, picked)


def _padded(requests: list[WatchRequest], device: torch.device) -> _Group:
    """The group of these requests on a device, padded to the longest: shorter ones repeat their
    first row and key, and their padding counts in no span."""
    most_rows = max(len(request.rows) for request in requests)
    most_columns = max(request.columns for request in requests)
    most_spans = max(len(request.spans) for request in requests)
    rows = np.zeros((len(requests), most_rows), np.int64)
    columns = np.zeros((len(requests), most_columns), np.int64)
    picked = np.zeros((len(requests), most_columns, most_spans), np.float32)
    for n, request in enumerate(requests):
        own_columns, own_picked = span_columns(request.spans)
        rows[n] = request.rows[0]
        rows[n, : len(request.rows)] = request.rows
        columns[n] = request.spans[0][0]
        columns[n, : request.columns] = own_columns
        picked[n, : request.columns, : len(request.spans)] = own_picked
    return _Group(
        requests,
        torch.from_numpy(rows).to(device),
        torch.from_numpy(columns).to(device),
        torch.from_numpy(picked).to(device),
        torch.zeros(len(requests), most_rows, most_spans, device=device),
    )


def span_indicator(spans: Ranges, tokens: int, device: torch.device) -> Tensor:
    """Which tokens stand in which span, as a matrix that averages tokens into spans.

    [(0, 2), (3, 4)], 4 -> [[1/2, 0], [1/2, 0], [0, 0], [0, 1]]

    Args:
        spans: Ranges [start, end) of tokens.
        tokens: How many tokens there are.
        device: The device of the result.

    Returns:
        Float32 [tokens, spans].
    """
    picked = torch.zeros(tokens, len(spans))
    for i, (start, end) in enumerate(spans):
        picked[start:end, i] = 1 / (end - start)
    return picked.to(device)
