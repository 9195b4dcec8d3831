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

    def has_room_for(self, n_tokens: int, pool_end: int | None) -> bool:
        """Whether `n_tokens` tokens have room in the range; where the pool has an end, all of them
        below that position."""
        end = self.end
        if pool_end is not None:
            end = min(end, pool_end)
        return end - self.start >= n_tokens


class LayerStates(NamedTuple):
    """What one layer holds of a context.

    Attributes:
        layer: The number of the layer.
        keys: [tokens, kv_heads, size].
        values: Like `keys`.
    """

    layer: int
    keys: Tensor
    values: Tensor


class CommonBlocks(NamedTuple):
    """Blocks that a context has in common with another one that has read them.

    Attributes:
        slot: Where the other one's keys and values are; None where no context has any.
        n_blocks: How many blocks these are.
    """

    slot: Slot | None
    n_blocks: int


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

    def __init__(
        self, n_layers: int, max_tokens: int | None = None, max_ended_tokens: int = 0
    ) -> None:
        """Make no buffers yet: all positions are free.

        Args:
            n_layers: The number of layers of the network.
            max_tokens: Most tokens that it may hold; None for any number.
            max_ended_tokens: Most tokens of contexts that ended and stay, for contexts that begin
                like them.
        """
        self.keys: list[Tensor | None] = [None] * n_layers
        self.values: list[Tensor | None] = [None] * n_layers
        self.max_tokens = max_tokens
        self.lock = threading.RLock()  # a context may be rolled back while a pass over others runs
        self.pass_number = 0
        self.capacity = self.n_growths = 0
        # In order, never adjacent; the last one has no end.
        self._free_ranges = [FreeRange(0, math.inf)]
        # Positions [start, end) of contexts that the garbage collector took, until the next
        # `allocate`.
        self._to_release: deque[tuple[int, int]] = deque()
        self._slots: weakref.WeakSet[Slot] = weakref.WeakSet()
        self._max_ended_tokens = max_ended_tokens
        # The contexts that ended and stay, the oldest first. By the name of the second block: of
        # two that begin alike the newer stays.
        self._ended_slots: OrderedDict[bytes, Slot] = OrderedDict()

    def new_cache(self) -> Cache:
        """Make the empty cache of a new context."""
        slot = Slot(self)
        with self.lock:
            self._slots.add(slot)
        return Cache(layers=[SlotLayer(slot, layer) for layer in range(len(self.keys))])

    def make_buffers_for(self, n_contexts: int, n_tokens: int) -> None:
        """Make the buffers long enough for some contexts at once, with the room that each keeps to
        grow.

        Buffers that grow later have other addresses, so every recorded step is recorded anew
        (cuda_graphs.py).

        Args:
            n_contexts: How many contexts.
            n_tokens: How many tokens each has.
        """
        wanted = _with_spare_room(n_contexts * n_tokens)
        possible = wanted
        if self.max_tokens is not None:
            possible = min(wanted, self.max_tokens)
        with self.lock:
            if self.capacity < possible:
                self._grow(wanted)  # which itself stays within max_tokens

    def allocate(self, n_tokens: int) -> int:
        """Reserve `n_tokens` positions in a row, and return the first. Contexts that are idle are
        moved, or dropped, where that is needed for the room. Raises MemoryError when `max_tokens`
        leaves none."""
        with self.lock:
            while True:
                while self._to_release:  # of contexts that the garbage collector took
                    self.release(*self._to_release.popleft())
                for range_number, free in enumerate(self._free_ranges):
                    if free.has_room_for(n_tokens, self.max_tokens):
                        self._reserve_in(range_number, n_tokens)
                        return free.start
                self._make_room(n_tokens)

    def reserve_after(self, end: int, n_tokens: int) -> bool:
        """Reserve the `n_tokens` positions that begin at `end`, where a context ends, if all are
        free; returns whether they were."""
        with self.lock:
            for range_number, free in enumerate(self._free_ranges):
                if free.start == end and free.has_room_for(n_tokens, self.max_tokens):
                    self._reserve_in(range_number, n_tokens)
                    return True
        return False

    def release(self, start: int, end: int) -> None:
        """Make the positions [start, end) free; adjacent free ranges become one."""
        if start >= end:
            return
        with self.lock:
            merged: list[FreeRange] = []
            for free in sorted([*self._free_ranges, FreeRange(start, end)]):
                if merged and merged[-1].end == free.start:
                    merged[-1] = FreeRange(merged[-1].start, free.end)
                else:
                    merged.append(free)
            self._free_ranges = merged

    def is_free_before(self, start: int) -> bool:
        """Whether the position before `start` is free."""
        return any(free.end == start for free in self._free_ranges)

    def release_later(self, start: int, end: int) -> None:
        """Release the positions [start, end) at the next `allocate`; takes no lock, for the garbage
        collector."""
        self._to_release.append((start, end))

    def _reserve_in(self, range_number: int, n_tokens: int) -> None:
        """Reserve the first positions of a free range; the buffers grow if they are too short.

        Args:
            range_number: The number of the range among the free ones.
            n_tokens: How many positions.
        """
        free = self._free_ranges[range_number]
        end = free.start + n_tokens
        if end > self.capacity:
            self._grow(end)
        # Only now: where memory ends while the buffers grow, nothing is reserved.
        del self._free_ranges[range_number]
        if end < free.end:
            self._free_ranges.insert(range_number, FreeRange(end, free.end))

    def _grow(self, n_tokens: int) -> None:
        """Make the buffers at least `n_tokens` positions long, if `max_tokens` allows; what they
        hold is copied. Also counts the growth. Where memory ends half-way, `capacity` stays what
        all buffers hold."""
        new_capacity = max(n_tokens, self.capacity + self.capacity // 2)
        if self.max_tokens is not None:
            new_capacity = min(new_capacity, self.max_tokens)
        self.n_growths += 1
        for buffers in (self.keys, self.values):
            # One buffer after the other, so that only one of them is there twice.
            for layer, buffer in enumerate(buffers):
                if buffer is not None and buffer.shape[0] < new_capacity:
                    bigger = buffer.new_empty(new_capacity, *buffer.shape[1:])
                    bigger[: buffer.shape[0]] = buffer
                    buffers[layer] = bigger
        self.capacity = new_capacity

    def keep_ended(self, slot: Slot) -> None:
        """Keep the named blocks of a context that ended, for others to copy. Of two contexts whose
        first two blocks are equal only the newer is kept, and the oldest kept contexts are dropped
        where there is no room for them. A context of fewer than two blocks is not kept."""
        with self.lock:
            n_tokens = len(slot.block_names) * BLOCK
            is_too_short = len(slot.block_names) < 2
            is_too_long = n_tokens > self._max_ended_tokens
            if is_too_short or is_too_long or not slot.capacity:
                return
            slot.keep_first(n_tokens)
            slot.before_move = None
            # A block's name is a hash of all tokens up to its end, so this is one of both blocks.
            first_two_blocks = slot.block_names[1]
            self._ended_slots.pop(first_two_blocks, None)
            self._ended_slots[first_two_blocks] = slot
            while self._n_ended_tokens() > self._max_ended_tokens:
                self._ended_slots.popitem(last=False)

    def _n_ended_tokens(self) -> int:
        """How many positions the contexts hold that ended and were kept."""
        return sum(slot.capacity for slot in self._ended_slots.values())

    def drop_ended(self) -> None:
        """Drop the contexts that ended and were kept."""
        with self.lock:
            self._ended_slots.clear()

    def longest_match(self, wanted_names: Sequence[bytes], first_block: int) -> CommonBlocks:
        """Find the context in the pool that holds most of some blocks.

        Args:
            wanted_names: The names of successive blocks of a context (prefix_sharing.py).
            first_block: The number of the first of them in that context.

        Returns:
            How many of the first blocks it holds, and where.
        """
        best: Slot | None = None
        most_common = 0
        with self.lock:
            for slot in list(self._slots):
                held_names: list[bytes] = []
                if slot.capacity:
                    held_names = slot.block_names[first_block : first_block + len(wanted_names)]
                n_common = _count_common_blocks(held_names, wanted_names)
                if n_common > most_common:
                    best = slot
                    most_common = n_common
        return CommonBlocks(best, most_common)

    def _make_room(self, n_tokens: int) -> None:
        """Make room in the pool for `n_tokens` tokens by the cheapest of three ways; it may not be
        enough yet.

        Close gaps between idle contexts; else drop the oldest ended context; else move the context
        that is idle the longest to main memory. Raises MemoryError where no context is idle.
        """
        idle = self._idle_slots()
        for slot in sorted(idle, key=lambda slot: slot.start):
            slot.close_gap()
        if any(free.has_room_for(n_tokens, self.max_tokens) for free in self._free_ranges):
            return
        if self._ended_slots:
            self._ended_slots.popitem(last=False)
            return
        if not idle:
            raise MemoryError(
                f"the memory holds keys and values of {self.max_tokens} tokens, too few for "
                f"{n_tokens} more of this context; "
                "set a smaller model.window, or fewer questions at once with --parallel"
            )
        min(idle, key=lambda slot: slot.last_pass).move_to_host()

    def _idle_slots(self) -> list[Slot]:
        """The slots in the pool that the pass under way does not use: those that it did not
        reserve, and those of contexts that ended."""
        ended = set(self._ended_slots.values())
        in_pool = [slot for slot in list(self._slots) if slot.capacity]
        return [slot for slot in in_pool if slot.last_pass < self.pass_number or slot in ended]

    def write(self, layer: int, positions: Tensor | slice, keys: Tensor, values: Tensor) -> None:
        """Put keys and values at positions of a layer's buffers, which are made at the first write.

        Args:
            layer: Its number.
            positions: Positions in the pool [new].
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
                if isinstance(positions, slice):
                    buffer[positions] = states
                else:
                    buffer.index_copy_(0, positions, states)


def _count_common_blocks(held_names: Sequence[bytes], wanted_names: Sequence[bytes]) -> int:
    """How many of the first of some blocks a context holds.

    [b"a", b"b", b"c"], [b"a", b"b", b"d"] -> 2

    Args:
        held_names: The names of the blocks that the context holds.
        wanted_names: The names of the blocks that are wanted, at least as many.
    """
    # A name stands for all tokens up to its end, so only the last common one is compared.
    for n_blocks in range(len(held_names), 0, -1):
        if held_names[n_blocks - 1] == wanted_names[n_blocks - 1]:
            return n_blocks
    return 0


def _round_up_to_blocks(n_tokens: int) -> int:
    """The smallest multiple of BLOCK that holds `n_tokens` tokens, at least one block."""
    n_blocks = -(-n_tokens // BLOCK)  # rounded up
    return max(n_blocks, 1) * BLOCK


def _with_spare_room(n_tokens: int) -> int:
    """The number of tokens of a context with the quarter more that is reserved for it to grow."""
    return n_tokens + n_tokens // 4


class Slot:
    """The positions [start, start + capacity) of one context, of which layer n uses the first
    `tokens_by_layer[n]`.

    Attributes:
        pool: The pool that holds them.
        start: The first position.
        capacity: Their number.
        tokens_by_layer: How many tokens each layer holds.
        last_pass: The number of the pass that used it last.
        before_move: What still wants to read its keys, called before they move away; None for
            nothing.
        block_names: The names of its first blocks, as far as they are known.
        states_on_host: Keys and values of each layer while these stand outside of the pool, until
            the next `reserve`; else None.
    """

    def __init__(self, pool: KVPool) -> None:
        """The slot of a new context, without any position."""
        self.pool = pool
        self.start = self.capacity = 0
        self.tokens_by_layer = [0] * len(pool.keys)
        self.last_pass = pool.pass_number
        self.before_move: Callable[[], None] | None = None
        self.block_names: list[bytes] = []
        self.states_on_host: list[LayerStates] | None = None

    @property
    def n_tokens(self) -> int:
        """How many tokens the context holds, by its first layer; between passes all layers hold as
        many."""
        return self.tokens_by_layer[0]

    @property
    def end(self) -> int:
        """The position in the pool after its last one."""
        return self.start + self.capacity

    def __del__(self) -> None:
        """Give the positions back to the pool when the context is not in use any more."""
        self.pool.release_later(self.start, self.end)

    def reserve(self, n_tokens: int) -> None:
        """Make room in the pool for `n_tokens` tokens in all, and some to grow. The context moves if
        the positions after it are taken, and comes back if it was in the host's memory. Also notes
        that the pool's current pass uses it. Raises MemoryError."""
        with self.pool.lock:
            self.last_pass = self.pool.pass_number
            if n_tokens <= self.capacity and self.states_on_host is None:
                return
            capacity = _round_up_to_blocks(max(n_tokens, _with_spare_room(self.capacity)))
            if self.pool.max_tokens is not None:
                capacity = max(min(capacity, self.pool.max_tokens), n_tokens)
            if self.capacity and self.pool.reserve_after(self.end, capacity - self.capacity):
                self.capacity = capacity
            else:
                self._move(capacity, least_capacity=n_tokens)

    def _move(self, capacity: int, least_capacity: int) -> None:
        """Move the context to new positions, and free the old ones. Raises MemoryError.

        Args:
            capacity: How many positions to take.
            least_capacity: How many to take where `capacity` do not fit beside the old ones; keys
                and values then go by way of the host's memory.
        """
        try:
            start = self.pool.allocate(capacity)
        except MemoryError:
            if self.capacity:
                self.move_to_host()
            capacity = least_capacity
            start = self.pool.allocate(capacity)
        states = self.states_on_host or self.layer_states()
        old_start, old_end = self.start, self.end
        self.start = start
        self.capacity = capacity
        self.states_on_host = None
        for layer, keys, values in states:
            # It may have been rolled back while it was in the host's memory.
            n_tokens = self.tokens_by_layer[layer]
            positions = self.pool_positions(0, n_tokens)
            self.pool.write(layer, positions, keys[:n_tokens], values[:n_tokens])
        self.pool.release(old_start, old_end)

    def move_to_host(self) -> None:
        """Move keys and values to the host's memory and free the positions, until the next
        `reserve`. What still needs the keys where they are is called before (`before_move`)."""
        if self.before_move is not None:
            self.before_move()
        on_host: list[LayerStates] = []
        for layer, keys, values in self.layer_states():
            states = LayerStates(layer, keys.to("cpu", copy=True), values.to("cpu", copy=True))
            on_host.append(states)
        self.states_on_host = on_host
        self.pool.release(self.start, self.end)
        self.start = self.capacity = 0

    def close_gap(self) -> None:
        """Shrink to the blocks in use, and move to the lowest free positions that hold them, if
        that gains any. What still needs the keys where they are is called before (`before_move`).

        Buffer by buffer: old and new positions may overlap, and a GPU has no room for a second copy
        of all layers.
        """
        new_capacity = min(_round_up_to_blocks(max(self.tokens_by_layer)), self.capacity)
        if new_capacity == self.capacity and not self.pool.is_free_before(self.start):
            return
        if self.before_move is not None:
            self.before_move()
        states = self.layer_states()
        self.pool.release(self.start, self.end)
        self.start = self.pool.allocate(new_capacity)
        self.capacity = new_capacity
        for layer, keys, values in states:
            positions = self.pool_positions(0, self.tokens_by_layer[layer])
            self.pool.write(layer, positions, keys.clone(), values.clone())

    def keep_first(self, n_tokens: int) -> None:
        """Keep only the first `n_tokens` tokens; the other positions are released."""
        self.tokens_by_layer = [min(held, n_tokens) for held in self.tokens_by_layer]
        self.pool.release(self.start + n_tokens, self.end)
        self.capacity = n_tokens

    def copy_from(self, source: Slot, end: int, n_tokens: int) -> bool:
        """Append keys and values of tokens that another context holds and this one does not have
        yet, in each layer from the first that is missing.

        Args:
            source: The slot of the other context.
            end: The token before which the copy ends.
            n_tokens: For how many tokens in all to reserve room in this context.

        Returns:
            False, with nothing copied, where there is no memory for both: none for this context, or
            the other one had to leave for it.
        """
        with self.pool.lock:
            try:
                self.reserve(n_tokens)
            except MemoryError:  # its own pass says so, to this context alone
                return False
            if not source.capacity:
                return False
            for layer, held in enumerate(self.tokens_by_layer):
                keys, values = self.pool.keys[layer], self.pool.values[layer]
                if keys is not None and values is not None:
                    from_positions = source.pool_positions(held, end)
                    to_positions = self.pool_positions(held, end)
                    self.pool.write(
                        layer, to_positions, keys[from_positions], values[from_positions]
                    )
                    self.tokens_by_layer[layer] = end
        return True

    def layer_states(self) -> list[LayerStates]:
        """Keys and values of the layers that hold any, as views of the pool."""
        states: list[LayerStates] = []
        for layer, n_tokens in enumerate(self.tokens_by_layer):
            keys, values = self.pool.keys[layer], self.pool.values[layer]
            if n_tokens and keys is not None and values is not None:
                positions = self.pool_positions(0, n_tokens)
                states.append(LayerStates(layer, keys[positions], values[positions]))
        return states

    def pool_positions(self, start: int, end: int) -> slice:
        """Positions in the pool of the context's tokens [start, end)."""
        return slice(self.start + start, self.start + end)


class SlotLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """One layer of one context's cache, in the form that transformers wants."""

    def __init__(self, slot: Slot, layer: int) -> None:
        """One layer of the context with this slot."""
        self.slot = slot
        self._layer = layer
        super().__init__()
        self.is_initialized = True

    @property
    def keys(self) -> Tensor:
        """Keys [1, kv_heads, tokens, size], a view."""
        return self._view(self.slot.pool.keys)

    @keys.setter
    def keys(self, _: Any) -> None:
        """Do nothing: the constructor of transformers sets None."""

    @property
    def values(self) -> Tensor:
        """Values [1, kv_heads, tokens, size], a view."""
        return self._view(self.slot.pool.values)

    @values.setter
    def values(self, _: Any) -> None:
        """Do nothing: the constructor of transformers sets None."""

    def _view(self, buffers: list[Tensor | None]) -> Tensor:
        """The context's part of `buffers` (keys or values, one buffer a layer) as a view [1,
        kv_heads, tokens, size]. Moves the context back into the pool where it is in the host's
        memory."""
        with self.slot.pool.lock:
            slot = self.slot
            n_tokens = self.get_seq_length()
            if slot.states_on_host is not None:  # it comes back, perhaps into larger buffers
                slot.reserve(n_tokens)
            buffer = buffers[self._layer]
            assert buffer is not None
            _, heads, size = buffer.shape
            # One call, where a slice, a transpose and a new dimension are three: it is made for
            # every layer and token.
            token_size = heads * size
            return buffer.as_strided(
                (1, heads, n_tokens, size), (0, size, token_size, 1), slot.start * token_size
            )

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states of new tokens, [1, kv_heads, new, size] each, to the pool; returns
        views of all keys and values of the context."""
        start = self.get_seq_length()
        end = start + key_states.shape[2]
        with self.slot.pool.lock:
            self.slot.reserve(end)
            positions = self.slot.pool_positions(start, end)
            keys, values = key_states[0].transpose(0, 1), value_states[0].transpose(0, 1)
            self.slot.pool.write(self._layer, positions, keys, values)
            self.slot.tokens_by_layer[self._layer] = end
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """How many tokens of the context the layer holds."""
        return self.slot.tokens_by_layer[self._layer]

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last -`tokens_to_remove` tokens (transformers 5 wants the count negative), and
        the names of blocks that are not whole any more. Raises ValueError for a positive count."""
        if tokens_to_remove > 0:
            raise ValueError("crop wants a negative count")
        self.slot.tokens_by_layer[self._layer] += tokens_to_remove
        is_first_layer = self._layer == 0  # by which the context's tokens are counted
        if is_first_layer:
            n_whole_blocks = self.slot.n_tokens // BLOCK
            del self.slot.block_names[n_whole_blocks:]


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
        self, layer: int, pool: KVPool, positions: Tensor, contexts: Sequence[PackedSlot] = ()
    ) -> None:
        """Note where the tokens of a pass go.

        Args:
            layer: The number of the layer.
            pool: Holds the contexts.
            positions: The pool's position of each new token [sum of new].
            contexts: The contexts, whose new tokens are counted with each update; () for none to
                count.
        """
        super().__init__()
        self._layer = layer
        self._pool = pool
        self._positions = positions
        self._contexts = contexts
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states of all contexts' new tokens, [1, kv_heads, sum of new, size] each, to
        their slots. Returns the same states; attention reads the slots."""
        positions = self._positions.to(key_states.device, non_blocking=True)
        keys, values = key_states[0].transpose(0, 1), value_states[0].transpose(0, 1)
        self._pool.write(self._layer, positions, keys, values)
        for context in self._contexts:
            context.slot.tokens_by_layer[self._layer] += context.n_new
        return key_states, value_states

    def get_seq_length(self) -> int:
        """0: positions are given with the pass."""
        return 0


def slot_of(cache: Cache) -> Slot:
    """The slot of a context's cache."""
    slot: Slot = cache.layers[0].slot
    return slot


