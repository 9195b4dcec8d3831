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
from harness.llm.kernels import PackLayout, cpu_attention, one_row_attention, packed_attention
from harness.llm.kv import KVPool, slot_of

NAME = "harness"
# Arguments of an attention call that leave its scores alone; a sliding window works through the
# mask.
_NEUTRAL_LINES = """
cache_position dropout is_causal output_attentions output_hidden_states output_router_logits position_embeddings
position_ids sliding_window use_cache num_logits_to_keep
"""
NEUTRAL = frozenset(_NEUTRAL_LINES.split())

_local = threading.local()


class AttentionCall(NamedTuple):
    """One layer's call of attention for one context of `tokens` tokens, the `new` ones of this pass
    included.

    Attributes:
        layer: The number of the layer.
        query: [1, heads, new, size].
        key: [1, kv_heads, tokens, size], which a cache may hold in another form (latents, in
            DeepSeek-V2).
        lse: Log-sum-exp of each row's scores [1, heads, new]; None where the kernel does not give
            it.
        scaling: The factor of the scores.
    """

    layer: int
    query: Tensor
    key: Tensor
    lse: Tensor | None
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
        rows: How many rows were added.
        sums: Layer -> sums [heads, keys].
    """

    rows: int
    sums: dict[int, Tensor]


class RowsInPass(NamedTuple):
    """The rows of a request of FeedCapture that a pass reads.

    Attributes:
        request: The number of the request.
        rows: Where they are among the new tokens of the pass.
    """

    request: int
    rows: slice


class _WatchedPass(NamedTuple):
    """What sums up the attention of one pass.

    Attributes:
        first: The position of the pass's first new token.
        rows: Adds to the `totals` of the FeedCapture that made it, whenever it is finished.
    """

    first: int
    rows: WatchedRows


@dataclass
class FeedCapture:
    """Measures, while a text is read, the mean attention of its tokens to earlier spans.

    Attributes:
        first: The position of the pass's first new token.
        requests: What is measured.
        totals: For each request the sums [spans] so far.
        calls_seen: How many calls of attention were seen so far: in each pass one a layer.
    """

    first: int
    requests: list[FeedRequest]
    totals: list[np.ndarray] = field(default_factory=list)
    calls_seen: int = 0
    _watched: _WatchedPass | None = None

    def __post_init__(self) -> None:
        """Begin with sums of 0."""
        self.totals = [np.zeros(len(request.spans), np.float32) for request in self.requests]

    def in_pass(self, new: int) -> list[RowsInPass]:
        """The rows of each request among the pass's `new` tokens; requests without any are left
        out."""
        parts: list[RowsInPass] = []
        for n, request in enumerate(self.requests):
            rows = slice(max(request.start - self.first, 0), min(request.end - self.first, new))
            if rows.start < rows.stop:
                parts.append(RowsInPass(n, rows))
        return parts

    def take(self, call: AttentionCall) -> None:
        """Add the attention of one layer's call, of which this context has all rows."""
        if call.lse is None:
            self._add_by_softmax(call)
        else:
            self._add_by_lse(call, call.lse)
        self.calls_seen += 1

    def _add_by_softmax(self, call: AttentionCall) -> None:
        """Add the attention of a layer to `totals`, from all scores of a row."""
        query, key = call.query[0], call.key[0]
        for n, rows in self.in_pass(query.shape[1]):
            first = self.first + rows.start
            spans = self.requests[n].spans
            weights = block_weights(query[:, rows], key, first, spans, call.scaling)
            self.totals[n] += weights.sum(0).cpu().numpy()

    def _add_by_lse(self, call: AttentionCall, lse: Tensor) -> None:
        """Add the attention of a layer to `totals`, from log-sum-exps: only keys of spans are read.

        Args:
            call: The layer's call.
            lse: Its log-sum-exps.
        """
        query, key = call.query[0], call.key[0]
        if self._watched is None or self._watched.first != self.first:
            # Made once a pass: the layers have the same rows and spans.
            requests = self.watched(0, 0, query.shape[1])
            self._watched = _WatchedPass(self.first, WatchedRows(requests, layers=1))
        self._watched.rows.take(query, key.transpose(0, 1), lse[0], call.scaling)
        # Writes the layer's sums into `totals`, which the requests of `watched` refer to.
        self._watched.rows.finish()

    def watched(self, row: int, place: int, new: int) -> list[WatchRequest]:
        """The requests that have rows in the pass, as WatchedRows takes them; they add to `totals`.

        Args:
            row: Where the context's new tokens begin in what WatchedRows is given.
            place: Where its keys begin there.
            new: The number of new tokens.
        """
        requests = []
        for n, rows in self.in_pass(new):
            spans = [(place + start, place + end) for start, end in self.requests[n].spans]
            own_rows = range(row + rows.start, row + rows.stop)
            requests.append(WatchRequest(self.totals[n], own_rows, spans))
        return requests

    def saved(self) -> FeedCaptured:
        """What was captured so far, to come back to by `restore` where the next pass fails."""
        return FeedCaptured(self.calls_seen, [total.copy() for total in self.totals])

    def restore(self, captured: FeedCaptured) -> None:
        """Go back to what `saved` returned."""
        self.calls_seen = captured.calls_seen
        self.totals = captured.totals
        self._watched = None

    def results(self, layers: int) -> list[tuple[float, ...]]:
        """The mean attention over the rows of each request and over the layers: a tuple of one
        number a span, for each request.

        Args:
            layers: The number of layers of the model.

        Raises:
            RuntimeError: The call of a layer was not seen. A whole pass adds `layers` to the calls,
                so a number that this does not divide lacks some.
        """
        if self.calls_seen < layers or self.calls_seen % layers:
            raise RuntimeError(
                f"attention was captured in {self.calls_seen} of {layers} layers: kernel '{NAME}' not "
                "in use"
            )
        means = []
        for total, request in zip(self.totals, self.requests, strict=True):
            n_rows = request.end - request.start
            means.append(tuple((total / layers / n_rows).tolist()))
        return means


