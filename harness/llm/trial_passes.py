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


def _made_up_tokens(text_number: int, n_tokens: int, vocabulary_size: int) -> list[int]:
    """Token ids of a made-up text.

    Args:
        text_number: Each number gives another text.
        n_tokens: How many tokens it has.
        vocabulary_size: The ids are below this number.
    """
    return [(7 * n + text_number) % vocabulary_size for n in range(n_tokens)]


def rows_are_independent(net: Any, device: torch.device, n_layers: int, n_rows: int) -> bool:
    """Whether a context's logits are the same to the bit wherever it stands in a pass.

    Tried are 1 and 3 new tokens of a short context after 0, 1, half and all possible rows of a
    longer one.

    Args:
        net: The network.
        device: The device of its inputs.
        n_layers: The number of its layers.
        n_rows: The number of tokens that every pass is padded to.
    """
    vocabulary_size = net.config.vocab_size
    text = _made_up_tokens(3, 9, vocabulary_size)
    other_text = _made_up_tokens(5, 9, vocabulary_size)
    pool = KVPool(n_layers)
    first_logits: dict[int, torch.Tensor] = {}  # by the number of new tokens
    for n_new in (1, 3):
        for n_rows_before in sorted({0, 1, n_rows // 2, n_rows - n_new}):
            other_cache = pool.new_cache()
            cache = pool.new_cache()
            run_alone(net, device, ForwardRequest(other_text, other_cache))
            run_alone(net, device, ForwardRequest(text, cache))
            requests = [ForwardRequest(text[:n_new], cache, n_logits=n_new)]
            if n_rows_before:
                other_ids = [n_rows_before + 1] * n_rows_before
                requests.insert(0, ForwardRequest(other_ids, other_cache, n_logits=1))
            logits = run_in_rows(net, device, requests, n_rows)[-1]
            assert logits is not None
            if not torch.equal(first_logits.setdefault(n_new, logits), logits):
                return False
    return True


def trial_pack_problem(
    net: Any, device: torch.device, dtype: str, n_layers: int, in_one_call: bool = False
) -> str | None:
    """Try a pass over several contexts, against each context alone.

    Args:
        net: The network.
        device: The device of its inputs.
        dtype: The name of its weights' type.
        n_layers: The number of its layers.
        in_one_call: Whether one call of attention serves all contexts, as in `run_packed`.

    Returns:
        Why contexts cannot share a pass; None where the logits are equal up to rounding.
    """
    problem = _settings_problem(net.config)
    if problem is not None:
        return problem
    vocabulary_size = net.config.vocab_size
    texts = [
        _made_up_tokens(11, 12, vocabulary_size),
        _made_up_tokens(5, 5, vocabulary_size),
        _made_up_tokens(3, 9, vocabulary_size),
    ]
    try:
        pool = KVPool(n_layers)
        logits_alone: list[torch.Tensor | None] = []
        # The first 4 tokens of each text share a pass, and so do the later ones.
        first_parts: list[ForwardRequest] = []
        later_parts: list[ForwardRequest] = []
        for text in texts:
            alone = ForwardRequest(text, pool.new_cache(), n_logits=len(text))
            logits_alone.append(run_alone(net, device, alone))
            cache = pool.new_cache()
            first_parts.append(ForwardRequest(text[:4], cache, n_logits=4))
            later_parts.append(ForwardRequest(text[4:], cache, n_logits=len(text) - 4))
        first_logits = run_packed(net, device, first_parts, in_one_call)
        later_logits = run_packed(net, device, later_parts, in_one_call)
    except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does with such a pass
        return f"a trial pass over several contexts failed ({type(error).__name__})"
    for expected, first, later in zip(logits_alone, first_logits, later_logits, strict=True):
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


def trial_cache_problem(net: Any, device: torch.device, dtype: str, n_layers: int) -> str | None:
    """Try passes in pieces, one of them undone, against one pass over the whole text.

    Args:
        net: The network.
        device: The device of its inputs.
        dtype: The name of its weights' type.
        n_layers: The number of its layers.

    Returns:
        Why sessions cannot use this model's cache; None where the logits are equal up to rounding.
    """
    text = _made_up_tokens(11, 24, net.config.vocab_size)
    cache = KVPool(n_layers).new_cache()
    try:
        with torch.inference_mode():
            ids = torch.tensor([text], device=device)
            expected = net(input_ids=ids, use_cache=False).logits[0].float()
        run_alone(net, device, ForwardRequest(text[:9], cache))
        run_alone(net, device, ForwardRequest(text[3:8], cache, n_logits=5))
        rewind(cache, 9)  # undoes the second piece, of wrong tokens
        logits_of_pieces: list[torch.Tensor] = []
        for start, end in ((9, 10), (10, 18), (18, 24)):
            piece = ForwardRequest(text[start:end], cache, n_logits=end - start)
            logits = run_alone(net, device, piece)
            assert logits is not None  # logits of every token were wanted
            logits_of_pieces.append(logits)
    except Exception as error:  # noqa: BLE001 - whatever a foreign architecture does with such a cache
        return f"a trial pass with its cache failed ({type(error).__name__})"
    if not _are_close(torch.cat(logits_of_pieces), expected[9:], dtype):
        return (
            "a trial pass in pieces, with a roll-back between them, gave other logits than one pass"
        )
    return None
