"""FLOPs of a call by torch's operator counter."""

import torch
from torch.utils.flop_counter import FlopCounterMode


def sdpa_flops(query, key, value, *_args, out_val=None, **_kwargs):
    """QK^T and AV over all query heads; torch's counter gives the CPU kernel 0 (facts, E6)."""
    batch, heads, rows, size = query
    return 4 * batch * heads * rows * key[2] * size


def causal_flops(query, key, value, *_args, out_val=None, **_kwargs):
    """The same without the pairs that a causal mask discards."""
    batch, heads, rows, size = query
    return 4 * batch * heads * (rows * (key[2] - rows) + rows * (rows + 1) // 2) * size


def counted(run, causal=False):
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(
        display=False, custom_mapping={kernel: causal_flops if causal else sdpa_flops}
    ) as counter:
        run()
    return counter.get_total_flops()
