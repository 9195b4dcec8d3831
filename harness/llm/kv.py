"""A key/value cache that grows by doubling and shrinks by moving an end mark.

transformers' DynamicLayer copies the whole cache at every token (torch.cat); here a token is written in place, and a
roll-back moves the mark, so what stays is bit-identical because it is never touched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer


class GrowingLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """One layer: buffers [1, kv_heads, capacity, size], of which the first `used` positions are the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.used = 0
        self._keys: torch.Tensor | None = None
        self._values: torch.Tensor | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Take dtype and device from the first keys."""
        self.dtype, self.device = key_states.dtype, key_states.device
        self.is_initialized = True

    def _grow(self, buffer: torch.Tensor | None, states: torch.Tensor, need: int) -> torch.Tensor:
        if buffer is not None and buffer.shape[2] >= need:
            return buffer
        capacity = max(256, need, 2 * (buffer.shape[2] if buffer is not None else 0))
        bigger = states.new_empty(*states.shape[:2], capacity, states.shape[3])
        if buffer is not None:
            bigger[:, :, : self.used] = buffer[:, :, : self.used]
        return bigger

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append states of shape [1, kv_heads, new, size]; returns views of the whole cache."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.used + key_states.shape[2]
        self._keys = self._grow(self._keys, key_states, end)
        self._values = self._grow(self._values, value_states, end)
        self._keys[:, :, self.used : end] = key_states
        self._values[:, :, self.used : end] = value_states
        self._mark(end)
        return self.keys, self.values

    def _mark(self, end: int) -> None:
        self.used = end
        if self._keys is not None and self._values is not None:
            self.keys, self.values = self._keys[:, :, :end], self._values[:, :, :end]

    def get_seq_length(self) -> int:
        """Tokens in the cache."""
        return self.used

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last -`tokens_to_remove` tokens (transformers 5 wants the count negative)."""
        if tokens_to_remove > 0:
            raise ValueError("crop wants a negative count")
        self._mark(self.used + tokens_to_remove)


def new_cache(layers: int) -> Cache:
    """An empty cache of `layers` growing layers."""
    return Cache(layers=[GrowingLayer() for _ in range(layers)])


class PackedLayer(DynamicLayer):  # type: ignore[misc]  # transformers is not typed
    """One layer of several contexts: the tokens of a packed pass go to the caches they belong to."""

    def __init__(self, parts: Sequence[tuple[GrowingLayer, int, int]]) -> None:
        super().__init__()
        self._parts = parts
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append each context's share of [1, kv_heads, sum of new, size]; attention then reads the contexts' layers."""
        for layer, start, end in self._parts:
            layer.update(key_states[:, :, start:end], value_states[:, :, start:end])
        return key_states, value_states

    def get_seq_length(self) -> int:
        """0: positions are given with the pass."""
        return 0


def packed_cache(parts: Sequence[tuple[Cache, int, int]]) -> Cache:
    """A cache for one pass over tokens [start, end) of each (cache, start, end)."""
    layers = len(parts[0][0].layers)
    return Cache(layers=[PackedLayer([(cache.layers[n], a, b) for cache, a, b in parts]) for n in range(layers)])


def rewind(cache: Cache, length: int) -> None:
    """Roll every layer back to its first `length` tokens."""
    for layer in cache.layers:
        rewind_layer_to(layer, length)


@contextlib.contextmanager
def kept_tail(cache: Cache) -> Iterator[None]:
    """Put the last cached token's keys and values back afterwards, to the bit, whatever was written over them."""
    end = cache.get_seq_length()
    last = slice(end - 1, end)
    saved = [(layer.keys[:, :, last].clone(), layer.values[:, :, last].clone()) for layer in cache.layers]
    try:
        yield
    finally:
        with torch.inference_mode():
            for layer, (keys, values) in zip(cache.layers, saved, strict=True):
                rewind_layer_to(layer, end - 1)
                layer.update(keys, values)


def rewind_layer_to(layer: Any, length: int) -> None:
    """Roll one layer back to its first `length` tokens, if it holds more."""
    layer.crop(min(length - layer.get_seq_length(), 0))
