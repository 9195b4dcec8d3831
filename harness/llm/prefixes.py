"""Contexts that begin alike: what one has read the others copy, keys and values to the bit.

    context a   | document ................... | question a | answer
    context b   | the same blocks, copied .... | rest of the document, question b | answer

What is shared are whole blocks of BLOCK tokens. The name of a block is a hash of all tokens up to its end and of the
adapter that read them, so contexts with a block of the same name have all blocks before it in common too.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from harness.llm.kv import BLOCK, Slot


def block_names(slot: Slot, ids: Sequence[int], adapter: str | None) -> list[bytes]:
    """The names of the whole blocks of the context `ids` that `slot` has no names for yet."""
    found: list[bytes] = []
    key = slot.names[-1] if slot.names else blake2b((adapter or "").encode()).digest()
    for start in range(len(slot.names) * BLOCK, len(ids) - BLOCK + 1, BLOCK):
        block = array("q", ids[start : start + BLOCK]).tobytes()
        key = blake2b(block, key=key, digest_size=16).digest()
        found.append(key)
    return found


@dataclass(frozen=True)
class Held:
    """What another context, `source`, holds of tokens that are to be read: the first `blocks` blocks, `tokens` tokens.

    missing: the name of the first block that it does not hold and another context could.
    """

    source: Slot | None = None
    blocks: int = 0
    tokens: int = 0
    missing: bytes | None = None


def held_by_others(slot: Slot, new: int, logits: int, blocks: Sequence[bytes]) -> Held:
    """What others hold of the `new` tokens behind `slot`, which complete `blocks`; the rows of the logits are not."""
    # Rows with logits must be computed.
    most = max((slot.used[0] + new - logits) // BLOCK - len(slot.names), 0)
    source, same = slot.arena.holds(blocks[:most], len(slot.names))
    tokens = max((len(slot.names) + same) * BLOCK - slot.used[0], 0) if same else 0
    return Held(source, same, tokens, next(iter(blocks[same:most]), None))


def copy_shared(slot: Slot, new: int, logits: int, blocks: Sequence[bytes]) -> Held:
    """Copy that to `slot`; returns what was copied, an empty Held where nothing is there or it does not fit."""
    with slot.arena.lock:  # the source may be rolled back, or end
        there = held_by_others(slot, new, logits, blocks)
        if there.source is None:
            return Held()
        used = slot.used[0]
        if there.tokens and not slot.copy(there.source, used + there.tokens, used + new):
            return Held()
        slot.names.extend(blocks[: there.blocks])
    return there
