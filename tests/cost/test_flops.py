"""The formula against an operator counter, and against what the papers print."""

import csv
import dataclasses
import os
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from harness.config.schema import ModelConfig
from harness.cost.flops import CONVENTIONS, Event, ModelShape, flops
from harness.cost.meter import Meter
from harness.cost.shapes import shape_of
from harness.llm.backend import load_model
from tests.cost.operator_count import counted
from tests.llm.conftest import tiny_folder  # noqa: F401
from tests.llm.tiny_families import config_of

LLAMA_8B = ModelShape(32, 4096, 32, 8, 128, 14336, 128256)
SMALL = ModelShape(2, 64, 4, 4, 16, 128, 100)


@pytest.mark.parametrize("kind", ["prefill", "append", "probe", "decode", "score"])
@pytest.mark.parametrize("chunk", [2048, 7])
def test_executed_equals_the_operator_counter(tiny_folder, chunk, kind):  # noqa: F811
    # On the CPU, whose kernel the counter knows.
    model = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), prefill_chunk=chunk, device="cpu")
    )
    meter = Meter()
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
    total = counted(run, causal=True)
    assert total > 0
    assert meter.flops("executed") == pytest.approx(total, rel=1e-3)


def prefill(new, cached=0):
    return Event("reader", "m", "answer", "prefill", new, cached, 1)


def test_narrativeqa_cut_at_100k_brackets_the_printed_tflops():
    """docs/datasets.md#narrativeqa: the test split, 1.25 tokens a word for books, scripts scaled to
    a mean of 79,457."""
    folder = os.environ.get("HARNESS_TEST_DATA")
    if not folder:
        pytest.skip(
            "HARNESS_TEST_DATA is not set: it names the folder with the list of NarrativeQA's "
            "documents"
        )
    with (Path(folder) / "data/narrativeqa/documents_all.csv").open(encoding="utf-8") as f:
        words = [
            (r["kind"] == "movie", int(r["story_word_count"]))
            for r in csv.DictReader(f)
            if r["set"] == "test"
        ]
    books, scripts = (
        sum(n for is_script, n in words if is_script == kind) for kind in (False, True)
    )
    ratio = (79_457 * len(words) - 1.25 * books) / scripts
    tokens = [min(n * (ratio if is_script else 1.25), 100_000) + 100 for is_script, n in words]
    assert sum(t >= 100_100 for t in tokens) / len(tokens) == pytest.approx(0.223, abs=0.001)
    full, more, causal = (
        sum(flops(prefill(int(t)), LLAMA_8B, c) for t in tokens) / len(tokens) / 1e12
        for c in ("full", "all-params", "causal")
    )
    assert (full, more, causal) == (
        pytest.approx(3334, abs=1),
        pytest.approx(3400, abs=1),
        pytest.approx(2133, abs=1),
    )
    assert full < 3361.9 < more  # what GARLIC prints (table 1)


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
        meter.record(
            Event("searcher", "m", meter.current_phase, "probe", 4, 10, 1, requests=1), LLAMA_8B
        )
        meter.record(Event("x", "unknown", meter.current_phase, "decode", 3, 4, out=3), None)
    usage = meter.usage()
    assert usage["search"]["tokens_in"] == 4
    assert usage["search"]["tokens_cached"] == 10
    assert usage["search"]["tokens_out"] == 3
    assert usage["search"]["uncounted"] == 1
    assert usage["answer"]["tokens_in"] == 10
    for name in CONVENTIONS:
        assert (
            meter.flops(name)
            == meter.flops()[name]
            == pytest.approx(sum(u["flops"][name] for u in usage.values()))
        )
    assert meter.current_phase == "answer"
    with pytest.raises(ValueError, match="phase"), meter.phase("lunch"):
        pass


