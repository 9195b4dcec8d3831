"""Kernels that make a training step on a CPU faster: causal attention in blocks, and LoRA without casts.

    net = AutoModelForCausalLM.from_pretrained(..., attn_implementation=register())
    use_fused_lora(net, "reader")         every LoRA layer of peft computes in the base's type, one addmm a product

Measured with SmolLM2-135M in bfloat16, one thread, 512 tokens of one row, forward and backward (tokens a second of CPU
time): peft and sdpa 116; with LoRA in bfloat16 148; without any attention 255. PyTorch's fused attention for CPUs took
42 % of a step, since its backward pass reaches a sixth of the speed of a matrix product.
"""

import types
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

NAME = "blockwise_causal"
BLOCK = 128
"""Queries that are computed together: they see the keys up to their end only, which halves the work of a long row."""


def register() -> str:
    """Register the attention with transformers; returns the name to load a model with."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)
    return NAME


def _attention(
    _module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """As transformers calls it: query [B, H, T, D], key and value [B, KV, T, D]; returns [B, T, H, D].

    attention_mask: added to the scores, [B, 1, T, T]; None for plain causal attention.
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = BlockwiseCausal.apply(query * scale, key, value, attention_mask)  # type: ignore[no-untyped-call]
    return out.transpose(1, 2).contiguous(), None


class BlockwiseCausal(torch.autograd.Function):
    """softmax(Q K' + mask) V over the keys up to each query, with grouped heads; Q is scaled already."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Shapes as in `_attention`; returns [B, H, T, D] and keeps each block's weights for the backward pass."""
        batch, heads, length, size = query.shape
        kv = key.shape[1]
        grouped = query.reshape(batch, kv, heads // kv, length, size)
        out = torch.empty_like(grouped)
        kept = []
        for start in range(0, length, BLOCK):
            end = min(start + BLOCK, length)
            q = grouped[:, :, :, start:end].reshape(batch * kv, -1, size)
            scores = torch.bmm(q, key[:, :, :end].reshape(batch * kv, end, size).transpose(1, 2))
            shaped = scores.view(batch, kv, heads // kv, end - start, end)
            if mask is None:
                size_of_block = end - start, end - start
                shaped[..., start:] += torch.full(size_of_block, float("-inf"), dtype=query.dtype).triu(1)
            else:
                shaped += mask[:, :, None, start:end, :end]
            weights = torch.softmax(scores, -1)
            read = torch.bmm(weights, value[:, :, :end].reshape(batch * kv, end, size))
            out[:, :, :, start:end] = read.view(batch, kv, heads // kv, end - start, size)
            kept.append(weights)
        ctx.save_for_backward(query, key, value, *kept)
        return out.view(batch, heads, length, size)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Gradients of query, key and value: dS = P (dP - rowsum(dP P)), the softmax's derivative, block by block."""
        query, key, value, *kept = ctx.saved_tensors
        batch, heads, length, size = query.shape
        kv = key.shape[1]
        grouped = query.reshape(batch, kv, heads // kv, length, size)
        slope = grads[0].reshape(batch, kv, heads // kv, length, size)
        d_query = torch.empty_like(grouped)
        d_key = torch.zeros(batch * kv, length, size, dtype=key.dtype)
        d_value = torch.zeros_like(d_key)
        for number, weights in enumerate(kept):
            start, end = number * BLOCK, min((number + 1) * BLOCK, length)
            d_out = slope[:, :, :, start:end].reshape(batch * kv, -1, size)
            d_value[:, :end] += torch.bmm(weights.transpose(1, 2), d_out)
            d_weights = torch.bmm(d_out, value[:, :, :end].reshape(batch * kv, end, size).transpose(1, 2))
            d_scores = torch.ops.aten._softmax_backward_data(d_weights, weights, -1, weights.dtype)
            k = key[:, :, :end].reshape(batch * kv, end, size)
            d_query[:, :, :, start:end] = torch.bmm(d_scores, k).view(batch, kv, heads // kv, end - start, size)
            q = grouped[:, :, :, start:end].reshape(batch * kv, -1, size)
            d_key[:, :end] += torch.bmm(d_scores.transpose(1, 2), q)
        return d_query.view_as(query), d_key.view_as(key), d_value.view_as(value), None


class LowRankLinear(torch.autograd.Function):
    """x W' + b + scale (x A') B' (Hu et al. 2021, section 4.1) for a frozen W; A and B are cast to x's type."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float) -> Tensor:
        """x: [..., in]; weight: [out, in]; bias: [out]; a: [rank, in]; b: [out, rank]; returns [..., out]."""
        flat = x.reshape(-1, x.shape[-1])
        low_a, low_b = a.to(x.dtype), b.to(x.dtype)
        out = F.linear(flat, weight, bias)
        inner = flat @ low_a.T
        out.addmm_(inner, low_b.T, alpha=scale)
        ctx.save_for_backward(flat, weight, low_a, low_b, inner)
        ctx.scale = scale
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        """The gradients of x (where it needs one), A and B; the latter in float32."""
        flat, weight, a, b, inner = ctx.saved_tensors
        slope = grads[0].reshape(-1, grads[0].shape[-1])
        low = (slope @ b).mul_(ctx.scale)
        d_x = None
        if ctx.needs_input_grad[0]:
            d_x = (slope @ weight).addmm_(low, a).view(*grads[0].shape[:-1], -1)
        d_a, d_b = low.T @ flat, (slope.T @ inner).mul_(ctx.scale)
        return d_x, None, None, d_a.float(), d_b.float(), None


def use_fused_lora(net: torch.nn.Module, name: str) -> None:
    """Let every linear LoRA layer of `net` compute adapter `name` by LowRankLinear; dropout must be 0."""
    from peft.tuners.lora import Linear

    def forward(self: Any, x: Tensor, *_: Any, **__: Any) -> Tensor:
        base = self.get_base_layer()
        a, b = self.lora_A[name].weight, self.lora_B[name].weight
        inputs = (x, base.weight, base.bias, a, b, self.scaling[name])
        out: Tensor = LowRankLinear.apply(*inputs)  # type: ignore[no-untyped-call]
        return out

    for module in net.modules():
        if isinstance(module, Linear) and name in module.lora_A:
            module.forward = types.MethodType(forward, module)
