"""Attention kernels that give the log-sum-exp of their scores, from which capture takes its weights.

On the CPU each context has a call of its own. On CUDA there is one for all contexts of a pass, over the arena that
holds their keys (harness/llm/kv.py):

    queries of the pass   | a | b b b b b | c |              one row a new token
    the arena             | a a a a . . | b b b b b b . | . . . | c c c . |
    Lengths               starts 0, 6, 16; lengths 4, 6, 3: no padding, no copy of keys
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch


def cpu_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scaling: float, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fused CPU attention with its log-sum-exp; takes grouped heads as they are, where torch's own path copies them."""
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, causal, attn_mask=mask, scale=scaling
    )
    return out, lse


def one_row_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `cpu_attention` for one query token in bfloat16 or float16, by products in float32.

    The fused kernel is made for many rows: for one over 400 keys (9 heads of 64) it takes 280 us, this 70 us, and at
    3,000 keys 2,300 and 310 us; in float32 it is the fused kernel that is faster.
    """
    kv_heads, heads = key.shape[1], query.shape[1]
    rows = query.reshape(kv_heads, heads // kv_heads, -1).float()
    scores = (rows @ key[0].float().transpose(1, 2)).mul_(scaling)
    highest = scores.amax(-1, keepdim=True)
    weights = scores.sub_(highest).exp_()
    total = weights.sum(-1, keepdim=True)
    out = (weights @ value[0].float()).div_(total)
    lse = highest + total.log()
    return out.to(query.dtype).view(1, heads, 1, -1), lse.view(1, heads, 1)


@dataclass(frozen=True)
class PackLayout:
    """Where the contexts of a pass stand: `new` tokens of each, whose keys are [start, start + keys) in the arena.

    The contexts are in the order of their places in the arena.
    """

    new: Sequence[int]
    starts: Sequence[int]
    keys: Sequence[int]


@dataclass(frozen=True)
class DeviceLayout:
    """A PackLayout as int32 tensors on one device.

    rows, places [contexts + 1]: where each context's new tokens and its keys begin, and the end; keys [contexts];
    most_new, most_keys: of one context, at most.
    """

    rows: torch.Tensor
    places: torch.Tensor
    keys: torch.Tensor
    most_new: int
    most_keys: int


class VarlenKernel:
    """Causal attention of the last `new` tokens of each context. The layout of a pass goes to the device once.

    num_splits: 1 computes a context alike whatever contexts are beside it; None leaves the choice to the kernel.
    """

    def __init__(self, num_splits: int | None = None) -> None:
        self._splits = num_splits
        self._at: PackLayout | None = None
        self._on: dict[torch.device, DeviceLayout] = {}

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, at: PackLayout | DeviceLayout, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(Output [new tokens, heads, size], log-sum-exp [heads, new tokens] in float32).

        query: [new tokens, heads, size]; key, value: [tokens of the arena, kv_heads, size].
        """
        from torch.nn.attention.varlen import AuxRequest, varlen_attn

        there = at if isinstance(at, DeviceLayout) else self._on_device(at, query.device)
        result = varlen_attn(
            query.contiguous(),
            key,
            value,
            there.rows,
            there.places,
            there.most_new,
            there.most_keys,
            return_aux=AuxRequest(lse=True),
            scale=scale,
            window_size=(-1, 0),
            enable_gqa=query.shape[1] != key.shape[1],
            seqused_k=there.keys,
            num_splits=self._splits,
        )
        assert isinstance(result, tuple)  # it is one with return_aux
        return result

    def _on_device(self, at: PackLayout, device: torch.device) -> DeviceLayout:
        if at is not self._at:
            self._at, self._on = at, {}
        if device not in self._on:
            ends = list(accumulate(at.new, initial=0))
            # The last place only closes the list: how long the last context is stands in `keys`, as for the others.
            places = [*at.starts, at.starts[-1] + at.keys[-1]]
            rows, starts, keys = (torch.tensor(n, dtype=torch.int32, device=device) for n in (ends, places, at.keys))
            self._on[device] = DeviceLayout(rows, starts, keys, max(at.new), max(at.keys))
        return self._on[device]