@dataclass
class HeadCapture:
    """Measures the attention of every query head from the rows of a pass to some keys of the cache.

    Heads that share a key/value head are kept separate, and nothing is averaged over heads.

    Attributes:
        keys: Positions [start, end) of the keys.
        first: The position of the pass's first new token.
        rows: How many rows were added.
        sums: Layer -> float32 [heads, keys], summed over rows.
    """

    keys: tuple[int, int]
    first: int = 0
    rows: int = 0
    sums: dict[int, Tensor] = field(default_factory=dict)

    def take(self, call: AttentionCall) -> None:
        """Add the attention of one layer's call to the sums of the layer."""
        (start, end), layer = self.keys, call.layer
        for _, weights in weight_blocks(call.query[0], call.key[0], self.first, call.scaling):
            part = torch.zeros(call.query.shape[1], end - start, device=weights.device)
            # A block's weights end with the key of its last row.
            seen = weights[:, :, start:end].sum(1)
            part[:, : seen.shape[1]] = seen
            if layer in self.sums:
                part = self.sums[layer] + part
            self.sums[layer] = part
        if layer == min(self.sums):
            self.rows += call.query.shape[2]

    def saved(self) -> HeadCaptured:
        """What was captured so far, to come back to by `restore` where the next pass fails."""
        return HeadCaptured(self.rows, dict(self.sums))

    def restore(self, captured: HeadCaptured) -> None:
        """Go back to what `saved` returned."""
        self.rows = captured.rows
        self.sums = captured.sums

    def result(self, layers: int) -> Tensor:
        """Mean over the rows: float32 [layers, heads, keys]. Raises RuntimeError when layers were
        not seen."""
        if len(self.sums) != layers:
            raise RuntimeError(f"attention was captured in {len(self.sums)} of {layers} layers")
        return torch.stack([self.sums[layer].cpu() for layer in sorted(self.sums)]) / self.rows


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
        first: The position of the oldest row that waits.
        spans: Positions [start, end) in the context.
        cache: The cache of the context.
        rows: Means [rows, spans] of each block that was reduced.
        steps: The rows that wait, oldest first.
        keys: [kv_heads, tokens, size] of each layer, where a cache holds them in another form; else
            [].
        scaling: The factor of the scores.
    """

    first: int
    spans: Ranges
    cache: Any
    rows: list[np.ndarray] = field(default_factory=list)
    steps: list[WrittenStep] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    scaling: float = 1.0
    _calls: list[AttentionCall] = field(default_factory=list)
    _reducing: Any = field(default_factory=threading.Lock, repr=False, compare=False)

    def take(self, call: AttentionCall) -> None:
        """Keep one layer's query row of a written token; with the last layer's, the step is
        complete."""
        self._calls.append(call)
        if len(self._calls) < len(self.cache.layers):
            return
        calls, self._calls = self._calls, []
        device = calls[0].query.device
        queries = torch.stack([each.query[0, :, 0].to(device) for each in calls])
        lses = [each.lse[0, :, 0].to(device) for each in calls if each.lse is not None]
        sums = None
        if lses:
            sums = torch.stack(lses)
        self.keys = [each.key[0] for each in calls]
        self.add(queries, sums, call.scaling)

    def add(self, queries: Tensor, sums: Tensor | None, scaling: float) -> None:
        """Keep the queries of a step until they are reduced.

        Args:
            queries: [layers, heads, size].
            sums: Log-sum-exps of the scores [layers, heads]; None where they are unknown.
            scaling: The factor of the scores.
        """
        self.steps.append(WrittenStep(queries, sums))
        self.scaling = scaling

    def saved(self) -> int:
        """How many rows wait to be reduced, to come back to by `restore` where the next pass
        fails."""
        return len(self.steps)

    def restore(self, waiting: int) -> None:
        """Drop the rows that came after the first `waiting` ones; what was reduced meanwhile
        stays."""
        del self.steps[waiting:]
        self._calls = []

    def reduce(self) -> None:
        """Turn the rows that wait into mean attentions, which are appended to `rows`. Raises
        RuntimeError where not all layers were seen."""
        with self._reducing:  # the context itself, or one that takes its place in memory
            layers = len(self.cache.layers)
            seen = len(self._calls)
            if not seen:
                seen = max((len(step.queries) for step in self.steps), default=0)
            if seen not in (0, layers):
                raise RuntimeError(f"attention was captured in {seen} of {layers} layers")
            if not self.steps:
                return
            # [layers, heads, rows, size]
            queries = torch.stack([step.queries for step in self.steps], 2)
            lses = [step.log_sum_exps for step in self.steps if step.log_sum_exps is not None]
            keys = self.keys or [layer.keys[0] for layer in self.cache.layers]
            total = self._over_layers(queries, lses, keys)
            self.rows.append(total.cpu().numpy() / len(keys))
            self.first += len(self.steps)
            self.steps, self.keys = [], []

    def _over_layers(
        self, queries: Tensor, lses: Sequence[Tensor], keys: Sequence[Tensor]
    ) -> Tensor:
        """The attention of the rows that wait, summed over the layers.

        Args:
            queries: [layers, heads, rows, size].
            lses: Log-sum-exps [layers, heads] of each row; none where they are unknown.
            keys: [kv_heads, tokens, size] of each layer.

        Returns:
            [rows, spans], float32.
        """
        if lses:
            return self._from_sums(queries, torch.stack([*lses], 2), keys)
        return self._from_scores(queries, keys)

    def _from_scores(self, queries: Tensor, keys: Sequence[Tensor]) -> Tensor:
        """The attention of the rows that wait, summed over the layers, from all scores of a row:
        float32 [rows, spans].

        Args:
            queries: [layers, heads, rows, size].
            keys: [kv_heads, tokens, size] of each layer.
        """
        parts: list[Tensor] = []
        for query, key in zip(queries, keys, strict=True):
            own = query.to(key.device)
            parts.append(block_weights(own, key, self.first, self.spans, self.scaling).cpu())
        return torch.stack(parts).sum(0)

    def _from_sums(self, queries: Tensor, sums: Tensor, keys: Sequence[Tensor]) -> Tensor:
        """The attention of the rows that wait, summed over the layers, from log-sum-exps, so that
        only the keys of the spans are read: float32 [rows, spans].

        Args:
            queries: [layers, heads, rows, size].
            sums: Log-sum-exps of the rows' scores [layers, heads, rows].
            keys: [kv_heads, tokens, size] of each layer.
        """
        layers, heads, rows, _ = queries.shape
        watched_keys = span_columns(self.spans)
        columns = torch.from_numpy(watched_keys.positions).to(queries.device)
        picked = torch.from_numpy(watched_keys.shares).to(queries.device)
        together = 1
        if queries.is_cuda:
            together = max(1, 2**28 // (heads * rows * len(columns)))  # 1 GiB of weights
        total = queries.new_zeros(rows, len(self.spans), dtype=torch.float32)
        for n in range(0, layers, together):
            part = slice(n, n + together)
            watched = torch.stack(
                [key[:, columns.to(key.device)].to(queries.device) for key in keys[part]]
            )
            arguments = queries[part, None], watched.transpose(1, 2)[:, None], sums[part, None]
            total += span_weights(*arguments, picked[None], self.scaling)[0]
        return total

    def result(self) -> np.ndarray:
        """Mean attention of each written token to each span: float32 [tokens, spans]."""
        return np.concatenate([np.zeros((0, len(self.spans)), np.float32), *self.rows])


Capture = FeedCapture | HeadCapture | WriteCapture


class CaptureTransaction:
    """Brings captures back to what they held when it was made, for a pass that fails."""

    def __init__(self, captures: Sequence[Capture | None]) -> None:
        """Note what each capture holds now; None stands for a context that is not measured."""
        self._saved: list[tuple[Any, Any]] = []
        for capture in captures:
            if capture is not None:
                self._saved.append((capture, capture.saved()))

    def roll_back(self) -> None:
        """Bring each capture back to what it held at the beginning."""
        for capture, state in self._saved:
            capture.restore(state)


@dataclass
class Part:
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

    def mask(self, keys: int, query: Tensor) -> Tensor | None:
        """The additive causal mask of the context's new tokens [1, 1, new, keys], made once a pass.
        None where one token is new or all are, as the kernel then needs none.

        Args:
            keys: How many keys the context has.
            query: Gives the type and the device.
        """
        new = self.end - self.start
        if new in (1, keys):
            return None
        if self._mask is None or self._mask.device != query.device:
            later = torch.ones(new, keys, dtype=torch.bool, device=query.device).triu_(
                keys - new + 1
            )
            blank = torch.zeros(1, 1, new, keys, dtype=query.dtype, device=query.device)
            self._mask = blank.masked_fill_(later, float("-inf"))
        return self._mask


@dataclass
class Pack:
    """The contexts of one packed pass, in the order of their tokens.

    Attributes:
        parts: The share of each.
        pool: Holds their keys.
        at: Device -> where they stand in the pool, for one kernel call over all; None: a call for
            each.
        writing: Which rows of the pass are of contexts whose written tokens are watched; None for
            none.
        calls: How many layers attended in one call.
        queries: The queries of these rows, a layer each [heads, rows, size].
        sums: Log-sum-exps of their scores, a layer each [heads, rows].
        scaling: The factor of the scores.
    """

    parts: list[Part]
    pool: KVPool
    at: Callable[[torch.device], PackLayout] | None = None
    writing: Tensor | slice | None = None
    calls: int = 0
    queries: list[Tensor] = field(default_factory=list)
    sums: list[Tensor] = field(default_factory=list)
    scaling: float = 1.0
    _watched: WatchedRows | None = None

    def __post_init__(self) -> None:
        """Where one kernel call serves all contexts (`at` is set), note which rows are measured:
        those of texts that are read, and those of contexts that write."""
        if self.at is not None:
            requests: list[WatchRequest] = []
            rows: list[int] = []
            for part in self.parts:
                if isinstance(part.capture, FeedCapture):
                    place = slot_of(part.cache).start
                    requests += part.capture.watched(part.start, place, part.end - part.start)
                elif isinstance(part.capture, WriteCapture):
                    rows.append(part.start)
            if requests:
                self._watched = WatchedRows(requests, len(self.pool.keys))
            if rows:
                self.writing = torch.tensor(rows)

    def attend(
        self, module: Any, query: Tensor, scaling: float, kwargs: Mapping[str, object]
    ) -> Tensor:
        """Attention of every context over its own keys in one layer. Also gives each capture what
        it measures.

        Args:
            module: The layer.
            query: [1, heads, sum of new, size].
            scaling: The factor of the scores.
            kwargs: Further arguments of transformers, for its kernel.

        Returns:
            [1, sum of new, heads, size].
        """
        if self.at is not None:
            return self._in_one_call(module.layer_idx, query, scaling, self.at(query.device))
        outs = []
        for part in self.parts:
            layer = part.cache.layers[module.layer_idx]
            rows = query[:, :, part.start : part.end]
            mask = part.mask(layer.get_seq_length(), rows)
            out, lse = _fused_attention(
                module, rows, layer.keys, layer.values, mask, scaling, kwargs
            )
            outs.append(out)
            if part.capture is not None:
                # A view would keep the queries of all contexts in memory for as long as one of them
                # writes.
                part.capture.take(
                    AttentionCall(module.layer_idx, rows.clone(), layer.keys, lse, scaling)
                )
        return torch.cat(outs, dim=1)

    def _in_one_call(self, layer: int, query: Tensor, scaling: float, at: PackLayout) -> Tensor:
        """The attention of every context over its own keys in one layer, by one kernel call. Also
        keeps what is measured of the layer: for texts that are read, for tokens that are written
        (`queries`, `sums`), and by head.

        Args:
            layer: The number of the layer.
            query: [1, heads, sum of new, size].
            scaling: The factor of the scores.
            at: Where the contexts stand in the pool.

        Returns:
            [1, sum of new, heads, size].
        """
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        assert keys is not None
        assert values is not None
        out, lse = packed_attention(query[0].transpose(0, 1), keys, values, at, scaling)
        self.calls += 1
        self.scaling = scaling
        if self._watched is not None:
            self._watched.take(query[0], keys, lse, scaling)
        if self.writing is not None:
            if isinstance(self.writing, Tensor):
                self.writing = self.writing.to(query.device)  # copied once, not in every layer
            self.queries.append(query[0][:, self.writing])
            self.sums.append(lse[:, self.writing])
        for part in self.parts:
            if isinstance(part.capture, HeadCapture):
                rows, own_keys = slice(part.start, part.end), part.cache.layers[layer].keys
                part.capture.take(
                    AttentionCall(layer, query[:, :, rows], own_keys, lse[None, :, rows], scaling)
                )
        return out[None]

    def finish(self) -> None:
        """Give the captures what one call for all contexts measured; called after the last layer.
        Where each context had a call of its own, its capture has all already."""
        if self.at is None:
            return
        if self._watched is not None:
            self._watched.finish()
        for part in self.parts:
            if isinstance(part.capture, FeedCapture):
                part.capture.calls_seen += self.calls
        captures = [part.capture for part in self.parts if isinstance(part.capture, WriteCapture)]
        if captures:
            keep_steps(captures, *self.step(), self.scaling)

    def step(self) -> tuple[Tensor, Tensor]:
        """What was kept of the rows `writing`: their queries [rows, layers, heads, size], and the
        log-sum-exps of their scores [rows, layers, heads]."""
        device = self.queries[0].device
        queries = torch.stack([part.to(device) for part in self.queries])
        sums = torch.stack([part.to(device) for part in self.sums])
        return queries.permute(2, 0, 1, 3).contiguous(), sums.permute(2, 0, 1).contiguous()


def keep_steps(
    captures: Sequence[WriteCapture], queries: Tensor, sums: Tensor, scaling: float
) -> None:
    """Give each capture the queries and log-sum-exps of its row of a step.

    Args:
        captures: One for each row.
        queries: [rows, layers, heads, size].
        sums: Log-sum-exps of the rows' scores [rows, layers, heads].
        scaling: The factor of the scores.
    """
    for capture, query, row_sums in zip(captures, queries, sums, strict=True):
        capture.add(query, row_sums, scaling)


@contextlib.contextmanager
def attention_calls(*, pack: Pack | None = None, capture: Capture | None = None) -> Iterator[None]:
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
        dropout: Not applied.
        scaling: The factor of the scores; None for 1 / root of the size.
        **kwargs: Further arguments of transformers.

    Returns:
        The output [1, new, heads, size], and None in the place of weights.

    Raises:
        CannotRun: The layer masks or scales its scores in a way that is not reproduced.
    """
    scale = query.shape[-1] ** -0.5
    if scaling is not None:
        scale = float(scaling)
    _check_arguments(module, kwargs)
    pack: Pack | None = getattr(_local, "pack", None)
    if pack is not None:
        return pack.attend(module, query, scale, kwargs), None
    out, lse = _fused_attention(module, query, key, value, attention_mask, scale, kwargs)
    capture: Capture | None = getattr(_local, "capture", None)
    if capture is not None:
        if not _is_causal(module, attention_mask, query.shape[2], kwargs):
            raise CannotRun(
                f"{type(module).__name__} masks or biases its scores beyond the causal mask, which "
                "attention capture "
                "does not reproduce; choose another model, or a method that needs no attention"
            )
        capture.take(AttentionCall(module.layer_idx, query, key, lse, scale))
    return out, None


