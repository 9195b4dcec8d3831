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
from methods.compression.ranking import choose_contexts, perplexities
from methods.compression.selective import _at_percentile, _self_information, _sentence_groups
from methods.compression.surprise import Units, open_context, spans_of_kept, surprise, units_of
from tests.methods.conftest import FakeTools
from tests.methods.table_model import REPLY, Table
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
    before = question if settings_.prefixed else ""
    found = lingua.compress_document(
        Document("d", text), settings_, tools_of(model), question, before
    )
    return "".join(p if isinstance(p, str) else text[slice(*p)] for p in found.pieces), found


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ab .\n\u5b66\U0001f600\u00e9", max_size=40), st.data())
def test_units_tile_any_text_and_runs_are_what_is_kept(llama, text, data):
    units = units_of(text, tools_of(llama).model("compressor"))
    assert "".join(units.piece(i) for i in range(len(units))) == text
    assert sum(units.sizes) == llama.count(text)
    mask = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(units), max_size=len(units))), dtype=bool
    )
    stays = "".join(units.piece(i) for i in range(len(units)) if mask[i])
    assert "".join(text[a:b] for a, b in spans_of_kept(units, mask)) == stays


def test_a_character_of_several_tokens_is_one_unit(llama):
    units = units_of("a\u5b66b", tools_of(llama).model("compressor"))
    assert [units.piece(i) for i in range(len(units))] == ["a", "\u5b66", "b"]
    assert units.sizes == (1, 3, 1)


def test_surprise_is_minus_the_log_probability_the_network_gives(llama):
    """By hand: log softmax of the network's logits at the position before each token."""
    text = first_tokens(TEXT, 40, llama)
    ids = torch.tensor([llama.text.plain(text)], device=llama.device)
    with torch.inference_mode():
        logs = llama.net(ids).logits[0].log_softmax(-1)
    wanted = [-float(logs[i, ids[0, i + 1]]) for i in range(39)]
    model = tools_of(llama).model("compressor")
    with model.session() as s:
        s.user()
        found = surprise(s, model, units_of(text, model))
    assert np.isnan(found[0])  # nothing stands before it
    assert found[1:] == pytest.approx(wanted, abs=1e-4)


