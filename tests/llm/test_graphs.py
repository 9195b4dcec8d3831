"""Recorded decode steps. A tape of tensor operations stands for a CUDA graph: Python does not run again.

The attention call is one operation here, which does what torch documents of it and reads its lengths when it runs.
"""

import functools
import math
from itertools import pairwise

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm import capture, graphs
from harness.llm.batched_forward import Ask, ForwardLane, alone, together
from harness.llm.capture import FeedCapture, WriteCapture
from harness.llm.graphs import Steps
from harness.llm.kernels import VarlenKernel
from harness.llm.kv import BLOCK, Arena, slot_of
from harness.llm.load import load_model, unload
from harness.parallel.scheduler import Scheduler


@torch.library.custom_op("harness_tests::attend", mutates_args=())
def attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    rows: torch.Tensor,
    places: torch.Tensor,
    used: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Causal attention of contexts over [places, places + used), aligned at their last keys."""
    outs = []
    for n, (a, b) in enumerate(pairwise(rows.tolist())):
        start, length, group = int(places[n]), int(used[n]), query.shape[1] // key.shape[1]
        assert length <= int(places[n + 1]) - start, "a context would read past its place"
        k, v = (t[start : start + length].repeat_interleave(group, 1) for t in (key, value))
        scores = torch.einsum("qhd,khd->hqk", query[a:b], k) * scale
        scores = scores.masked_fill(torch.ones(b - a, length).triu(length - (b - a) + 1) > 0, -math.inf)
        outs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))
    return torch.cat(outs)


class Tape(TorchDispatchMode):
    """What a graph keeps: each operation with the tensors that it read and wrote."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.name() in ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::lift_fresh"):
            raise RuntimeError("operation not permitted when stream is capturing")  # it would wait for the host
        out = func(*args, **(kwargs or {}))
        self.operations.append((func, args, kwargs or {}, out))
        return out

    def play(self):
        for func, args, kwargs, out in self.operations:
            for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@pytest.fixture
def tapes(monkeypatch):
    """The tapes that were recorded in place of graphs."""
    made = []

    def varlen_attn(query, key, value, rows, places, most_new, most_keys, *, seqused_k, scale, **how):
        return attend(query, key, value, rows, places, seqused_k, scale), query.new_zeros(query.shape[1], len(query))

    def recorded(step):
        tape = Tape()
        with tape:
            out = step()
        made.append(tape)
        return lambda: (tape.play(), out)[1]

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    monkeypatch.setattr(graphs, "recorded", recorded)
    return made


@pytest.fixture
def fast(tiny_folder):
    """The tiny model as it would be on a GPU, with one attention call for all contexts."""
    model = load_model(ModelConfig(name="tiny", source=str(tiny_folder), prefill_chunk=64))
    vars(model)["kernel"] = VarlenKernel()
    yield model
    unload()


def _texts(sizes):
    return [[(5 * n + k) % 200 for n in range(size)] for k, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [[3], [9, 4], [40, 300, 7], [5, 6, 7, 8, 9], [2] * 17])
