"""The session against direct computations on a small random Llama."""

import itertools
import json
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import ModelOutputError, WindowExceeded
from harness.llm import capture
from harness.llm.backend import load_model
from tests.llm.conftest import NODES, WORDS


def eager_attention(model, ids):
    """Mean over layers and heads of the attention matrix [tokens, tokens], computed by
    transformers' eager kernel."""
    before = model.net.config._attn_implementation
    model.net.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            out = model.net(torch.tensor([ids], device=model.device), output_attentions=True)
    finally:
        model.net.set_attn_implementation(before)
    return torch.stack(out.attentions).mean(0)[0].mean(0).float().cpu().numpy()


def opened(model, meter=None):
    s = model.session(meter or Meter())
    s.user("Question:\n")
    asked = s.feed("Where is the school of Mira Tal?")
    s.feed("\n\nInformation:")
    return s, asked


@pytest.fixture(params=[True, False], ids=["lse", "no lse"])
def kernel_gives_lse(request, monkeypatch):
    """Whether the fused kernel gives the log-sum-exp of its scores; some do not."""
    if not request.param:
        fused = capture._fused_attention
        monkeypatch.setattr(
            capture,
            "_fused_attention",
            lambda *call: fused(*call)._replace(log_sum_exps=None),
        )


@pytest.mark.parametrize("which", ["tiny", "tiny_pieces"])
def test_attention_while_feeding_equals_eager(request, which, kernel_gives_lse):
    model = request.getfixturevalue(which)
    s, asked = opened(model)
    spans = []
    for node in NODES:
        s.feed("\n* ")
        spans.append(s.feed(node, watch=[asked, *spans]))
    found = [v.attention for v in spans]
    whole = eager_attention(model, s.ids)
    for i, span in enumerate(spans):
        expected = [
            whole[span.start : span.end, w.start : w.end].mean() for w in [asked, *spans[:i]]
        ]
        assert np.abs(np.array(found[i]) - expected).max() < 1e-5
        assert min(expected) > 1e-4  # so that agreement is not that of zeros


@pytest.mark.parametrize("length", [5, 64, 150])
def test_attention_while_writing_equals_eager(tiny, length, kernel_gives_lse):
    s, _ = opened(tiny)
    spans = [s.feed(node) for node in NODES]
    written = s.write(length, watch=spans)
    assert written.attention.shape == (len(written.span), len(spans))
    whole = eager_attention(tiny, s.ids)
    rows = slice(written.span.start, written.span.end)
    expected = np.stack([whole[rows, v.start : v.end].mean(-1) for v in spans], axis=1)
    assert np.abs(written.attention - expected).max() < 1e-5
    a, b = written.offsets[2][0], written.offsets[4][1]
    assert np.allclose(
        written.attention_between(a, b), expected[written.tokens_between(a, b)].mean(0), atol=1e-5
    )


def test_every_token_goes_through_the_model_once(tiny):
    meter, seen = Meter(), []
    hook = tiny.net.get_decoder().register_forward_pre_hook(
        lambda _module, _args, kwargs: seen.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    try:
        s, asked = opened(tiny, meter)
        for node in NODES:
            s.feed(node, watch=[asked])
            s.probe(["Yes", "No"])
        s.reply("Yes")
        s.user("Given the above")
        s.write(20)
    finally:
        hook.remove()
    probes = sum(e.new for e in meter.events if e.kind == "probe")
    through = sum(seen)
    waiting = s.length() - s._n_cached  # a last written token that nothing has needed yet
    assert through == s.length() - waiting + probes
    assert through == sum(e.new for e in meter.events)
    assert waiting in (0, 1)


@pytest.mark.parametrize(
    ("settings", "saved"),
    [({}, 1), ({"prefill_chunk": 50}, 1), ({"prefill_chunk": 7}, 0), ({"deterministic": True}, 0)],
)
def test_a_probe_is_read_with_what_is_queued_and_booked_apart(tiny_folder, settings, saved):
    model = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), dtype="float32", **settings)
    )

    def go(flushes):
        s, asked = opened(model, meter := Meter())
        node = s.feed(NODES[0], watch=[asked])
        with patch.object(model, "forward", side_effect=model.forward) as passes:
            if flushes:
                s.flush()
            probes = [s.probe(["Yes", "No"])]
            before = meter.flops()
            probes.append(s.probe(["Yes", "No"], after="So "))
        assert meter.flops_of_newest_event() == meter.flops() - before
        s.reply("Yes")
        s.flush()
        events = [replace(event, seconds=0.0, queued=0.0) for event in meter.events]
        return (
            [*(m for p in probes for m in p.mass.values()), *node.attention],
            (events, s.ids),
            passes.call_count,
        )

    (found, booked, passes), (plain, expected, more) = go(False), go(True)
    assert (booked, more - passes) == (expected, saved)
    assert found == (plain if "deterministic" in settings else pytest.approx(plain, rel=1e-5))


