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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harness.llm.capture import Capture, PackedContext, PackedPass, WriteCapture, attention_calls
from harness.llm.kernels import PackLayout, pack_layout
from harness.llm.kv import PackedSlot, packed_cache, slot_of
from harness.llm.writing import Writing


@dataclass(frozen=True)
class ForwardRequest:
    """One context's share of a pass.

    Attributes:
        ids: The ids of the tokens to run.
        cache: Keys and values of the context before them.
        n_logits: For how many of the last tokens logits are wanted.
        capture: Measures the attention; None for nothing.
        block_names: Names of the blocks that `ids` complete (prefix_sharing.names_of_new_blocks),
            which other contexts may copy.
        label_ids: Token ids of a probe's labels, whose logits are computed in float32.
        writing: The reply that goes on from these logits; None for none.
    """

    ids: Sequence[int]
    cache: Any
    n_logits: int = 0
    capture: Capture | None = None
    block_names: Sequence[bytes] = ()
    label_ids: Sequence[int] = ()
    writing: Writing | None = None


def run_alone(net: Any, device: torch.device, request: ForwardRequest) -> Tensor | None:
    """Run one context in a pass of its own.

    Args:
        net: The network.
        device: The device of its inputs.
        request: What is run; its cache grows.

    Returns:
        Float32 logits of the last tokens [request.n_logits, vocab]; None where `request.n_logits`
        is 0.
    """
    make_room([request])
    arguments = {
        "input_ids": torch.tensor([list(request.ids)], device=device),
        "past_key_values": request.cache,
        "use_cache": True,
    }
    with torch.inference_mode(), attention_calls(capture=request.capture):
        if not request.n_logits:
            net.get_decoder()(**arguments)
            return None
        label_ids_of_rows = [request.label_ids] * request.n_logits
        return _run_for_logits(net, arguments, request.n_logits, label_ids_of_rows)


def run_packed(
    net: Any,
    device: torch.device,
    requests: Sequence[ForwardRequest],
    in_one_call: bool = False,
    max_context_tokens: int = 0,
) -> list[Tensor | None]:
    """Run several contexts of one pool in one pass: their tokens one after the other as one row of
    the network, while attention keeps the contexts apart. Also fills their captures.

    Args:
        net: The network, of transformers.
        device: The device of its inputs.
        requests: What is run; their caches grow.
        in_one_call: Whether one attention call serves all (kernels.packed_attention); else each
            context has a call of its own.
        max_context_tokens: The most tokens that any context may have; used for one call alone.

    Returns:
        The logits of each request, in the order of `requests`: float32 [n_logits, vocab] of its
        last tokens, None where it wants none.

    Raises:
        MemoryError: The pool is full.
    """
    make_room(requests)
    order = list(range(len(requests)))
    if in_one_call:  # it wants the contexts in the order of their places
        order.sort(key=lambda n: slot_of(requests[n].cache).start)
    tokens = _PackedTokens()
    for n in order:
        tokens.add(requests[n])
    arguments = tokens.network_arguments(device)
    pool = slot_of(requests[0].cache).pool
    layout_on = None  # a function: device -> where the contexts stand in the pool
    if in_one_call:
        layout_on = tokens.layout_function(max_context_tokens)
    pack = PackedPass(tokens.contexts, pool, layout_on)
    logits: Tensor | None = None
    with torch.inference_mode(), attention_calls(pack=pack):
        if tokens.logit_rows:
            logit_rows = torch.tensor(tokens.logit_rows, device=device)
            logits = _run_for_logits(net, arguments, logit_rows, tokens.label_ids_of_rows)
        else:
            net.get_decoder()(**arguments)
        pack.finish_captures()
    return _logits_by_request(logits, requests, order)


def _logits_by_request(
    all_logits: Tensor | None, requests: Sequence[ForwardRequest], order: Sequence[int]
) -> list[Tensor | None]:
    """The logits of each request, None for one that wants none.

    Args:
        all_logits: The logits of all requests, one after the other [rows, vocab]; None where none
            wants any.
        requests: What was run.
        order: Indices of the requests, in the order in which their rows stand.
    """
    by_request: list[Tensor | None] = [None] * len(requests)
    if all_logits is None:
        return by_request
    start = 0
    for n in order:
        end = start + requests[n].n_logits
        if end > start:
            by_request[n] = all_logits[start:end]
        start = end
    return by_request


