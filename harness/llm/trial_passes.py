"""Trial passes of a loaded network: whether contexts can share a pass, and whether its cache can be
rolled back."""

from typing import Any

import torch

from harness.llm.batched_forward import Ask, run_alone, run_in_rows, run_packed
from harness.llm.capture import NAME
from harness.llm.kv import KVPool, rewind

# Largest difference of logits, relative to their size, that packing may make in the check before
# the first packed pass.
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}


def _made_up_tokens(start: int, size: int, vocabulary: int) -> list[int]:
    """`size` token ids below `vocabulary`, another text for each `start`."""
    return [(7 * n + start) % vocabulary for n in range(size)]


def rows_are_independent(net: Any, device: torch.device, layers: int, rows: int) -> bool:
    """Whether a context's logits are the same to the bit at each tried place in a pass of `rows`
    tokens.

    Tried are 1 and 3 new tokens of a short context after 0, 1, half and all possible rows of a
    longer one.
    """
    vocabulary = net.config.vocab_size
    short = _made_up_tokens(3, 9, vocabulary)
    long = _made_up_tokens(5, 9, vocabulary)
    pool = KVPool(layers)
    first_logits: dict[int, torch.Tensor] = {}
    for new in (1, 3):
        for before in sorted({0, 1, rows // 2, rows - new}):
            neighbour, context = pool.cache(), pool.cache()
            run_alone(net, device, Ask(long, neighbour))
            run_alone(net, device, Ask(short, context))
            neighbours = []
            if before:
                neighbours = [Ask([before + 1] * before, neighbour, 1)]
            *_, out = run_in_rows(net, device, [*neighbours, Ask(short[:new], context, new)], rows)
            assert out is not None
            if not torch.equal(first_logits.setdefault(new, out), out):
                return False
    return True


def trial_pack_problem(
    net: Any, device: torch.device, dtype: str, layers: int, in_one_call: bool = False
) -> str | None:
    """Why contexts cannot share a pass (`in_one_call` as in `run_packed`); None where a trial gave
    equal logits."""
    config = net.config
    if config._attn_implementation != NAME:
        return f"its attention kernel is '{config._attn_implementation}'"
    if getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None):
        return "its attention has a sliding window"
    rope = getattr(config, "rope_parameters", None) or {}
    if str(rope.get("rope_type")) in ("dynamic", "longrope"):
        return "its positions depend on the length of the longest context"
    if getattr(config, "attn_temperature_tuning", None):
        return "its queries are scaled by positions that a packed pass does not carry"
    vocabulary = config.vocab_size
    texts = [_made_up_tokens(start, size, vocabulary) for start, size in ((11, 12), (5, 5), (3, 9))]
    try:
        pool = KVPool(layers)
        caches = [pool.cache() for _ in texts]
        alone = [run_alone(net, device, Ask(text, pool.cache(), len(text))) for text in texts]
        beginnings = [Ask(text[:4], cache, 4) for text, cache in zip(texts, caches, strict=True)]
        first_rows = run_packed(net, device, beginnings, in_one_call)
        rests = [
            Ask(text[4:], cache, len(text) - 4) for text, cache in zip(texts, caches, strict=True)
        ]
        later_rows = run_packed(net, device, rests, in_one_call)
    except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does with such a pass
        return f"a trial pass over several contexts failed ({type(error).__name__})"
    for whole, *halves in zip(alone, first_rows, later_rows, strict=True):
        packed_rows = torch.cat([half for half in halves if half is not None])
        if whole is None or not bool(
            (whole - packed_rows).norm() <= TOLERANCE[dtype] * whole.norm()
        ):
            return "a trial pass over several contexts gave other logits than each context alone"
    return None


def trial_cache_problem(net: Any, device: torch.device, dtype: str, layers: int) -> str | None:
    """Why sessions cannot use this model's cache; None where passes in pieces, one of them undone,
    equal one pass."""
    text = _made_up_tokens(11, 24, net.config.vocab_size)
    cache = KVPool(layers).cache()
    try:
        with torch.inference_mode():
            whole = (
                net(input_ids=torch.tensor([text], device=device), use_cache=False)
                .logits[0]
                .float()
            )
        run_alone(net, device, Ask(text[:9], cache))
        run_alone(net, device, Ask(text[3:8], cache, 5))
        rewind(cache, 9)
        rows = [
            run_alone(net, device, Ask(text[a:b], cache, b - a))
            for a, b in ((9, 10), (10, 18), (18, 24))
        ]
    except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does with such a cache
        return f"a trial pass with its cache failed ({type(error).__name__})"
    pieces = torch.cat([piece for piece in rows if piece is not None])
    if not bool((whole[9:] - pieces).norm() <= TOLERANCE[dtype] * whole[9:].norm()):
        return (
            "a trial pass in pieces, with a roll-back between them, gave other logits than one pass"
        )
    return None
