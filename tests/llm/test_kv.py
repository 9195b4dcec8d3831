"""The pool against plain tensors: whatever contexts do, each finds its own keys and values, to the
bit."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.llm.batched_forward import ForwardRequest
from harness.llm.kv import (
    BLOCK,
    KVPool,
    PackedSlot,
    Slot,
    last_token_restored,
    packed_cache,
    rewind,
    slot_of,
)
from harness.llm.network import ForwardQueue, Network
from harness.llm.prefix_sharing import names_of_new_blocks
from harness.parallel.in_flight import questions_that_fit
from tests.llm.conftest import WORDS
from tests.llm.test_batched_forward import same, scripts_of, side_by_side

LAYERS, HEADS, SIZE = 2, 2, 4
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["feed", "cut", "end", "pack", "tail"]),
        st.integers(0, 3),
        st.integers(1, 300),
    ),
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
@example(
    [
        ("feed", 0, 1),
        ("feed", 0, 256),
        ("feed", 2, 267),
        ("feed", 2, 1),
        ("feed", 1, 1),
        ("cut", 0, 1),
    ],
    1300,
)
@given(steps=STEPS, limit=st.sampled_from([None, 1300]))
def test_each_context_finds_its_own(steps, limit):
    pool = KVPool(LAYERS, limit)
    caches = [pool.new_cache() for _ in range(4)]
    expected = [[(states(0), states(0)) for _ in range(LAYERS)] for _ in caches]

    def grow(who, layer, keys, values):
        before = expected[who][layer]
        expected[who][layer] = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)

    for step, who, new in steps:
        pool.pass_number += 1
        held = caches[who].get_seq_length()
        if step == "end" or held + new > 1000:
            caches[who], expected[who] = (
                pool.new_cache(),
                [(states(0), states(0)) for _ in range(LAYERS)],
            )
        elif step == "cut":
            to = max(held - new, 0)
            rewind(caches[who], to)
            expected[who] = [(k[:, :, :to], v[:, :, :to]) for k, v in expected[who]]
        elif step == "tail" and held:
            with last_token_restored(caches[who]):
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
            packed = packed_cache(
                [PackedSlot(slot_of(cache), more) for cache, more in pair], torch.device("cpu")
            )
            for n, layer in enumerate(packed.layers):
                keys, values = (
                    states(sum(more for _, more in pair)),
                    states(sum(more for _, more in pair)),
                )
                layer.update(keys, values)
                at = 0
                for cache, more in pair:
                    grow(
                        caches.index(cache),
                        n,
                        keys[:, :, at : at + more],
                        values[:, :, at : at + more],
                    )
                    at += more
        else:
            for n, layer in enumerate(caches[who].layers):
                keys, values = states(new), states(new)
                layer.update(keys, values)
                grow(who, n, keys, values)
        if limit is None:  # looking at a context brings it back
            agree(caches, expected)
    for cache, layers in zip(caches, expected, strict=True):
        pool.pass_number += 1
        agree([cache], [layers])
    if limit is not None and pool.keys[0] is not None:
        assert pool.keys[0].shape[0] <= limit


def test_places_of_contexts_that_ended_are_used_again():
    pool = KVPool(LAYERS)
    for _ in range(5):
        cache = pool.new_cache()
        for layer in cache.layers:
            layer.update(states(700), states(700))
        del cache, layer
    assert pool.keys[0].shape[0] == 3 * BLOCK


def test_where_memory_ends_while_buffers_grow_the_others_go_on(monkeypatch):
    pool = KVPool(LAYERS)
    first = pool.new_cache()
    kept = [(states(200), states(200)) for _ in range(LAYERS)]
    for layer, pair in zip(first.layers, kept, strict=True):
        layer.update(*pair)
    real, made = torch.Tensor.new_empty, []

    def one(tensor, *shape):
        if made:
            raise torch.OutOfMemoryError
        made.append(1)
        return real(tensor, *shape)

    with monkeypatch.context() as little, pytest.raises(torch.OutOfMemoryError):
        little.setattr(torch.Tensor, "new_empty", one)
        pool.allocate(1000)
    assert pool.capacity <= min(len(buffer) for buffer in [*pool.keys, *pool.values])
    again = pool.new_cache()
    for layer in again.layers:
        layer.update(*kept[0])
    agree([first, again], [kept, [kept[0]] * LAYERS])


def test_a_context_larger_than_the_memory_is_refused_with_what_to_do():
    cache = KVPool(LAYERS, max_tokens=300).new_cache()
    with pytest.raises(
        MemoryError, match=r"holds keys and values of 300 tokens.*model\.window.*--parallel"
    ):
        cache.layers[0].update(states(400), states(400))


@pytest.mark.parametrize(("places", "shortest"), [(16, 1800), (64, 1800), (16, 3200), (64, 3200)])
def test_contexts_that_grow_side_by_side_fit_into_the_room_of_their_places(places, shortest):
    """Contexts as long as MuSiQue's, 40 tokens more a batch. Slots that doubled ran out of memory
    in each case."""
    draws = random.Random(0)
    longest = 3200 + 30 * 40
    pool = KVPool(
        1, max_tokens=places * longest * 5 // 4
    )  # Network.contexts_that_fit counts a quarter more than a context uses
    pool.make_buffers_for(places, longest)
    used = reserved = 0
    waiting = 3 * places
    growing: list[tuple[Any, list[int]]] = []
    while growing or waiting:
        while waiting and len(growing) < places:
            growing.append(
                (pool.new_cache(), [draws.randint(shortest, 3200)] + [40] * draws.randint(15, 30))
            )
            waiting -= 1
        pool.pass_number += 1
        for cache, more in growing:
            new = torch.zeros(1, 1, more.pop(0), 1)
            cache.layers[0].update(new, new)
        used += sum(slot_of(cache).tokens_by_layer[0] for cache, _ in growing)
        reserved += sum(slot_of(cache).capacity for cache, _ in growing)
        growing = [one for one in growing if one[1]]
    assert used / reserved > 0.85
    assert pool.n_growths == 1, "longer buffers: what was recorded is thrown away"


def test_two_networks_share_the_memory_that_is_free(monkeypatch):
    """Both may fill what they are allowed, whichever began first; each by what was free then, they
    took 1.8 times it."""
    small, large = (narrow_network(layers) for layers in (1, 3))
    total = 4_000_000

    def free(_device=None):
        made = [(one, one._pool.keys[0]) for one in (small, large) if one._pool is not None]
        return total - sum(
            len(keys) * one._bytes_of_token() for one, keys in made if keys is not None
        )

    monkeypatch.setattr("harness.llm.network.free_gpu_bytes", free)
    fill(small, 1000)  # of an earlier run, in which it had all
    assert small.pool.max_tokens * small._bytes_of_token() == pytest.approx(0.9 * total, rel=0.01)
    # (4,000,000 - 1,024 x 32) x 0.9 / (32 + 96) bytes x 4/5 / 1,000 tokens; the next run has the
    # buffers of this one, without those of the larger network, which read nothing: (4,000,000 -
    # 27,500 x 32) x ...
    first, second = (
        questions_that_fit([small, large], 64, lambda _: None, lambda: 1000) for _run in range(2)
    )
    assert (first, second) == (22, 17)
    for one in (large, small):
        fill(one, one.pool.max_tokens)
    assert 0 <= free() < 0.12 * total
    with pytest.raises(MemoryError):
        fill(small, small.pool.max_tokens + 1)


def narrow_network(layers):
    """A network on a "GPU" whose pool stands in the host's memory; it has no weights."""
    network = Network.__new__(Network)
    network.n_layers, network.name, network.dtype, network.window = (
        layers,
        "narrow",
        "float32",
        8192,
    )
    network.shape = mock.Mock(layers=layers, kv_heads=1, head_size=4)
    network.device, network.net = torch.device("cuda"), torch.nn.Module()
    network._pool, network._pool_lock, network._other_networks = None, threading.Lock(), []
    network._memory_fraction, network._max_context_tokens = 0.9, 8192
    vars(network)["pack_problem"] = None
    return network


