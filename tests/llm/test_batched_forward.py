"""Contexts that share forward passes against the same contexts alone: logits, attention, text,
cost."""

import itertools
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm import batched_forward, network, trial_passes
from harness.llm.backend import load_model
from harness.parallel.scheduler import Scheduler
from tests.llm.conftest import NODES


def play(model, actions, written=9, adapter=None):
    """Do `actions` in one context; returns all that it says, and its events without seconds."""
    meter, found = Meter(), []
    with model.session(meter, adapter=adapter) as s:
        s.user("Question:\n")
        asked = s.feed("Where is the school?")
        for n, action in enumerate(actions):
            node = NODES[n % len(NODES)]
            if action == "feed":
                found.append(s.feed(node, watch=[asked]))
            elif action == "probe":
                found.append(list(s.probe(["Yes", "No"]).mass.values()))
            elif action == "score":
                found.append(s.score(node))
            elif action == "branch":
                with s.branch():
                    s.feed(node)
                    found.append(s.score("Abel"))
            elif action == "flush":
                s.flush()
            else:
                s.reply("Yes")
                s.user("Given the above")
        out = s.write(written, watch=[asked])
        numbers = [v if isinstance(v, list) else list(v.attention) for v in found]
        ids = list(s.ids)
    return {
        "numbers": [*itertools.chain(*numbers), *out.attention.ravel().tolist()],
        "text": (out.text, ids, out.finish),
        "events": [replace(e, seconds=0.0, queued=0.0) for e in meter.events],
    }


def scripts_of(model, scripts=None):
    """A function for each script that plays it, with replies of different lengths."""
    chosen = SCRIPTS if scripts is None else scripts
    return [partial(play, model, actions, 9 + n) for n, actions in enumerate(chosen)]


def side_by_side(jobs):
    """Run the functions in a scheduler of their own; results in order, exceptions as values."""
    found = {}

    def work(n, job):
        try:
            found[n] = job()
        except (MemoryError, CannotRun) as error:
            found[n] = error

    scheduler = Scheduler(len(jobs))
    scheduler.start_threads(*(lambda n=n, job=job: work(n, job) for n, job in enumerate(jobs)))
    scheduler.wait()
    return [found[n] for n in range(len(jobs))]


def same(one, other, tolerance=1e-5):
    assert one["text"] == other["text"]
    assert one["events"] == other["events"]
    assert np.abs(np.array(one["numbers"]) - other["numbers"]).max() < tolerance


@pytest.fixture(autouse=True)
def _no_early_pass(monkeypatch):
    """On a busy machine a thread may be late; a pass without it would still be right, but not what
    is tested here."""
    monkeypatch.setattr("harness.parallel.scheduler.MAX_WAIT_SECONDS", 100.0)


@pytest.fixture
def passes(monkeypatch):
    """How many tokens each context had in each packed pass."""
    made, real = [], batched_forward.run_packed

    def spy(net, device, asks, *more, **options):
        made.append([len(ask.ids) for ask in asks])
        return real(net, device, asks, *more, **options)

    for module in (batched_forward, network, trial_passes):
        monkeypatch.setattr(module, "run_packed", spy)
    return made


SCRIPTS = [
    ("feed", "probe", "feed", "probe", "feed"),
    ("feed", "score", "turn", "feed", "probe"),
    ("branch", "feed", "branch", "score"),
    (),
]


@pytest.mark.parametrize("which", ["tiny", "tiny_pieces"])
def test_contexts_that_share_passes_say_what_each_says_alone(request, which, passes):
    model = request.getfixturevalue(which)
    jobs = scripts_of(model)
    # Two write more tokens than one block of query rows: a reduction falls between the passes.
    jobs += [partial(play, model, ("feed",), written) for written in (64, 70)]
    alone = [job() for job in jobs]
    for one, other in zip(alone, side_by_side(jobs), strict=True):
        same(one, other)
    assert max(map(len, passes)) > 1, "nothing was packed"


