"""Prefix sharing: contexts that begin alike copy keys and values from the one that has computed
them.

    context a   | document ................... | question a | answer
    context b   | the same blocks, copied .... | rest of the document, question b | answer

What is shared are whole blocks of BLOCK tokens. The name of a block is a hash of all tokens up to
its end and of the adapter that read them, so contexts with a block of the same name have all blocks
before it in common too.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from harness.llm.batched_forward import ForwardRequest
from harness.llm.kv import BLOCK, Slot, slot_of


def block_names(slot: Slot, ids: Sequence[int], adapter: str | None) -> list[bytes]:
    """The names of the whole blocks of a context that have no name yet: of each a hash of all
    tokens up to its end.

    Args:
        slot: The context's place in the cache, with the names of its first blocks.
        ids: The tokens of the context.
        adapter: The adapter that reads them; None for none.
    """
    names: list[bytes] = []
    # Each name is hashed with the one before it; the first with the adapter.
    key = blake2b((adapter or "").encode()).digest()
    if slot.names:
        key = slot.names[-1]
    for start in range(len(slot.names) * BLOCK, len(ids) - BLOCK + 1, BLOCK):
        block = array("q", ids[start : start + BLOCK]).tobytes()
        key = blake2b(block, key=key, digest_size=16).digest()
        names.append(key)
    return names


@dataclass(frozen=True)
class SharedPrefix:
    """The part of the tokens to be read that another context holds.

    Attributes:
        source: The other context; None where no context holds any.
        blocks: How many whole blocks it holds.
        tokens: How many of the tokens to be read these are.
        missing: The name of the first block that no other context holds; None where all are held.
    """

    source: Slot | None = None
    blocks: int = 0
    tokens: int = 0
    missing: bytes | None = None


_NOTHING_SHARED = SharedPrefix()


def shared_prefix(request: ForwardRequest) -> SharedPrefix:
    """Find the longest prefix of a request's tokens that another context holds; nothing is copied.

    The last `request.logits` tokens are never shared, as their logits must be computed. A request
    without `blocks` shares nothing.
    """
    if not request.blocks:
        return _NOTHING_SHARED
    slot = slot_of(request.cache)
    used, n_named = slot.n_tokens, len(slot.names)
    sharable = max((used + len(request.ids) - request.logits) // BLOCK - n_named, 0)
    common = slot.pool.longest_match(request.blocks[:sharable], n_named)
    tokens = 0
    if common.blocks:
        tokens = max((n_named + common.blocks) * BLOCK - used, 0)
    missing = None
    if common.blocks < min(sharable, len(request.blocks)):
        missing = request.blocks[common.blocks]
    return SharedPrefix(common.slot, common.blocks, tokens, missing)


def copy_shared(request: ForwardRequest) -> ForwardRequest:
    """Copy what another context holds of the tokens into the request's cache, and name the blocks
    that it has by that.

    Returns:
        The request for the tokens that are left; `request` itself where nothing is copied.
    """
    if not request.blocks:
        return request
    slot = slot_of(request.cache)
    with slot.pool.lock:  # the source may be rolled back, or end
        prefix, used = shared_prefix(request), slot.n_tokens
        if prefix.source is None:
            return request
        if prefix.tokens and not slot.copy(
            prefix.source, used + prefix.tokens, used + len(request.ids)
        ):
            return request
        slot.names.extend(request.blocks[: prefix.blocks])
    return replace(
        request, ids=request.ids[prefix.tokens :], blocks=request.blocks[prefix.blocks :]
    )
