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

from harness.llm.batched_forward import Ask
from harness.llm.kv import BLOCK, Slot, slot_of


def block_names(slot: Slot, ids: Sequence[int], adapter: str | None) -> list[bytes]:
    """Names of the whole blocks of tokens `ids` that `slot` has no names for yet; adapter: that
    reads them."""
    names: list[bytes] = []
    key = slot.names[-1] if slot.names else blake2b((adapter or "").encode()).digest()
    for start in range(len(slot.names) * BLOCK, len(ids) - BLOCK + 1, BLOCK):
        block = array("q", ids[start : start + BLOCK]).tobytes()
        key = blake2b(block, key=key, digest_size=16).digest()
        names.append(key)
    return names


@dataclass(frozen=True)
class SharedPrefix:
    """The part of the tokens to be read that another context, `source`, holds: the first `blocks`
    blocks.

    tokens: how many of the tokens to be read these are; missing: name of the first block that no
    other context holds.
    """

    source: Slot | None = None
    blocks: int = 0
    tokens: int = 0
    missing: bytes | None = None


_NOTHING_SHARED = SharedPrefix()


def shared_prefix(ask: Ask) -> SharedPrefix:
    """The longest prefix of an ask's tokens that another context holds; an empty one where
    `ask.blocks` is empty.

    The last `ask.logits` tokens are never shared, as their logits must be computed.
    """
    if not ask.blocks:
        return _NOTHING_SHARED
    slot = slot_of(ask.cache)
    used, n_named = slot.used[0], len(slot.names)
    sharable = max((used + len(ask.ids) - ask.logits) // BLOCK - n_named, 0)
    source, n_shared = slot.pool.longest_match(ask.blocks[:sharable], n_named)
    tokens = 0
    if n_shared:
        tokens = max((n_named + n_shared) * BLOCK - used, 0)
    return SharedPrefix(source, n_shared, tokens, next(iter(ask.blocks[n_shared:sharable]), None))


def copy_shared(ask: Ask) -> Ask:
    """Copy the `shared_prefix` into the ask's cache; returns the ask for the rest, `ask` itself
    where none fits."""
    if not ask.blocks:
        return ask
    slot = slot_of(ask.cache)
    with slot.pool.lock:  # the source may be rolled back, or end
        prefix, used = shared_prefix(ask), slot.used[0]
        if prefix.source is None:
            return ask
        if prefix.tokens and not slot.copy(
            prefix.source, used + prefix.tokens, used + len(ask.ids)
        ):
            return ask
        slot.names.extend(ask.blocks[: prefix.blocks])
    return replace(ask, ids=ask.ids[prefix.tokens :], blocks=ask.blocks[prefix.blocks :])
