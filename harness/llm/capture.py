"""Attention weights of few rows or columns, taken inside the fused kernel's call, never as a tokens
x tokens matrix.

    feed and writing              weight = exp(q k - lse) for watched keys; lse: the fused kernel's log-sum-exp
    the same without lse          softmax(q K^T) for blocks of 64 rows, mean over heads, then times the token-to-span
                                  indicator: 64 x tokens at a time
    writing                       queries and lse of each token are kept and reduced 64 at a time
    by head                       softmax(q K^T) for the same blocks; each head's rows are summed on their own

`install()` registers the attention function "harness" with transformers: plain fused attention
until the thread has an active Capture, or a Pack, in which the tokens of each context attend to its
own keys alone, without padding.

The weights are those of softmax(q K^T * scaling) under the causal mask and nothing else.
harness.llm.families refuses other attention from config.json; what it misses raises CannotRun here,
at the first call.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from harness.errors import CannotRun
from harness.llm.attention_weights import (
    Ranges,
    WatchedRows,
    WatchRequest,
    block_weights,
    span_columns,
    span_weights,
    weight_blocks,
)
from harness.llm.kernels import (
    Attended,
    PackLayout,
    cpu_attention,
    one_row_attention,
    packed_attention,
)
from harness.llm.kv import KVPool, slot_of

NAME = "harness"
# Arguments of an attention call that leave its scores alone; a sliding window works through the
# mask.
_NEUTRAL_LINES = """
cache_position dropout is_causal output_attentions output_hidden_states output_router_logits position_embeddings
position_ids sliding_window use_cache num_logits_to_keep
"""
NEUTRAL_ARGUMENTS = frozenset(_NEUTRAL_LINES.split())

_local = threading.local()


class AttentionCall(NamedTuple):
    """One layer's call of attention for one context of `tokens` tokens, the `new` ones of this pass
    included.

    Attributes:
        layer: The number of the layer.
        query: [1, heads, new, size].
        key: [1, kv_heads, tokens, size], which a cache may hold in another form (latents, in
            DeepSeek-V2).
        log_sum_exps: Of each row's scores [1, heads, new]; None where the kernel does not give
            them.
        scaling: What the scores are multiplied by before the softmax.
    """

    layer: int
    query: Tensor
    key: Tensor
    log_sum_exps: Tensor | None
    scaling: float


class FeedRequest(NamedTuple):
    """A text whose mean attention to earlier spans a FeedCapture measures.

    Attributes:
        start: The position of its first token in the context.
        end: The position after its last token.
        spans: Ranges [start, end) of the context that its tokens may attend to, all before `start`.
    """

    start: int
    end: int
    spans: Ranges


@dataclass(frozen=True)
class FeedCaptured:
    """What a FeedCapture held when a pass began.

    Attributes:
        calls_seen: Calls of attention that it had seen.
        totals: For each request the sums [spans].
    """

    calls_seen: int
    totals: list[np.ndarray]


@dataclass(frozen=True)
class HeadCaptured:
    """What a HeadCapture held when a pass began.

    Attributes:
        n_rows: How many rows were added.
        sums_by_layer: Layer -> sums [heads, keys].
    """

    n_rows: int
    sums_by_layer: dict[int, Tensor]


class RowsInPass(NamedTuple):
    """The rows of a request of FeedCapture that a pass reads.

    Attributes:
        request_number: The number of the request.
        rows: Where they are among the new tokens of the pass.
    """

    request_number: int
    rows: slice


class _WatchedPass(NamedTuple):
    """What sums up the attention of one pass.

    Attributes:
        pass_start: The position of the pass's first new token.
        rows: Adds to the `totals` of the FeedCapture that made it, whenever it is finished.
    """

    pass_start: int
    rows: WatchedRows


@dataclass
class FeedCapture:
    """Measures, while a text is read, the mean attention of its tokens to earlier spans.

    Attributes:
        pass_start: The position of the pass's first new token.
        requests: What is measured.
        totals: For each request the sums over its rows and the layers so far [spans].
        calls_seen: How many calls of attention were seen so far: in each pass one a layer.
    """

    pass_start: int
    requests: list[FeedRequest]
    totals: list[np.ndarray] = field(default_factory=list)
    calls_seen: int = 0
    _watched_pass: _WatchedPass | None = None

    def __post_init__(self) -> None:
        """Begin with sums of 0."""
        self.totals = [np.zeros(len(request.spans), np.float32) for request in self.requests]

    def rows_in_pass(self, n_new: int) -> list[RowsInPass]:
        """The rows of each request among the `n_new` new tokens of the pass; requests without any
        are left out."""
        found: list[RowsInPass] = []
        for number, request in enumerate(self.requests):
            first = max(request.start - self.pass_start, 0)
            end = min(request.end - self.pass_start, n_new)
            if first < end:
                found.append(RowsInPass(number, slice(first, end)))
        return found

    def add_layer(self, call: AttentionCall) -> None:
        """Add the attention of one layer's call, of which this context has all rows."""
        if call.log_sum_exps is None:
            self._add_by_softmax(call)
        else:
            self._add_by_log_sum_exps(call, call.log_sum_exps)
        self.calls_seen += 1

    def _add_by_softmax(self, call: AttentionCall) -> None:
        """Add the attention of a layer to `totals`, from all scores of a row."""
        query, key = call.query[0], call.key[0]
        for request_number, rows in self.rows_in_pass(query.shape[1]):
            first_position = self.pass_start + rows.start
            spans = self.requests[request_number].spans
            weights = block_weights(query[:, rows], key, first_position, spans, call.scaling)
            self.totals[request_number] += weights.sum(0).cpu().numpy()

    def _add_by_log_sum_exps(self, call: AttentionCall, log_sum_exps: Tensor) -> None:
        """Add the attention of a layer to `totals`, from log-sum-exps: only keys of spans are read.

        Args:
            call: The layer's call.
            log_sum_exps: Those of the call [1, heads, new].
        """
        query, key = call.query[0], call.key[0]
        if self._watched_pass is None or self._watched_pass.pass_start != self.pass_start:
            # Made once a pass: the layers have the same rows and spans.
            requests = self.watch_requests(first_row=0, first_key=0, n_new=query.shape[1])
            self._watched_pass = _WatchedPass(self.pass_start, WatchedRows(requests, max_layers=1))
        watched_rows = self._watched_pass.rows
        watched_rows.add_layer(query, key.transpose(0, 1), log_sum_exps[0], call.scaling)
        # Writes the layer's sums into `totals`, which the watch requests refer to.
        watched_rows.add_to_totals()

    def watch_requests(self, first_row: int, first_key: int, n_new: int) -> list[WatchRequest]:
        """The requests that have rows in the pass, with rows and spans as WatchedRows takes them;
        what it computes for them is added to `totals`.

        Args:
            first_row: Where the context's new tokens begin among the rows that WatchedRows is
                given.
            first_key: Where its keys begin among the keys that WatchedRows is given.
            n_new: The number of new tokens.
        """
        requests = []
        for request_number, rows in self.rows_in_pass(n_new):
            spans: list[tuple[int, int]] = []
            for start, end in self.requests[request_number].spans:
                spans.append((first_key + start, first_key + end))
            own_rows = range(first_row + rows.start, first_row + rows.stop)
            requests.append(WatchRequest(self.totals[request_number], own_rows, spans))
        return requests

    def captured_so_far(self) -> FeedCaptured:
        """What was captured so far, to come back to by `restore` where the next pass fails."""
        return FeedCaptured(self.calls_seen, [total.copy() for total in self.totals])

    def restore(self, captured: FeedCaptured) -> None:
        """Go back to what `captured_so_far` returned."""
        self.calls_seen = captured.calls_seen
        self.totals = captured.totals
        self._watched_pass = None

    def mean_attention(self, n_layers: int) -> list[tuple[float, ...]]:
        """The mean attention over the rows of each request and over the layers: a tuple of one
        number a span, for each request.

        Args:
            n_layers: The number of layers of the model.

        Raises:
            RuntimeError: The call of a layer was not seen. A whole pass adds `n_layers` to the
                calls, so a number that this does not divide lacks some.
        """
        if self.calls_seen < n_layers or self.calls_seen % n_layers:
            raise RuntimeError(
                f"attention was captured in {self.calls_seen} of {n_layers} layers: kernel "
                f"'{NAME}' not in use"
            )
        means = []
        for total, request in zip(self.totals, self.requests, strict=True):
            n_rows = request.end - request.start
            means.append(tuple((total / n_layers / n_rows).tolist()))
        return means


