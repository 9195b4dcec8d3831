"""The arena against plain tensors: whatever contexts do, each finds its own keys and values, to the bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.cost.meter import Meter
from harness.llm.kv import Arena, kept_tail, packed_cache, rewind, slot_of
from tests.llm.test_together import SCRIPTS, play, same, side_by_side

LAYERS, HEADS, SIZE = 2, 2, 4
STEPS = st.lists(
    st.tuples(st.sampled_from(["feed", "cut", "end", "pack", "tail"]), st.integers(0, 3), st.integers(1, 300)),
    max_size=25,
)


def states(new):
    return torch.randn(1, HEADS, new, SIZE)


def agree(caches, expected):
    for cache, layers in zip(caches, expected, strict=True):
        for layer, (keys, values) in zip(cache.layers, layers, strict=True):
            assert layer.get_seq_length() == keys.shape[2]
            if keys.shape[2]:
                assert torch.equal(layer.keys, keys)
                assert torch.equal(layer.values, values)


@settings(max_examples=150, deadline=None)
@example([("feed", 0, 1), ("feed", 0, 256), ("feed", 2, 267), ("feed", 2, 1), ("feed", 1, 1), ("cut", 0, 1)], 1300)
@given(steps=STEPS, limit=st.sampled_from([None, 1300]))
def test_each_context_finds_its_own(steps, limit):
    arena = Arena(LAYERS, limit)
    caches = [arena.cache() for _ in range(4)]
    expected = [[(states(0), states(0)) for _ in range(LAYERS)] for _ in caches]

    def grow(who, layer, keys, values):
        before = expected[who][layer]
        expected[who][layer] = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)

    for step, who, new in steps:
        arena.clock += 1
        held = caches[who].get_seq_length()
        if step == "end" or held + new > 1000:
            caches[who], expected[who] = arena.cache(), [(states(0), states(0)) for _ in range(LAYERS)]
        elif step == "cut":
            to = max(held - new, 0)
            rewind(caches[who], to)
            expected[who] = [(k[:, :, :to], v[:, :, :to]) for k, v in expected[who]]
        elif step == "tail" and held:
            with kept_tail(caches[who]):
                rewind(caches[who], held - 1)
                for layer in caches[who].layers:
                    layer.update(states(2), states(2))
        elif step == "pack":
            pair = [(caches[n], 1 + n) for n in {who, (who + 1) % 4}]
            try:
                for cache, more in pair:
                    slot_of(cache).reserve(cache.get_seq_length() + more)
            except MemoryError:  # no room for both at once; such a pass runs context by context
                assert limit is not None
                continue
            packed = packed_cache(pair, torch.device("cpu"))
            for n, layer in enumerate(packed.layers):
                keys, values = states(sum(more for _, more in pair)), states(sum(more for _, more in pair))
                layer.update(keys, values)
                at = 0
                for cache, more in pair:
                    grow(caches.index(cache), n, keys[:, :, at : at + more], values[:, :, at : at + more])
                    at += more
        else:
            for n, layer in enumerate(caches[who].layers):
                keys, values = states(new), states(new)
                layer.update(keys, values)
                grow(who, n, keys, values)
        if limit is None:  # looking at a context brings it back
            agree(caches, expected)
    for cache, layers in zip(caches, expected, strict=True):
        arena.clock += 1
        agree([cache], [layers])
    if limit is not None and arena.keys[0] is not None:
        assert arena.keys[0].shape[0] <= limit


def test_places_of_contexts_that_ended_are_used_again():
    arena = Arena(LAYERS)
    for _ in range(5):
        cache = arena.cache()
        for layer in cache.layers:
            layer.update(states(700), states(700))
        del cache, layer
    assert arena.keys[0].shape[0] == 700


def test_a_context_larger_than_the_memory_is_refused_with_what_to_do():
    cache = Arena(LAYERS, limit=300).cache()
    with pytest.raises(MemoryError, match=r"holds keys and values of 300 tokens.*model\.window.*--parallel"):
        cache.layers[0].update(states(400), states(400))


def test_contexts_that_do_not_fit_together_wait_in_the_host_memory(tiny, monkeypatch):
    """With room for one context and a half each says the same as with room for all, capture while writing included."""
    alone = [play(tiny, actions, 9 + n) for n, actions in enumerate(SCRIPTS)]
    moved, evict = [], type(slot_of(tiny.session(Meter())._cache)).evict
    monkeypatch.setattr("harness.llm.kv.Slot.evict", lambda slot: (moved.append(slot.used[0]), evict(slot))[1])
    monkeypatch.setitem(vars(tiny), "arena", Arena(tiny.layers, limit=400))
    for one, other in zip(
        alone, side_by_side([lambda n=n, a=a: play(tiny, a, 9 + n) for n, a in enumerate(SCRIPTS)]), strict=True
    ):
        same(one, other)
    assert any(moved), "nothing moved"