def keys_and_values(s):
    return [t.clone() for layer in s._cache.layers for t in (layer.keys, layer.values)]


@pytest.mark.parametrize(
    "call", ["probe", "score", "branch", "branch that writes", "branch with an error"]
)
def test_context_is_bit_identical_afterwards(tiny, call):
    s, asked = opened(tiny)
    s.feed(NODES[0], watch=[asked])
    s.flush()
    before, ids = keys_and_values(s), list(s.ids)
    if call == "probe":
        s.probe(["Yes", "No"], after="Well")
    elif call == "score":
        s.score(" lies north of the bridge")
    elif call == "branch with an error":
        with pytest.raises(KeyError), s.branch():
            s.feed(NODES[2])
            s.flush()
            raise KeyError
    else:
        with s.branch():
            s.feed(NODES[2], watch=[asked])
            if "writes" in call:
                s.write(30)
    assert s.ids == ids
    assert all(torch.equal(a, b) for a, b in zip(before, keys_and_values(s), strict=True))
    s.feed(NODES[1])  # and the turn is still open


def test_probe_and_score_equal_a_direct_computation(tiny):
    s, _ = opened(tiny)
    s.feed(NODES[0])
    probe = s.probe(["Yes", "No"], after="Well")
    ids = s.ids + tiny.before_reply_ids + tiny.text.encode_data("Well")
    with torch.no_grad():
        p = tiny.net(torch.tensor([ids], device=tiny.device)).logits[0, -1].softmax(-1)
    first = {label: tiny.text.encode_data(label)[0] for label in ("Yes", "No")}
    assert probe.mass == pytest.approx({k: float(p[i]) for k, i in first.items()}, rel=1e-4)
    assert sum(probe.p.values()) == pytest.approx(1)
    best = tiny.text.decode([int(p.argmax())])[0]
    assert (probe.top, s.probe([best, "Yes"], after="Well").top) == (None, best), (
        "what greedy decoding would write"
    )
    text = " lies north of the bridge"
    more = tiny.text.encode_data(text)
    with torch.no_grad():
        logp = tiny.net(torch.tensor([s.ids + more], device=tiny.device)).logits[0].log_softmax(-1)
    expected = [float(logp[len(s.ids) - 1 + i, t]) for i, t in enumerate(more)]
    assert s.score(text) == pytest.approx(expected, abs=1e-4)


def test_greedy_writing_equals_generate_and_sampling_is_seeded(tiny):
    s, _ = opened(tiny)
    prompt = s.ids + tiny.before_reply_ids
    written = s.write(12)
    with torch.no_grad():
        ids = tiny.net.generate(
            torch.tensor([prompt], device=tiny.device), max_new_tokens=12, do_sample=False
        )[0, len(prompt) :].tolist()
    assert s.ids[written.span.start : written.span.end] == [
        i for i in ids if i not in tiny.stop_ids
    ]

    def sampled(seed):
        s, _ = opened(tiny)
        return s.write(12, temperature=1.0, top_p=0.9, seed=seed).text

    assert sampled(1) == sampled(1)
    assert len({sampled(i) for i in range(4)}) > 1


def test_stop_string_cuts_text_and_context(tiny):
    s, _ = opened(tiny)
    whole = s.write(40).text
    stop = whole[10:12]
    s, _ = opened(tiny)
    cut = s.write(40, stop=[stop])
    assert cut.text == whole[: whole.index(stop)]
    assert cut.finish == "stop"
    assert s.length() == cut.span.end
    s.user("next")
    s.flush()


