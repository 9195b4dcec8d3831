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


def block_weights(
    query: Tensor, key: Tensor, first_position: int, spans: Ranges, scaling: float
) -> Tensor:
    """Mean attention of each query row to each span of keys, averaged over heads and the span's
    tokens.

    At most BLOCK x tokens weights a head exist at a time.

    Args:
        query: [heads, rows, size].
        key: [kv_heads, tokens, size].
        first_position: The position of row 0 in the context; row i stands at `first_position` + i.
        spans: Ranges [start, end) of keys.
        scaling: What the scores are multiplied by before the softmax.

    Returns:
        Float32 [rows, spans].
    """
    span_shares = span_indicator(spans, key.shape[1], key.device)
    means = torch.zeros(query.shape[1], len(spans), device=key.device)
    for block in weight_blocks(query, key, first_position, scaling):
        visible_keys = block.weights.shape[-1]
        block_rows = slice(block.first_row, block.first_row + BLOCK)
        means[block_rows] = block.weights.mean(0) @ span_shares[:visible_keys]
    return means


class WeightBlock(NamedTuple):
    """The attention of some rows.

    Attributes:
        first_row: The number of its first row.
        weights: [heads, rows of the block, keys up to the position of its last row].
    """

    first_row: int
    weights: Tensor


def weight_blocks(
    query: Tensor, key: Tensor, first_position: int, scaling: float
) -> Iterator[WeightBlock]:
    """Yield the attention of all heads under the causal mask, BLOCK rows at a time.

    Args:
        query: [heads, rows, size].
        key: [kv_heads, tokens, size].
        first_position: The position of row 0 in the context; row i stands at `first_position` + i.
        scaling: What the scores are multiplied by before the softmax.
    """
    heads, rows, _ = query.shape
    kv_heads = key.shape[0]
    for first_row in range(0, rows, BLOCK):
        q = query[:, first_row : first_row + BLOCK].float()
        start = first_position + first_row
        end = start + q.shape[1]
        k = key[:, :end].float()
        # Heads that share a key/value head are laid side by side as rows: no copy of the keys.
        q = q.reshape(kv_heads, heads // kv_heads * q.shape[1], -1)
        scores = (q @ k.transpose(-1, -2)).mul_(scaling).view(heads, -1, end)
        row_positions = torch.arange(start, end, device=key.device)
        key_positions = torch.arange(end, device=key.device)
        is_later = key_positions[None] > row_positions[:, None]
        weights = scores.masked_fill_(is_later, float("-inf")).softmax(-1)
        yield WeightBlock(first_row, weights)


def span_weights(
    query: Tensor, key: Tensor, log_sum_exps: Tensor, span_shares: Tensor, scaling: float
) -> Tensor:
    """The attention of rows to earlier spans, for several layers and requests at once, from
    log-sum-exps: only the keys of the spans are read. Every span precedes the rows, so no score is
    masked.

    weight = exp(scaling q k - log_sum_exp), which is the softmax over all keys.

    Args:
        query: [layers, requests, heads, rows, size].
        key: The keys of the spans' tokens [layers, requests, columns, kv_heads, size].
        log_sum_exps: Of each row's scores over all its keys [layers, requests, heads, rows].
        span_shares: 1 / length of a column's span at that span, else 0 [requests, columns, spans].
        scaling: What the scores are multiplied by before the softmax.

    Returns:
        Float32 [requests, rows, spans]: means over heads and the tokens of a span, summed over the
        layers.
    """
    layers, requests, heads, rows, size = query.shape
    kv_heads = key.shape[3]
    # Heads that share a key/value head are laid side by side as rows: no copy of the keys.
    q = query.float().reshape(layers * requests * kv_heads, -1, size)
    k = key.float().permute(0, 1, 3, 4, 2).reshape(len(q), size, -1)
    row_sums = log_sum_exps.float().reshape(len(q), -1, 1)
    weights = torch.baddbmm(row_sums, q, k, beta=-1, alpha=scaling).exp_()
    by_head = weights.view(layers, requests, heads, rows, -1)
    mean_over_heads = by_head.sum((0, 2)).div_(heads)  # [requests, rows, columns]
    return mean_over_heads @ span_shares


@dataclass(frozen=True)
class WatchRequest:
    """A context's wish to know how much attention its new rows pay to watched spans before them.

    Attributes:
        total: Where the sums over the layers are added: [rows, spans]; [spans] for the sum over the
            rows, too.
        rows: The numbers of its own rows among the batch's queries.
        spans: The watched ranges of keys, [start, end) each.
    """

    total: np.ndarray
    rows: range
    spans: Ranges

    @property
    def n_columns(self) -> int:
        """How many keys all spans have together."""
        return sum(end - start for start, end in self.spans)

    def in_pieces(self, max_rows: int) -> Iterator[WatchRequest]:
        """Yield the same wish for at most `max_rows` of its rows at a time; the pieces add to parts
        of the same `total`."""
        for first in range(0, len(self.rows), max_rows):
            part = slice(first, first + max_rows)
            total = self.total
            if total.ndim == 2:
                total = total[part]
            yield WatchRequest(total, self.rows[part], self.spans)


@dataclass
class _Group:
    """Requests of about one size, padded to the same numbers of rows and columns.

    Attributes:
        requests: The requests.
        row_numbers: Which of the batch's queries are each one's, int64 [requests, rows].
        key_positions: Which of the keys each one watches, int64 [requests, columns].
        span_shares: 1 / length of a column's span at that span, else 0 [requests, columns, spans].
        sums: The weights, summed over the layers so far [requests, rows, spans].
    """

    requests: list[WatchRequest]
    row_numbers: Tensor
    key_positions: Tensor
    span_shares: Tensor
    sums: Tensor

    @property
    def n_weights(self) -> int:
        """How many attention weights it has in a head of a layer, padding included."""
        return self.row_numbers.numel() * self.key_positions.shape[1]


@dataclass(frozen=True)
class _LayerStates:
    """What one layer's weights are computed from.

    Attributes:
        query: The queries of all groups' rows [heads, rows, size].
        key: The keys of all their columns [columns, kv_heads, size].
        log_sum_exps: Of the rows' scores over all their keys [heads, rows].
    """

    query: Tensor
    key: Tensor
    log_sum_exps: Tensor


class WatchedRows:
    """Computes the weights of the watched rows of one batch: `add_layer` collects queries,
    log-sum-exps and watched keys layer by layer, and several layers are reduced at once.

    A layer costs three launches, whatever the number of requests; reduced layer by layer they were
    15 a request.
    """

    def __init__(self, requests: Sequence[WatchRequest], max_layers: int) -> None:
        """Begin without any layer.

        Args:
            requests: What is watched; their totals are added to.
            max_layers: The most layers that are reduced at once; 1 on a CPU.
        """
        self._requests = requests
        self._max_layers = max_layers
        self._groups: list[_Group] = []  # made with the first layer
        self._waiting_layers: list[_LayerStates] = []
        self._layers_at_once = 1  # so many wait, then they are reduced
        self._score_scaling = 1.0  # that of the last layer

    def add_layer(self, query: Tensor, key: Tensor, log_sum_exps: Tensor, scaling: float) -> None:
        """Add the attention of one layer; it may wait until several layers are reduced at once. A
        layer on another device than the one before makes the sums so far go to the totals first.

        Args:
            query: [heads, rows of the batch, size].
            key: [tokens, kv_heads, size].
            log_sum_exps: Of the rows' scores over all their keys [heads, rows of the batch].
            scaling: What the scores are multiplied by before the softmax.
        """
        if not self._requests:
            return
        if self._groups and self._groups[0].row_numbers.device != query.device:
            self.add_to_totals()  # the next layers are on another device
            self._groups = []
        if not self._groups:
            self._set_groups(
                query.device,
                heads=query.shape[0],
                query_size=query.shape[2],
                key_size=key.shape[1] * key.shape[2],
            )
        self._score_scaling = scaling
        states = _LayerStates(
            query[:, self._all_row_numbers],
            key[self._all_key_positions],
            log_sum_exps[:, self._all_row_numbers],
        )
        self._waiting_layers.append(states)
        if len(self._waiting_layers) >= self._layers_at_once:
            self._reduce_waiting_layers()

    def _set_groups(self, device: torch.device, heads: int, query_size: int, key_size: int) -> None:
        """Group the requests by size, and decide how many layers are reduced at once, so that their
        weights fit in memory. Sets `_groups`, `_all_row_numbers` and `_all_key_positions` (those of
        all groups, one group after the other), and `_layers_at_once`.

        Args:
            device: Where the layer is.
            heads: Number of query heads.
            query_size: Numbers in a query vector.
            key_size: Numbers in the keys of a token, over all key/value heads.
        """
        # The most weights of one head at a time: as many as the cache of a CPU core holds, or on a
        # GPU 1 GiB of float32 (2**28 numbers) for all heads and layers together.
        max_weights = BLOCK * 256
        if self._max_layers > 1:
            max_weights = 2**28 // heads
        self._groups = [_padded(group, device) for group in self._pieces_by_size(max_weights)]
        rows = torch.cat([group.row_numbers.flatten() for group in self._groups])
        keys = torch.cat([group.key_positions.flatten() for group in self._groups])
        self._all_row_numbers = rows
        self._all_key_positions = keys
        largest_group = max(group.n_weights for group in self._groups)
        # What a layer that waits to be reduced holds for each query head: its keys and its queries.
        waiting_numbers = len(keys) * key_size // heads + len(rows) * query_size
        numbers_a_layer = max(largest_group, waiting_numbers)
        self._layers_at_once = max(1, min(self._max_layers, max_weights // numbers_a_layer))

    def _pieces_by_size(self, max_weights: int) -> list[list[WatchRequest]]:
        """Cut the requests into pieces of as many rows as fit in memory, and group pieces of about
        one size. Pieces are in ascending order of their number of watched keys (`n_columns`).

        Args:
            max_weights: The most weights of one head that a group may have.
        """
        groups: list[list[WatchRequest]] = []
        for request in sorted(self._requests, key=lambda request: request.n_columns):
            max_rows = max(BLOCK, max_weights // request.n_columns)
            for piece in request.in_pieces(max_rows):
                if not groups or not self._fits_group(groups[-1], piece, max_weights):
                    groups.append([])
                groups[-1].append(piece)
        return groups

    def _fits_group(self, group: list[WatchRequest], piece: WatchRequest, max_weights: int) -> bool:
        """Whether a piece can be padded with a group without much waste.

        Args:
            group: Pieces of about one size, that with the fewest columns first.
            piece: Has at least as many columns as all of these.
            max_weights: The most weights of one head that a group may have.
        """
        most_rows = max(len(request.rows) for request in [*group, piece])
        weights = (len(group) + 1) * most_rows * piece.n_columns * self._max_layers
        return weights <= max_weights and piece.n_columns <= 2 * group[0].n_columns + BLOCK

    def _reduce_waiting_layers(self) -> None:
        """Add the weights of the waiting layers to the sums of each group, and empty the list of
        waiting layers."""
        if not self._waiting_layers:
            return
        query = torch.stack([states.query for states in self._waiting_layers])
        key = torch.stack([states.key for states in self._waiting_layers])
        log_sum_exps = torch.stack([states.log_sum_exps for states in self._waiting_layers])
        self._waiting_layers = []
        layers, heads, _, size = query.shape
        # The rows and keys of the groups stand one after the other.
        first_row = first_key = 0
        for group in self._groups:
            n_requests, n_rows = group.row_numbers.shape
            n_keys = group.key_positions.shape[1]
            own_rows = slice(first_row, first_row + n_requests * n_rows)
            own_keys = slice(first_key, first_key + n_requests * n_keys)
            q = query[:, :, own_rows].reshape(layers, heads, n_requests, n_rows, size)
            own_sums = log_sum_exps[:, :, own_rows].reshape(layers, heads, n_requests, n_rows)
            k = key[:, own_keys].reshape(layers, n_requests, n_keys, -1, size)
            group.sums += span_weights(
                query=q.transpose(1, 2),  # [layers, requests, heads, rows, size]
                key=k,
                log_sum_exps=own_sums.transpose(1, 2),
                span_shares=group.span_shares,
                scaling=self._score_scaling,
            )
            first_row, first_key = own_rows.stop, own_keys.stop

    def add_to_totals(self) -> None:
        """Reduce the layers that still wait, add the sums of all layers to the totals of the
        requests, and begin again with sums of 0."""
        self._reduce_waiting_layers()
        if not self._groups:
            return
        # One copy to the host for all of them.
        flat_sums = torch.cat([group.sums.flatten() for group in self._groups]).cpu().numpy()
        start = 0
        for group in self._groups:
            end = start + group.sums.numel()
            sums = flat_sums[start:end].reshape(group.sums.shape)
            for request, padded_sums in zip(group.requests, sums, strict=True):
                _add_to_total(request, padded_sums)
            group.sums.zero_()
            start = end


def _add_to_total(request: WatchRequest, padded_sums: np.ndarray) -> None:
    """Add a request's sums [rows, spans], without their padding, to its total, which is written
    into."""
    sums = padded_sums[: len(request.rows), : request.total.shape[-1]]
    if request.total.ndim == 1:
        sums = sums.sum(0)
    np.add(request.total, sums, out=request.total)


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
    n_columns = sum(end - start for start, end in spans)
    positions = np.zeros(n_columns, np.int64)
    shares = np.zeros((n_columns, len(spans)), np.float32)
    first = 0
    for span_number, (start, end) in enumerate(spans):
        after_last = first + end - start
        positions[first:after_last] = range(start, end)
        shares[first:after_last, span_number] = 1 / (end - start)
        first = after_last
    return SpanColumns(positions, shares)


def _padded(requests: list[WatchRequest], device: torch.device) -> _Group:
    """The group of these requests on a device, padded to the longest: shorter ones repeat their
    first row and first watched key. A padding key has share 0 in every span."""
    most_rows = max(len(request.rows) for request in requests)
    most_columns = max(request.n_columns for request in requests)
    most_spans = max(len(request.spans) for request in requests)
    row_numbers = np.zeros((len(requests), most_rows), np.int64)
    key_positions = np.zeros((len(requests), most_columns), np.int64)
    span_shares = np.zeros((len(requests), most_columns, most_spans), np.float32)
    for n, request in enumerate(requests):
        own_columns = span_columns(request.spans)
        row_numbers[n] = request.rows[0]
        row_numbers[n, : len(request.rows)] = request.rows
        key_positions[n] = request.spans[0][0]
        key_positions[n, : request.n_columns] = own_columns.positions
        span_shares[n, : request.n_columns, : len(request.spans)] = own_columns.shares
    return _Group(
        requests,
        row_numbers=torch.from_numpy(row_numbers).to(device),
        key_positions=torch.from_numpy(key_positions).to(device),
        span_shares=torch.from_numpy(span_shares).to(device),
        sums=torch.zeros(len(requests), most_rows, most_spans, device=device),
    )


def span_indicator(spans: Ranges, n_tokens: int, device: torch.device) -> Tensor:
    """A matrix that averages tokens into spans: 1 / length of the span where a token stands in it,
    else 0.

    [(0, 2), (3, 4)], 4 -> [[1/2, 0], [1/2, 0], [0, 0], [0, 1]]

    Args:
        spans: Ranges [start, end) of tokens.
        n_tokens: How many tokens there are.
        device: The device of the result.

    Returns:
        Float32 [tokens, spans].
    """
    shares = torch.zeros(n_tokens, len(spans))
    for span_number, (start, end) in enumerate(spans):
        shares[start:end, span_number] = 1 / (end - start)
    return shares.to(device)
