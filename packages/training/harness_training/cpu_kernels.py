"""Kernels that make a training step on a CPU faster: causal attention in blocks, and LoRA without casts.

    net = AutoModelForCausalLM.from_pretrained(..., attn_implementation=register())
    use_fused_lora(net, "reader")         every LoRA layer of peft computes in the base's type, one addmm a product

Measured with SmolLM2-135M in bfloat16, one thread, 512 tokens of one row, forward and backward (tokens a second of CPU
time): peft and sdpa 116; with LoRA in bfloat16 148; without any attention 255. PyTorch's fused attention for CPUs took
42 % of a step, since its backward pass reaches a sixth of the speed of a matrix product. On AVX2, which has no products
of bfloat16, those in float32 bring a step of pocket-llama (512 tokens, one thread) from 2.5 to 0.23 s.
"""

import types
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from harness.llm.kernels import has_slow_products

NAME = "blockwise_causal"
BLOCK = 128
"""Queries that are computed together: they see the keys up to their end only, which halves the work of a long row."""


def product_type(factor: Tensor) -> torch.dtype:
    """The type to multiply `factor` in: its own, or float32 on a CPU that has no products of that."""
    return torch.float32 if factor.device.type == "cpu" and has_slow_products(factor.dtype) else factor.dtype


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
        dtype, kept = query.dtype, [query, key, value]
        query, key, value = (tensor.to(product_type(tensor)) for tensor in kept)
        batch, heads, length, size = query.shape
        kv = key.shape[1]
        grouped = query.reshape(batch, kv, heads // kv, length, size)
        out = torch.empty_like(grouped)
        for start in range(0, length, BLOCK):
            end = min(start + BLOCK, length)
            q = grouped[:, :, :, start:end].reshape(batch * kv, -1, size)
            scores = torch.bmm(q, key[:, :, :end].reshape(batch * kv, end, size).transpose(1, 2))
            shaped = scores.view(batch, kv, heads // kv, end - start, end)
            if mask is None:
                shaped[..., start:] += torch.full([end - start] * 2, float("-inf"), dtype=query.dtype).triu(1)
            else:
                shaped += mask[:, :, None, start:end, :end]
            weights = torch.softmax(scores, -1)
            read = torch.bmm(weights, value[:, :, :end].reshape(batch * kv, end, size))
            out[:, :, :, start:end] = read.view(batch, kv, heads // kv, end - start, size)
            kept.append(weights.to(dtype))
        ctx.save_for_backward(*kept)
        return out.view(batch, heads, length, size).to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Gradients of query, key and value: dS = P (dP - rowsum(dP P)), the softmax's derivative, block by block."""
        dtype = grads[0].dtype
        slope, query, key, value, *kept = (t.to(product_type(t)) for t in (*grads, *ctx.saved_tensors))
        batch, heads, length, size = query.shape
        kv = key.shape[1]
        grouped = query.reshape(batch, kv, heads // kv, length, size)
        slope = slope.reshape(batch, kv, heads // kv, length, size)
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
        return d_query.view_as(query).to(dtype), d_key.view_as(key).to(dtype), d_value.view_as(value).to(dtype), None


class LowRankLinear(torch.autograd.Function):
    """x W' + b + scale (x A') B' (Hu et al. 2021, section 4.1) for a frozen W; products are in x's `product_type`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float) -> Tensor:
        """x: [..., in]; weight: [out, in]; bias: [out]; a: [rank, in]; b: [out, rank]; returns [..., out]."""
        kind = product_type(x)
        flat, low_a, low_b = x.reshape(-1, x.shape[-1]), a.to(kind), b.to(kind)
        wide = flat.to(kind)
        out = F.linear(wide, weight.to(kind), None if bias is None else bias.to(kind))
        inner = wide @ low_a.T
        out.addmm_(inner, low_b.T, alpha=scale)
        ctx.save_for_backward(flat, weight, low_a, low_b, inner)
        ctx.scale = scale
        return out.to(x.dtype).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        """The gradients of x (where it needs one), A and B; the latter in float32."""
        flat, weight, a, b, inner = ctx.saved_tensors
        slope = grads[0].reshape(-1, grads[0].shape[-1]).to(a.dtype)
        low = (slope @ b).mul_(ctx.scale)
        d_x = None
        if ctx.needs_input_grad[0]:
            d_x = (slope @ weight.to(a.dtype)).addmm_(low, a).to(flat.dtype).view(*grads[0].shape[:-1], -1)
        d_a, d_b = low.T @ flat.to(a.dtype), (slope.T @ inner).mul_(ctx.scale)
        return d_x, None, None, d_a.float(), d_b.float(), None


def use_fused_lora(net: torch.nn.Module, name: str) -> None:
    """Let every linear LoRA layer of `net` compute adapter `name` by LowRankLinear; dropout must be 0."""
    from peft.tuners.lora import Linear

    def forward(self: Any, x: Tensor, *_: Any, **__: Any) -> Any:
        base, a, b = self.get_base_layer(), self.lora_A[name].weight, self.lora_B[name].weight
        inputs = (x, base.weight, base.bias, a, b, self.scaling[name])
        return LowRankLinear.apply(*inputs)  # type: ignore[no-untyped-call]

    for module in net.modules():
        if isinstance(module, Linear) and name in module.lora_A:
            module.forward = types.MethodType(forward, module)