def test_a_pass_that_fails_is_taken_back_and_run_context_by_context(tiny_folder, monkeypatch):
    model = load_model(ModelConfig(name="tiny", source=str(tiny_folder), prefill_chunk=990))
    jobs = scripts_of(model, SCRIPTS[:3])
    alone = [job() for job in jobs]
    real, failed = batched_forward.run_packed, []

    def breaks(net, device, asks, **options):
        real(net, device, asks, **options)  # caches and captures have seen the tokens when it fails
        failed.append(len(asks))
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    assert model.pack_problem is None
    monkeypatch.setattr(network, "run_packed", breaks)
    for one, other in zip(alone, side_by_side(jobs), strict=True):
        same(one, other)
    assert failed


def test_an_error_is_that_of_the_context_that_causes_it(tiny, monkeypatch):
    real, dragon = batched_forward.run_alone, tiny.text.encode_data("\U0001f409")[-1]

    def no_dragons(ids):
        if dragon in ids:
            raise MemoryError("no room for a dragon")

    def alone(net, device, ask):
        no_dragons(ask.ids)
        return real(net, device, ask)

    def packed(net, device, asks, *more, **options):
        no_dragons([i for ask in asks for i in ask.ids])
        raise AssertionError("the two contexts must have met in the first pass")

    def written(text):
        with tiny.session(Meter()) as s:
            s.user(text)
            return s.probe(["Yes", "No"]).mass["Yes"]

    expected = written(NODES[0])
    monkeypatch.setattr(network, "run_alone", alone)
    monkeypatch.setattr(network, "run_packed", packed)
    fine, broken = side_by_side([lambda: written(NODES[0]), lambda: written("\U0001f409")])
    assert fine == pytest.approx(expected, rel=1e-5)
    assert (type(broken), str(broken)) == (MemoryError, "no room for a dragon")


@pytest.mark.parametrize(
    ("limit", "lengths", "taken"),
    [
        (100, [1, 1, 1], [0, 1, 2]),
        (100, [99, 1, 300, 1], [1, 3, 0]),
        (200, [99, 1, 99, 1, 99], [1, 3, 0, 2]),
        (200, [300, 1, 99], [1, 0]),
        (100, [100], [0]),
        (1, [1, 1, 90, 80], [0, 2]),
        (200, [99, 300, 90], [0]),  # the last overtakes none that is older
    ],
)
def test_a_pass_takes_what_writes_then_the_oldest_prefills_within_its_budget(limit, lengths, taken):
    class Model:
        prefill_chunk, pack_problem, fixed_rows = limit, None, None

    asks = [batched_forward.ForwardRequest(range(n), None) for n in lengths]
    assert network.ForwardQueue(Model(), None).take(asks) == taken


def test_after_a_batch_that_failed_the_next_ones_grow_to_the_whole_chunk_again(tiny, monkeypatch):
    def fails(*_, **__):
        raise torch.OutOfMemoryError

    def asks():
        return [batched_forward.ForwardRequest(range(90), tiny.pool.new_cache()) for _ in range(4)]

    queue = network.ForwardQueue(tiny, None)
    with monkeypatch.context() as full:
        full.setattr(network, "run_packed", fails)
        queue.run(asks())
    assert len(queue.take(asks())) == 2
    queue.run(asks())
    assert len(queue.take(asks())) == 4
    for _ in range(4):
        queue.run(asks())
    assert queue._max_pass_tokens == tiny.prefill_chunk
    (said,) = queue.slow_paths()
    assert said.startswith(
        f"1 batches of '{tiny.name}' failed and ran again one context at a time (OutOfMemoryError)"
    )
    assert said.endswith(
        f"at most 180 tokens, the last ones {tiny.prefill_chunk} of {tiny.prefill_chunk}"
    )