def test_steps_of_several_contexts_give_the_logits_of_each_alone(tiny, fast, tapes, sizes):
    texts, lane = _texts(sizes), ForwardLane(fast, None)
    ours, theirs = [fast.arena.cache() for _ in texts], Arena(tiny.layers)
    ours.sort(key=lambda cache: id(cache))  # their places in the arena are in no order
    alones = [theirs.cache() for _ in texts]
    for text, a, b in zip(texts, ours, alones, strict=True):
        lane.run([Ask(text, a)])
        alone(tiny.net, tiny.device, Ask(text, b))
    for step in range(6):
        count = max(len(sizes) - step // 2, 1)  # some end before others
        found = lane.run([Ask([(7 * n + step) % 200], ours[n], 1) for n in range(count)])
        for n in range(count):
            expected = alone(tiny.net, tiny.device, Ask([(7 * n + step) % 200], alones[n], 1))
            assert found[n].shape == expected.shape
            assert (found[n] - expected).abs().max() < 1e-4
            assert ours[n].get_seq_length() == alones[n].get_seq_length()
    powers = {1 << (max(len(sizes) - step // 2, 1) - 1).bit_length() for step in range(6)}
    assert len(tapes) == len(powers), "each power of two was recorded once"
    assert lane._steps.problem is None


def test_recordings_are_made_anew_when_the_arena_grows(tiny, fast, tapes):
    lane, cache, own = ForwardLane(fast, None), fast.arena.cache(), Arena(tiny.layers).cache()
    lane.run([Ask([1, 2, 3], cache)])
    alone(tiny.net, tiny.device, Ask([1, 2, 3], own))
    others = []
    for step in range(4):
        before = fast.arena.capacity
        if step == 2:
            others = [fast.arena.cache() for _ in range(9)]
            for other in others:
                lane.run([Ask([4] * 60, other)])
            assert fast.arena.capacity > before
        (found,) = lane.run([Ask([step], cache, 1)])
        assert (found - alone(tiny.net, tiny.device, Ask([step], own, 1))).abs().max() < 1e-4
    assert len(tapes) == 2


def test_where_the_filling_has_no_room_a_step_runs_as_it_did(tiny, fast, tapes):
    vars(fast)["arena"] = Arena(tiny.layers, limit=3 * BLOCK)
    lane, caches, theirs = ForwardLane(fast, None), [fast.arena.cache() for _ in range(3)], Arena(tiny.layers)
    own = [theirs.cache() for _ in caches]
    for n, (a, b) in enumerate(zip(caches, own, strict=True)):
        lane.run([Ask([n, 2, 3], a)])
        alone(tiny.net, tiny.device, Ask([n, 2, 3], b))
    for count, recordings in ((3, 0), (2, 1), (3, 1), (1, 2), (3, 2)):  # the filling would be the fourth context
        found = lane.run([Ask([n], caches[n], 1) for n in range(count)])
        assert len(tapes) == recordings
        for n in range(count):
            assert (found[n] - alone(tiny.net, tiny.device, Ask([n], own[n], 1))).abs().max() < 1e-4
    assert lane._steps.problem is None


def test_the_logits_of_a_step_stay_what_they_are_when_the_next_one_runs(fast, tapes):
    lane, caches = ForwardLane(fast, None), [fast.arena.cache() for _ in range(2)]
    for cache in caches:
        lane.run([Ask([1, 2, 3], cache)])
    steps = [lane.run([Ask([step + n], cache, 1) for n, cache in enumerate(caches)]) for step in range(3)]
    kept = [rows[0].clone() for rows in steps]
    lane.run([Ask([9], cache, 1) for cache in caches])
    assert all(torch.equal(a, rows[0]) for a, rows in zip(kept, steps, strict=True))
    assert not torch.equal(kept[1], kept[2])


def test_only_steps_of_one_token_without_capture_are_recorded(fast, tapes):
    lane, caches = ForwardLane(fast, None), [fast.arena.cache() for _ in range(3)]
    lane.run([Ask([1, 2, 3], caches[0]), Ask([4], caches[1]), Ask([5, 6], caches[2], 1)])
    assert not tapes
    lane.run([Ask([1], cache, 1) for cache in caches])
    assert len(tapes) == 1
    assert [slot_of(cache).used for cache in caches] == [[n] * fast.layers for n in (4, 2, 3)]


def _waits(step):
    raise RuntimeError("operation not permitted when stream is capturing")


def _differs(step):
    out = step()
    return lambda: out + 100


@pytest.mark.parametrize(("recorder", "why"), [(_waits, "RuntimeError"), (_differs, "other logits")])
def test_where_recording_does_not_work_steps_run_as_they_did(tiny, fast, tapes, monkeypatch, recorder, why):
    tried = []
    monkeypatch.setattr(graphs, "recorded", lambda step: (tried.append(1), recorder(step))[1])
    lane, cache, own = ForwardLane(fast, None), fast.arena.cache(), Arena(tiny.layers).cache()
    lane.run([Ask([1, 2, 3], cache)])
    alone(tiny.net, tiny.device, Ask([1, 2, 3], own))
    for step in range(3):
        (found,) = lane.run([Ask([step], cache, 1)])
        assert (found - alone(tiny.net, tiny.device, Ask([step], own, 1))).abs().max() < 1e-4
    assert len(tried) == 1
    assert why in lane._steps.problem


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


def test_passes_and_steps_as_torch_takes_them_on_another_device(tiny_folder, monkeypatch):
    """Tensors without numbers: torch's own attention call takes the arguments, all stays on one device, and nothing
    asks the host for a number."""
    with torch.device("meta"):
        config = AutoConfig.from_pretrained(tiny_folder, attn_implementation=capture.install())
        net = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    layers, device, kernel = config.num_hidden_layers, torch.device("meta"), VarlenKernel()
    arena = Arena(layers)
    caches = [arena.cache() for _ in range(3)]
    feed = FeedCapture(0, [((5, 9), [(0, 3)])])
    first = [Ask([1, 2, 3], caches[0], 1), Ask([7] * 9, caches[1], 0, feed), Ask([5] * 300, caches[2], 2)]
    found = together(net, device, first, kernel)
    assert [row if row is None else (tuple(row.shape), row.device) for row in found] == [
        ((1, config.vocab_size), device),
        None,
        ((2, config.vocab_size), device),
    ]
    assert feed.layers == layers
    write = WriteCapture(3, [(0, 2)])
    together(net, device, [Ask([1], caches[0], 1, write), Ask([2], caches[1], 1)], kernel)
    assert write.waiting() == 1

    outs = []
    monkeypatch.setattr(graphs, "recorded", lambda step: (outs.append(step()), lambda: outs[0])[1])
    steps = Steps(net, arena, kernel, 1000, 0.05)
    numbers, play = steps._record(4, [(0, 1, 3), (256, 2, 5), (512, 3, 4), (900, 0, 0)])
    assert numbers.device == device
    assert (tuple(play().shape), play().dtype) == ((4, config.vocab_size), torch.float32)


def test_the_filling_has_a_place_for_every_missing_context():
    assert graphs.MOST // 2 - 1 <= BLOCK