@dataclass
class HeadCapture:
    """Measures the attention of every query head from the rows of a pass to some keys of the cache.

    Heads that share a key/value head are kept separate, and nothing is averaged over heads.

    Attributes:
        keys: Positions [start, end) of the keys.
        pass_start: The position of the pass's first new token.
        n_rows: How many rows were added.
        sums_by_layer: Layer -> float32 [heads, keys], summed over rows.
    """

    keys: tuple[int, int]
    pass_start: int = 0
    n_rows: int = 0
    sums_by_layer: dict[int, Tensor] = field(default_factory=dict)

    def add_layer(self, call: AttentionCall) -> None:
        """Add the attention of one layer's call to `sums_by_layer`, layer -> [heads, keys]. Also
        adds the rows of the pass to `n_rows`: once, with the first layer of all."""
        start, end = self.keys
        heads, n_new = call.query.shape[1:3]
        query, key = call.query[0], call.key[0]
        for block in weight_blocks(query, key, self.pass_start, call.scaling):
            sums = torch.zeros(heads, end - start, device=block.weights.device)
            # A block's weights end with the key of its last row.
            visible = block.weights[:, :, start:end].sum(1)
            sums[:, : visible.shape[1]] = visible
            if call.layer in self.sums_by_layer:
                sums = self.sums_by_layer[call.layer] + sums
            self.sums_by_layer[call.layer] = sums
        if call.layer == min(self.sums_by_layer):
            self.n_rows += n_new

    def captured_so_far(self) -> HeadCaptured:
        """What was captured so far, to come back to by `restore` where the next pass fails."""
        return HeadCaptured(self.n_rows, dict(self.sums_by_layer))

    def restore(self, captured: HeadCaptured) -> None:
        """Go back to what `captured_so_far` returned."""
        self.n_rows = captured.n_rows
        self.sums_by_layer = captured.sums_by_layer

    def mean_attention(self, n_layers: int) -> Tensor:
        """Mean over the rows: float32 [layers, heads, keys]. Raises RuntimeError where not all
        `n_layers` layers of the model were seen."""
        if len(self.sums_by_layer) != n_layers:
            raise RuntimeError(
                f"attention was captured in {len(self.sums_by_layer)} of {n_layers} layers"
            )
        sums = [self.sums_by_layer[layer].cpu() for layer in sorted(self.sums_by_layer)]
        return torch.stack(sums) / self.n_rows


