"""Attention weights of few rows or columns, taken inside the fused kernel's call, never as a tokens x tokens matrix.

    feed, few watched columns     weight = exp(q k - lse), lse = the fused kernel's log-sum-exp (the CPU kernel's)
    feed otherwise, and writing   softmax(q K^T) for blocks of 64 rows, mean over heads, then times the token-to-span
                                  indicator: 64 x tokens at a time
    writing                       the query rows are kept and reduced 64 at a time, so a step costs no extra pass

`install()` registers the attention function under the name "harness" with transformers; a model loaded with that name
runs plain fused attention until a Capture is active in the thread, or a Pack: then the tokens of several contexts stand
behind each other, and each context's tokens attend to its own keys alone, in a kernel call of their own. No padding, so
a context's arithmetic is what it is alone.

The weights are those of softmax(q K^T * scaling) under the causal mask and nothing else. harness.llm.families refuses
other attention from config.json; what it misses raises CannotRun here, at the first call.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from harness.errors import CannotRun

NAME = "harness"
BLOCK = 64
# Above this many watched columns gathering keys and exp() cost more than reducing whole rows in blocks.
FEW_COLUMNS = 256
# Arguments of an attention call that leave its scores alone; a sliding window works through the mask.
NEUTRAL = frozenset(
    {
        "cache_position",
        "dropout",
        "is_causal",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "position_embeddings",
        "position_ids",
        "sliding_window",
        "use_cache",
    }
)
Ranges = Sequence[tuple[int, int]]

_local = threading.local()


def _scale(scaling: float | None, query: torch.Tensor) -> float:
    return float(scaling if scaling is not None else query.shape[-1] ** -0.5)


def block_weights(query: torch.Tensor, key: torch.Tensor, first: int, spans: Ranges, scaling: float) -> torch.Tensor:
    """Mean attention of each query row to each span of keys, averaged over heads and the span's tokens.

    query: [heads, rows, size], row i standing at position `first` + i; key: [kv_heads, tokens, size].
    Returns float32 [rows, spans]. At most BLOCK x tokens weights a head exist at a time.
    """
    heads, rows, _ = query.shape
    kv_heads = key.shape[0]
    out = torch.zeros(rows, len(spans))
    for r in range(0, rows, BLOCK):
        q = query[:, r : r + BLOCK].float()
        last = first + r + q.shape[1]
        k = key[:, :last].float()
        # Heads that share a key/value head are laid side by side as rows: no copy of the keys.
        q = q.reshape(kv_heads, heads // kv_heads * q.shape[1], -1)
        scores = (q @ k.transpose(-1, -2)).mul_(scaling).view(heads, -1, last)
        position = torch.arange(first + r, last, device=key.device)
        later = torch.arange(last, device=key.device)[None] > position[:, None]
        weights = scores.masked_fill_(later, float("-inf")).softmax(-1).mean(0)
        for i, (a, b) in enumerate(spans):
            out[r : r + BLOCK, i] = weights[:, a:b].mean(-1).cpu()
    return out


@dataclass
class FeedCapture:
    """The attention that a prefill reports: for each (rows, spans) request the mean attention of the rows to each span.

    Positions are absolute; `first` is the position of the first new token; every span ends at or before its rows.
    """

    first: int
    requests: list[tuple[tuple[int, int], Ranges]]
    totals: list[torch.Tensor] = field(default_factory=list)
    layers: int = 0

    def __post_init__(self) -> None:
        self.totals = [torch.zeros(len(spans)) for _, spans in self.requests]
        self.columns = sorted({c for _, spans in self.requests for a, b in spans for c in range(a, b)})

    def take(self, query: torch.Tensor, key: torch.Tensor, lse: torch.Tensor | None, scaling: float) -> None:
        """Add one layer. query [1, heads, new, size]; key [1, kv_heads, tokens, size]; lse [1, heads, new] or None."""
        new = query.shape[2]
        inside = [(i, rows) for i, (rows, _) in enumerate(self.requests) if self._inside(rows, new)]
        if lse is not None and len(self.columns) <= FEW_COLUMNS:
            self._from_lse(query, key, lse, scaling, inside)
        else:
            for i, (a, b) in inside:
                spans, rows = self.requests[i][1], slice(max(a - self.first, 0), b - self.first)
                part = block_weights(query[0, :, rows], key[0], self.first + rows.start, spans, scaling)
                self.totals[i] += part.sum(0)
        self.layers += 1

    def mark(self) -> Any:
        """A mark for `back_to`, which drops the captures after it."""
        return self.layers, [t.clone() for t in self.totals]

    def back_to(self, mark: Any) -> None:
        """Drop the captures since `mark`."""
        self.layers, self.totals = mark

    def _inside(self, rows: tuple[int, int], new: int) -> bool:
        return rows[0] < self.first + new and rows[1] > self.first

    def _from_lse(
        self, query: torch.Tensor, key: torch.Tensor, lse: torch.Tensor, scaling: float, inside: list[Any]
    ) -> None:
        heads, kv_heads = query.shape[1], key.shape[1]
        new = query.shape[2]
        # Only columns that are already in the cache of this piece can be watched (spans precede their rows).
        columns = [c for c in self.columns if c < key.shape[2]]
        k = key[0][:, columns].float()
        q = query[0].float().reshape(kv_heads, heads // kv_heads * new, -1)
        scores = (q @ k.transpose(-1, -2)).mul_(scaling).view(heads, new, len(columns))
        weights = scores.sub_(lse[0].float()[:, :, None]).exp_().mean(0)
        at = {c: n for n, c in enumerate(columns)}
        for i, (a, b) in inside:
            rows = weights[max(a - self.first, 0) : b - self.first]
            for j, (x, y) in enumerate(self.requests[i][1]):
                self.totals[i][j] += rows[:, at[x] : at[x] + y - x].mean(-1).sum().cpu()

    def results(self, layers: int) -> list[tuple[float, ...]]:
        """Means over the layers and each request's rows. Raises RuntimeError when layers were not seen."""
        if self.layers < layers or self.layers % layers:
            raise RuntimeError(
                f"attention was captured in {self.layers} of {layers} layers: kernel '{NAME}' not in use"
            )
        return [
            tuple((t / layers / (b - a)).tolist()) for t, ((a, b), _) in zip(self.totals, self.requests, strict=True)
        ]


