"""Trial passes of a loaded network: whether contexts can share a pass, and whether its cache can be
rolled back."""

from typing import Any

import torch

from harness.llm.batched_forward import ForwardRequest, run_alone, run_in_rows, run_packed
from harness.llm.capture import NAME
from harness.llm.kv import KVPool, rewind

# Largest difference of logits, relative to their size, that packing may make in the check before
# the first packed pass.
TOLERANCE = {"float32": 1e-3, "bfloat16": 5e-2, "float16": 1e-2}


def _made_up_tokens(start: int, size: int, vocabulary: int) -> list[int]:
    """Token ids of a made-up text.

    Args:
        start: The text's number; each number gives another text.
        size: How many tokens it has.
        vocabulary: The ids are below this number.
    """
    return [(7 * n + start) % vocabulary for n in range(size)]


def rows_are_independent(net: Any, device: torch.device, layers: int, rows: int) -> bool:
    """Whether a context's logits are the same to the bit wherever it stands in a pass.

    Tried are 1 and 3 new tokens of a short context after 0, 1, half and all possible rows of a
    longer one.

    Args:
        net: The network.
        device: The device of its inputs.
        layers: The number of its layers.
        rows: The number of tokens that every pass is padded to.
    """
    vocabulary = net.config.vocab_size
    short = _made_up_tokens(3, 9, vocabulary)
    long = _made_up_tokens(5, 9, vocabulary)
    pool = KVPool(layers)
    first_logits: dict[int, torch.Tensor] = {}
    for new in (1, 3):
        for before in sorted({0, 1, rows // 2, rows - new}):
            neighbour = pool.cache()
            context = pool.cache()
            run_alone(net, device, ForwardRequest(long, neighbour))
            run_alone(net, device, ForwardRequest(short, context))
            neighbours = []
            if before:
                neighbours = [ForwardRequest([before + 1] * before, neighbour, 1)]
            *_, out = run_in_rows(
                net, device, [*neighbours, ForwardRequest(short[:new], context, new)], rows
            )
            assert out is not None
            if not torch.equal(first_logits.setdefault(new, out), out):
                return False
    return True


def trial_pack_problem(
    net: Any, device: torch.device, dtype: str, layers: int, in_one_call: bool = False
) -> str | None:
    """Try a pass over several contexts, against each context alone.

    Args:
        net: The network.
        device: The device of its inputs.
        dtype: The name of its weights' type.
        layers: The number of its layers.
        in_one_call: Whether one call of attention serves all contexts, as in `run_packed`.

    Returns:
        Why contexts cannot share a pass; None where the logits are equal up to rounding.
    """
    problem = _settings_problem(net.config)
    if problem is not None:
        return problem
    vocabulary = net.config.vocab_size
    texts = [_made_up_tokens(start, size, vocabulary) for start, size in ((11, 12), (5, 5), (3, 9))]
    try:
        pool = KVPool(layers)
        alone: list[torch.Tensor | None] = []
        first_parts: list[ForwardRequest] = []
        later_parts: list[ForwardRequest] = []
        for text in texts:
            of_its_own = ForwardRequest(text, pool.cache(), len(text))
            alone.append(run_alone(net, device, of_its_own))
            shared = pool.cache()
            first_parts.append(ForwardRequest(text[:4], shared, 4))
            later_parts.append(ForwardRequest(text[4:], shared, len(text) - 4))
        first_rows = run_packed(net, device, first_parts, in_one_call)
        later_rows = run_packed(net, device, later_parts, in_one_call)
    except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does with such a pass
        return f"a trial pass over several contexts failed ({type(error).__name__})"
    for expected, first, later in zip(alone, first_rows, later_rows, strict=True):
        assert expected is not None  # logits of every token were wanted
        assert first is not None
        assert later is not None
        if not _are_close(torch.cat([first, later]), expected, dtype):
            return "a trial pass over several contexts gave other logits than each context alone"
    return None


def _settings_problem(config: Any) -> str | None:
    """Why contexts of a network cannot share a pass, by its settings; None where only a trial shows
    it.

    Args:
        config: The network's config of transformers.
    """
    if config._attn_implementation != NAME:
        return f"its attention kernel is '{config._attn_implementation}'"
    if getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None):
        return "its attention has a sliding window"
    rope = getattr(config, "rope_parameters", None) or {}
    if str(rope.get("rope_type")) in ("dynamic", "longrope"):
        return "its positions depend on the length of the longest context"
    if getattr(config, "attn_temperature_tuning", None):
        return "its queries are scaled by positions that a packed pass does not carry"
    return None


def _are_close(logits: torch.Tensor, expected: torch.Tensor, dtype: str) -> bool:
    """Whether logits are equal up to the rounding of a type of numbers.

    Args:
        logits: [rows, vocab].
        expected: Like `logits`.
        dtype: The name of the type.
    """
    difference = (expected - logits).norm()
    return bool(difference <= TOLERANCE[dtype] * expected.norm())


def trial_cache_problem(net: Any, device: torch.device, dtype: str, layers: int) -> str | None:
    """Try passes in pieces, one of them undone, against one pass over the whole text.

    Args:
        net: The network.
        device: The device of its inputs.
        dtype: The name of its weights' type.
        layers: The number of its layers.

    Returns:
        Why sessions cannot use this model's cache; None where the logits are equal up to rounding.
    """
    text = _made_up_tokens(11, 24, net.config.vocab_size)
    cache = KVPool(layers).cache()
    try:
        with torch.inference_mode():
            ids = torch.tensor([text], device=device)
            expected = net(input_ids=ids, use_cache=False).logits[0].float()
        run_alone(net, device, ForwardRequest(text[:9], cache))
        run_alone(net, device, ForwardRequest(text[3:8], cache, 5))
        rewind(cache, 9)
        pieces: list[torch.Tensor] = []
        for start, end in ((9, 10), (10, 18), (18, 24)):
            rows = run_alone(net, device, ForwardRequest(text[start:end], cache, end - start))
            assert rows is not None  # logits of every token were wanted
            pieces.append(rows)
    except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does with such a cache
        return f"a trial pass with its cache failed ({type(error).__name__})"
    if not _are_close(torch.cat(pieces), expected[9:], dtype):
        return (
            "a trial pass in pieces, with a roll-back between them, gave other logits than one pass"
        )
    return None
