"""LLMLingua, LongLLMLingua and Selective-Context: worked examples, and bad input."""

import hashlib
import json
import math
import shutil
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pocket.world.sample import sample

from harness.config.schema import ModelConfig
from harness.errors import ModelOutputError, QuestionError, WindowExceeded
from harness.llm.backend import load_model
from harness.llm.scripted import Script, ScriptedModel
from harness.types import Document
from methods.compression import config, lingua
from methods.compression.selective import _mask_at_percentile, _self_information, _sentence_ranges
from methods.compression.surprise import (
    Units,
    cut_into_units,
    measure_surprise,
    open_context,
    spans_of_kept_units,
)
from tests.methods.conftest import FakeTools
from tests.methods.table_model import REPLY
from tests.random_model import save

MADE = sample("musique", 0, tokens=3000, purpose="evaluation", number=0)
TEXT, ASKED = MADE.documents[0].text, MADE.examples[0].question.text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny random Llama without BOS and chat template, so that the package sees the tokens that
    we see."""
    where = tmp_path_factory.mktemp("tiny")
    save(
        where,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    for name, key in (("tokenizer.json", "post_processor"), ("tokenizer_config.json", "bos_token")):
        settings_ = json.loads((where / name).read_text(encoding="utf-8"))
        (where / name).write_text(json.dumps({**settings_, key: None}), encoding="utf-8")
    return where


@pytest.fixture(scope="module")
def llama(folder):
    return load_model(ModelConfig(name="tiny", source=str(folder), template="none"))


def tools_of(model=None, **more):
    return FakeTools(REPLY, **({"compressor": model} if model is not None else {}), **more)


def first_tokens(text, count, model):
    return text[: model.offsets(text)[count - 1][1]]


def squeezed(text, settings_, model, question=ASKED):
    """The compressed text, and its Compressed."""
    found = lingua.compress_document(Document("d", text), settings_, tools_of(model), question)
    return "".join(p if isinstance(p, str) else text[slice(*p)] for p in found.pieces), found


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ab .\n\u5b66\U0001f600\u00e9", max_size=40), st.data())
def test_units_tile_any_text_and_runs_are_what_is_kept(llama, text, data):
    units = cut_into_units(text, tools_of(llama).model("compressor"))
    assert "".join(units.text_of_unit(i) for i in range(len(units))) == text
    assert sum(units.token_counts) == llama.count(text)
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(units), max_size=len(units))), dtype=bool
    )
    stays = "".join(units.text_of_unit(i) for i in range(len(units)) if mask[i])
    assert "".join(text[a:b] for a, b in spans_of_kept_units(units, mask)) == stays


def test_a_character_of_several_tokens_is_one_unit(llama):
    units = cut_into_units("a\u5b66b", tools_of(llama).model("compressor"))
    assert [units.text_of_unit(i) for i in range(len(units))] == ["a", "\u5b66", "b"]
    assert units.token_counts == (1, 3, 1)


def test_surprise_is_minus_the_log_probability_the_network_gives(llama):
    """By hand: log softmax of the network's logits at the position before each token."""
    text = first_tokens(TEXT, 40, llama)
    ids = torch.tensor([llama.text.encode_data(text)], device=llama.device)
    with torch.inference_mode():
        logs = llama.net(ids).logits[0].log_softmax(-1)
    wanted = [-float(logs[i, ids[0, i + 1]]) for i in range(39)]
    model = tools_of(llama).model("compressor")
    with model.session() as s:
        s.user()
        found = measure_surprise(s, model, cut_into_units(text, model))
    assert np.isnan(found[0])  # nothing stands before it
    assert found[1:] == pytest.approx(wanted, abs=1e-4)


def test_a_token_cut_otherwise_shares_its_cost_by_characters():
    model = ScriptedModel(Script())  # " abcd" is one token with -log p 1, the next 2, ...
    tools = tools_of(model)
    units = Units("abcd ef", (0, 1, 4, 7), (1, 1, 2))
    with tools.model("compressor").session() as s:
        s.user("x")
        assert measure_surprise(s, tools.model("compressor"), units).tolist() == [
            0.25,
            0.75,
            1.0,
        ]  # 2 over two tokens


def test_unusable_log_probabilities():
    model = tools_of().model("compressor")
    with (
        model.session() as s,
        mock.patch.object(type(s), "score", side_effect=[[-math.inf], [math.nan]]),
    ):
        s.user("x")
        assert measure_surprise(s, model, cut_into_units("a", model)).tolist() == [1e4]
        with pytest.raises(
            ModelOutputError, match=r"gave NaN log-probabilities; try --set model.dtype=float32"
        ):
            measure_surprise(s, model, cut_into_units("a", model))


def test_a_context_that_is_not_there_cannot_be_forced(llama):
    setting = config.LLMLinguaConfig(force_context_ids=(7,))
    with pytest.raises(QuestionError, match="force_context_ids has 7, but the text has 1 contexts"):
        squeezed("One context.", setting, llama)


def test_a_forced_context_is_kept(llama):
    text = first_tokens(TEXT, 400, llama)
    setting = {"target_tokens": 40, "chunk_tokens": 50, "context_budget": "*1"}
    numbers = []
    for forced in ((), (6,)):
        chosen = config.LLMLinguaConfig(**setting, force_context_ids=forced)
        _, found = squeezed(text, chosen, llama)
        numbers.append({step.node for step in found.steps})
    assert 6 not in numbers[0]
    assert 6 in numbers[1]