@dataclass
class WriteCapture:
    """Keeps the query rows of written tokens and reduces them in blocks against the keys of the newest one."""

    first: int
    spans: Ranges
    rows: list[torch.Tensor] = field(default_factory=list)
    queries: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    keys: dict[int, torch.Tensor] = field(default_factory=dict)
    scaling: dict[int, float] = field(default_factory=dict)

    def keep(self, layer: int, query: torch.Tensor, key: torch.Tensor, scaling: float) -> None:
        """Keep one step's query [1, heads, 1, size] and all keys [1, kv_heads, tokens, size] of `layer`.

        The keys are those of the attention call: a cache may hold something else (latents, in DeepSeek-V2).
        """
        self.queries.setdefault(layer, []).append(query[0])
        self.keys[layer], self.scaling[layer] = key[0], scaling

    def mark(self) -> Any:
        """A mark for `back_to`, which drops the captures after it."""
        return self.waiting()

    def back_to(self, mark: Any) -> None:
        """Drop the captures since `mark`; there must be no reduction in between."""
        self.queries = {layer: rows[:mark] for layer, rows in self.queries.items()} if mark else {}

    def waiting(self) -> int:
        """Number of rows kept and not yet reduced."""
        return len(next(iter(self.queries.values()), []))

    def reduce(self, layers: int) -> None:
        """Reduce all kept rows. Raises RuntimeError when not all of the model's `layers` were seen."""
        if not self.queries:
            return
        if len(self.queries) != layers:
            raise RuntimeError(f"attention was captured in {len(self.queries)} of {layers} layers")
        total = torch.zeros(self.waiting(), len(self.spans))
        for layer, query in self.queries.items():
            stacked = torch.cat(query, dim=1)
            total += block_weights(stacked, self.keys[layer], self.first, self.spans, self.scaling[layer])
        self.first += total.shape[0]
        self.rows.append(total / layers)
        self.queries, self.keys = {}, {}

    def result(self) -> torch.Tensor:
        """Float32 [tokens, spans]."""
        return torch.cat(self.rows) if self.rows else torch.zeros(0, len(self.spans))


@dataclass
class Part:
    """One context's share of a packed pass: tokens [start, end) of the pass, its cache, and what is captured."""

    start: int
    end: int
    cache: Any
    capture: FeedCapture | WriteCapture | None = None
    _mask: torch.Tensor | None = None

    def mask(self, keys: int, query: torch.Tensor) -> torch.Tensor | None:
        """The additive mask [1, 1, new, keys], made once a pass; None where "causal" or "everything" says it all."""
        new = self.end - self.start
        if new in (1, keys):
            return None
        if self._mask is None or self._mask.device != query.device:
            later = torch.ones(new, keys, dtype=torch.bool, device=query.device).triu_(keys - new + 1)
            blank = torch.zeros(1, 1, new, keys, dtype=query.dtype, device=query.device)
            self._mask = blank.masked_fill_(later, float("-inf"))
        return self._mask