class WrittenStep(NamedTuple):
    """What is kept of one written token until its attention is computed.

    Attributes:
        queries: [layers, heads, size].
        log_sum_exps: Of the attention scores [layers, heads]; None where they are unknown.
    """

    queries: Tensor
    log_sum_exps: Tensor | None


@dataclass
class WriteCapture:
    """Measures the attention of written tokens to spans: keeps their queries and reduces them in
    blocks.

    Attributes:
        first_position: The position of the oldest row that waits.
        spans: Positions [start, end) in the context.
        cache: The cache of the context.
        reduced_blocks: Mean attentions [rows, spans] of each block of rows that was reduced.
        waiting_steps: The rows that wait, oldest first.
        layer_keys: The keys [kv_heads, tokens, size] of each layer as the last captured calls had
            them; [] where none was captured since the last reduction, and where steps come by
            `add_step` alone: then those of `cache` are used.
        score_scaling: What the scores are multiplied by before the softmax.
    """

    first_position: int
    spans: Ranges
    cache: Any
    reduced_blocks: list[np.ndarray] = field(default_factory=list)
    waiting_steps: list[WrittenStep] = field(default_factory=list)
    layer_keys: list[Tensor] = field(default_factory=list)
    score_scaling: float = 1.0
    _calls_of_step: list[AttentionCall] = field(default_factory=list)
    _reduce_lock: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    def add_layer(self, call: AttentionCall) -> None:
        """Keep the attention call of one layer for a written token; layers come in their order.

        With the call of the last layer the token's step is complete: its queries and log-sum-exps
        are added to `waiting_steps`, and `layer_keys` become the keys of these calls.

        Args:
            call: Its query is [1, heads, 1, size] (the token is the only row), its key [1,
                kv_heads, tokens, size], its log_sum_exps [1, heads, 1] or None.
        """
        self._calls_of_step.append(call)
        if len(self._calls_of_step) < len(self.cache.layers):
            return
        calls = self._calls_of_step
        self._calls_of_step = []
        device = calls[0].query.device
        queries = torch.stack([each.query[0, :, 0].to(device) for each in calls])
        log_sum_exps_by_layer: list[Tensor] = []  # all layers have them, or none
        for each in calls:
            if each.log_sum_exps is not None:
                log_sum_exps_by_layer.append(each.log_sum_exps[0, :, 0].to(device))  # noqa: PERF401
        log_sum_exps = None
        if log_sum_exps_by_layer:
            log_sum_exps = torch.stack(log_sum_exps_by_layer)
        self.layer_keys = [each.key[0] for each in calls]
        self.add_step(WrittenStep(queries, log_sum_exps), call.scaling)

    def add_step(self, step: WrittenStep, scaling: float) -> None:
        """Keep a step until it is reduced.

        Args:
            step: The queries of a written token.
            scaling: What its scores are multiplied by before the softmax.
        """
        self.waiting_steps.append(step)
        self.score_scaling = scaling

    def captured_so_far(self) -> int:
        """How many rows wait to be reduced, to come back to by `restore` where the next pass
        fails."""
        return len(self.waiting_steps)

    def restore(self, n_waiting: int) -> None:
        """Drop the rows that came after the first `n_waiting` ones; what was reduced meanwhile
        stays."""
        del self.waiting_steps[n_waiting:]
        self._calls_of_step = []

    def reduce_waiting(self) -> None:
        """Compute the mean attention of each of `waiting_steps` to each span, append the block
        [steps, spans] to `reduced_blocks`, and empty `waiting_steps` and `layer_keys`. Raises
        RuntimeError where not all layers were seen."""
        # The context itself calls this, or one that takes its place in memory, in another thread.
        with self._reduce_lock:
            self._check_layers_seen()
            if not self.waiting_steps:
                return
            keys = self.layer_keys or [layer.keys[0] for layer in self.cache.layers]
            sum_over_layers = self._attention_over_layers(keys)
            self.reduced_blocks.append(sum_over_layers.cpu().numpy() / len(keys))
            self.first_position += len(self.waiting_steps)
            self.waiting_steps = []
            self.layer_keys = []

    def _check_layers_seen(self) -> None:
        """Raise RuntimeError where a step was captured in some layers of the model alone: one that
        is not complete yet, or one that waits."""
        n_layers = len(self.cache.layers)
        layers_seen = len(self._calls_of_step)
        if not layers_seen:
            layers_seen = max((len(step.queries) for step in self.waiting_steps), default=0)
        if layers_seen not in (0, n_layers):
            raise RuntimeError(f"attention was captured in {layers_seen} of {n_layers} layers")

    def _attention_over_layers(self, keys: Sequence[Tensor]) -> Tensor:
        """The attention of the tokens of `waiting_steps`, a row each, to each span: means over the
        heads, summed over the layers; float32 [rows, spans].

        Args:
            keys: [kv_heads, tokens, size] of each layer.
        """
        # [layers, heads, rows, size]
        queries = torch.stack([step.queries for step in self.waiting_steps], 2)
        log_sum_exps: list[Tensor] = []  # all steps have them, or none
        for step in self.waiting_steps:
            if step.log_sum_exps is not None:
                log_sum_exps.append(step.log_sum_exps)  # noqa: PERF401
        if log_sum_exps:
            return self._attention_by_log_sum_exps(queries, torch.stack(log_sum_exps, 2), keys)
        return self._attention_by_softmax(queries, keys)

    def _attention_by_softmax(self, queries: Tensor, keys: Sequence[Tensor]) -> Tensor:
        """The attention of written tokens, a row each, to each span, from the scores of all keys:
        means over the heads, summed over the layers; float32 [rows, spans].

        Args:
            queries: Of the written tokens [layers, heads, rows, size].
            keys: [kv_heads, tokens, size] of each layer.
        """
        weights_by_layer: list[Tensor] = []
        for layer_queries, key in zip(queries, keys, strict=True):
            query = layer_queries.to(key.device)
            # [rows, spans]: means over the heads
            weights = block_weights(query, key, self.first_position, self.spans, self.score_scaling)
            weights_by_layer.append(weights.cpu())
        return torch.stack(weights_by_layer).sum(0)

    def _attention_by_log_sum_exps(
        self, queries: Tensor, log_sum_exps: Tensor, keys: Sequence[Tensor]
    ) -> Tensor:
        """The attention of written tokens, a row each, to each span, from log-sum-exps, so that
        only the keys of the spans are read: means over the heads, summed over the layers; float32
        [rows, spans].

        Args:
            queries: Of the written tokens [layers, heads, rows, size].
            log_sum_exps: Of the rows' scores [layers, heads, rows].
            keys: [kv_heads, tokens, size] of each layer.
        """
        layers, heads, rows, _ = queries.shape
        columns = span_columns(self.spans)
        positions = torch.from_numpy(columns.positions).to(queries.device)
        span_shares = torch.from_numpy(columns.shares).to(queries.device)
        layers_at_once = 1
        if queries.is_cuda:
            layers_at_once = max(1, 2**28 // (heads * rows * len(positions)))  # 1 GiB of weights
        total = queries.new_zeros(rows, len(self.spans), dtype=torch.float32)
        for first_layer in range(0, layers, layers_at_once):
            part = slice(first_layer, first_layer + layers_at_once)
            span_keys_by_layer: list[Tensor] = []  # each [kv_heads, columns, size]
            for key in keys[part]:
                span_keys_of_layer = key[:, positions.to(key.device)].to(queries.device)
                span_keys_by_layer.append(span_keys_of_layer)
            # [layers, columns, kv_heads, size]
            span_keys = torch.stack(span_keys_by_layer).transpose(1, 2)
            # `None` adds the dimension of the requests, of which there is one.
            weights = span_weights(
                query=queries[part, None],
                key=span_keys[:, None],
                log_sum_exps=log_sum_exps[part, None],
                span_shares=span_shares[None],
                scaling=self.score_scaling,
            )
            total += weights[0]
        return total

    def attention_of_tokens(self) -> np.ndarray:
        """Mean attention of each written token to each span: float32 [tokens, spans]; of those that
        were reduced."""
        no_rows = np.zeros((0, len(self.spans)), np.float32)
        return np.concatenate([no_rows, *self.reduced_blocks])


Capture = FeedCapture | HeadCapture | WriteCapture


class CaptureTransaction:
    """Brings captures back to what they held when it was made, for a pass that fails."""

    def __init__(self, captures: Sequence[Capture | None]) -> None:
        """Note what each capture holds now; None stands for a context that is not measured."""
        self._captured: list[tuple[Any, Any]] = []  # a capture, what it held
        for capture in captures:
            if capture is not None:
                self._captured.append((capture, capture.captured_so_far()))

    def roll_back(self) -> None:
        """Bring each capture back to what it held at the beginning."""
        for capture, captured in self._captured:
            capture.restore(captured)


@dataclass
class PackedContext:
    """One context's share of a packed pass.

    Attributes:
        start: Its first token in the pass.
        end: The token after its last one.
        cache: Its keys and values.
        capture: What measures its attention; None for nothing.
    """

    start: int
    end: int
    cache: Any
    capture: Capture | None = None
    _mask: Tensor | None = None

    @property
    def n_new(self) -> int:
        """How many new tokens the context has in the pass."""
        return self.end - self.start

    def causal_mask(self, n_keys: int, query: Tensor) -> Tensor | None:
        """The causal mask of the context's new tokens, which is added to the scores: 0, or minus
        infinity for later keys [1, 1, new, keys]. Made once a pass. None where one token is new or
        all are, as the kernel then needs none.

        Args:
            n_keys: How many keys the context has.
            query: Gives the type and the device.
        """
        if self.n_new in (1, n_keys):
            return None
        if self._mask is None or self._mask.device != query.device:
            all_true = torch.ones(self.n_new, n_keys, dtype=torch.bool, device=query.device)
            is_later = all_true.triu_(n_keys - self.n_new + 1)
            zeros = torch.zeros(1, 1, self.n_new, n_keys, dtype=query.dtype, device=query.device)
            self._mask = zeros.masked_fill_(is_later, float("-inf"))
        return self._mask


class WrittenRows(NamedTuple):
    """The queries of several contexts' written tokens, and the sums of their scores.

    Attributes:
        queries: [rows, layers, heads, size].
        log_sum_exps: Of the attention scores [rows, layers, heads].
    """

    queries: Tensor
    log_sum_exps: Tensor


@dataclass
class PackedPass:
    """A pass over several contexts.

    Attributes:
        contexts: The share of each, in the order of their tokens.
        pool: Holds their keys.
        layout_on: Device -> where they stand in the pool, for one kernel call over all; None: a
            call for each.
        watched_rows: The rows of the pass whose queries are kept, those of contexts whose written
            tokens are watched; None for none.
        n_calls: How many layers attended in one call.
        layer_queries: The queries of the watched rows [heads, rows, size], for each layer so far.
        layer_log_sum_exps: Those of their scores [heads, rows], for each layer so far.
        score_scaling: What the scores are multiplied by before the softmax.
    """

    contexts: list[PackedContext]
    pool: KVPool
    layout_on: Callable[[torch.device], PackLayout] | None = None
    watched_rows: Tensor | slice | None = None
    n_calls: int = 0
    layer_queries: list[Tensor] = field(default_factory=list)
    layer_log_sum_exps: list[Tensor] = field(default_factory=list)
    score_scaling: float = 1.0
    _watched_reading: WatchedRows | None = None

    def __post_init__(self) -> None:
        """Where one kernel call serves all contexts (`layout_on` is set), note which rows are
        measured: those of texts that are read, and those of contexts that write."""
        if self.layout_on is None:
            return
        requests: list[WatchRequest] = []
        rows_of_writing: list[int] = []
        for context in self.contexts:
            if isinstance(context.capture, FeedCapture):
                requests += context.capture.watch_requests(
                    first_row=context.start,
                    first_key=slot_of(context.cache).start,
                    n_new=context.n_new,
                )
            elif isinstance(context.capture, WriteCapture):
                rows_of_writing.append(context.start)  # its only new token
        if requests:
            self._watched_reading = WatchedRows(requests, max_layers=len(self.pool.keys))
        if rows_of_writing:
            self.watched_rows = torch.tensor(rows_of_writing)

    def attend(
        self, module: Any, query: Tensor, scaling: float, kwargs: Mapping[str, object]
    ) -> Tensor:
        """The output of every context's attention over its own keys in one layer: by one kernel
        call where `layout_on` is set, else by a call for each context, which its capture is given.

        Args:
            module: The layer.
            query: [1, heads, sum of new, size].
            scaling: What the scores are multiplied by before the softmax.
            kwargs: Further arguments of transformers, for its kernel.

        Returns:
            [1, sum of new, heads, size].
        """
        if self.layout_on is not None:
            layout = self.layout_on(query.device)
            return self._attend_in_one_call(module.layer_idx, query, scaling, layout)
        outputs = []
        for context in self.contexts:
            layer = context.cache.layers[module.layer_idx]
            own_query = query[:, :, context.start : context.end]
            mask = context.causal_mask(layer.get_seq_length(), own_query)
            attended = _fused_attention(
                module, own_query, layer.keys, layer.values, mask, scaling, kwargs
            )
            outputs.append(attended.output)
            if context.capture is not None:
                # A view would keep the queries of all contexts in memory for as long as one of them
                # writes.
                call = AttentionCall(
                    layer=module.layer_idx,
                    query=own_query.clone(),
                    key=layer.keys,
                    log_sum_exps=attended.log_sum_exps,
                    scaling=scaling,
                )
                context.capture.add_layer(call)
        return torch.cat(outputs, dim=1)

    def _attend_in_one_call(
        self, layer: int, query: Tensor, scaling: float, layout: PackLayout
    ) -> Tensor:
        """The output of every context's attention over its own keys in one layer, by one kernel
        call. Also keeps what is measured of the layer.

        Args:
            layer: The number of the layer.
            query: [1, heads, sum of new, size].
            scaling: What the scores are multiplied by before the softmax.
            layout: Where the contexts stand in the pool.

        Returns:
            [1, sum of new, heads, size].
        """
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        assert keys is not None
        assert values is not None
        output, log_sum_exps = packed_attention(
            query[0].transpose(0, 1), keys, values, layout, scaling
        )
        self.n_calls += 1
        self.score_scaling = scaling
        if self._watched_reading is not None:
            self._watched_reading.add_layer(query[0], keys, log_sum_exps, scaling)
        self._keep_watched_rows(query[0], log_sum_exps)
        self._give_layer_to_head_captures(layer, query, log_sum_exps, scaling)
        return output[None]

    def _keep_watched_rows(self, query: Tensor, log_sum_exps: Tensor) -> None:
        """Append what one layer has of the tokens in `watched_rows` to `layer_queries` and
        `layer_log_sum_exps`; nothing where no row is watched.

        Args:
            query: [heads, sum of new, size].
            log_sum_exps: [heads, sum of new].
        """
        if self.watched_rows is None:
            return
        if isinstance(self.watched_rows, Tensor):
            # Copied once, not in every layer.
            self.watched_rows = self.watched_rows.to(query.device)
        self.layer_queries.append(query[:, self.watched_rows])
        self.layer_log_sum_exps.append(log_sum_exps[:, self.watched_rows])

    def _give_layer_to_head_captures(
        self, layer: int, query: Tensor, log_sum_exps: Tensor, scaling: float
    ) -> None:
        """Add one layer's attention to the captures that measure it by head.

        Args:
            layer: The number of the layer.
            query: [1, heads, sum of new, size].
            log_sum_exps: [heads, sum of new].
            scaling: What the scores are multiplied by before the softmax.
        """
        for context in self.contexts:
            if isinstance(context.capture, HeadCapture):
                rows = slice(context.start, context.end)
                call = AttentionCall(
                    layer=layer,
                    query=query[:, :, rows],
                    key=context.cache.layers[layer].keys,
                    log_sum_exps=log_sum_exps[None, :, rows],
                    scaling=scaling,
                )
                context.capture.add_layer(call)

    def finish_captures(self) -> None:
        """Give the captures what one kernel call for all contexts measured; called after the last
        layer. Where each context had a call of its own (`layout_on` is None), its capture has all
        already."""
        if self.layout_on is None:
            return
        if self._watched_reading is not None:
            self._watched_reading.add_to_totals()
        writing: list[WriteCapture] = []
        for context in self.contexts:
            if isinstance(context.capture, FeedCapture):
                context.capture.calls_seen += self.n_calls
            elif isinstance(context.capture, WriteCapture):
                writing.append(context.capture)
        if writing:
            add_written_rows(writing, self.written_rows(), self.score_scaling)

    def written_rows(self) -> WrittenRows:
        """What was kept of the watched rows, over all layers: queries [rows, layers, heads, size]
        and log-sum-exps [rows, layers, heads]. Layers are [heads, rows, size] and [heads, rows]."""
        device = self.layer_queries[0].device
        queries = torch.stack([layer.to(device) for layer in self.layer_queries])
        log_sum_exps = torch.stack([layer.to(device) for layer in self.layer_log_sum_exps])
        return WrittenRows(
            queries.permute(2, 0, 1, 3).contiguous(), log_sum_exps.permute(2, 0, 1).contiguous()
        )


def add_written_rows(captures: Sequence[WriteCapture], rows: WrittenRows, scaling: float) -> None:
    """Give each capture the queries and log-sum-exps of its written token, as a step that waits to
    be reduced.

    Args:
        captures: One for each row.
        rows: The rows, in the order of the captures.
        scaling: What the scores are multiplied by before the softmax.
    """
    for capture, queries, log_sum_exps in zip(captures, *rows, strict=True):
        capture.add_step(WrittenStep(queries, log_sum_exps), scaling)


@contextlib.contextmanager
def attention_calls(
    *, pack: PackedPass | None = None, capture: Capture | None = None
) -> Iterator[None]:
    """Context manager: inside, attention calls of this thread serve the contexts of `pack`, or a
    single context.

    Args:
        pack: The contexts of a packed pass; None for a single one.
        capture: What measures the attention of the single one; None for nothing.
    """
    _local.pack, _local.capture = pack, capture
    try:
        yield
    finally:
        _local.pack = _local.capture = None


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,  # noqa: ARG001 - given by position where kvpress wraps this function
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention function that transformers calls: fused attention, measured by the active
    capture or pack.

    Args:
        module: The layer.
        query: [1, heads, new, size].
        key: [1, kv_heads, keys, size].
        value: Like `key`.
        attention_mask: None for the causal one.
        dropout: Not used.
        scaling: What the scores are multiplied by before the softmax; None for 1 / root of the
            size.
        **kwargs: Further arguments of transformers.

    Returns:
        The output [1, new, heads, size], and None in the place of weights.

    Raises:
        CannotRun: The layer masks or scales its scores in a way that is not reproduced.
    """
    score_scaling = query.shape[-1] ** -0.5
    if scaling is not None:
        score_scaling = float(scaling)
    _check_arguments(module, kwargs)
    pack: PackedPass | None = getattr(_local, "pack", None)
    if pack is not None:
        return pack.attend(module, query, score_scaling, kwargs), None
    attended = _fused_attention(module, query, key, value, attention_mask, score_scaling, kwargs)
    capture: Capture | None = getattr(_local, "capture", None)
    if capture is not None:
        if not _is_causal(module, attention_mask, query.shape[2], kwargs):
            raise CannotRun(
                f"{type(module).__name__} masks or biases its scores beyond the causal mask, which "
                "attention capture "
                "does not reproduce; choose another model, or a method that needs no attention"
            )
        call = AttentionCall(
            layer=module.layer_idx,
            query=query,
            key=key,
            log_sum_exps=attended.log_sum_exps,
            scaling=score_scaling,
        )
        capture.add_layer(call)
    return attended.output, None


def _check_arguments(module: Any, kwargs: Mapping[str, object]) -> None:
    """Raise CannotRun where transformers passes an argument that changes the scores of an attention
    call and that the fused kernel does not apply."""
    given = {name for name, value in kwargs.items() if value is not None}
    unknown = sorted(given - NEUTRAL_ARGUMENTS)
    if unknown:
        raise CannotRun(
            f"{type(module).__name__} passes {', '.join(map(repr, unknown))} to its attention, "
            "which the fused kernel "
            "does not apply; set --set model.attention=eager"
        )


def _is_causal(module: Any, mask: Tensor | None, n_new: int, kwargs: Mapping[str, object]) -> bool:
    """Whether the mask of an attention call is the causal one and nothing more.

    Args:
        module: The layer.
        mask: The mask of the call: True, or 0, for keys that are seen; None where the call's or the
            layer's `is_causal` counts.
        n_new: New tokens of the call, one a row of the mask; the last one sees all keys.
        kwargs: The other arguments of the call.
    """
    if mask is None:
        is_causal = kwargs.get("is_causal")
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        return n_new == 1 or bool(is_causal)
    all_true = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device)
    is_seen = all_true.tril_(mask.shape[-1] - n_new)
    if mask.dtype == torch.bool:
        return bool((mask == is_seen).all())
    adds_nothing_to_seen = ((mask == 0) == is_seen).all()
    hides_all_later = ((mask < -1e4) != is_seen).all()
    return bool(adds_nothing_to_seen and hides_all_later)


def _fused_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float,
    kwargs: Mapping[str, object],
) -> Attended:
    """Run fused attention: on the CPU with log-sum-exps, elsewhere by transformers' own kernel,
    without them.

    Args:
        module: The layer.
        query: [1, heads, new, size].
        key: [1, kv heads, keys, size].
        value: [1, kv heads, keys, size].
        mask: None for the causal one.
        scaling: What the scores are multiplied by before the softmax.
        kwargs: The other arguments of the call, for transformers' own kernel.

    Returns:
        The output [1, new, heads, size], with the log-sum-exps of the scores [1, heads, new], None
        where the kernel does not give them.
    """
    is_on_cpu = query.device.type == "cpu"
    is_inference = not torch.is_grad_enabled()
    # The CPU kernel wants heads of one size; the keys of latent attention (DeepSeek-V2) are longer
    # than its values.
    has_one_size = query.shape[-1] == value.shape[-1]
    if is_on_cpu and is_inference and has_one_size:
        is_one_row = mask is None and query.shape[2] == 1
        # Faster for one row, but for float32.
        if is_one_row and query.dtype != torch.float32:
            attended = one_row_attention(query, key, value, scaling)
        else:
            is_causal = mask is None and not is_one_row
            attended = cpu_attention(query, key, value, mask, scaling, is_causal=is_causal)
        return Attended(attended.output.transpose(1, 2), attended.log_sum_exps)
    output, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scaling, **kwargs)
    return Attended(output, log_sum_exps=None)


def install() -> str:
    """Register the attention function and its mask with transformers; returns the kernel's name."""
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME
