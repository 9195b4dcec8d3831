"""The key/value caches of all contexts of a model: a pool of tokens in which every context has a
slot.

    layer 0 keys  [tokens, kv_heads, size]   | context a . . | context b . | free ... | context c . . . . | free ──►
    layer 0 values                           the same places; every other layer the same places

A pass over several contexts writes its keys with one call a layer, and attention may read all
contexts in one call (kernels.py). A token is written in place, where transformers' DynamicLayer
copies the whole cache. A roll-back moves a mark, so what stays is bit-identical. A context may copy
what another one holds, or held (prefix_sharing.py).
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

BLOCK = 256  # tokens; the smallest slot, and what is shared is whole blocks


class FreeRange(NamedTuple):
    """Positions [start, end) of a pool that no context holds.

    Attributes:
        start: The first position.
        end: The one after the last; infinite for the last range.
    """

    start: int
    end: float

    def holds(self, tokens: int, limit: int | None) -> bool:
        """Whether `tokens` tokens have room in the range; with a `limit`, all of them below that
        position."""
        end = self.end
        if limit is not None:
            end = min(end, limit)
        return end - self.start >= tokens


class LayerStates(NamedTuple):
    """What one layer holds of a context.

    Attributes:
        layer: The number of the layer.
        keys: [used, kv_heads, size].
        values: Like `keys`.
    """

    layer: int
    keys: Tensor
    values: Tensor


class CommonBlocks(NamedTuple):
    """Blocks that a context has in common with another one that has read them.

    Attributes:
        slot: Where the other one's keys and values are; None where no context has any.
        blocks: How many blocks these are.
    """

    slot: Slot | None
    blocks: int


class KVPool:
    """Buffers of every layer, and which of their tokens are free.

    Attributes:
        keys: The buffer of each layer [tokens, kv_heads, size]; None before the first write.
        values: Like `keys`.
        limit: Most tokens that it may hold, None for any number. Contexts that have waited longest
            then move to the host's memory until their next pass.
        lock: Held while a context is moved or written.
        clock: Passes so far.
        capacity: Tokens that the buffers have room for.
        growths: How often longer ones were made.
    """

    def __init__(self, layers: int, limit: int | None = None, kept: int = 0) -> None:
        """Make no buffers yet: all positions are free. `_to_release` has positions of contexts that
        the garbage collector took, `_ended` the contexts that ended and stay, the oldest first.

        Args:
            layers: The number of layers of the network.
            limit: Most tokens that it may hold; None for any number.
            kept: Most tokens of contexts that ended and stay, for contexts that begin like them.
        """
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.limit = limit
        self.lock = threading.RLock()  # a context may be rolled back while a pass over others runs
        self.clock = 0  # passes so far
        self.capacity = self.growths = 0
        # In order, never adjacent; the last one has no end.
        self._free = [FreeRange(0, math.inf)]
        # Of collected contexts, until the next `allocate`.
        self._to_release: deque[tuple[int, int]] = deque()
        self._slots: weakref.WeakSet[Slot] = weakref.WeakSet()
        self._max_ended_tokens = kept
        # By the second block: of two that begin alike the newer.
        self._ended: OrderedDict[bytes, Slot] = OrderedDict()

    def cache(self) -> Cache:
        """The empty cache of a new context."""
        slot = Slot(self)
        with self.lock:
            self._slots.add(slot)
        return Cache(layers=[SlotLayer(slot, layer) for layer in range(len(self.keys))])

    def expect(self, contexts: int, tokens: int) -> None:
        """Make buffers that are long enough for some contexts at once, with the room that each
        keeps to grow.

        Buffers that grow later have other addresses, so every recorded step is recorded anew
        (cuda_graphs.py).

        Args:
            contexts: How many contexts.
            tokens: How many tokens each has.
        """
        wanted = _with_spare_room(contexts * tokens)
        possible = wanted
        if self.limit is not None:
            possible = min(wanted, self.limit)
        with self.lock:
            if self.capacity < possible:
                self._grow(wanted)

    def allocate(self, tokens: int) -> int:
        """Reserve `tokens` positions in a row, and return the first. Contexts that are idle are
        moved, or dropped, where that is needed for the room. Raises MemoryError when `limit` leaves
        none."""
        with self.lock:
            while True:
                while self._to_release:
                    self.release(*self._to_release.popleft())
                for n, free in enumerate(self._free):
                    if free.holds(tokens, self.limit):
                        self._take_from(n, tokens)
                        return free.start
                self._make_room(tokens)

    def extend(self, end: int, tokens: int) -> bool:
        """Reserve the `tokens` positions that begin at `end`, where a context ends, if all are
        free; returns whether they were."""
        with self.lock:
            for n, free in enumerate(self._free):
                if free.start == end and free.holds(tokens, self.limit):
                    self._take_from(n, tokens)
                    return True
        return False

    def release(self, start: int, end: int) -> None:
        """Make the positions [start, end) free; adjacent free ranges become one."""
        if start >= end:
            return
        with self.lock:
            merged: list[FreeRange] = []
            for free in sorted([*self._free, FreeRange(start, end)]):
                if merged and merged[-1].end == free.start:
                    merged[-1] = FreeRange(merged[-1].start, free.end)
                else:
                    merged.append(free)
            self._free = merged

    def is_free_before(self, start: int) -> bool:
        """Whether the position before `start` is free."""
        return any(free.end == start for free in self._free)

    def release_later(self, start: int, end: int) -> None:
        """Release the positions [start, end) at the next `allocate`; takes no lock, for the garbage
        collector."""
        self._to_release.append((start, end))

    def _take_from(self, n: int, tokens: int) -> None:
        """Reserve the first positions of a free range; the buffers grow if they are too short.

        Args:
            n: The number of the range among the free ones.
            tokens: How many positions.
        """
        free = self._free[n]
        end = free.start + tokens
        if end > self.capacity:
            self._grow(end)
        # Only now: where memory ends while the buffers grow, nothing is reserved.
        del self._free[n]
        if end < free.end:
            self._free.insert(n, FreeRange(end, free.end))

    def _grow(self, tokens: int) -> None:
        """Make the buffers at least `tokens` positions long; what they hold is copied. Where memory
        ends half-way, `capacity` stays what all buffers hold."""
        grown = max(tokens, self.capacity + self.capacity // 2)
        if self.limit is not None:
            grown = min(grown, self.limit)
        self.growths += 1
        for buffers in (self.keys, self.values):
            # One buffer after the other, so that only one of them is there twice.
            for layer, buffer in enumerate(buffers):
                if buffer is not None and buffer.shape[0] < grown:
                    bigger = buffer.new_empty(grown, *buffer.shape[1:])
                    bigger[: buffer.shape[0]] = buffer
                    buffers[layer] = bigger
        self.capacity = grown

    def keep(self, slot: Slot) -> None:
        """Keep the named blocks of a context that ended, for others to copy. Of two contexts whose
        first two blocks are equal only the newer is kept, and the oldest kept contexts are dropped
        where there is no room for them. A context of fewer than two blocks is not kept."""
        with self.lock:
            size = len(slot.names) * BLOCK
            if len(slot.names) < 2 or size > self._max_ended_tokens or not slot.capacity:
                return
            slot.shrink(size)
            slot.before_leaving = None
            # A block's name is a hash of all tokens up to its end, so this is one of both blocks.
            two_blocks = slot.names[1]
            self._ended.pop(two_blocks, None)
            self._ended[two_blocks] = slot
            while sum(kept.capacity for kept in self._ended.values()) > self._max_ended_tokens:
                self._ended.popitem(last=False)

    def forget(self) -> None:
        """Drop the contexts that ended and were kept."""
        with self.lock:
            self._ended.clear()

    def longest_match(self, names: Sequence[bytes], at: int) -> CommonBlocks:
        """Find the context that holds most of some blocks.

        Args:
            names: The names of successive blocks of a context (prefix_sharing.py).
            at: The number of the first of them in that context.

        Returns:
            How many of the first blocks it holds, and where.
        """
        best: Slot | None = None
        most = 0
        with self.lock:
            for slot in list(self._slots):
                held_names: list[bytes] = []
                if slot.capacity:
                    held_names = slot.names[at : at + len(names)]
                n_common = _common_blocks(held_names, names)
                if n_common > most:
                    best, most = slot, n_common
        return CommonBlocks(best, most)

    def _make_room(self, tokens: int) -> None:
        """Make room in the pool by the cheapest of three ways.

        Close gaps between idle contexts; else drop the oldest ended context; else move the context
        that is idle the longest to main memory. Raises MemoryError where no context is idle.
        """
        idle = self._idle_slots()
        for slot in sorted(idle, key=lambda slot: slot.start):
            slot.close_gap()
        if any(free.holds(tokens, self.limit) for free in self._free):
            return
        if self._ended:
            self._ended.popitem(last=False)
            return
        if not idle:
            raise MemoryError(
                f"the memory holds keys and values of {self.limit} tokens, too few for {tokens} "
                "more of this context; "
                "set a smaller model.window, or fewer questions at once with --parallel"
            )
        min(idle, key=lambda slot: slot.last).evict()

    def _idle_slots(self) -> list[Slot]:
        """The slots in the pool that the pass under way does not use."""
        ended = set(self._ended.values())
        in_pool = [slot for slot in list(self._slots) if slot.capacity]
        return [slot for slot in in_pool if slot.last < self.clock or slot in ended]

    def write(self, layer: int, rows: Tensor | slice, keys: Tensor, values: Tensor) -> None:
        """Put keys and values at positions of a layer's buffers.

        Args:
            layer: Its number.
            rows: Positions in the pool [new].
            keys: [new, kv_heads, size].
            values: Like `keys`.
        """
        # A pass made the buffers in inference mode; torch allows no write to such ones outside of
        # it, where `_move` is.
        with self.lock, torch.inference_mode():
            for buffers, states in ((self.keys, keys), (self.values, values)):
                buffer = buffers[layer]
                if buffer is None:
                    buffer = buffers[layer] = states.new_empty(self.capacity, *states.shape[1:])
                if isinstance(rows, slice):
                    buffer[rows] = states
                else:
                    buffer.index_copy_(0, rows, states)


def _common_blocks(held: Sequence[bytes], names: Sequence[bytes]) -> int:
    """How many of the first of some blocks a context holds.

    [b"a", b"b", b"c"], [b"a", b"b", b"d"] -> 2

    Args:
        held: The names of the blocks that the context holds.
        names: The names of the blocks that are wanted, at least as many.
    """
    # A name stands for all tokens up to its end, so only the last common one is compared.
    for n in range(len(held), 0, -1):
        if held[n - 1] == names[n - 1]:
            return n
    return 0


def _whole_blocks(tokens: int) -> int:
    """The smallest multiple of BLOCK that holds `tokens` tokens, at least one block."""
    return max(-(-tokens // BLOCK), 1) * BLOCK


def _with_spare_room(tokens: int) -> int:
    """Tokens of a context with the quarter more that is reserved for it to grow."""
    return tokens + tokens // 4


class Slot:
    """The positions [start, start + capacity) of one context, of which every layer uses the first
    `used[layer]`.

    Attributes:
        pool: The pool that holds them.
        start: The first position.
        capacity: Their number.
        used: How many tokens each layer holds.
        last: The number of the pass that used it last.
        before_leaving: What still wants to read its keys, called before they move away; None for
            nothing.
        names: The names of its first blocks, as far as they are known.
        away: Keys and values of each layer while these stand outside of the pool, until the next
            `reserve`; else None.
    """

    def __init__(self, pool: KVPool) -> None:
        """The slot of a new context, without any position."""
        self.pool = pool
        self.start = self.capacity = 0
        self.used = [0] * len(pool.keys)
        self.last = pool.clock
        self.before_leaving: Callable[[], None] | None = None
        self.names: list[bytes] = []
        self.away: list[LayerStates] | None = None

    @property
    def n_tokens(self) -> int:
        """How many tokens the context holds, by its first layer; between passes all layers hold as
        many."""
        return self.used[0]

    def __del__(self) -> None:
        """Give the positions back to the pool when the context is not in use any more."""
        self.pool.release_later(self.start, self.start + self.capacity)

    def reserve(self, tokens: int) -> None:
        """Make room for `tokens` tokens in all, and some to grow. The context moves if the
        positions after it are taken, and comes back if it was in the host's memory. Raises
        MemoryError."""
        with self.pool.lock:
            self.last = self.pool.clock
            if tokens <= self.capacity and self.away is None:
                return
            size = _whole_blocks(max(tokens, _with_spare_room(self.capacity)))
            if self.pool.limit is not None:
                size = max(min(size, self.pool.limit), tokens)
            if self.capacity and self.pool.extend(self.start + self.capacity, size - self.capacity):
                self.capacity = size
            else:
                self._move(size, tokens)

    def _move(self, size: int, tokens: int) -> None:
        """Move the context to new positions, and free the old ones. Raises MemoryError.

        Args:
            size: How many positions to take.
            tokens: How many to take where `size` do not fit beside the old ones; keys and values
                then go by way of the host's memory.
        """
        try:
            start = self.pool.allocate(size)
        except MemoryError:
            if self.capacity:
                self.evict()
            size = tokens
            start = self.pool.allocate(size)
        states = self.away or self.states()
        old = self.start, self.start + self.capacity
        self.start, self.capacity = start, size
        self.away = None
        for layer, keys, values in states:
            kept = self.used[layer]  # it may have been rolled back while it was away
            self.pool.write(layer, self.rows(0, kept), keys[:kept], values[:kept])
        self.pool.release(*old)

    def evict(self) -> None:
        """Move keys and values to the host's memory and free the positions, until the next
        `reserve`."""
        if self.before_leaving is not None:
            self.before_leaving()
        away: list[LayerStates] = []
        for layer, keys, values in self.states():
            away.append(LayerStates(layer, keys.to("cpu", copy=True), values.to("cpu", copy=True)))
        self.away = away
        self.pool.release(self.start, self.start + self.capacity)
        self.start = self.capacity = 0

    def close_gap(self) -> None:
        """Shrink to the blocks in use, and move to the lowest free positions that hold them, if
        that gains any.

        Buffer by buffer: old and new positions may overlap, and a GPU has no room for a second copy
        of all layers.
        """
        tokens = min(_whole_blocks(max(self.used)), self.capacity)
        if tokens < self.capacity or self.pool.is_free_before(self.start):
            if self.before_leaving is not None:
                self.before_leaving()
            states = self.states()
            self.pool.release(self.start, self.start + self.capacity)
            self.start, self.capacity = self.pool.allocate(tokens), tokens
            for layer, keys, values in states:
                self.pool.write(layer, self.rows(0, self.used[layer]), keys.clone(), values.clone())

    def shrink(self, tokens: int) -> None:
        """Keep only the first `tokens` tokens; the other positions are released."""
        self.used = [min(used, tokens) for used in self.used]
        self.pool.release(self.start + tokens, self.start + self.capacity)
        self.capacity = tokens

    def copy(self, source: Slot, tokens: int, room: int) -> bool:
        """Append keys and values of tokens that another context holds and this one does not have
        yet.

        Args:
            source: The slot of the other context.
            tokens: Up to which of its tokens.
            room: For how many tokens in all to reserve room here.

        Returns:
            False, with nothing copied, where there is no memory for both.
        """
        with self.pool.lock:
            try:
                self.reserve(room)
            except MemoryError:  # its own pass says so, to this context alone
                return False
            if not source.capacity:
                return False
            for layer, used in enumerate(self.used):
                keys, values = self.pool.keys[layer], self.pool.values[layer]
                if keys is not None and values is not None:
                    rows = source.rows(used, tokens)
                    self.pool.write(layer, self.rows(used, tokens), keys[rows], values[rows])
                    self.used[layer] = tokens
        return True

    def states(self) -> list[LayerStates]:
        """Keys and values of the layers that hold any, as views of the pool."""
        states: list[LayerStates] = []
        for layer, used in enumerate(self.used):
            keys, values = self.pool.keys[layer], self.pool.values[layer]
            if used and keys is not None and values is not None:
                rows = self.rows(0, used)
                states.append(LayerStates(layer, keys[rows], values[rows]))
        return states

    def rows(self, start: int, end: int) -> slice:
        """Positions in the pool of the context's tokens [start, end)."""
        return slice(self.start + start, self.start + end)


class SlotLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """One layer of one context's cache, in the form that transformers wants."""

    def __init__(self, slot: Slot, layer: int) -> None:
        """One layer of the context with this slot."""
        self.slot, self._layer = slot, layer
        super().__init__()
        self.is_initialized = True

    @property
    def keys(self) -> Tensor:
        """Keys [1, kv_heads, used, size], a view."""
        return self._view(self.slot.pool.keys)

    @keys.setter
    def keys(self, _: Any) -> None:
        """Do nothing: the constructor of transformers sets None."""

    @property
    def values(self) -> Tensor:
        """Values [1, kv_heads, used, size], a view."""
        return self._view(self.slot.pool.values)

    @values.setter
    def values(self, _: Any) -> None:
        """Do nothing: the constructor of transformers sets None."""

    def _view(self, buffers: list[Tensor | None]) -> Tensor:
        """The context's part of `buffers` (keys or values, one buffer a layer) as a view [1,
        kv_heads, used, size]."""
        with self.slot.pool.lock:
            slot, used = self.slot, self.slot.used[self._layer]
            if slot.away is not None:  # it comes back, perhaps into larger buffers
                slot.reserve(used)
            buffer = buffers[self._layer]
            assert buffer is not None
            _, heads, size = buffer.shape
            # One call, where a slice, a transpose and a new dimension are three: it is made for
            # every layer and token.
            return buffer.as_strided(
                (1, heads, used, size), (0, size, heads * size, 1), slot.start * heads * size
            )

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states of new tokens, [1, kv_heads, new, size] each, to the pool; returns
        views of all keys and values of the context."""
        used = self.slot.used[self._layer]
        end = used + key_states.shape[2]
        with self.slot.pool.lock:
            self.slot.reserve(end)
            rows = self.slot.rows(used, end)
            self.slot.pool.write(
                self._layer, rows, key_states[0].transpose(0, 1), value_states[0].transpose(0, 1)
            )
            self.slot.used[self._layer] = end
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """How many tokens of the context the layer holds."""
        return self.slot.used[self._layer]

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last -`tokens_to_remove` tokens (transformers 5 wants the count negative), and
        the names of blocks that are not whole any more."""
        if tokens_to_remove > 0:
            raise ValueError("crop wants a negative count")
        self.slot.used[self._layer] += tokens_to_remove
        if not self._layer:  # names of blocks that were taken away
            del self.slot.names[self.slot.n_tokens // BLOCK :]


class PackedSlot(NamedTuple):
    """A context of a packed pass.

    Attributes:
        slot: Where its keys and values stand.
        n_new: How many tokens the pass adds to it.
    """

    slot: Slot
    n_new: int


class PackedLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """One layer of several contexts' caches: writes the tokens of a packed pass to the slots they
    belong to."""

    def __init__(
        self, layer: int, pool: KVPool, rows: Tensor, slots: Sequence[PackedSlot] = ()
    ) -> None:
        """Note where the tokens of a pass go.

        Args:
            layer: The number of the layer.
            pool: Holds the contexts.
            rows: The pool's position of each new token [sum of new].
            slots: The contexts; () where the caller counts their new tokens.
        """
        super().__init__()
        self._layer = layer
        self._pool = pool
        self._rows = rows
        self._slots = slots
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states of all contexts' new tokens, [1, kv_heads, sum of new, size] each, to
        their slots. Returns the same states; attention reads the slots."""
        rows = self._rows.to(key_states.device, non_blocking=True)
        self._pool.write(
            self._layer, rows, key_states[0].transpose(0, 1), value_states[0].transpose(0, 1)
        )
        for context in self._slots:
            context.slot.used[self._layer] += context.n_new
        return key_states, value_states

    def get_seq_length(self) -> int:
        """0: positions are given with the pass."""
        return 0


def slot_of(cache: Cache) -> Slot:
    """The slot of a context's cache."""
    slot: Slot = cache.layers[0].slot
    return slot


def packed_cache(parts: Sequence[tuple[Cache, int]], device: torch.device) -> Cache:
    """The cache for a pass over several contexts, which writes the tokens of each to its slot.

    Args:
        parts: (cache, number of new tokens) of each context, their room reserved.
        device: The device of the network's inputs.
    """
    slots = [PackedSlot(slot_of(cache), n_new) for cache, n_new in parts]
    rows: list[int] = []
    for slot, n_new in slots:
        first = slot.start + slot.n_tokens
        rows += range(first, first + n_new)
    index = torch.tensor(rows, device=device)
    pool = slots[0].slot.pool  # one pool holds all contexts
    return Cache(layers=[PackedLayer(layer, pool, index, slots) for layer in range(len(pool.keys))])


def rewind(cache: Cache, length: int) -> None:
    """Forget all but the first `length` tokens of a context in every layer; a layer that holds
    fewer is left as it is."""
    for layer in cache.layers:
        layer.crop(min(length - layer.get_seq_length(), 0))


@contextlib.contextmanager
def kept_tail(cache: Cache) -> Iterator[None]:
    """Context manager: the block may run the last cached token again, and tokens after it.
    Afterwards the cache ends with that token, and has its first keys and values, as a second pass
    may differ in its last bits."""
    end = cache.get_seq_length()
    last = slice(end - 1, end)
    saved: list[tuple[Tensor, Tensor]] = []
    for layer in cache.layers:
        saved.append((layer.keys[:, :, last].clone(), layer.values[:, :, last].clone()))  # noqa: PERF401
    try:
        yield
    finally:
        rewind(cache, end - 1)
        with torch.inference_mode():
            for layer, (keys, values) in zip(cache.layers, saved, strict=True):
                layer.update(keys, values)