class _PackedTokens:
    """The tokens of a packed pass, one context after the other.

    Attributes:
        contexts: Where each context's tokens stand among them.
        ids: The token ids.
        positions: The position of each token in its context.
        logit_rows: Which of them want logits, by their place in the pass.
        label_ids_of_rows: For each of these rows, ids of tokens whose logits are computed in
            float32.
    """

    def __init__(self) -> None:
        """Begin without any token."""
        self.contexts: list[PackedContext] = []
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.logit_rows: list[int] = []
        self.label_ids_of_rows: list[Sequence[int]] = []

    def add(self, request: ForwardRequest) -> None:
        """Append a context's tokens to the pass; they follow what the context's cache holds."""
        n_cached = slot_of(request.cache).n_tokens
        start = len(self.ids)
        self.ids += request.ids
        end = len(self.ids)
        self.contexts.append(PackedContext(start, end, request.cache, request.capture))
        self.positions += range(n_cached, n_cached + len(request.ids))
        self.logit_rows += range(end - request.n_logits, end)
        self.label_ids_of_rows += [request.label_ids] * request.n_logits

    def network_arguments(self, device: torch.device) -> dict[str, object]:
        """What the network is called with, by name: ids, positions and a cache that writes to all
        contexts."""
        slots = [PackedSlot(slot_of(context.cache), context.n_new) for context in self.contexts]
        return {
            "input_ids": torch.tensor([self.ids], device=device),
            "position_ids": torch.tensor([self.positions], device=device),
            "past_key_values": packed_cache(slots, device),
            # transformers takes a mask of four dimensions as it is; each context makes its own.
            "attention_mask": torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),
            "use_cache": True,
        }

    def layout_function(self, max_context_tokens: int) -> Callable[[torch.device], PackLayout]:
        """A function: device -> where the contexts stand in the pool. It computes that once a
        device.

        Args:
            max_context_tokens: The most tokens that any context may have.
        """
        new_counts: list[int] = []
        key_starts: list[int] = []
        key_counts: list[int] = []
        for context in self.contexts:
            slot = slot_of(context.cache)
            new_counts.append(context.n_new)
            key_starts.append(slot.start)
            key_counts.append(slot.n_tokens + context.n_new)
        return functools.cache(
            functools.partial(pack_layout, new_counts, key_starts, key_counts, max_context_tokens)
        )


def _run_for_logits(
    net: Any,
    arguments: Mapping[str, object],
    logit_rows: Tensor | int,
    label_ids_of_rows: Sequence[Sequence[int]],
) -> Tensor:
    """Run the network, and return the logits of some of its rows. Those of a probe's labels are
    computed once more in float32: in bfloat16 the logits of two labels are often one number, and a
    probe then a tie.

    That is done only where the output of the head, a plain linear layer in memory, is what the
    network returns: not where logits are scaled or capped after it, with an adapter, or quantised
    weights.

    Args:
        net: A causal language model of transformers.
        arguments: What it is called with.
        logit_rows: How many last rows, or the indices of rows.
        label_ids_of_rows: For each of these rows, ids of the tokens whose logits are computed in
            float32.

    Returns:
        Logits [rows, vocab], float32.
    """
    head: Any = None
    if any(label_ids_of_rows):
        head = net.get_output_embeddings()
    with _noted_head_calls(head) as head_calls:
        logits: Tensor = net(**arguments, logits_to_keep=logit_rows).logits[0].float()
    for call in head_calls:
        is_what_network_returns = torch.equal(call.output, logits)
        if is_what_network_returns:
            for row, label_ids in enumerate(label_ids_of_rows):
                _recompute_in_float32(logits[row], call.hidden[row], head, list(label_ids))
    return logits