def fill(network, tokens):
    """A context of `tokens` tokens of `network`."""
    network.pool.pass_number += 1
    cache = network.pool.new_cache()
    for layer in cache.layers:
        layer.update(torch.zeros(1, 1, tokens, 4), torch.zeros(1, 1, tokens, 4))
    return cache


def test_contexts_that_begin_at_once_stand_in_one_pool(tiny, monkeypatch):
    """From Python 3.12 on each thread had a pool of its own, and passes over both gave wrong
    answers."""
    monkeypatch.setattr(tiny, "_pool", None)
    fit = tiny._tokens_that_fit
    monkeypatch.setattr(tiny, "_tokens_that_fit", lambda: (time.sleep(0.02), fit())[1])
    with ThreadPoolExecutor(4) as threads:
        assert len({id(pool) for pool in threads.map(lambda _: tiny.pool, range(4))}) == 1


def test_contexts_that_do_not_fit_together_wait_in_the_host_memory(tiny, monkeypatch):
    """With room for one context and a half each says the same as with room for all, capture while
    writing included."""
    jobs = scripts_of(tiny)
    alone = [job() for job in jobs]
    moved, evict = [], Slot.move_to_host
    monkeypatch.setattr(
        Slot, "move_to_host", lambda slot: (moved.append(slot.tokens_by_layer[0]), evict(slot))[1]
    )
    monkeypatch.setattr(tiny, "_pool", KVPool(tiny.n_layers, max_tokens=400))
    for one, other in zip(alone, side_by_side(jobs), strict=True):
        same(one, other)
    assert any(moved), "nothing moved"


