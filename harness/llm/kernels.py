"""Attention that gives the log-sum-exp of its scores, for capture, and 16-bit products on CPUs that
lack them.

On the CPU each context has a call of its own. On CUDA there is one for all contexts of a pass, over
the pool that holds their keys (harness/llm/kv.py):

    queries of the pass   | a | b b b b b | c |              one row a new token
    the pool             | a a a a . . | b b b b b b . | . . . | c c c . |
    PackLayout            key_starts 0, 6, 16; key_counts 4, 6, 3: no padding, no copy of keys
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

_MIN_ROWS = 4  # with fewer rows the conversion of the weights takes longer than the product


class Attended(NamedTuple):
    """What an attention call gives.

    Attributes:
        output: The output of each head, in the shape that the function says.
        log_sum_exps: Of the scores of each row, for each head; None where the kernel does not give
            them.
    """

    output: Tensor
    log_sum_exps: Tensor | None


def cpu_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, is_causal: bool
) -> Attended:
    """Fused attention on the CPU, which also gives the log-sum-exp of the scores.

    Args:
        query: [1, heads, new, size].
        key: [1, kv_heads, tokens, size]; torch's own path would copy it for each head.
        value: Like `key`.
        mask: Numbers that are added to the scores, or True for tokens that are seen; None for none.
        scaling: What the scores are multiplied by before the softmax.
        is_causal: Whether a token sees only those before it and itself.

    Returns:
        The output [1, heads, new, size] and the log-sum-exps [1, heads, new].
    """
    added_mask = mask
    if mask is not None and mask.dtype == torch.bool:
        zeros = torch.zeros(mask.shape, dtype=query.dtype)
        added_mask = zeros.masked_fill_(~mask, float("-inf"))
    dropout = 0.0
    output, log_sum_exps = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout, is_causal, attn_mask=added_mask, scale=scaling
    )
    return Attended(output, log_sum_exps)


def one_row_attention(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Attended:
    """Attention on the CPU for one query token in bfloat16 or float16, by products in float32.

    Over 400 keys (9 heads of 64) the fused kernel (`cpu_attention`) takes 280 us, this 70 us; in
    float32 the fused kernel is faster.

    Args:
        query: [1, heads, 1, size].
        key: [1, kv_heads, tokens, size].
        value: Like `key`.
        scaling: What the scores are multiplied by before the softmax.

    Returns:
        The output [1, heads, 1, size] and the log-sum-exps [1, heads, 1].
    """
    kv_heads, heads = key.shape[1], query.shape[1]
    # Heads that share a key/value head are its rows.
    rows = query.reshape(kv_heads, heads // kv_heads, -1).float()
    scores = (rows @ key[0].float().transpose(1, 2)).mul_(scaling)
    highest = scores.amax(-1, keepdim=True)
    weights = scores.sub_(highest).exp_()
    total = weights.sum(-1, keepdim=True)
    output = (weights @ value[0].float()).div_(total)
    log_sum_exps = highest + total.log()
    return Attended(output.to(query.dtype).view(1, heads, 1, -1), log_sum_exps.view(1, heads, 1))


def has_slow_products(dtype: torch.dtype) -> bool:
    """Whether this CPU multiplies bfloat16 or float16 by PyTorch's plain loops, for want of AVX-512
    or the like."""
    support_checks = {
        torch.bfloat16: "_is_mkldnn_bf16_supported",
        torch.float16: "_is_mkldnn_fp16_supported",
    }
    is_available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not is_available or dtype not in support_checks:
        return False
    is_supported = getattr(torch.ops.mkldnn, support_checks[dtype])
    return not is_supported()


def multiply_in_float32(net: Any) -> None:
    """Change the linear layers of a 16-bit network so that they multiply in float32, and round to
    its dtype.

    For CPUs with `has_slow_products`. The sums are in float32 there, too, so results differ by
    rounding alone. On AVX2 a product of 1,024 rows by 1,536 x 576 weights takes 26 ms in place of
    215, one of 8 rows 0.6 in place of 1.7.
    """
    for module in net.modules():
        if type(module) is torch.nn.Linear:
            module.forward = partial(_float32_product, module)  # type: ignore[method-assign]


def _float32_product(layer: torch.nn.Linear, inputs: Tensor) -> Tensor:
    """The output of `layer` for inputs [..., in features], multiplied in float32 unless the rows
    are few."""
    if inputs.numel() < _MIN_ROWS * inputs.shape[-1]:
        return linear(inputs, layer.weight, layer.bias)
    bias = None
    if layer.bias is not None:
        bias = layer.bias.float()
    return linear(inputs.float(), layer.weight.float(), bias).to(inputs.dtype)


@dataclass(frozen=True)
class PackLayout:
    """Where the contexts of a pass stand in the pool, in the order of their positions there; int32
    tensors on one device.

    Attributes:
        row_starts: Where each context's new tokens begin in the pass, and the end [contexts + 1].
        key_starts: Where its keys begin in the pool, and the end [contexts + 1].
        key_counts: How many keys it has, the new ones included [contexts].
        max_new: Most new tokens of a context.
        max_keys: Most keys of a context.
    """

    row_starts: Tensor
    key_starts: Tensor
    key_counts: Tensor
    max_new: int
    max_keys: int


def pack_layout(
    new_counts: Sequence[int],
    key_starts: Sequence[int],
    key_counts: Sequence[int],
    key_bound: int,
    device: torch.device,
) -> PackLayout:
    """Where contexts stand in the pool, as `packed_attention` takes it.

    Where each has one new token the kernel splits the keys by `key_bound`, so that a recorded step,
    whose bound is fixed, splits and rounds as this one does.

    Args:
        new_counts: How many new tokens each context has.
        key_starts: The first position in the pool of each.
        key_counts: How many keys each has, the new ones included.
        key_bound: The most keys that any context may have.
        device: The device of the result.
    """

    def on_device(numbers: Sequence[int]) -> Tensor:
        """The numbers as an int32 tensor on the device."""
        return torch.tensor(numbers, dtype=torch.int32, device=device)

    # The last start only closes the list: how long the last context is stands in `key_counts`, as
    # for the others.
    closed_key_starts = [*key_starts, key_starts[-1] + key_counts[-1]]
    max_keys = max(key_counts)
    if max(new_counts) <= 1:
        max_keys = max(key_bound, max_keys)
    return PackLayout(
        row_starts=on_device(list(accumulate(new_counts, initial=0))),
        key_starts=on_device(closed_key_starts),
        key_counts=on_device(key_counts),
        max_new=max(new_counts),
        max_keys=max_keys,
    )


def packed_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: PackLayout, scaling: float
) -> tuple[Tensor, Tensor]:
    """Causal attention of the new tokens of each context, which are its last ones, in one call.

    Args:
        query: [new tokens, heads, size].
        key: [tokens of the pool, kv_heads, size].
        value: Like `key`.
        layout: Where the contexts stand in the pool.
        scaling: What the scores are multiplied by before the softmax.

    Returns:
        The output [new tokens, heads, size], and the log-sum-exps of the scores [heads, new tokens]
        in float32.
    """
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    # The window of keys before and after a row's own position; -1 for no bound. One new token a
    # context sees all keys: said with the causal mask, FlashAttention-2 does not split them.
    later_keys = -1
    if layout.max_new > 1:
        later_keys = 0
    result = varlen_attn(
        query.contiguous(),
        key,
        value,
        layout.row_starts,
        layout.key_starts,
        layout.max_new,
        layout.max_keys,
        return_aux=AuxRequest(lse=True),
        scale=scaling,
        window_size=(-1, later_keys),
        enable_gqa=query.shape[1] != key.shape[1],
        seqused_k=layout.key_counts,
    )
    assert isinstance(result, tuple)  # it is one with return_aux
    return result
