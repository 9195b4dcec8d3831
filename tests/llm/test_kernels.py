"""The attention kernels and recorded decode steps, without a GPU.

The CUDA call for all contexts is replaced by one that does what torch documents of it, and a CUDA
graph by a tape of tensor operations: Python does not run again, and the attention call, one
operation, reads its lengths when it runs.
"""

import contextlib
import functools
import math
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers import AutoConfig, AutoModelForCausalLM

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm import capture, cuda_graphs, hf_model
from harness.llm.attention_weights import WatchedRows, WatchRequest, block_weights
from harness.llm.backend import load_model
from harness.llm.batched_forward import ForwardRequest, run_alone, run_packed
from harness.llm.capture import FeedCapture, FeedRequest, WriteCapture
from harness.llm.cuda_graphs import InputRow, RecordedSteps
from harness.llm.kernels import (
    cpu_attention,
    has_slow_products,
    multiply_in_float32,
    one_row_attention,
)
from harness.llm.kv import BLOCK, KVPool, slot_of
from harness.llm.load import unload
from harness.llm.network import ForwardQueue
from harness.llm.trial_passes import trial_pack_problem
from harness.parallel.scheduler import Scheduler


def causal(query, key, value, rows, places, used, scale):
    """Outputs and log-sum-exps of contexts over [places, places + used), aligned at their last
    keys."""
    outs, sums = [], []
    for n, (a, b) in enumerate(pairwise(rows.tolist())):
        start, length, group = int(places[n]), int(used[n]), query.shape[1] // key.shape[1]
        assert length <= int(places[n + 1]) - start, "a context would read past its place"
        k, v = (t[start : start + length].repeat_interleave(group, 1).float() for t in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query[a:b].float(), k) * scale
        later = torch.ones(b - a, length, dtype=torch.bool).triu(length - (b - a) + 1)
        scores = scores.masked_fill(later, -math.inf)
        outs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).to(query.dtype))
        sums.append(scores.logsumexp(-1))
    return torch.cat(outs), torch.cat(sums, 1)


@pytest.fixture(scope="module")
def tiny(tiny_folder):
    """The tiny model on the CPU, where these stand-ins compute."""
    yield load_model(ModelConfig(name="tiny", source=str(tiny_folder), device="cpu"))
    unload()


@pytest.fixture
def calls(monkeypatch):
    """What the kernel was called with. It computes causal attention from its arguments alone."""
    made = []

    def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **how):
        made.append({"queries": cu_seq_q.tolist(), "places": cu_seq_k.tolist(), **how})
        assert how.pop("return_aux").lse
        assert how.pop("window_size") == (-1, 0 if max_q > 1 else -1)
        used = how.pop("seqused_k")
        assert {t.dtype for t in (cu_seq_q, cu_seq_k, used)} == {torch.int32}
        assert cu_seq_q[0] == 0
        assert cu_seq_q[-1] == len(query)
        assert cu_seq_k[-1] <= len(key)
        assert int(cu_seq_q.diff().max()) <= max_q
        assert int(used.max()) <= max_k
        assert query.is_contiguous()
        assert how.pop("enable_gqa") == (query.shape[1] != key.shape[1])
        scale = how.pop("scale")
        assert not how
        return causal(query, key, value, cu_seq_q, cu_seq_k, used, scale)

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    return made


def test_a_model_agrees_with_itself_and_a_kernel_that_fails_is_not_used(tiny, request):
    asked = (tiny.net, tiny.device, tiny.dtype, tiny.n_layers, True)
    assert "trial pass" in trial_pack_problem(*asked), "torch's own refuses the CPU"
    assert not tiny.in_one_call
    calls = request.getfixturevalue("calls")
    assert trial_pack_problem(*asked) is None
    assert len(calls) == 2 * tiny.n_layers