def test_a_context_that_moves_within_the_pool_is_copied_buffer_by_buffer():
    """Beside the pool a GPU has a tenth of its memory: too little for a second copy of a long
    context."""
    copies, alive = [], [0]

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            out = op(*args, **(kwargs or {}))
            if op.overloadpacket.__name__ in ("clone", "to", "_to_copy"):
                copies.append(StorageWeakRef(out.untyped_storage()))
            alive.append(sum(not copy.expired() for copy in copies))
            return out

    pool = KVPool(8)
    cache, start = pool.new_cache(), pool.allocate(BLOCK)
    for layer in cache.layers:
        layer.update(states(300), states(300))
    pool.release(start, BLOCK)
    with Watch():
        slot_of(cache).close_gap()
    assert slot_of(cache).start == start
    assert max(alive) <= 2, "of 16 buffers"


DOCUMENTS = [f"{n}. " + WORDS * 16 for n in range(2)]


@pytest.fixture
def counted(tiny, monkeypatch):
    """The tiny model with an empty pool, and the tokens of each of its passes."""
    sizes = []
    hook = tiny.net.get_decoder().register_forward_pre_hook(
        lambda _, args, given: sizes.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    monkeypatch.setattr(tiny, "_pool", KVPool(tiny.n_layers, max_ended_tokens=tiny.window))
    monkeypatch.setitem(
        vars(tiny), "_queues", {}
    )  # a failed pass of another test made theirs smaller
    assert tiny.shares_prefixes  # its trial passes
    sizes.clear()
    yield tiny, sizes
    hook.remove()


def shared(model, ids):
    """A pass over these tokens, of which whole blocks may be copied."""
    return ForwardRequest(
        ids,
        model.pool.new_cache(),
        1,
        block_names=names_of_new_blocks(slot_of(model.pool.new_cache()), ids, None),
    )


def ask(model, document, question, write=3):
    """A question behind a document: text, P(Yes) and P(No), costs."""
    meter = Meter()
    with model.session(meter) as s:
        s.user(document)
        s.feed(question)
        mass = list(s.probe(["Yes", "No"]).mass.values())
        out = s.write(write)
    return out.text, mass, [replace(e, seconds=0.0, queued=0.0) for e in meter.events]


def test_questions_on_one_document_read_it_once(counted, monkeypatch):
    """In flight together or one after the other: the same answers and booked costs as each without
    the others."""
    model, sizes = counted
    questions = [f"Where is bridge {n}?" for n in range(5)]
    own = []
    for question in questions:
        monkeypatch.setattr(model, "_pool", KVPool(model.n_layers))
        own.append(ask(model, DOCUMENTS[0], question))
    alone, length = sum(sizes), max(sizes)
    for places in (5, 1):
        monkeypatch.setattr(model, "_pool", KVPool(model.n_layers, max_ended_tokens=model.window))
        sizes.clear()
        jobs = [
            lambda question=question: ask(model, DOCUMENTS[0], question) for question in questions
        ]
        found = side_by_side(jobs) if places > 1 else [job() for job in jobs]
        for one, other in zip(own, found, strict=True):
            assert (one[0], one[2]) == (other[0], other[2])
            assert one[1] == pytest.approx(other[1], abs=1e-5)
        assert sum(sizes) == alone - 4 * (length // BLOCK * BLOCK), (
            "the whole blocks of four of them are copied"
        )


@pytest.mark.parametrize(
    ("room", "reads"),
    [(3, [True, False, True, True, False]), (2, [True] * 5)],
    ids=["stay", "leave"],
)
def test_contexts_that_ended_stay_within_their_limit_and_leave_for_others(
    counted, monkeypatch, room, reads
):
    """With memory for three documents one that ended stays; with memory for less than two it is
    given up first."""
    model, sizes = counted
    size = len(model.text.encode_data(DOCUMENTS[0])) // BLOCK * BLOCK
    monkeypatch.setattr(
        model, "_pool", KVPool(model.n_layers, max_tokens=room * size, max_ended_tokens=size)
    )
    for document, read_again in zip((0, 0, 1, 0, 0), reads, strict=True):
        sizes.clear()
        ask(model, DOCUMENTS[document], "Where?")
        assert (max(sizes) > size) is read_again


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example([("feed", 0, 0), ("feed", 1, 0), ("feed", 2, 0), ("feed", 2, 1), ("feed", 1, 1)])
@example([("feed", 0, 0), ("cut", 0, 1), ("feed", 0, 0), ("feed", 1, 0), ("feed", 1, 1)])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["feed", "cut", "end", "score"]), st.integers(0, 2), st.integers(0, 1)
        ),
        max_size=14,
    )
)
def test_a_copy_is_what_the_context_would_have_read(counted, steps):
    """Contexts that feed the same texts in any order, are rolled back and end: each says what it
    says alone."""
    model, _ = counted
    texts = [WORDS * 9, " ".join(reversed(WORDS.split())) * 8]

    def opened(parts):
        s = model.session(Meter())
        s.user()
        for part in parts:
            s.feed(texts[part])
        return s

    def says(s):
        return s.score("Mira Tal founded the school.") if s.ids else []

    fed = [[], [], []]
    contexts = [opened([]) for _ in fed]
    for step, who, text in steps:
        if step == "end" or len(fed[who]) > 1:
            contexts[who].close()
            contexts[who], fed[who] = opened([]), []
        elif step == "cut":
            with contexts[who].branch():
                contexts[who].feed(texts[text])
                contexts[who].flush()
        elif step == "score":
            contexts[who].score(texts[text])
        else:
            contexts[who].feed(texts[text])
            contexts[who].flush()
            fed[who].append(text)
    found = [says(s) for s in contexts]
    shared = model.pool
    model._pool = KVPool(model.n_layers)
    try:
        assert found == [pytest.approx(says(opened(parts)), abs=1e-5) for parts in fed]
    finally:
        model._pool = shared


def test_too_little_memory_for_a_copy_is_the_error_of_its_context_alone(counted, monkeypatch):
    model, _ = counted
    size = len(model.text.encode_data(DOCUMENTS[0])) // BLOCK * BLOCK
    monkeypatch.setattr(
        model, "_pool", KVPool(model.n_layers, max_tokens=size + BLOCK, max_ended_tokens=size)
    )
    ask(model, DOCUMENTS[0], "Where?")
    with model.session(Meter()) as s:
        s.user(DOCUMENTS[0])
        ids = [*s.ids, *range(size)]
    first, second = ForwardQueue(model, None).run(
        [ForwardRequest([1, 2], model.pool.new_cache(), 1), shared(model, ids)]
    )
    assert first.shape[0] == 1
    assert isinstance(second, MemoryError)


def test_a_pass_that_fails_after_a_copy_leaves_the_context_as_it_was(counted):
    model, _ = counted
    own = ask(model, DOCUMENTS[0], "Where?")
    with model.session(Meter()) as s:
        s.user(DOCUMENTS[0])
        s.feed("Where?")
        full = mock.patch("harness.llm.batched_forward.make_room", side_effect=MemoryError("full"))
        with full, pytest.raises(MemoryError):
            s.flush()
        assert (s._cache.get_seq_length(), slot_of(s._cache).block_names) == (0, [])
        assert list(s.probe(["Yes", "No"]).mass.values()) == pytest.approx(own[1], abs=1e-5)


def test_a_run_begins_without_what_another_has_read(counted):
    model, sizes = counted
    ask(model, DOCUMENTS[0], "Where?")
    whole = max(sizes)
    model.forget_run()
    sizes.clear()
    ask(model, DOCUMENTS[0], "Where?")
    assert max(sizes) == whole


def test_prompts_of_whole_blocks_share_a_pass(counted):
    """The last block holds the logits' row, so nobody copies it and nobody need wait for it."""
    model, _ = counted
    ids = [n % 50 for n in range(BLOCK)]
    assert ForwardQueue(model, None).take([shared(model, ids) for _ in range(3)]) == [0, 1, 2]


def test_logits_are_computed_where_all_blocks_are_there(counted):
    model, sizes = counted
    ids = [n % 50 for n in range(2 * BLOCK)]
    first, second = (model.forward(ask, None) for ask in [shared(model, ids) for _ in range(2)])
    assert torch.allclose(first, second, atol=1e-5)
    assert sizes == [2 * BLOCK, BLOCK]


def test_what_is_watched_is_read_and_not_copied(counted):
    model, _ = counted

    def attention(document):
        with model.session(Meter()) as s:
            s.user()
            asked = s.feed("Where is the school?")
            return list(s.feed(document, watch=[asked]).attention)

    assert attention(DOCUMENTS[0]) == attention(DOCUMENTS[0])


def test_adapters_and_deterministic_mode_share_nothing(tiny_folder):
    ids = list(range(2 * BLOCK))
    slot = slot_of(KVPool(LAYERS).new_cache())
    own = names_of_new_blocks(slot, ids, None)
    assert not set(own) & set(names_of_new_blocks(slot, ids, "reader"))
    slot.block_names = own[:1]
    assert names_of_new_blocks(slot, ids, None) == own[1:]
    deterministic = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), deterministic=True)
    )
    assert not deterministic.shares_prefixes