@dataclass
class Pack:
    """The contexts of one packed pass, in the order of their tokens."""

    parts: list[Part]

    def attend(self, module: Any, query: torch.Tensor, scaling: float, kwargs: dict[str, Any]) -> torch.Tensor:
        """Attention of every context over its own keys. query [1, heads, sum of new, size]; [1, new, heads, size]."""
        outs = []
        for part in self.parts:
            layer = part.cache.layers[module.layer_idx]
            own = query[:, :, part.start : part.end]
            out, lse = _fused(module, own, layer.keys, layer.values, part.mask(layer.used, own), scaling, kwargs)
            outs.append(out)
            # A view would keep the queries of all contexts in memory for as long as one of them writes.
            _report(part.capture, module, own.clone() if part.capture is not None else own, layer.keys, lse, scaling)
        return torch.cat(outs, dim=1)


@contextlib.contextmanager
def packed(pack: Pack) -> Iterator[None]:
    """Make attention calls in this thread those of `pack`."""
    _local.pack = pack
    try:
        yield
    finally:
        _local.pack = None


@contextlib.contextmanager
def active(capture: FeedCapture | WriteCapture | None) -> Iterator[None]:
    """Make `capture` the one that attention calls in this thread report to."""
    before = getattr(_local, "capture", None)
    _local.capture = capture
    try:
        yield
    finally:
        _local.capture = before


def _cpu_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scaling: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fused CPU attention with its log-sum-exp; takes grouped heads as they are, where torch's own path copies them."""
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=mask, scale=scaling
    )
    return out, lse


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    scale = _scale(scaling, query)
    if unknown := sorted(name for name, value in kwargs.items() if value is not None and name not in NEUTRAL):
        raise CannotRun(
            f"{type(module).__name__} passes {', '.join(map(repr, unknown))} to its attention, which the fused kernel "
            "does not apply; set --set model.attention=eager"
        )
    pack: Pack | None = getattr(_local, "pack", None)
    if pack is not None:
        return pack.attend(module, query, scale, kwargs), None
    out, lse = _fused(module, query, key, value, attention_mask, scale, kwargs)
    capture = getattr(_local, "capture", None)
    if capture is not None and not _causal(module, attention_mask, query.shape[2], kwargs):
        raise CannotRun(
            f"{type(module).__name__} masks or biases its scores beyond the causal mask, which attention capture does "
            "not reproduce; choose another model, or a method that needs no attention"
        )
    _report(capture, module, query, key, lse, scale)
    return out, None


def _causal(module: Any, mask: torch.Tensor | None, new: int, kwargs: dict[str, Any]) -> bool:
    """Whether the scores of `new` queries are masked causally and not changed otherwise."""
    if mask is None:
        is_causal = kwargs.get("is_causal")
        return new == 1 or bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    earlier = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).tril_(mask.shape[-1] - new)
    if mask.dtype == torch.bool:
        return bool((mask == earlier).all())
    return bool(((mask == 0) == earlier).all() and ((mask < -1e4) != earlier).all())


def _fused(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    kwargs: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Fused attention, [1, new, heads, size], and its log-sum-exp where the kernel gives it."""
    # The CPU kernel wants heads of one size; the keys of latent attention (DeepSeek-V2) are longer than its values.
    if query.device.type == "cpu" and not torch.is_grad_enabled() and query.shape[-1] == value.shape[-1]:
        causal = mask is None and query.shape[2] > 1
        out, lse = _cpu_attention(query, key, value, mask, scale, causal)
        return out.transpose(1, 2), lse
    out, _ = sdpa_attention_forward(module, query, key, value, mask, scaling=scale, **kwargs)
    return out, None


def _report(
    capture: FeedCapture | WriteCapture | None,
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    lse: torch.Tensor | None,
    scale: float,
) -> None:
    if isinstance(capture, FeedCapture):
        capture.take(query, key, lse, scale)
    elif isinstance(capture, WriteCapture):
        capture.keep(module.layer_idx, query, key, scale)


def install() -> str:
    """Register the attention function and its mask with transformers; returns the kernel's name."""
    AttentionInterface.register(NAME, _attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    return NAME