def test_a_gpu_that_attends_to_each_context_by_itself_says_why(tiny, monkeypatch):
    tiny.forget_run()  # passes that failed in other tests
    assert tiny.slow_paths() == []
    monkeypatch.setattr(tiny, "device", torch.device("cuda"))
    monkeypatch.delitem(vars(tiny), "one_call_problem", raising=False)
    why = f"'{tiny.name}' attends to each context by a call of its own: its setting is model.dtype=float32"
    assert tiny.slow_paths() == [why]
    vars(tiny).pop("one_call_problem")


def test_a_model_with_another_kernel_runs_one_after_the_other(tiny_folder, passes):
    model = load_model(ModelConfig(name="tiny", source=str(tiny_folder), attention="eager"))
    assert model.pack_problem == "its attention kernel is 'eager'"
    assert model.capabilities == {"plain_model", "probe", "score", "sampling"}

    def ask():
        with model.session(Meter()) as s:
            s.user(NODES[0])
            return s.probe(["Yes", "No"]).mass["Yes"]

    assert side_by_side([ask, ask]) == pytest.approx([ask()] * 2, rel=1e-5)
    assert passes == []


@pytest.mark.parametrize(
    ("without", "why"),
    [((), ""), (("position_ids",), "gave other logits"), (("input_ids",), "failed (ValueError)")],
)
def test_a_trial_finds_out_what_cannot_be_packed(tiny, without, why):
    class Net:
        """The tiny network, which is not given every argument."""

        config = tiny.net.config

        def __call__(self, **given):
            return tiny.net(**{name: value for name, value in given.items() if name not in without})

    assert why in (
        trial_passes.trial_pack_problem(Net(), tiny.device, "float32", tiny.n_layers) or ""
    )


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("sliding_window", 16, "sliding window"),
        ("attention_chunk_size", 16, "sliding window"),
        ("attn_temperature_tuning", True, "scaled by positions"),
        ("rope_parameters", {"rope_type": "dynamic"}, "longest context"),
    ],
)
def test_what_a_short_trial_cannot_see_is_refused_by_name(tiny, monkeypatch, name, value, why):
    monkeypatch.setattr(tiny.net.config, name, value, raising=False)
    assert why in trial_passes.trial_pack_problem(tiny.net, tiny.device, "float32", tiny.n_layers)


def test_a_trial_finds_a_cache_that_cannot_be_rolled_back(tiny, monkeypatch):
    asked = (tiny.net, tiny.device, "float32", tiny.n_layers)
    assert trial_passes.trial_cache_problem(*asked) is None
    monkeypatch.setattr(trial_passes, "rewind", lambda _cache, _length: None)
    assert "gave other logits than one pass" in trial_passes.trial_cache_problem(*asked)


class Scaled(torch.nn.Module):
    """A head whose logits are multiplied behind it, in place or not."""

    def __init__(self, factor, in_place, dtype):
        super().__init__()
        torch.manual_seed(0)
        self.head, self.factor, self.in_place = (
            torch.nn.Linear(16, 50, dtype=dtype),
            factor,
            in_place,
        )

    def get_output_embeddings(self):
        return self.head

    def forward(self, hidden, logits_to_keep):
        out = self.head(hidden[:, -logits_to_keep:])
        return SimpleNamespace(logits=out.mul_(self.factor) if self.in_place else out * self.factor)


@pytest.mark.parametrize(
    ("factor", "in_place", "dtype", "exact"),
    [
        (1, False, "bfloat16", True),
        (2, False, "bfloat16", False),
        (2, True, "bfloat16", False),
        (1, 0, "float32", False),
    ],
)
def test_labels_of_a_plain_narrow_head_alone_are_computed_in_float32(
    factor, in_place, dtype, exact
):
    net = Scaled(factor, in_place, getattr(torch, dtype))
    hidden = torch.randn(1, 4, 16).to(net.head.weight.dtype)
    with torch.inference_mode():
        ordinary = batched_forward._run_for_logits(net, {"hidden": hidden}, 3, [[], [], []])
        found = batched_forward._run_for_logits(net, {"hidden": hidden}, 3, [[], [7, 9], []])
        expected = (
            hidden[0, 2].float() @ net.head.weight[[7, 9]].float().T + net.head.bias[[7, 9]].float()
        )
    assert torch.equal(found, ordinary) is not exact
    if exact:
        assert torch.allclose(found[1, [7, 9]], expected, atol=1e-6, rtol=0)
        changed = (found != ordinary).nonzero().tolist()
        assert all(place in ([1, 7], [1, 9]) for place in changed), (
            "other rows or other tokens changed"
        )