def _check_arguments(module: Any, kwargs: Mapping[str, object]) -> None:
    """Raise CannotRun where transformers passes an argument that changes the scores of an attention
    call and that the fused kernel does not apply."""
    given = [name for name, value in kwargs.items() if value is not None]
    unknown = sorted(set(given) - NEUTRAL)
    if unknown:
        raise CannotRun(
            f"{type(module).__name__} passes {', '.join(map(repr, unknown))} to its attention, "
            "which the fused kernel "
            "does not apply; set --set model.attention=eager"
        )


def _is_causal(module: Any, mask: Tensor | None, new: int, kwargs: Mapping[str, object]) -> bool:
    """Whether the mask of an attention call is the causal one and nothing more.

    Args:
        module: The layer.
        mask: The mask of the call; where it is None, the call's or the layer's `is_causal` counts.
        new: Tokens of the call.
        kwargs: The other arguments of the call.
    """
    if mask is None:
        is_causal = kwargs.get("is_causal")
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        return new == 1 or bool(is_causal)
    earlier = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).tril_(
        mask.shape[-1] - new
    )
    if mask.dtype == torch.bool:
        return bool((mask == earlier).all())
    return bool(((mask == 0) == earlier).all() and ((mask < -1e4) != earlier).all())


def _fused_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    kwargs: Mapping[str, object],
) -> tuple[Tensor, Tensor | None]:
    """Run fused attention.

    Args:
        module: The layer.
        query: [1, heads, new, size].
        key: [1, kv heads, keys, size].
        value: [1, kv heads, keys, size].
        mask: None for the causal one.
        scale: The factor of the scores.
        kwargs: The other arguments of the call, for transformers' own kernel.

    Returns:
        The output [1, new, heads, size], and the log-sum-exp of the scores [1, heads, new], None
        where the kernel does not give it.
    """
    # The CPU kernel wants heads of one size; the keys of latent attention (DeepSeek-V2) are longer
    # than its values.
    if (
        query.device.type == "cpu"
        and not torch.is_grad_enabled()
        and query.shape[-1] == value.shape[-1]
    ):
        if mask is None and query.shape[2] == 1 and query.dtype != torch.float32:
            out, lse = one_row_attention(query, key, value, scale)
        else:
            causal = mask is None and query.shape[2] > 1
            out, lse = cpu_attention(query, key, value, mask, scale, causal)
        return out.transpose(1, 2), lse
    out, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scale, **kwargs)
    return out, None


def install() -> str:
    """Register the attention function and its mask with transformers; returns the kernel's name."""
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME
