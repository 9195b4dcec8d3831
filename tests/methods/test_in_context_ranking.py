"""ICR and QRHead: chunk scores against eager attention, passes, head lists."""

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM

from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm.backend import load_model
from harness.llm.load import unload
from harness.llm.scripted import Rule
from harness.models import MeteredModel
from harness.prompts import prompt_tokens
from harness.types import Document, Question
from methods.head_lists import heads_for
from methods.in_context_ranking import InContext, InContextConfig, _sum_without_outliers
from tests.llm import tiny_families as tiny
from tests.llm.test_families import asked
from tests.methods.conftest import FakeTools, answered

TEXT = "Red fox runs fast. Blue fox sleeps now. Green bird sings well."
DOCUMENT = Document("d", TEXT)
QUESTION = Question("q", "Which bird?", ("d",))
LLAMA = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
HUB = "meta-llama/Llama-3.1-8B-Instruct"


def config(**more):
    return InContextConfig(**{"chunk_tokens": 4, "k": 2, **more})


def attend(row, column):
    """The question's attention to a chunk's line; that of "N/A" is 0.125 everywhere."""
    if "bird?" not in row:
        return 0.125
    return 0.875 if "bird" in column else 0.5 if "Blue" in column else 0.25


def test_golden_trace():
    tools = FakeTools([Rule(reply="Green")], attention=attend)
    found, _ = answered(InContext(config()), tools, DOCUMENT, QUESTION)
    assert found.text == "Green"
    assert [TEXT[s.start : s.end] for s in found.shown] == [
        " Green bird sings well.",
        " Blue fox sleeps now.",
    ]
    # Five tokens a chunk with its number; each has its chunk's weight.
    steps = [(s.action, s.node, round(s.scores["attention"], 4)) for s in found.steps]
    assert steps == [("rank", 2, 3.75), ("rank", 1, 1.875)]
    prompt = tools.reader.prompts[0]
    assert prompt.index("Green bird") < prompt.index("Blue fox")
    kinds = [(e.phase, e.kind, e.requests) for e in tools.meter.events]
    assert kinds == [
        ("search", "prefill", 0),
        ("search", "probe", 1),
        ("search", "probe", 1),
        ("answer", "prefill", 1),
        ("answer", "decode", 0),
    ]


def test_without_calibration_nothing_is_taken_off():
    tools = FakeTools([Rule(reply="x")], attention=attend)
    found, _ = answered(InContext(config(calibrate=False)), tools, DOCUMENT, QUESTION)
    assert [round(s.scores["attention"], 4) for s in found.steps] == [4.375, 2.5]
    assert sum(e.requests for e in tools.meter.events) == 2, (
        "it pays for a question that it does not ask"
    )


def test_a_window_that_holds_two_chunks_takes_passes_from_the_end_and_finds_the_same_best():
    tools = FakeTools([Rule(reply="x")], attention=attend)
    method, texts, model = (
        InContext(config()),
        ["Blue one.", "Red two.", "bird three.", "Red four."],
        tools.model(),
    )
    frame = prompt_tokens(
        method._prompt().fill(text=[""], question=QUESTION.text), model
    ) + model.count("N/A")
    tools.reader.window = frame + 2 * (max(model.count(f"[9] {t}") for t in texts) + 2)
    order = np.argsort(-method.rank(QUESTION, texts, {}, tools))
    assert order.tolist() == [2, 0, 1, 3]
    assert sum(e.requests for e in tools.meter.events) == 6  # three passes of two questions


def test_tokens_far_below_their_chunk_are_left_out():
    scores = np.array([[1.0] * 9 + [-50.0], [1.0] * 5 + [2.0] * 5])
    assert _sum_without_outliers(scores).tolist() == [9.0, 15.0]
    assert _sum_without_outliers(np.array([[3.0]])).tolist() == [3.0]


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    yield tiny.tokenizer_folder(tmp_path_factory.mktemp("words") / "words")
    unload()


@pytest.mark.parametrize("family", ["llama", "qwen2", "gpt2"])
def test_chunk_scores_equal_those_of_eager_attention(family, words, tmp_path):
    folder, _ = tiny.saved(tmp_path / family, words, family)
    model = load_model(asked(folder))
    net = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    texts = ["Mira Tal founded it.", "The old bridge lies north of Abel.", "A river town."]
    tools = FakeTools()
    tools.model = lambda role="reader": MeteredModel(model, Meter(), role)
    method, asks = InContext(config(instruction="find")), {}
    for text in (QUESTION.text, "N/A"):
        ids, spans = (
            [
                *model.before_first_user_ids,
                *model.text.encode_data("Passages of a text follow.\n\n"),
            ],
            [],
        )
        for n, chunk in enumerate(texts, 1):
            ids += model.text.encode_data("\n\n") if n > 1 else []
            spans.append((len(ids), len(ids := ids + model.text.encode_data(f"[{n}] {chunk}"))))
        start = len(ids)
        ids += (
            model.text.encode_data(
                f"\n\nFind the passages that matter for the question.\n\nQuestion: {text}"
            )
            + model.before_reply_ids
        )
        with torch.no_grad():
            maps = net(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
        by_head = torch.cat(maps)[:, :, start:].mean(2).numpy()
        asks[text] = [by_head[:, :, a:b] for a, b in spans]
    pairs = list(zip(asks[QUESTION.text], asks["N/A"], strict=True))
    chosen = [(0, 3), (1, 1)]
    expected = {
        "all": [_sum_without_outliers((a - b).sum((0, 1))) for a, b in pairs],
        "list": [
            _sum_without_outliers(sum((a - b)[layer, head] for layer, head in chosen))
            for a, b in pairs
        ],
    }
    file = tmp_path / "heads.yaml"
    file.write_text(yaml.safe_dump(listed(model.shape, chosen)))
    for heads, name in (("all", "all"), (str(file), "list")):
        own = InContext(config(instruction="find", heads=heads))
        assert np.abs(own.rank(QUESTION, texts, {}, tools) - expected[name]).max() < 1e-5
    assert np.ptp(expected["all"]) > 1e-3
    by_head = method.head_scores(QUESTION, texts, tools)
    assert by_head.shape == (3, model.shape.layers, model.shape.heads)


def listed(shape, heads, **more):
    sizes = dict(zip(LLAMA, (shape.width, shape.layers, shape.heads, shape.kv_heads), strict=True))
    names = [f"{layer}-{head}" for layer, head in heads]
    return {
        "source": "test",
        "found_on": "rows",
        "model": {"name": "m", **sizes, **more},
        "heads": names,
    }


@pytest.mark.parametrize(
    ("name", "sizes", "first", "count"),
    [
        ("all", {}, None, 0),
        ("published", LLAMA, (13, 18), 16),
        ("LME", LLAMA, (13, 18), 16),
        ("NQ", LLAMA, (14, 22), 16),
        ("published", {**LLAMA, "hidden_size": 2048, "num_hidden_layers": 16}, (8, 21), 16),
        (
            "published",
            {**LLAMA, "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24},
            (15, 18),
            16,
        ),
        ("published", dict(zip(LLAMA, (3584, 28, 28, 4), strict=True)), (16, 19), 16),
        ("published", dict(zip(LLAMA, (8192, 80, 64, 8), strict=True)), (35, 17), 32),
        (
            "published",
            {**LLAMA, "vocab_size": 128256, "weights": {"hub": HUB, "commit": "c"}},
            (13, 18),
            16,
        ),
    ],
)
def test_published_lists(name, sizes, first, count):
    heads = heads_for(name, sizes)
    assert heads is None if first is None else (heads[0], len(set(heads))) == (first, count)


@pytest.mark.parametrize(
    ("change", "sizes", "sentence"),
    [
        (
            {},
            {**LLAMA, "num_hidden_layers": 16},
            "belongs to another model, m .num_hidden_layers is 32 there and 16",
        ),
        (
            {"weights": {"files": "a"}},
            {**LLAMA, "weights": {"files": "b"}},
            "another model, m .its weights are others",
        ),
        ({"heads": ["3-32"]}, LLAMA, "must name different heads of its model as layer-head"),
        ({"heads": ["3-3", "3-3"]}, LLAMA, "must name different heads"),
        ({"heads": []}, LLAMA, "must name different heads"),
        ({"heads": ["3:4"]}, LLAMA, "must name different heads"),
        ({"heads": 5}, LLAMA, "cannot be used"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(change, sizes, sentence, tmp_path):
    values = {"source": "s", "found_on": "f", "model": {"name": "m", **LLAMA}, "heads": ["13-18"]}
    if "weights" in change:
        values["model"] |= change
    else:
        values |= change
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(CannotRun, match=sentence):
        heads_for(str(file), sizes)


@pytest.mark.parametrize("name", ["published", "NQ", "no/such/file.yaml"])
@pytest.mark.parametrize(
    "other",
    [
        {"hidden_size": 8},
        {"vocab_size": 32768},
        {"vocab_size": 128256, "weights": {"hub": "o/Tuned-8B"}},
    ],
)
def test_a_list_that_is_not_there_or_of_a_model_of_the_same_sizes_is_refused(name, other):
    with pytest.raises(CannotRun, match="bench.heads"):
        heads_for(name, {**LLAMA, **other})
