"""The formula against an operator counter, and against what the seeds print."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from harness.flops import ModelShape, flops
from harness.meter import Event, Meter
from tests.llm.conftest import tiny, tiny_folder, tiny_pieces  # noqa: F401

LLAMA_8B = ModelShape(32, 4096, 32, 8, 128, 14336, 128256)


def sdpa_flops(query, key, value, *_args, out_val=None, **_kwargs):
    """QK^T and AV over all query heads; torch's counter gives the CPU kernel 0 (facts, E6)."""
    batch, heads, rows, size = query
    return 4 * batch * heads * rows * key[2] * size


def counted(run):
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with FlopCounterMode(display=False, custom_mapping={kernel: sdpa_flops}) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("kind", ["prefill", "append", "probe", "decode", "score"])
@pytest.mark.parametrize("which", ["tiny", "tiny_pieces"])
def test_executed_equals_the_operator_counter(request, which, kind):
    model, meter = request.getfixturevalue(which), Meter()
    s = model.session(meter)
    s.user("Where is the school of Mira Tal, north of the bridge?" * 3)
    if kind != "prefill":
        s.flush()
        meter = s._meter = Meter()
    run = {
        "prefill": s.flush,
        "append": lambda: (s.feed("Given the above."), s.flush()),
        "probe": lambda: s.probe(["Yes", "No"]),
        "decode": lambda: s.write(30),
        "score": lambda: s.score("the old bridge"),
    }[kind]
    total = counted(run)
    assert total > 0
    assert meter.flops("executed") == pytest.approx(total, rel=1e-3)


def prefill(new, cached=0):
    return Event("reader", "m", "answer", "prefill", new, cached, 1)


def test_llama_8b_equals_the_table_of_the_facts():
    assert LLAMA_8B.linear == pytest.approx(6.979e9, rel=1e-3)
    assert LLAMA_8B.head == pytest.approx(0.525e9, rel=1e-3)
    assert LLAMA_8B.pair == 524_288


@pytest.mark.parametrize(
    ("tokens", "convention", "tflops"),
    [
        (4866, "full", 85.5),
        (4866, "all-params", 90.6),
        (4866, "causal", 79.2),
        (1318, "full", 20.7),
        (1318, "all-params", 22.1),
        (1318, "causal", 20.2),
    ],
)
def test_full_document_tflops_of_the_seeds(tokens, convention, tflops):
    assert flops(prefill(tokens), LLAMA_8B, convention) / 1e12 == pytest.approx(tflops, abs=0.06)


def test_conventions_order_and_decode_is_the_sum_of_its_steps():
    e = prefill(700, 300)
    full, more, causal = (flops(e, LLAMA_8B, c) for c in ("full", "all-params", "causal"))
    assert causal < full < more
    many = flops(Event("r", "m", "answer", "decode", 5, 100, 5), LLAMA_8B, "full")
    steps = sum(flops(prefill(1, 100 + i), LLAMA_8B, "full") for i in range(5))
    assert many == pytest.approx(steps)
    with pytest.raises(ValueError, match="convention"):
        flops(e, LLAMA_8B, "half")


def test_meter_books_by_phase_and_its_running_sum_is_the_sum():
    meter = Meter("answer")
    meter.record(prefill(10), LLAMA_8B)
    with meter.phase("search"):
        meter.record(Event("searcher", "m", meter.current_phase, "probe", 4, 10, 1, requests=1), LLAMA_8B)
        meter.record(Event("x", "unknown", meter.current_phase, "decode", 3, 4, out=3), None)
    usage = meter.usage()
    assert usage["search"]["tokens_in"] == 4
    assert usage["search"]["tokens_cached"] == 10
    assert usage["search"]["tokens_out"] == 3
    assert usage["search"]["uncounted"] == 1
    assert usage["answer"]["tokens_in"] == 10
    assert meter.flops() == pytest.approx(sum(u["flops"]["full"] for u in usage.values()))
    assert meter.current_phase == "answer"
    with pytest.raises(ValueError, match="phase"), meter.phase("lunch"):
        pass