def test_contexts_of_any_length_and_order(tiny, calls):
    """Logits and captured attention of a pass whose contexts stand in another order than they are
    asked in."""
    words = [[(5 * n + k) % 200 for n in range(size)] for k, size in ((0, 512), (1, 40), (2, 7))]
    rest = [[9], [8, 7, 6, 5], [4, 3]]
    wanted = 1, 0, 2

    def asks(pool, order):
        caches = {n: pool.new_cache() for n in order}
        for n in order:
            run_alone(tiny.net, tiny.device, ForwardRequest(words[n], caches[n]))
        first = [len(w) for w in words]
        captures = [
            WriteCapture(first[0], [(2, 9)], caches[0]),
            FeedCapture(first[1], [FeedRequest(first[1], first[1] + 4, [(3, 5)])]),
            None,
        ]
        return [
            ForwardRequest(rest[n], caches[n], wanted[n], captures[n]) for n in range(3)
        ], captures

    expected, theirs = asks(KVPool(tiny.n_layers), [0, 1, 2])
    own = [run_alone(tiny.net, tiny.device, ask) for ask in expected]
    packed, ours = asks(KVPool(tiny.n_layers), [2, 0, 1])
    found = run_packed(tiny.net, tiny.device, packed, True)
    assert calls[0]["queries"] == [0, 2, 6, 7], (
        "the longest outgrew its place and moved behind the others"
    )
    assert found[1] is None
    for a, b in ((own[0], found[0]), (own[2], found[2])):
        assert (a - b).abs().max() < 1e-4
    theirs[0].reduce_waiting()
    ours[0].reduce_waiting()
    assert np.abs(theirs[0].attention_of_tokens() - ours[0].attention_of_tokens()).max() < 1e-6
    assert ours[1].mean_attention(tiny.n_layers)[0] == pytest.approx(
        theirs[1].mean_attention(tiny.n_layers)[0], abs=1e-6
    )


def test_a_layer_that_attends_elsewhere_is_missed(tiny, calls):
    """The pool has a layer more than attended in the one call, as where a network mixes kinds of
    layers."""
    pool, layers = KVPool(tiny.n_layers + 1), tiny.n_layers + 1
    caches = [pool.new_cache() for _ in range(2)]
    run_packed(tiny.net, tiny.device, [ForwardRequest([1, 2, 3], cache) for cache in caches], True)
    feed, write = (
        FeedCapture(3, [FeedRequest(3, 5, [(0, 2)])]),
        WriteCapture(3, [(0, 2)], caches[1]),
    )
    run_packed(
        tiny.net,
        tiny.device,
        [ForwardRequest([4, 5], caches[0], 0, feed), ForwardRequest([6], caches[1], 1, write)],
        True,
    )
    for find in (lambda: feed.mean_attention(layers), write.reduce_waiting):
        with pytest.raises(RuntimeError, match=f"captured in {tiny.n_layers} of {layers} layers"):
            find()


@pytest.mark.parametrize("rows", [40, 8192])
def test_the_rows_that_wait_stay_within_their_room(rows):
    """A whole chunk of watched rows is reduced before the queries of many layers fill the
    memory."""
    watched = WatchedRows([WatchRequest(np.zeros(1, np.float32), range(rows), [(0, 20)])], 32)
    watched._set_groups(torch.device("cpu"), heads=32, query_size=128, key_size=8 * 128)
    held = watched._layers_at_once * rows * 32 * 128
    assert held <= 2**28
    assert (watched._layers_at_once == 32) == (rows == 40)


@pytest.mark.parametrize("block", [64, 1])
@pytest.mark.parametrize("spans", [[(0, 3)], [(2, 5), (5, 40)], [(7, 8), (1, 30), (3, 9)]])
def test_weights_from_the_log_sum_exp_are_those_of_whole_rows(monkeypatch, spans, block):
    monkeypatch.setattr("harness.llm.attention_weights.BLOCK", block)
    query, key = torch.randn(4, 40, 8), torch.randn(2, 80, 8)
    scores = (query @ key.repeat_interleave(2, 0).transpose(1, 2)) * 0.3
    scores = scores.masked_fill(torch.ones(40, 80, dtype=torch.bool).triu(41), -math.inf)
    by_columns = np.zeros((40, len(spans)), np.float32)
    watched = WatchedRows([WatchRequest(by_columns, range(40), spans)], 1)
    watched.add_layer(query, key.transpose(0, 1), scores.logsumexp(-1), 0.3)
    watched.add_to_totals()
    whole = block_weights(query, key, 40, spans, 0.3)
    plain = torch.stack([scores.softmax(-1).mean(0)[:, a:b].mean(-1) for a, b in spans], 1)
    assert np.abs(by_columns - plain.numpy()).max() < 1e-6
    assert (whole - plain).abs().max() < 1e-6