def test_a_token_cut_otherwise_shares_its_cost_by_characters():
    model = ScriptedModel(Script())  # " abcd" is one token with -log p 1, the next 2, ...
    tools = tools_of(model)
    units = Units("abcd ef", (0, 1, 4, 7), (1, 1, 2))
    with tools.model("compressor").session() as s:
        s.user("x")
        assert surprise(s, tools.model("compressor"), units).tolist() == [
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
        assert surprise(s, model, units_of("a", model)).tolist() == [1e4]
        with pytest.raises(
            ModelOutputError, match=r"gave NaN log-probabilities; try --set model.dtype=float32"
        ):
            surprise(s, model, units_of("a", model))


@pytest.mark.parametrize(
    ("condition", "context", "wanted"),
    [
        ("none", "", [2.0, 5.0]),  # (1 + 3) / 2 and (4 + 6) / 2
        ("before", "q9", [2.0, 5.0]),
        ("after", "a1 a3", [9.0, 9.0]),  # of the question behind the text
    ],
)
def test_what_contexts_are_ranked_by(condition, context, wanted):
    model = Table()
    assert perplexities(["a1 a3", "b4 b6"], "q9", condition, tools_of(model)).tolist() == wanted
    assert model.contexts[0].removeprefix("\n[user]") == context


# Priorities 1 to 4: the best first is 3, 2, 1, 0; each has 100 tokens.
@pytest.mark.parametrize(
    ("target", "changed", "numbers"),
    [
        (150, {}, [3, 2, 1]),  # 250: the third passes it, and is still in it
        (150, {"context_budget": "*1"}, [3, 2]),
        (150, {"context_budget": "-100"}, [3]),
        (-5, {}, [3, 2, 1]),  # a negative target counts as 100
        (1000, {}, [3, 2, 1, 0]),
        (1000, {"reorder_context": "original"}, [0, 1, 2, 3]),
        (1000, {"reorder_context": "two_stage"}, [3, 1, 0, 2]),
        (150, {"context_budget": "-100", "force_context_ids": (0,)}, [0, 3]),
        (1000, {"force_context_number": 1}, [3, 2]),
    ],
)
def test_the_contexts_that_a_budget_lets_through(target, changed, numbers):
    chosen = choose_contexts(
        [100] * 4, np.arange(1.0, 5.0), target, config.LongLLMLinguaConfig(**changed)
    )
    assert [c.number for c in chosen] == numbers


def test_a_context_that_is_not_there_cannot_be_forced():
    with pytest.raises(QuestionError, match="force_context_ids has 7, but the text has 2 contexts"):
        choose_contexts([1, 1], np.zeros(2), 5, config.LongLLMLinguaConfig(force_context_ids=(7,)))


def lingua_by_hand(credit):
    """Ten words as one window; a word costs its digit. tau = 6 / (10 + 2 + 1) = 0.46."""
    setting = config.LLMLinguaConfig(target_tokens=6, iterative_size=13, credit=credit)
    text = "w0 w9 w1 w8 w2 w7 w3 w6 w4 w5"
    return squeezed(text, setting, Table())[0].split()


def test_one_window_by_hand():
    # Own: 10 scores, rank int(10 * 0.46) - 1 = 3 of 9 8 7 6 5 ...: above 6 are 9, 8, 7.
    assert lingua_by_hand("own") == ["w9", "w8", "w7"]
    # Next, as released: a word is kept for what the word behind it costs, and the last for nothing.
    # 9 scores, rank int(9 * 0.46) - 1 = 3 of 9 8 7 6 5 ...: those before 9, 8 and 7.
    assert lingua_by_hand("next") == ["w0", "w1", "w2", "w5"]


def test_two_windows_and_the_rest():
    text = " ".join(f"w{i % 10}" for i in range(25))
    setting = {"target_tokens": 5, "iterative_size": 10, "credit": "own"}
    kept_, _ = squeezed(text, config.LLMLinguaConfig(**setting), Table())
    # Two windows (9 and 10 words) are compressed; the 6 that are left are less than one.
    assert kept_.split()[-6:] == ["w9", "w0", "w1", "w2", "w3", "w4"]
    all_of_it, _ = squeezed(
        text, config.LLMLinguaConfig(**setting, last_window="compressed"), Table()
    )
    assert len(all_of_it.split()) < len(kept_.split())
    assert "w4" not in all_of_it.split()


def test_each_window_is_read_behind_what_was_kept():
    model = Table()
    text = " ".join(f"w{i % 10}" for i in range(30))
    squeezed(text, config.LLMLinguaConfig(target_tokens=9, iterative_size=10, credit="own"), model)
    first, second, *_ = [context.removeprefix("\n[user]") for context in model.contexts]
    assert first == ""
    # w0 to w8 at ratio 9 / 33: above int(30 * 0.27) - 1 = 7th of 9 9 9 8 8 8 7 7 ..., counted from
    # 0, which is 7.
    assert second.split() == ["w8"]


def test_the_question_is_read_first_and_without():
    model = Table()
    setting = config.LongLLMLinguaConfig(target_tokens=5, iterative_size=10)
    squeezed("w1 w2 w3 w4 w5 w6 w7 w8", setting, model, "Who rowed?")
    assert [c.removeprefix("\n[user]") for c in model.contexts] == ["Who rowed?", ""]


def test_where_the_window_is_full_the_oldest_kept_tokens_are_forgotten(llama):
    """2,000 tokens through a window of 400; the texts are those of the document, in its order."""
    where = str(llama.net.name_or_path)
    model = load_model(ModelConfig(name="tiny", source=where, template="none", window=400))
    text = first_tokens(TEXT, 2000, llama)
    _, found = squeezed(
        text, config.LLMLinguaConfig(rate=0.9, use_context_level_filter=False), model
    )
    assert found.before == pytest.approx(2000, abs=5)
    assert 1400 < found.after < 2000
    spans = [piece for piece in found.pieces if isinstance(piece, tuple)]
    assert spans == sorted(spans)
    assert all(a < b <= c for (a, b), (c, _) in pairwise(spans))


def test_a_window_that_does_not_fit_beside_the_question():
    with pytest.raises(
        WindowExceeded,
        match=r"holds 9 tokens of text .* method.iterative_size=4.; lower it or raise",
    ):
        squeezed(
            "w " * 40, config.LLMLinguaConfig(use_context_level_filter=False), Table(window=18)
        )


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
    texts = set()
    for engine in ("own", "library"):
        setting = config.LinguaConfig(**released, target_tokens=115, chunk_tokens=60, engine=engine)
        texts.add(squeezed(first_tokens(TEXT, 230, llama), setting, llama)[0])
    (text,) = texts
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == digest


def test_the_package_reads_more_than_one_window_on_our_sessions(llama):
    text = first_tokens(TEXT, 900, llama)
    setting = config.LLMLinguaConfig(
        target_tokens=300, engine="library", use_context_level_filter=False
    )
    _, found = squeezed(text, setting, llama)
    assert found.before == pytest.approx(900, abs=3)
    assert 250 < found.after < 600


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
    units = units_of("One river. Two boats.", model)
    found = _self_information(units, _sentence_groups(units, 100), tools)
    assert np.isfinite(
        found
    ).all()  # NaN for every sentence's first token before, which always stayed
    eos = gpt.text.tokenizer.eos_token_id
    first = gpt.text.plain(units.text)[0]
    with torch.inference_mode():
        logits = gpt.net(input_ids=torch.tensor([[eos]], device=gpt.device)).logits[0, -1]
    assert found[0] == pytest.approx(-float(logits.log_softmax(-1)[first]), abs=1e-4)
    values = [-1.0, *range(2, 2 + len(found) - 1)]
    assert not _at_percentile(np.array(values), 0.5)[0], "so a first token can go"


def test_only_a_context_that_nothing_begins_gets_the_token_between_texts(gpt):
    with load_model(ModelConfig(name="random", backend="random")).session(tools_of().meter) as s:
        s.begin_text()
        assert s.length() == 0, "its template begins with BOS"
        s.user("a")
        with pytest.raises(ValueError, match="before everything else"):
            s.begin_text()
    with open_context(tools_of(gpt).model("compressor")) as s:
        assert s.length() == 0, "LLMLingua scores as the package does"
