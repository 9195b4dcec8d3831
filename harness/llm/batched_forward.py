"""Forward passes of several contexts as one: the matrix products see all their tokens, attention
each context its own.

    context a: 1 new token  ┐
    context b: 40 new tokens├─► input_ids [1, 42], positions of each context ─► one pass ─► logits where they are needed
    context c: 1 new token  ┘        keys and values go to the three caches

Nothing is padded, except in deterministic mode (`run_in_rows`). Which contexts share a pass:
harness/llm/network.py.
"""

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from harness.llm.capture import Capture, Pack, Part, WriteCapture, attention_calls
from harness.llm.kernels import pack_layout
from harness.llm.kv import packed_cache, slot_of
from harness.llm.writing import Writing


@dataclass(frozen=True)
class Ask:
    """One context's share of a pass: run tokens `ids` behind `cache`, give the last `logits` rows
    of logits.

    capture: measures the attention; blocks: names of the blocks that `ids` complete
    (prefix_sharing.block_names), which other contexts may copy; labels: token ids of a probe, whose
    logits are computed in float32; writing: the reply that goes on from these logits.
    """

    ids: Sequence[int]
    cache: Any
    logits: int = 0
    capture: Capture | None = None
    blocks: Sequence[bytes] = ()
    labels: Sequence[int] = ()
    writing: Writing | None = None


def run_alone(net: Any, device: torch.device, ask: Ask) -> Tensor | None:
    """Run one context in a pass of its own; returns float32 logits [ask.logits, vocab], None for 0
    rows."""
    make_room([ask])
    arguments = {
        "input_ids": torch.tensor([list(ask.ids)], device=device),
        "past_key_values": ask.cache,
        "use_cache": True,
    }
    with torch.inference_mode(), attention_calls(capture=ask.capture):
        if not ask.logits:
            net.get_decoder()(**arguments)
            return None
        return _logits(net, arguments, ask.logits, [ask.labels] * ask.logits)


def run_packed(
    net: Any, device: torch.device, asks: Sequence[Ask], in_one_call: bool = False, longest: int = 0
) -> list[Tensor | None]:
    """Run several contexts of one pool in one pass; returns the logits of each of `asks`, as
    `run_alone` does.

    in_one_call: whether one attention call serves all (kernels.packed_attention); longest: most
    tokens of a context. Raises MemoryError in a full pool.
    """
    make_room(asks)
    order = list(range(len(asks)))
    if in_one_call:  # it wants the contexts in the order of their places
        order.sort(key=lambda n: slot_of(asks[n].cache).start)
    parts: list[Part] = []
    ids: list[int] = []
    positions: list[int] = []
    logit_rows: list[int] = []
    for ask in (asks[n] for n in order):
        before = slot_of(ask.cache).used[0]
        parts.append(Part(len(ids), len(ids) + len(ask.ids), ask.cache, ask.capture))
        ids += ask.ids
        positions += range(before, before + len(ask.ids))
        logit_rows += range(len(ids) - ask.logits, len(ids))
    new, slots = [part.end - part.start for part in parts], [slot_of(part.cache) for part in parts]
    keys = [slot.used[0] + n for slot, n in zip(slots, new, strict=True)]
    at = functools.cache(
        functools.partial(pack_layout, new, [slot.start for slot in slots], keys, longest)
    )
    arguments = {
        "input_ids": torch.tensor([ids], device=device),
        "position_ids": torch.tensor([positions], device=device),
        "past_key_values": packed_cache(
            [(part.cache, n) for part, n in zip(parts, new, strict=True)], device
        ),
        # transformers takes a mask of four dimensions as it is; each context makes its own.
        "attention_mask": torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),
        "use_cache": True,
    }
    logits: list[Tensor | None] = [None] * len(asks)
    pack = Pack(parts, slots[0].pool, at if in_one_call else None)
    with torch.inference_mode(), attention_calls(pack=pack):
        if logit_rows:
            labels = [asks[n].labels for n in order for _ in range(asks[n].logits)]
            rows: Any = _logits(net, arguments, torch.tensor(logit_rows, device=device), labels)
        else:
            net.get_decoder()(**arguments)
        pack.finish()
    if not logit_rows:
        return logits
    wanted = [n for n in order if asks[n].logits]
    for n, part in zip(wanted, rows.split([asks[n].logits for n in wanted]), strict=True):
        logits[n] = part
    return logits


def _logits(
    net: Any, arguments: dict[str, Any], keep: Any, labels: Sequence[Sequence[int]]
) -> Tensor:
    """Run the network on the `arguments`; returns float32 logits [rows, vocab] of the rows that
    `keep` names.

    keep: how many last rows, or the indices of rows; labels: for each row, ids of tokens whose
    logits are computed in
    float32: in bfloat16 those of two labels are often one number, and a probe then a tie. Where the
    head is not a plain linear layer in memory (logits scaled or capped behind it, an adapter,
    quantised weights), its own logits stay.
    """
    head: Any = net.get_output_embeddings() if any(labels) else None
    thread = threading.get_ident()
    seen: list[tuple[Tensor, Tensor]] = []

    def look(_: Any, inputs: Any, out: Tensor) -> None:
        if threading.get_ident() == thread:
            seen.append((inputs[0][0], out[0].float()))

    plain = (
        type(head) is torch.nn.Linear
        and head.weight.dtype != torch.float32
        and not head.weight.is_meta
    )
    hook = head.register_forward_hook(look) if plain else None
    try:
        rows: Tensor = net(**arguments, logits_to_keep=keep).logits[0].float()
    finally:
        if hook is not None:
            hook.remove()
    for hidden, out in seen:
        if torch.equal(out, rows):
            for n, ids in enumerate(map(list, labels)):
                state, bias = hidden[n].to(head.weight.device).float(), head.bias
                of_labels = head.weight[ids].float() @ state + (
                    0 if bias is None else bias[ids].float()
                )
                rows[n, ids] = of_labels.to(rows.device)
    return rows


def run_in_rows(
    net: Any, device: torch.device, asks: Sequence[Ask], rows: int
) -> list[Tensor | None]:
    """Run `asks` as `run_packed` does, in a pass of exactly `rows` tokens; a context of zeros fills
    the pass.

    Logits are computed for every row or for none, so that the last product always has `rows` rows
    too.
    """
    wanted = any(ask.logits for ask in asks)
    padded = [replace(ask, logits=len(ask.ids) if wanted else 0) for ask in asks]
    if missing := rows - sum(len(ask.ids) for ask in asks):
        padding = slot_of(asks[0].cache).pool.cache()
        padded.append(Ask([0] * missing, padding, missing if wanted else 0))
    outs = run_packed(net, device, padded)
    return [
        out[len(ask.ids) - ask.logits :] if out is not None and ask.logits else None
        for ask, out in zip(asks, outs, strict=False)
    ]


def make_room(asks: Sequence[Ask]) -> None:
    """Reserve room in the pool for `asks`; captures reduce their rows before their keys leave.
    Raises MemoryError."""
    pool = slot_of(asks[0].cache).pool
    with pool.lock:
        pool.clock += 1
        for ask in asks:
            slot = slot_of(ask.cache)
            slot.reserve(slot.used[0] + len(ask.ids))
            kept = ask.capture if isinstance(ask.capture, WriteCapture) else None
            slot.before_leaving = kept.reduce if kept is not None else None