def test_a_probe_in_bfloat16_is_the_float32_product_of_its_hidden_state_alone_and_beside_others(
    tiny_folder, passes
):
    model = load_model(ModelConfig(name="tiny", source=str(tiny_folder), dtype="bfloat16"))
    head, states = model.net.get_output_embeddings(), []
    ids = [model.text.encode_data(label)[0] for label in ("Yes", "No")]

    def yes_of(state):
        return float(
            (
                torch.tensor(state, device=model.device) @ head.weight[ids].detach().float().T
            ).softmax(-1)[0]
        )

    def ask(n):
        with model.session(Meter()) as s:
            s.user("Question:\n")
            s.feed(NODES[n])
            s.flush()
            return s.probe(["Yes", "No"]).p["Yes"]

    assert model.pack_problem is None
    hook = head.register_forward_hook(
        lambda _head, inputs, _out: states.extend(inputs[0][0].float().tolist())
    )
    found = [ask(n) for n in range(3)]
    own = [yes_of(state) for state in states]
    assert found == pytest.approx(own, abs=1e-6)
    states.clear()
    passes.clear()
    found = side_by_side([lambda n=n: ask(n) for n in range(3)])
    hook.remove()
    beside = [yes_of(state) for state in states]
    assert max(map(len, passes)) > 1
    assert sorted(found) == pytest.approx(sorted(beside), abs=1e-6)
    assert found == pytest.approx(own, abs=1e-2)


def test_contexts_that_fit_by_hand(tiny, monkeypatch):
    # 2 (keys, values) x 3 layers x 2 key/value heads x 16 x 1,024 tokens x 4 bytes = 786,432 bytes
    # a context.
    monkeypatch.setattr("harness.llm.network.available_bytes", lambda: 10_000_000)
    monkeypatch.setattr("harness.llm.network.free_gpu_bytes", lambda _device: 10_000_000)
    ended = 1024 * (tiny.device.type == "cpu")  # on a CPU a window is for contexts that ended
    room = int(0.9 * 10_000_000 / 768) - ended
    assert [tiny.contexts_that_fit(tokens) for tokens in (1024, 100)] == [room // 1024, room // 100]
    assert tiny.contexts_that_fit(1024) == 11 - bool(ended)


@pytest.fixture
def with_adapter(tiny_folder, adapter_folder):
    """The tiny model with the adapter "one"; no trial has run yet."""
    return load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), adapters={"one": str(adapter_folder)})
    )


def test_a_trial_before_a_pass_leaves_the_adapter_in_use(with_adapter):
    model, texts = with_adapter, ([1, 2, 3], [4, 5])

    def asks():
        return [batched_forward.ForwardRequest(text, model.pool.new_cache(), 1) for text in texts]

    found = network.ForwardQueue(model, "one").run(asks())
    with model.adapter("one"):
        expected = [batched_forward.run_alone(model.net, model.device, ask) for ask in asks()]
    for one, other in zip(expected, found, strict=True):
        assert (one - other).abs().max() < 1e-5


def test_adapters_share_no_pass(with_adapter, passes):
    jobs = [
        partial(play, with_adapter, ("feed", "probe"), 3, name)
        for name in (None, "one", None, "one")
    ]
    assert with_adapter.pack_problem is None
    passes.clear()
    alone = [job() for job in jobs]
    for one, other in zip(alone, side_by_side(jobs), strict=True):
        same(one, other)
    assert set(map(len, passes)) == {2}
    (error,) = side_by_side([lambda: play(with_adapter, (), 1, "two")])
    assert isinstance(error, CannotRun)