def test_where_the_window_is_full_the_oldest_kept_tokens_are_forgotten(folder, llama):
    """2,000 tokens through a window of 400; the texts are those of the document, in its order."""
    model = load_model(ModelConfig(name="tiny", source=str(folder), template="none", window=400))
    text = first_tokens(TEXT, 2000, llama)
    setting = config.LLMLinguaConfig(rate=0.9, use_context_level_filter=False)
    _, found = squeezed(text, setting, model)
    assert found.tokens_before == pytest.approx(2000, abs=5)
    assert 1400 < found.tokens_after < 2000
    spans = [piece for piece in found.pieces if isinstance(piece, tuple)]
    assert spans == sorted(spans)
    assert all(a < b <= c for (a, b), (c, _) in pairwise(spans))


def test_a_window_that_does_not_fit_beside_the_question(llama):
    setting = config.LongLLMLinguaConfig(iterative_size=llama.window - 20)
    with pytest.raises(
        WindowExceeded, match=r"method.iterative_size=\d+ tokens beside the question; lower it"
    ):
        squeezed(first_tokens(TEXT, 100, llama), setting, llama)


LONG = {
    "rank_method": "longllmlingua",
    "condition_in_question": "after_condition",
    "reorder_context": "sort",
    "dynamic_context_compression_ratio": 0.3,
    "condition_compare": True,
}
# Arguments of llmlingua 0.2.2, which bench.parity runs, and the sha256 of its text of one window.
RELEASED = [
    ({"rank_method": "llmlingua"}, "e32376dca249"),
    (LONG, "7eb784c1d55c"),
    ({**LONG, "reorder_context": "original"}, "e5d9652e6202"),
    ({**LONG, "reorder_context": "two_stage", "context_budget": "*1.5"}, "4b0116831dc8"),
    ({**LONG, "condition_in_question": "before_condition"}, "cd232a19e97d"),
    ({**LONG, "use_token_level_filter": False}, "8c08a87eae96"),
    ({**LONG, "use_context_level_filter": False}, "07084531639c"),
]


@pytest.mark.parametrize(("released", "digest"), RELEASED)
def test_the_text_of_one_window_is_that_of_the_package(llama, released, digest):
    setting = config.LinguaConfig(**released, target_tokens=115, chunk_tokens=60)
    text, _ = squeezed(first_tokens(TEXT, 230, llama), setting, llama)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == digest


@pytest.mark.parametrize(
    ("kind", "times"), [(config.LLMLinguaConfig, 1), (config.LongLLMLinguaConfig, 2)]
)
def test_what_was_kept_is_read_once_for_all_windows(llama, kind, times):
    """Twice where scores with and without the question are compared."""
    text = first_tokens(TEXT, 900, llama)
    setting = kind(target_tokens=300, use_context_level_filter=False, iterative_size=60)
    tools = tools_of(llama)
    found = lingua.compress_document(Document("d", text), setting, tools, ASKED)
    assert found.tokens_before == pytest.approx(900, abs=3)
    assert 100 < found.tokens_after < 600
    read = sum(event.new for event in tools.meter.events if event.kind == "prefill")
    question = llama.count(ASKED)
    assert 0 < read <= times * (found.tokens_after + question)


@pytest.fixture(scope="module")
def gpt(folder, tmp_path_factory):
    """The same without BOS but with an EOS, as GPT-2's and Phi-2's tokenizers are."""
    where = tmp_path_factory.mktemp("gpt") / "tiny"
    shutil.copytree(folder, where)
    tokenizer = json.loads((where / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert tokenizer["eos_token"], "the random model has one"
    return load_model(ModelConfig(name="gpt", source=str(where), template="none"))


def test_selective_context_scores_a_sentences_first_token_behind_the_end_of_a_text(gpt):
    tools = tools_of(gpt)
    model = tools.model("compressor")
    units = cut_into_units("One river. Two boats.", model)
    found = _self_information(units, _sentence_ranges(units, 100), tools)
    assert np.isfinite(
        found
    ).all()  # NaN for every sentence's first token before, which always stayed
    eos = gpt.text.tokenizer.eos_token_id
    first = gpt.text.encode_data(units.text)[0]
    with torch.inference_mode():
        logits = gpt.net(input_ids=torch.tensor([[eos]], device=gpt.device)).logits[0, -1]
    assert found[0] == pytest.approx(-float(logits.log_softmax(-1)[first]), abs=1e-4)
    values = [-1.0, *range(2, 2 + len(found) - 1)]
    assert not _mask_at_percentile(np.array(values), 0.5)[0], "so a first token can go"


def test_only_a_context_that_nothing_begins_gets_the_token_between_texts(gpt):
    with load_model(ModelConfig(name="random", backend="random")).session(tools_of().meter) as s:
        s.begin_text()
        assert s.length() == 0, "its template begins with BOS"
        s.user("a")
        with pytest.raises(ValueError, match="before everything else"):
            s.begin_text()
    with open_context(tools_of(gpt).model("compressor")) as s:
        assert s.length() == 0, "LLMLingua scores as the package does"