@pytest.mark.parametrize("keys", [1, 40, 700])
@pytest.mark.parametrize("heads", [(9, 3), (4, 4)])
def test_one_row_of_16_bits_is_nearer_to_float32_than_the_fused_kernel(keys, heads):
    torch.manual_seed(keys)
    q = torch.randn(1, heads[0], 1, 64, dtype=torch.bfloat16)
    k, v = (torch.randn(1, heads[1], keys, 64, dtype=torch.bfloat16) for _ in range(2))
    true, lse = cpu_attention(q.float(), k.float(), v.float(), None, 0.1, False)
    ours, fused = one_row_attention(q, k, v, 0.1), cpu_attention(q, k, v, None, 0.1, False)
    assert ours[0].dtype == torch.bfloat16
    assert (ours[1] - lse).abs().max() < 1e-4
    assert (ours[0].float() - true).abs().mean() <= 1.05 * (
        fused[0].float() - true
    ).abs().mean() + 1e-6


@torch.library.custom_op("harness_tests::attend", mutates_args=())
def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    rows: torch.Tensor,
    places: torch.Tensor,
    used: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `causal` gives, as one operation."""
    return causal(query, key, value, rows, places, used, scale)


class Tape(TorchDispatchMode):
    """What a graph keeps: each operation, the tensors that it made, and only the addresses of all
    others but views."""

    def __init__(self):
        super().__init__()
        self.operations, self.made = [], {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name() in (
            "aten::_local_scalar_dense",
            "aten::item",
            "aten::is_nonzero",
            "aten::lift_fresh",
        ):
            raise RuntimeError(
                "operation not permitted when stream is capturing"
            )  # it would wait for the host
        given = tree_map_only(torch.Tensor, self.address, (args, kwargs or {}))
        out = func(*args, **(kwargs or {}))
        outside = {id(ref()) for ref in tree_leaves(given) if isinstance(ref, weakref.ref)}
        made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and id(t) not in outside]
        self.made |= {id(t): t for t in made}
        self.operations.append((func, given, made))
        return out

    @staticmethod
    def tensor(address):
        assert address() is not None, "a graph would read memory that is free"
        return address()

    def address(self, tensor):
        return tensor if id(tensor) in self.made else weakref.ref(tensor)

    def play(self):
        for func, given, made in self.operations:
            args, kwargs = tree_map_only(weakref.ref, self.tensor, given)
            for old, new in zip(made, tree_leaves(func(*args, **kwargs)), strict=False):
                if old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@pytest.fixture
def tapes(monkeypatch):
    """The tapes that were recorded in place of graphs."""
    made = []

    def varlen_attn(
        query, key, value, rows, places, most_new, most_keys, *, seqused_k, scale, **how
    ):
        return attend(query, key, value, rows, places, seqused_k, scale)

    def recorded(step):
        tape = Tape()
        with tape:
            out = step()
        made.append(tape)
        return lambda: (tape.play(), out)[1]

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    monkeypatch.setattr(cuda_graphs, "record_graph", recorded)
    return made


@pytest.fixture
def fast(tiny_folder):
    """The tiny model as it would be on a GPU, with one attention call for all contexts."""
    model = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), device="cpu", prefill_chunk=64)
    )
    vars(model)["in_one_call"] = True
    yield model
    unload()


class Both:
    """Contexts in a queue of the fast model, and each of them alone in the plain one."""

    def __init__(self, tiny, fast, texts):
        self.tiny, self.queue, pool = tiny, ForwardQueue(fast, None), KVPool(tiny.n_layers)
        self.caches = sorted(
            (fast.pool.new_cache() for _ in texts), key=id
        )  # their places in the pool are in no order
        self.alone = [pool.new_cache() for _ in texts]
        for text, cache, own in zip(texts, self.caches, self.alone, strict=True):
            self.queue.run([ForwardRequest(text, cache)])
            run_alone(tiny.net, tiny.device, ForwardRequest(text, own))

    def step(self, *tokens):
        """One more token for each of the first contexts: its logits are those that it has alone."""
        found = self.queue.run(
            [
                ForwardRequest([token], cache, 1)
                for token, cache in zip(tokens, self.caches, strict=False)
            ]
        )
        for token, logits, cache, own in zip(tokens, found, self.caches, self.alone, strict=False):
            expected = run_alone(self.tiny.net, self.tiny.device, ForwardRequest([token], own, 1))
            assert logits.shape == expected.shape
            assert (logits - expected).abs().max() < 1e-4
            assert cache.get_seq_length() == own.get_seq_length()


@pytest.mark.parametrize("sizes", [[3], [9, 4], [40, 300, 7], [5, 6, 7, 8, 9], [2] * 17])
def test_steps_of_several_contexts_give_the_logits_of_each_alone(tiny, fast, tapes, sizes):
    both = Both(
        tiny, fast, [[(5 * n + k) % 200 for n in range(size)] for k, size in enumerate(sizes)]
    )
    counts = [max(len(sizes) - step // 2, 1) for step in range(6)]  # some end before others
    for step, count in enumerate(counts):
        both.step(*((7 * n + step) % 200 for n in range(count)))
    assert len(tapes) == len({(count - 1).bit_length() for count in counts}), (
        "each power of two was recorded once"
    )
    assert both.queue._steps.problem is None


def test_recordings_are_made_anew_when_the_arena_grows(tiny, fast, tapes):
    both, others = Both(tiny, fast, [[1, 2, 3]]), []
    for step in range(4):
        before = fast.pool.capacity
        if step == 2:
            others = [fast.pool.new_cache() for _ in range(9)]
            for other in others:
                both.queue.run([ForwardRequest([4] * 60, other)])
            assert fast.pool.capacity > before
        both.step(step)
    assert len(tapes) == 2


def test_where_the_filling_has_no_room_a_step_runs_as_it_did(tiny, fast, tapes):
    fast._pool = KVPool(tiny.n_layers, max_tokens=3 * BLOCK)
    both = Both(tiny, fast, [[n, 2, 3] for n in range(3)])
    for count, recordings in (
        (3, 0),
        (2, 1),
        (3, 1),
        (1, 2),
        (3, 2),
    ):  # the filling would be the fourth context
        both.step(*range(count))
        assert len(tapes) == recordings
    assert both.queue._steps.problem is None


def test_the_logits_of_a_step_stay_what_they_are_when_the_next_one_runs(fast, tapes):
    queue, caches = ForwardQueue(fast, None), [fast.pool.new_cache() for _ in range(2)]
    for cache in caches:
        queue.run([ForwardRequest([1, 2, 3], cache)])
    steps = [
        queue.run([ForwardRequest([step + n], cache, 1) for n, cache in enumerate(caches)])
        for step in range(3)
    ]
    kept = [rows[0].clone() for rows in steps]
    queue.run([ForwardRequest([9], cache, 1) for cache in caches])
    assert all(torch.equal(a, rows[0]) for a, rows in zip(kept, steps, strict=True))
    assert not torch.equal(kept[1], kept[2])


def test_only_steps_of_one_token_without_capture_are_recorded(fast, tapes):
    queue, caches = ForwardQueue(fast, None), [fast.pool.new_cache() for _ in range(3)]
    queue.run(
        [
            ForwardRequest([1, 2, 3], caches[0]),
            ForwardRequest([4], caches[1]),
            ForwardRequest([5, 6], caches[2], 1),
        ]
    )
    assert not tapes
    queue.run([ForwardRequest([1], cache, 1) for cache in caches])
    assert len(tapes) == 1
    assert [slot_of(cache).tokens_by_layer for cache in caches] == [
        [n] * fast.n_layers for n in (4, 2, 3)
    ]


def _waits(step, *_):
    raise RuntimeError("operation not permitted when stream is capturing")


def _differs(step, both, pool):
    def play():
        slot = slot_of(both[0].caches[0])
        pool.keys[1][slot.start + slot.tokens_by_layer[0] - 1] = (
            9  # what the recording writes is wrong, too
        )
        return out._replace(logits=out.logits + 100)

    out = step()
    return play


@pytest.mark.parametrize(
    ("recorder", "why"), [(_waits, "RuntimeError"), (_differs, "other logits")]
)
def test_where_recording_does_not_work_steps_run_as_they_did(
    tiny, fast, tapes, monkeypatch, recorder, why
):
    tried, both = [], []
    monkeypatch.setattr(
        cuda_graphs,
        "record_graph",
        lambda step: (tried.append(1), recorder(step, both, fast.pool))[1],
    )
    both.append(Both(tiny, fast, [[1, 2, 3]]))
    for step in range(3):
        both[0].step(step)
    assert len(tried) == 1
    (said,) = both[0].queue.slow_paths()
    assert "without a CUDA graph" in said
    assert why in said


def test_a_recording_that_fails_leaves_the_stream_of_before(monkeypatch):
    @contextlib.contextmanager
    def graph(*_, **how):
        used.append(
            how["stream"]
        )  # as torch's: the stream stays where the recording ends in an error
        yield

    used = ["before"]
    stands_in = {
        "graph": graph,
        "CUDAGraph": object,
        "current_device": lambda: 3,
        "Stream": lambda device: device,
    }
    stands_in |= {"current_stream": lambda: used[-1], "set_stream": used.append}
    for name, value in stands_in.items():
        monkeypatch.setattr(torch.cuda, name, value)
    with pytest.raises(RuntimeError, match="capturing"):
        cuda_graphs.record_graph(lambda: _waits(None))
    assert used == ["before", 3, "before"]


def test_whole_sessions_write_and_probe_the_same(tiny, fast, tapes):
    def work(model, n, replies):
        session = model.session(Meter())
        session.user("The river town of Abel lies north of the old bridge. " * (n + 1))
        mass = list(session.probe(["Yes", "No"]).mass.values())
        replies[n] = session.write(12).text, mass

    expected, found = {}, {}
    for n in range(5):
        work(tiny, n, expected)
    scheduler = Scheduler(5)
    scheduler.start_threads(*(functools.partial(work, fast, n, found) for n in range(5)))
    scheduler.wait()
    assert tapes
    for n in range(5):
        assert found[n][0] == expected[n][0]
        assert found[n][1] == pytest.approx(expected[n][1], abs=1e-4)


def test_a_recorded_step_splits_the_keys_as_the_step_that_it_is_checked_against(
    fast, tapes, monkeypatch
):
    bounds, attention = [], torch.nn.attention.varlen.varlen_attn

    def varlen_attn(query, key, value, rows, places, most_new, most_keys, **how):
        bounds.append((most_new, most_keys))
        return attention(query, key, value, rows, places, most_new, most_keys, **how)

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    queue, cache = ForwardQueue(fast, None), fast.pool.new_cache()
    queue.run([ForwardRequest([1, 2, 3], cache)])
    queue.run([ForwardRequest([4], cache, 1)])
    assert bounds == [(3, 3)] * fast.n_layers + [(1, fast._max_context_tokens)] * 2 * fast.n_layers


def test_written_tokens_that_are_watched_are_recorded_steps_with_the_attention_of_eager_ones(
    tiny, fast, tapes
):
    def work(model, n, found):
        session = model.session(Meter())
        session.user("Which town? ")
        spans = [
            session.feed(f"The river town number {k} lies north. " * (n + 1)) for k in range(3)
        ]
        written = session.write(
            70, temperature=1.0, seed=20 + n, watch=spans
        )  # longer than a block of rows
        found[n] = written.text, torch.tensor(written.attention)

    expected, found = {}, {}
    for n in range(3):
        work(tiny, n, expected)
    scheduler = Scheduler(3)
    scheduler.start_threads(*(functools.partial(work, fast, n, found) for n in range(3)))
    scheduler.wait()
    assert tapes
    for n in range(3):
        assert found[n][0] == expected[n][0]
        assert len(found[n][1]) > 64
        assert (found[n][1] - expected[n][1]).abs().max() < 1e-5


def test_passes_and_steps_as_torch_takes_them_on_another_device(tiny_folder, monkeypatch):
    """Tensors without numbers: torch's own attention call takes the arguments, all stays on one
    device, and nothing asks the host for a number."""
    with torch.device("meta"):
        config = AutoConfig.from_pretrained(tiny_folder, attn_implementation=capture.install())
        net = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    layers, device = config.num_hidden_layers, torch.device("meta")
    pool = KVPool(layers)
    caches = [pool.new_cache() for _ in range(3)]
    monkeypatch.setattr(
        WatchedRows, "add_to_totals", WatchedRows._reduce_waiting_layers
    )  # only the sums of all layers go to the host
    feed = FeedCapture(0, [FeedRequest(5, 9, [(0, 3)])])
    first = [
        ForwardRequest([1, 2, 3], caches[0], 1),
        ForwardRequest([7] * 9, caches[1], 0, feed),
        ForwardRequest([5] * 300, caches[2], 2),
    ]
    found = run_packed(net, device, first, True)
    shapes = [row if row is None else (tuple(row.shape), row.device) for row in found]
    assert shapes == [((1, config.vocab_size), device), None, ((2, config.vocab_size), device)]
    assert feed.calls_seen == layers
    write = WriteCapture(3, [(0, 2)], caches[0])
    run_packed(
        net,
        device,
        [ForwardRequest([1], caches[0], 1, write), ForwardRequest([2], caches[1], 1)],
        True,
    )
    assert len(write.waiting_steps) == 1

    outs = []
    monkeypatch.setattr(
        cuda_graphs, "record_graph", lambda step: (outs.append(step()), lambda: outs[0])[1]
    )
    steps = RecordedSteps(net, pool, 1000, 0.05)
    rows = [
        InputRow(0, 1, 3, 3, 0),
        InputRow(256, 2, 5, 5, 1),
        InputRow(512, 3, 4, 9, 2),
        InputRow(900, 0, 0, 0, None),
    ]
    numbers, play = steps._record(rows)
    assert numbers.device == device
    logits = play().logits
    assert (tuple(logits.shape), logits.dtype) == ((4, config.vocab_size), torch.float32)


@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_float32_products_of_a_bfloat16_layer_differ_by_rounding_alone(rows: int) -> None:
    layer = torch.nn.Linear(96, 40, dtype=torch.bfloat16)
    inputs = torch.randn(2, rows, 96, dtype=torch.bfloat16)
    exact = inputs.double() @ layer.weight.double().T + layer.bias.double()
    multiply_in_float32(layer)
    assert layer(inputs).dtype == torch.bfloat16
    torch.testing.assert_close(layer(inputs).double(), exact, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize(("slow", "changed"), [(True, True), (False, False)])
def test_a_model_multiplies_in_float32_where_the_cpu_has_no_products_of_its_dtype(
    slow: bool, changed: bool, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hf_model, "has_slow_products", lambda dtype: slow and dtype == torch.bfloat16
    )
    unload()
    net = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), dtype="bfloat16", device="cpu")
    ).net
    unload()
    assert ("forward" in vars(net.lm_head)) is changed


def test_a_build_of_torch_without_mkldnn_is_not_asked(monkeypatch):
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert not has_slow_products(torch.bfloat16)