def test_two_models_of_one_name_are_counted_by_their_own_sizes():
    meter = Meter("answer")
    reader, builder = (
        Event("reader", "m", "answer", "prefill", 7),
        Event("builder", "m", "index", "prefill", 5),
    )
    branches = meter.fork(2)
    for branch in branches:
        with branch:
            meter.record(reader, LLAMA_8B)
            meter.record(builder, SMALL)
            meter.record(
                Event("searcher", "m", "search", "prefill", 5), None
            )  # and one whose sizes nobody knows
    meter.join(branches)
    usage = meter.usage()
    for convention in CONVENTIONS:
        want = {
            "answer": flops(reader, LLAMA_8B, convention),
            "index": flops(builder, SMALL, convention),
            "search": 0,
        }
        assert {p: u["flops"][convention] for p, u in usage.items()} == {
            p: 2 * v for p, v in want.items()
        }
        assert meter.flops(convention) == pytest.approx(2 * sum(want.values()))
    assert usage["search"]["uncounted"] == 2
    assert usage["index"]["roles"].keys() == {"builder"}


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ModelShape)])
def test_the_key_of_a_shape_tells_every_size(field):
    value = getattr(LLAMA_8B, field)
    other = dataclasses.replace(
        LLAMA_8B, **{field: (not value) if isinstance(value, bool) else value + 1}
    )
    assert other.key != LLAMA_8B.key
    assert dataclasses.replace(LLAMA_8B).key == LLAMA_8B.key


def test_gpt_2_has_a_head_and_an_mlp_of_four_times_its_width():
    shape = shape_of(GPT2Config(), head=True)
    assert shape == ModelShape(12, 768, 12, 12, 64, 3072, 50257, gated=False, tied=True)
    # The 124M parameters of GPT-2 without its 1024 positions, biases and norms; its head is its
    # embedding table.
    assert shape.parameters == 84_934_656 + 38_597_376
    assert shape_of(GPT2Config(n_inner=1000), head=True).mlp == 1000


GATED = [
    "cohere",
    "gemma",
    "gemma2",
    "glm",
    "granite",
    "helium",
    "llama",
    "mistral",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
]
PLAIN = [
    "apertus",
    "arcee",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "jais2",
    "nanochat",
    "nemotron",
    "opt",
    "phi",
]
PLAIN += ["gptj", "persimmon", "starcoder2", "xglm"]


@pytest.mark.parametrize("family", [*GATED, *PLAIN])
def test_the_weights_of_a_family_are_counted(family):
    """W against the matrices of a tiny random network, all of them and those of the MLPs alone."""
    config = config_of(family, **({"word_embed_proj_dim": 32} if family == "opt" else {}))
    with torch.device("meta"):  # its sizes alone
        net = AutoModelForCausalLM.from_config(config)
    shape, head = shape_of(config, head=True), net.get_output_embeddings()
    found = {
        name: m
        for name, m in net.named_modules()
        if type(m).__name__ in ("Linear", "Conv1D") and m is not head
    }
    assert shape.layer_weights == sum(matrix.weight.numel() for matrix in found.values())
    mlp = [m.weight.numel() for name, m in found.items() if not re.search("attention|attn", name)]
    assert sum(mlp) == shape.layers * (3 if family in GATED else 2) * shape.width * shape.mlp
    assert shape.gated == (family in GATED)


TIED = {  # sizes and parameters in millions as the models' cards have them, norms left out here
    "SmolLM2-135M": (ModelShape(30, 576, 9, 3, 64, 1536, 49152, tied=True), 134.5),
    "Llama-3.2-1B": (ModelShape(16, 2048, 32, 8, 64, 8192, 128256, tied=True), 1235.7),
    "Llama-3.2-3B": (ModelShape(28, 3072, 24, 8, 128, 8192, 128256, tied=True), 3212.6),
    "Llama-3.1-8B": (LLAMA_8B, 8030.0),
}


@pytest.mark.parametrize(("shape", "millions"), TIED.values(), ids=TIED)
def test_a_table_that_is_the_head_too_is_counted_once(shape, millions):
    assert shape.parameters / 1e6 == pytest.approx(millions, abs=0.3)
    assert flops(prefill(1), shape) == 2 * shape.parameters + shape.flops_per_pair
    read = LlamaConfig(
        vocab_size=8, hidden_size=4, num_attention_heads=2, tie_word_embeddings=shape.tied
    )
    assert shape_of(read).tied == shape.tied