def packed_cache(contexts: Sequence[PackedSlot], device: torch.device) -> Cache:
    """The cache for a pass over several contexts, which writes the tokens of each to its slot.

    Args:
        contexts: The contexts, their room reserved.
        device: The device of the network's inputs.
    """
    positions: list[int] = []
    for context in contexts:
        first = context.slot.start + context.slot.n_tokens
        positions += range(first, first + context.n_new)
    new_positions = torch.tensor(positions, device=device)
    pool = contexts[0].slot.pool  # one pool holds all contexts
    n_layers = len(pool.keys)
    return Cache(
        layers=[PackedLayer(layer, pool, new_positions, contexts) for layer in range(n_layers)]
    )


def rewind(cache: Cache, n_tokens: int) -> None:
    """Forget all but the first `n_tokens` tokens of a context in every layer; a layer that holds
    fewer is left as it is."""
    for layer in cache.layers:
        layer.crop(min(n_tokens - layer.get_seq_length(), 0))


@contextlib.contextmanager
def last_token_restored(cache: Cache) -> Iterator[None]:
    """Context manager: the block may run the last cached token again, and tokens after it.
    Afterwards the cache ends with that token, and has its first keys and values, as a second pass
    may differ in its last bits."""
    end = cache.get_seq_length()
    last_token = slice(end - 1, end)
    saved_keys = [layer.keys[:, :, last_token].clone() for layer in cache.layers]
    saved_values = [layer.values[:, :, last_token].clone() for layer in cache.layers]
    try:
        yield
    finally:
        rewind(cache, end - 1)
        with torch.inference_mode():
            for layer, keys, values in zip(cache.layers, saved_keys, saved_values, strict=True):
                layer.update(keys, values)
