"""Prefix sharing: contexts that begin alike copy keys and values from the one that has computed them.

    context a   | document ................... | question a | answer
    context b   | the same blocks, copied .... | rest of the document, question b | answer

What is shared are whole blocks of BLOCK tokens. The name of a block is a hash of all tokens up to its end and of the
adapter that read them, so contexts with a block of the same name have all blocks before it in common too.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from harness.llm.kv import BLOCK, Slot


def block_names(slot: Slot, ids: Sequence[int], adapter: str | None) -> list[bytes]:
    """Names of the whole blocks of the context `ids` beyond those that `slot` has names for."""
    names: list[bytes] = []
    key = slot.names[-1] if slot.names else blake2b((adapter or "").encode()).digest()
    for start in range(len(slot.names) * BLOCK, len(ids) - BLOCK + 1, BLOCK):
        block = array("q", ids[start : start + BLOCK]).tobytes()
        key = blake2b(block, key=key, digest_size=16).digest()
        names.append(key)
    return names


@dataclass(frozen=True)
class SharedPrefix:
    """The part of the tokens to be read that another context, `source`, holds: the first `blocks` blocks.

    tokens: how many of the tokens to be read these are; missing: name of the first block that no other context holds.
    """

    source: Slot | None = None
    blocks: int = 0
    tokens: int = 0
    missing: bytes | None = None


def shared_prefix(slot: Slot, new: int, logits: int, blocks: Sequence[bytes]) -> SharedPrefix:
    """The longest prefix of the `new` tokens behind `slot` that another context holds; new tokens complete `blocks`.

    The last `logits` tokens are never shared, as their logits must be computed.
    """
    sharable = max((slot.used[0] + new - logits) // BLOCK - len(slot.names), 0)
    source, same = slot.arena.longest_match(blocks[:sharable], len(slot.names))
    tokens = max((len(slot.names) + same) * BLOCK - slot.used[0], 0) if same else 0
    return SharedPrefix(source, same, tokens, next(iter(blocks[same:sharable]), None))


def copy_shared(slot: Slot, new: int, logits: int, blocks: Sequence[bytes]) -> SharedPrefix:
    """Copy the `shared_prefix` to `slot` and return it; an empty one where there is none or it does not fit."""
    with slot.arena.lock:  # the source may be rolled back, or end
        prefix = shared_prefix(slot, new, logits, blocks)
        if prefix.source is None:
            return SharedPrefix()
        used = slot.used[0]
        if prefix.tokens and not slot.copy(prefix.source, used + prefix.tokens, used + new):
            return SharedPrefix()
        slot.names.extend(blocks[: prefix.blocks])
    return prefix
