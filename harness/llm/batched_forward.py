"""Forward passes of several contexts as one: the matrix products see all their tokens, attention
each context its own.

    context a: 1 new token  ┐
    context b: 40 new tokens├─► input_ids [1, 42], positions of each context ─► one pass ─► logits where they are needed
    context c: 1 new token  ┘        keys and values go to the three caches

Nothing is padded, except in deterministic mode (`run_in_rows`). Which contexts share a pass:
harness/llm/network.py.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from harness.llm.capture import Capture, Pack, Part, WriteCapture, attention_calls
from harness.llm.kernels import PackLayout, pack_layout
from harness.llm.kv import packed_cache, slot_of
from harness.llm.writing import Writing


@dataclass(frozen=True)
class ForwardRequest:
    """One context's share of a pass.

    Attributes:
        ids: The tokens to run.
        cache: Keys and values of the context before them.
        logits: For how many of the last tokens logits are wanted.
        capture: Measures the attention; None for nothing.
        blocks: Names of the blocks that `ids` complete (prefix_sharing.block_names), which other
            contexts may copy.
        labels: Token ids of a probe, whose logits are computed in float32.
        writing: The reply that goes on from these logits; None for none.
    """

    ids: Sequence[int]
    cache: Any
    logits: int = 0
    capture: Capture | None = None
    blocks: Sequence[bytes] = ()
    labels: Sequence[int] = ()
    writing: Writing | None = None


def run_alone(net: Any, device: torch.device, request: ForwardRequest) -> Tensor | None:
    """Run one context in a pass of its own.

    Args:
        net: The network.
        device: The device of its inputs.
        request: What is run; its cache grows.

    Returns:
        Float32 logits [request.logits, vocab]; None for 0 rows.
    """
    make_room([request])
    arguments = {
        "input_ids": torch.tensor([list(request.ids)], device=device),
        "past_key_values": request.cache,
        "use_cache": True,
    }
    with torch.inference_mode(), attention_calls(capture=request.capture):
        if not request.logits:
            net.get_decoder()(**arguments)
            return None
        return _logits(net, arguments, request.logits, [request.labels] * request.logits)


def run_packed(
    net: Any,
    device: torch.device,
    requests: Sequence[ForwardRequest],
    in_one_call: bool = False,
    longest: int = 0,
) -> list[Tensor | None]:
    """Run several contexts of one pool in one pass.

    Args:
        net: The network, of transformers.
        device: The device of its inputs.
        requests: What is run; their caches grow.
        in_one_call: Whether one attention call serves all (kernels.packed_attention).
        longest: Most tokens of a context.

    Returns:
        The logits of each request, in the order of `requests`, as `run_alone` gives them.

    Raises:
        MemoryError: The pool is full.
    """
    make_room(requests)
    order = list(range(len(requests)))
    if in_one_call:  # it wants the contexts in the order of their places
        order.sort(key=lambda n: slot_of(requests[n].cache).start)
    packed = _Packed()
    for n in order:
        packed.add(requests[n])
    arguments = packed.arguments(device)
    pool = slot_of(requests[0].cache).pool
    layout = None
    if in_one_call:
        layout = packed.layout(longest)
    pack = Pack(packed.parts, pool, layout)
    rows: Tensor | None = None
    with torch.inference_mode(), attention_calls(pack=pack):
        if packed.logit_rows:
            keep = torch.tensor(packed.logit_rows, device=device)
            rows = _logits(net, arguments, keep, packed.labels)
        else:
            net.get_decoder()(**arguments)
        pack.finish()
    return _of_requests(rows, requests, order)


def _of_requests(
    rows: Tensor | None, requests: Sequence[ForwardRequest], order: Sequence[int]
) -> list[Tensor | None]:
    """The logits of each request, None for one that wants none.

    Args:
        rows: The logits of all requests, one after the other [rows, vocab]; None where none wants
            any.
        requests: What was run.
        order: Indices of the requests, in the order in which their rows stand.
    """
    logits: list[Tensor | None] = [None] * len(requests)
    if rows is None:
        return logits
    start = 0
    for n in order:
        end = start + requests[n].logits
        if end > start:
            logits[n] = rows[start:end]
        start = end
    return logits


class _Packed:
    """The tokens of a packed pass, one context after the other.

    Attributes:
        parts: Where each context's tokens stand among them.
        ids: The tokens.
        positions: The position of each token in its context.
        logit_rows: Which of them want logits, by their place in the pass.
        labels: For each of these rows, ids of tokens whose logits are computed in float32.
    """

    def __init__(self) -> None:
        """Begin without any token."""
        self.parts: list[Part] = []
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.logit_rows: list[int] = []
        self.labels: list[Sequence[int]] = []

    def add(self, request: ForwardRequest) -> None:
        """Append a context's tokens to the pass; they follow what the context's cache holds."""
        before = slot_of(request.cache).n_tokens
        start = len(self.ids)
        self.ids += request.ids
        end = len(self.ids)
        self.parts.append(Part(start, end, request.cache, request.capture))
        self.positions += range(before, before + len(request.ids))
        self.logit_rows += range(end - request.logits, end)
        self.labels += [request.labels] * request.logits

    def arguments(self, device: torch.device) -> dict[str, object]:
        """What the network is called with, by name: ids, positions and a cache that writes to all
        contexts."""
        caches: list[tuple[Any, int]] = []
        for part in self.parts:
            caches.append((part.cache, part.end - part.start))  # noqa: PERF401
        return {
            "input_ids": torch.tensor([self.ids], device=device),
            "position_ids": torch.tensor([self.positions], device=device),
            "past_key_values": packed_cache(caches, device),
            # transformers takes a mask of four dimensions as it is; each context makes its own.
            "attention_mask": torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),
            "use_cache": True,
        }

    def layout(self, longest: int) -> Callable[[torch.device], PackLayout]:
        """A function: device -> where the contexts stand in the pool. It computes that once a
        device.

        Args:
            longest: Most tokens of a context.
        """
        new = [part.end - part.start for part in self.parts]
        slots = [slot_of(part.cache) for part in self.parts]
        starts = [slot.start for slot in slots]
        keys = [slot.n_tokens + count for slot, count in zip(slots, new, strict=True)]
        return functools.cache(functools.partial(pack_layout, new, starts, keys, longest))


def _logits(
    net: Any, arguments: Mapping[str, object], keep: Any, labels: Sequence[Sequence[int]]
) -> Tensor:
    """Run the network, and return the logits of some of its rows. Those of `labels` are computed
    once more in float32: in bfloat16 the logits of two labels are often one number, and a probe
    then a tie.

    That is done only where the output of the head, a plain linear layer in memory, is what the
    network returns: not where logits are scaled or capped after it, with an adapter, or quantised
    weights.

    Args:
        net: A causal language model of transformers.
        arguments: What it is called with.
        keep: How many last rows, or the indices of rows.
        labels: For each of these rows, ids of the tokens whose logits are computed in float32.

    Returns:
        Logits [rows, vocab], float32.
    """
    head: Any = None
    if any(labels):
        head = net.get_output_embeddings()
    thread = threading.get_ident()
    seen: list[tuple[Tensor, Tensor]] = []

    def look(_: Any, inputs: Any, out: Tensor) -> None:
        """Note the head's input [rows, width] and output [rows, vocab], in this thread's passes
        alone."""
        if threading.get_ident() == thread:
            seen.append((inputs[0][0], out[0].float()))

    with contextlib.ExitStack() as hooks:
        if _is_plain_head(head):
            hooks.callback(head.register_forward_hook(look).remove)
        rows: Tensor = net(**arguments, logits_to_keep=keep).logits[0].float()
    for hidden, out in seen:
        if torch.equal(out, rows):
            for n, ids in enumerate(labels):
                _compute_in_float32(rows[n], hidden[n], head, list(ids))
    return rows


def _is_plain_head(head: Any) -> bool:
    """Whether the output head is a plain linear layer in memory, of another type than float32."""
    if type(head) is not torch.nn.Linear:
        return False
    return head.weight.dtype != torch.float32 and not head.weight.is_meta


def _compute_in_float32(row: Tensor, hidden: Tensor, head: Any, ids: list[int]) -> None:
    """Replace the logits of some tokens by those computed in float32.

    Args:
        row: Logits [vocab]; changed in place.
        hidden: The head's input [width].
        head: A linear layer.
        ids: The tokens.
    """
    logits = head.weight[ids].float() @ hidden.to(head.weight.device).float()
    if head.bias is not None:
        logits = logits + head.bias[ids].float()
    row[ids] = logits.to(row.device)


def run_in_rows(
    net: Any, device: torch.device, requests: Sequence[ForwardRequest], rows: int
) -> list[Tensor | None]:
    """Run requests in one pass of a fixed number of tokens; a context of zeros fills the pass.

    Logits are computed for every row or for none, so that the last product always has as many rows
    too.

    Args:
        net: The network.
        device: The device of its inputs.
        requests: What is run; their caches grow.
        rows: How many tokens the pass has.

    Returns:
        The logits of each request, as `run_alone` gives them.
    """
    wanted = any(request.logits for request in requests)
    padded: list[ForwardRequest] = []
    for request in requests:
        logits = 0
        if wanted:
            logits = len(request.ids)
        padded.append(replace(request, logits=logits))
    missing = rows - sum(len(request.ids) for request in requests)
    if missing:
        padding = slot_of(requests[0].cache).pool.cache()
        logits = 0
        if wanted:
            logits = missing
        padded.append(ForwardRequest([0] * missing, padding, logits))
    outs = run_packed(net, device, padded)
    return [_last_rows(out, request) for request, out in zip(requests, outs, strict=False)]


def _last_rows(out: Tensor | None, request: ForwardRequest) -> Tensor | None:
    """The rows of `out` that `request` wants; None for none."""
    if out is None or not request.logits:
        return None
    return out[len(request.ids) - request.logits :]


def make_room(requests: Sequence[ForwardRequest]) -> None:
    """Reserve room in the pool for the tokens of `requests`, as one more pass of the pool. Also has
    captures of written tokens reduce what they hold before their keys are moved away.

    Raises MemoryError where there is no room.
    """
    pool = slot_of(requests[0].cache).pool
    with pool.lock:
        pool.clock += 1
        for request in requests:
            slot = slot_of(request.cache)
            slot.reserve(slot.n_tokens + len(request.ids))
            slot.before_leaving = None
            if isinstance(request.capture, WriteCapture):
                slot.before_leaving = request.capture.reduce
