"""ICR and QRHead: chunk scores, passes, head lists."""

import numpy as np
import pytest
import yaml

from harness.errors import CannotRun
from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.head_lists import heads_for
from methods.in_context import InContext, InContextConfig, _kept_sum
from tests.methods.conftest import FakeTools

TEXT = "Red fox runs fast. Blue fox sleeps now. Green bird sings well."
QUESTION = Question("q", "Which bird?", ("d",))
LLAMA = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}


def config(**more):
    return InContextConfig(**{"chunk_tokens": 4, "k": 2, **more})


def answered(method, tools):
    document = Document("d", TEXT)
    return method.answer(QUESTION, [document], [method.index(document, tools)], tools)


def attend(row, column):
    """The question's attention to a chunk's line; that of "N/A" is 0.125 everywhere."""
    if "bird?" not in row:
        return 0.125
    return 0.875 if "bird" in column else 0.5 if "Blue" in column else 0.25


# --- the whole way ----------------------------------------------------------------------------------------------------


def test_golden_trace():
    tools = FakeTools([Rule(reply="Green")], attention=attend)
    found = answered(InContext(config()), tools)
    assert found.text == "Green"
    assert [TEXT[s.start : s.end] for s in found.shown] == [" Green bird sings well.", " Blue fox sleeps now."]
    # Five tokens a chunk with its number; the line begins with the chunk's mark, so each has its chunk's weight.
    assert [(s.action, s.node, round(s.scores["attention"], 4)) for s in found.steps] == [
        ("rank", 2, 3.75),
        ("rank", 1, 1.875),
    ]
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
    found = answered(InContext(config(calibrate=False)), FakeTools([Rule(reply="x")], attention=attend))
    assert [round(s.scores["attention"], 4) for s in found.steps] == [4.375, 2.5]


def test_a_window_that_holds_two_chunks_takes_passes_from_the_end_and_finds_the_same_best():
    tools = FakeTools([Rule(reply="x")], attention=attend, window=45)
    method, texts = InContext(config()), ["Blue one.", "Red two.", "bird three.", "Red four."]
    tools.reader.window = method_room(method, tools, 2, texts)
    order = np.argsort(-method.rank(QUESTION, texts, {}, tools))
    assert order.tolist() == [2, 0, 1, 3]
    assert sum(e.requests for e in tools.meter.events) == 6  # three passes of two questions


def method_room(method, tools, chunks, texts):
    from harness.prompts import prompt_tokens

    model = tools.model()
    frame = prompt_tokens(method._prompt().fill(text=[""], question=QUESTION.text), model) + model.count("N/A")
    return frame + chunks * (max(model.count(f"[9] {t}") for t in texts) + 2)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_tokens_far_below_their_chunk_are_left_out():
    scores = np.array([[1.0] * 9 + [-50.0], [1.0] * 5 + [2.0] * 5])
    assert _kept_sum(scores).tolist() == [9.0, 15.0]
    assert _kept_sum(np.array([[3.0]])).tolist() == [3.0]


# --- head lists -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes", "first", "count"),
    [
        ("all", {}, None, 0),
        ("published", LLAMA, (13, 18), 16),
        ("LME", LLAMA, (13, 18), 16),
        ("NQ", LLAMA, (14, 22), 16),
        ("published", {**LLAMA, "hidden_size": 2048, "num_hidden_layers": 16}, (8, 21), 16),
        ("published", {**LLAMA, "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24}, (15, 18), 16),
        ("published", dict(zip(LLAMA, (3584, 28, 28, 4), strict=True)), (16, 19), 16),
    ],
)
def test_published_lists(name, sizes, first, count):
    heads = heads_for(name, sizes)
    assert heads is None if first is None else (heads[0], len(set(heads))) == (first, count)


@pytest.mark.parametrize(
    ("change", "sizes", "sentence"),
    [
        ({}, {**LLAMA, "num_hidden_layers": 16}, "belongs to another model, m .num_hidden_layers is 32 there and 16"),
        ({"weights": {"files": "a"}}, {**LLAMA, "weights": {"files": "b"}}, "another model, m .its weights are others"),
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
def test_a_list_that_is_not_there_is_refused(name):
    with pytest.raises(CannotRun, match="harness heads"):
        heads_for(name, {**LLAMA, "hidden_size": 8})