class _HeadCall(NamedTuple):
    """A call of a network's output head.

    Attributes:
        hidden: Its input [rows, width].
        output: Its output in float32 [rows, vocab].
    """

    hidden: Tensor
    output: Tensor


@contextlib.contextmanager
def _noted_head_calls(head: Any) -> Iterator[list[_HeadCall]]:
    """Context manager: a list to which each call of a network's output head in the block is
    appended, where it is a call of this thread. It stays empty for None, and for a head that is no
    plain linear layer in memory or is of float32 already."""
    this_thread = threading.get_ident()
    head_calls: list[_HeadCall] = []

    def note_head_call(_: Any, inputs: Any, output: Tensor) -> None:
        """Append the input and the output of a call of the head; both have one batch."""
        if threading.get_ident() == this_thread:
            head_calls.append(_HeadCall(hidden=inputs[0][0], output=output[0].float()))

    with contextlib.ExitStack() as hooks:
        if _is_plain_head(head):
            hooks.callback(head.register_forward_hook(note_head_call).remove)
        yield head_calls


def _is_plain_head(head: Any) -> bool:
    """Whether the output head is a plain linear layer in memory, of another type than float32."""
    if type(head) is not torch.nn.Linear:
        return False
    return head.weight.dtype != torch.float32 and not head.weight.is_meta


def _recompute_in_float32(logits: Tensor, hidden: Tensor, head: Any, ids: list[int]) -> None:
    """Replace the logits of some tokens by those computed in float32.

    Args:
        logits: Logits of all tokens [vocab]; changed in place.
        hidden: The head's input [width].
        head: A linear layer.
        ids: The ids of the tokens.
    """
    recomputed = head.weight[ids].float() @ hidden.to(head.weight.device).float()
    if head.bias is not None:
        recomputed = recomputed + head.bias[ids].float()
    logits[ids] = recomputed.to(logits.device)


def run_in_rows(
    net: Any, device: torch.device, requests: Sequence[ForwardRequest], n_rows: int
) -> list[Tensor | None]:
    """Run requests in one pass of a fixed number of tokens; a further context of tokens 0 fills the
    pass.

    Logits are computed for every row or for none, so that the output head too always runs on as
    many rows.

    Args:
        net: The network.
        device: The device of its inputs.
        requests: What is run; their caches grow.
        n_rows: How many tokens the pass has.

    Returns:
        The logits of each request: float32 [n_logits, vocab] of its last tokens, None where it
        wants none.
    """
    filled = list(requests)
    missing_rows = n_rows - sum(len(request.ids) for request in requests)
    if missing_rows:
        cache_of_zeros = slot_of(requests[0].cache).pool.new_cache()
        filled.append(ForwardRequest([0] * missing_rows, cache_of_zeros))
    if any(request.n_logits for request in requests):
        filled = [replace(request, n_logits=len(request.ids)) for request in filled]
    logits = run_packed(net, device, filled)[: len(requests)]
    return [
        _wanted_rows(all_rows, request) for request, all_rows in zip(requests, logits, strict=True)
    ]


def _wanted_rows(logits: Tensor | None, request: ForwardRequest) -> Tensor | None:
    """The rows of logits that a request wants, the last ones; None for none.

    Args:
        logits: A row for each of its tokens; None where none was computed.
        request: The request.
    """
    if logits is None or not request.n_logits:
        return None
    return logits[len(request.ids) - request.n_logits :]


def make_room(requests: Sequence[ForwardRequest]) -> None:
    """Reserve room in the pool for the tokens of `requests`, and count one more pass of the pool.

    Also sets what each slot calls before its keys are moved to another place: where the attention
    of written tokens is captured, the capture first computes what still needs these keys.

    Raises MemoryError where there is no room.
    """
    pool = slot_of(requests[0].cache).pool
    with pool.lock:
        pool.pass_number += 1
        for request in requests:
            slot = slot_of(request.cache)
            slot.reserve(slot.n_tokens + len(request.ids))
            slot.before_move = None
            if isinstance(request.capture, WriteCapture):
                slot.before_move = request.capture.reduce_waiting
