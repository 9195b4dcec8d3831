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


def names_of_new_blocks(slot: Slot, ids: Sequence[int], adapter: str | None) -> list[bytes]:
    """The names of the whole blocks of a context that have no name yet: of each a hash of all
    tokens up to its end.

    Args:
        slot: The context's place in the cache, with the names of its first blocks.
        ids: The token ids of the context.
        adapter: The adapter that reads them; None for none.
    """
    names: list[bytes] = []
    # Each name is hashed with the one before it; the first with the adapter.
    name_before = blake2b((adapter or "").encode()).digest()
    if slot.block_names:
        name_before = slot.block_names[-1]
    for start in range(len(slot.block_names) * BLOCK, len(ids) - BLOCK + 1, BLOCK):
        block = array("q", ids[start : start + BLOCK]).tobytes()
        name = blake2b(block, key=name_before, digest_size=16).digest()
        names.append(name)
        name_before = name
    return names


@dataclass(frozen=True)
class SharedPrefix:
    """The part of the tokens to be read that another context holds.

    Attributes:
        source: The other context; None where no context holds any.
        n_blocks: How many whole blocks it holds.
        n_tokens: How many of the tokens to be read these are.
        first_missing: The name of the first block that no other context holds; None where all are
            held.
    """

    source: Slot | None = None
    n_blocks: int = 0
    n_tokens: int = 0
    first_missing: bytes | None = None


_NOTHING_SHARED = SharedPrefix()


def shared_prefix(request: ForwardRequest) -> SharedPrefix:
    """Find the longest prefix of a request's tokens that another context holds; nothing is copied.

    Whole blocks of BLOCK tokens are shared, and of a block that the context holds in part the rest.
    The last `request.n_logits` tokens never are, as their logits must be computed. A request without
    `block_names` shares nothing.

    With blocks of 16 tokens, 20 cached, the first 16 of them named, and 40 to be read of which
    another context holds 2 blocks (tokens 16 to 48): n_blocks 2, n_tokens 28.
    """
    if not request.block_names:
        return _NOTHING_SHARED
    slot = slot_of(request.cache)
    n_cached = slot.n_tokens
    n_named = len(slot.block_names)
    n_sharable_tokens = n_cached + len(request.ids) - request.n_logits
    n_sharable_blocks = max(n_sharable_tokens // BLOCK - n_named, 0)
    sharable_names = request.block_names[:n_sharable_blocks]
    common = slot.pool.longest_match(sharable_names, first_block=n_named)
    n_tokens = 0
    if common.n_blocks:
        end_of_common = (n_named + common.n_blocks) * BLOCK
        n_tokens = max(end_of_common - n_cached, 0)
    first_missing = None
    if common.n_blocks < len(sharable_names):
        first_missing = sharable_names[common.n_blocks]
    return SharedPrefix(common.slot, common.n_blocks, n_tokens, first_missing)


def copy_shared(request: ForwardRequest) -> ForwardRequest:
    """Copy keys and values of the request's first tokens that another context holds into its cache,
    and give their blocks their names.

    Returns:
        The request for the tokens that are left; `request` itself where nothing is copied.
    """
    if not request.block_names:
        return request
    slot = slot_of(request.cache)
    with slot.pool.lock:  # the source may be rolled back, or end
        n_cached = slot.n_tokens
        prefix = shared_prefix(request)
        if prefix.source is None:
            return request
        if prefix.n_tokens:
            is_copied = slot.copy_from(
                prefix.source,
                end=n_cached + prefix.n_tokens,
                n_tokens=n_cached + len(request.ids),
            )
            if not is_copied:
                return request
        slot.block_names.extend(request.block_names[: prefix.n_blocks])
    return replace(
        request,
        ids=request.ids[prefix.n_tokens :],
        block_names=request.block_names[prefix.n_blocks :],
    )