def test_offsets_of_written_tokens_tile_the_text(tiny):
    ids = tiny.text.encode_data(WORDS)
    text, offsets = tiny.text.decode(ids)
    assert text == WORDS
    assert offsets[0][0] == 0
    assert offsets[-1][1] == len(text)
    assert all(b[0] in (a[1], a[0]) for a, b in itertools.pairwise(offsets))


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda s: s.feed("x"), "needs an open user turn"),
        (lambda s: (s.user(), s.user()), "inside an open user turn"),
        (lambda s: (s.user(), s.write(0)), "max_tokens >= 1"),
        (lambda s: (s.user("a"), s.feed("b", watch=[s.feed("")])), "non-empty"),
        (lambda s: (s.user("a"), s.write(5, temperature=-1)), "temperature"),
        (lambda s: s.score("x"), "needs a context"),
        (lambda s: (s.user("a"), s.probe(["Yes", "Yes please"])), "distinct first tokens"),
        (lambda s: (s.user("a"), s.probe(["Yes", ""])), "distinct first tokens"),
    ],
)
def test_misuse_is_named(tiny, misuse, message):
    with pytest.raises(ValueError, match=message):
        misuse(tiny.session(Meter()))


def test_window_is_kept(tiny):
    s, _ = opened(tiny)
    with pytest.raises(WindowExceeded, match="window of 1024 of 'tiny'"):
        s.feed(WORDS * 100)
    s.feed("x " * (s.room() // 2 - 20))
    with pytest.raises(WindowExceeded):
        s.write(200)


def test_nan_logits_are_an_error_of_the_question(tiny_folder):
    model = load_model(ModelConfig(name="broken", source=str(tiny_folder), prefill_chunk=999))
    with torch.no_grad():
        model.net.lm_head.weight[3] = float("nan")
    meter = Meter()
    s, _ = opened(model, meter)
    with pytest.raises(ModelOutputError, match="'broken' gave NaN or infinite logits"):
        s.write(5)
    # What the failing pass cost is booked all the same.
    assert [(e.kind, e.new) for e in meter.events] == [("prefill", s.length())]


def test_capture_fails_when_the_kernel_is_not_in_use(tiny_folder):
    model = load_model(ModelConfig(name="tiny", source=str(tiny_folder), prefill_chunk=998))
    model.net.set_attn_implementation("sdpa")
    s, asked = opened(model)
    with pytest.raises(RuntimeError, match="captured in 0 of 3 layers"):
        _ = s.feed("x", watch=[asked]).attention


@pytest.mark.parametrize("which", ["tiny", "tiny_pieces"])
def test_kept_requests_are_what_ran_and_keeping_them_changes_nothing(request, which):
    model = request.getfixturevalue(which)

    def go(meter):
        s, asked = opened(model, meter)
        seen = s.feed(NODES[0], watch=[asked])
        probe = s.probe(["Yes", "No"], after="Answer: ")
        scores = s.score(" bridge")
        written = s.write(4, begin="So ")
        with pytest.raises(ModelOutputError), pytest.MonkeyPatch.context() as patch:
            s.user("Again")
            patch.setattr(model, "forward", broken)
            s.write(4)
        return (seen.attention, probe, scores, written.text, s.ids), written.text, s

    def broken(*_):
        raise ModelOutputError("no")

    plain, keeping = Meter(), Meter(keeps_requests=True)
    before, _, _ = go(plain)
    found, text, s = go(keeping)
    assert found == before
    costs = [
        [replace(event, seconds=0.0, queued=0.0) for event in meter.events]
        for meter in (plain, keeping)
    ]
    assert costs[0] == costs[1]
    assert plain.requests == []
    kinds = [sent.kind for sent in keeping.requests]
    assert kinds == ["probe", "score", "write", "write"]
    assert len(kinds) == sum(event.requests for event in keeping.events)
    probe, score, write, failed = keeping.requests
    fed = model.text.decode_context(s.ids).partition(NODES[0])[0] + NODES[0]
    assert score.prompt == fed + " bridge"
    assert (probe.prompt.startswith(fed), probe.prompt.endswith("Answer: ")) == (True, True)
    assert write.prompt.removesuffix("So ") == probe.prompt.removesuffix("Answer: ")
    assert json.loads(probe.reply) == pytest.approx(found[1].mass)
    assert json.loads(score.reply) == pytest.approx(sum(found[2]))
    assert (write.reply, failed.reply) == (text, "")
    assert failed.prompt.startswith(write.prompt)
