"""What the reader is shown of a compressed text, Selective-Context, LLMLingua-2 on a tiny
classifier, and bad input."""

import json
import re
from itertools import pairwise

import pytest

from harness.errors import CannotRun
from harness.llm.scripted import Rule
from harness.method import MethodConfig
from harness.types import Document, Question
from methods.compression import LLMLingua, LLMLingua2, LongLLMLingua, SelectiveContext, classifier
from methods.compression.lingua2 import are_above_percentile, chunk_ends, join_tokens_into_words
from methods.compression.show import Compressed, answer_from_compressed, pieces_that_are_kept
from tests.methods.conftest import FakeTools
from tests.methods.table_model import Table

REPLY = [Rule(reply="Mira")]
QUESTION = Question("q", "Who rowed the boat?", ("d",))


def tools_of(window=8192, **more):
    return FakeTools(REPLY, compressor=Table(), window=window, **more)


def answered(method, text, tools=None):
    """The answer, and the reader's prompt."""
    tools = tools or tools_of()
    document = Document("d", text)
    index = method.index(document, tools) if method.scope == "document" else {}
    index = json.loads(json.dumps(index))  # as the cache hands it back
    result = method.answer(QUESTION, [document], [index], tools)
    return result, tools.reader.prompts[-1], tools


WORDS = "w0 w9 w1 w8 w2 w7 w3 w6 w4 w5 w0 w9 w1 w8 w2 w7 w3 w6 w4 w5"
METHODS = [
    LLMLingua(LLMLingua.Config(target_tokens=6, iterative_size=10, chunk_tokens=10)),
    LongLLMLingua(LongLLMLingua.Config(target_tokens=6, iterative_size=10, chunk_tokens=10)),
    LongLLMLingua(LongLLMLingua.Config(target_tokens=6, contexts="lines", iterative_size=10)),
    LongLLMLingua(LongLLMLingua.Config(target_tokens=6, contexts="packed", rank_method="bm25")),
    SelectiveContext(SelectiveContext.Config(reduce_ratio=0.5)),
    SelectiveContext(SelectiveContext.Config(target_tokens=6, level="sentence")),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "text",
    [
        WORDS,
        "One sentence w3. Another w9 one w1!\n\nA line w2\nand w8 a third. " * 3,
        "w7",  # a text of one token
    ],
)
def test_the_question_stands_once_and_what_is_shown_is_in_the_document(method, text):
    result, prompt, tools = answered(method, text)
    assert prompt.count(QUESTION.text) == 1
    assert result.text == "Mira"
    shown = [text[s.start : s.end] for s in result.shown]
    assert all(part in prompt for part in shown)
    assert result.stop_reason in ("compressed", "whole", "nothing was kept of the text")
    assert (result.stop_reason == "whole") <= (text.strip() in prompt)
    assert result.steps[0].action == "compress"
    assert {e.role for e in tools.meter.events} == {"reader", "compressor"}
    if method.scope == "none":
        assert {e.phase for e in tools.meter.events if e.role == "compressor"} <= {"search"}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_document(method, text):
    result, prompt, _ = answered(method, text)
    assert (result.text, result.shown, result.stop_reason) == ("Mira", (), "the text is empty")
    assert "Answer a question from what you know" in prompt


def test_what_the_window_does_not_hold_is_cut_and_told():
    compressed = Compressed([(0, 9), "\n\n", (12, 300)], 100, 90)
    text = "ab " * 100
    tools = tools_of(window=110)
    result = answer_from_compressed(
        QUESTION, Document("d", text), compressed, tools, MethodConfig()
    )
    assert result.stop_reason == "truncated"
    assert result.truncated["side"] == "right"
    assert result.truncated["tokens_after"] < result.truncated["tokens_before"] == 100
    assert (result.shown[0].start, result.shown[0].end) == (0, 9)
    assert result.shown[1].end < 300
    kept = sum(len(text[s.start : s.end].split()) for s in result.shown)
    assert kept == pytest.approx(result.truncated["tokens_after"], abs=1)


def test_runs_of_the_joined_contexts_as_places_in_the_document():
    # "abcd" + blank line + "efgh", whose places in the document are 10 and 3
    layout = [(10, 14), "\n\n", (3, 7)]
    assert pieces_that_are_kept(layout, [(0, 2), (3, 7), (9, 10)]) == [
        (10, 12),
        (13, 14),
        "\n\n",
        (3, 4),
        (6, 7),
    ]
    assert pieces_that_are_kept(layout, []) == []


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        # 5 3 1 9 | 2 7 8 8: the percentile 50 is 6
        ({"reduce_ratio": 0.5}, ["a9.", "d7", "e8", "f8."]),
        # 40: 0.4 * 7 = 2.8 of 1 2 3 5 7 8 8 9, so 3 + 0.8 * 2 = 4.6
        ({"reduce_ratio": 0.4}, ["w5", "a9.", "d7", "e8", "f8."]),
        ({"reduce_ratio": 0.0}, ["w5", "b3", "c1", "a9.", "x2", "d7", "e8", "f8."]),
        ({"target_tokens": 3}, ["a9.", "e8", "f8."]),
        ({"target_tokens": 100}, ["w5", "b3", "c1", "a9.", "x2", "d7", "e8", "f8."]),
        # All equal 8 at the top: the first of them
        ({"target_tokens": 1}, ["a9."]),
        (
            {"reduce_ratio": 0.5, "level": "sentence"},
            ["x2", "d7", "e8", "f8."],
        ),  # means 4.5 and 6.25
    ],
)
def test_selective_context_by_hand(changed, wanted):
    class Costs(Table):
        def session(self, meter, role="reader", adapter=None):
            found = super().session(meter, role)
            inner = found.score
            found.score = lambda text: (
                [-float(w.strip(".")[-1]) for w in text.split()] if inner(text) else []
            )
            return found

    method = SelectiveContext(SelectiveContext.Config(**changed))
    tools = FakeTools(REPLY, compressor=Costs())
    text = "w5 b3 c1 a9. x2 d7 e8 f8."
    index = method.index(Document("d", text), tools)
    assert "".join(text[slice(*piece)] for piece in index["pieces"]).split() == wanted
    assert index["tokens"] == [8, len(wanted)]


@pytest.mark.parametrize(
    ("text", "params"),
    [
        ("One w2. Two w3. Three w4.", {}),
        ("word3 " * 25, {"max_sentence_tokens": 10}),
    ],  # the longer one in parts
)
def test_every_sentence_is_scored_alone(text, params):
    tools = tools_of()
    SelectiveContext(SelectiveContext.Config(**params)).index(Document("d", text), tools)
    assert [context.strip() for context in tools.models["compressor"].contexts] == ["[user]"] * 3


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A tiny random BERT that classifies tokens, with a vocabulary of letters."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertForTokenClassification, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("classifier")
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = [
        *"abcdefghijklmnopqrstuvwxyz0123456789.,?!",
        *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789"),
    ]
    tokenizer = Tokenizer(
        models.WordPiece({t: i for i, t in enumerate([*marks, *letters])}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), marks, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = BertConfig(
            vocab_size=len(marks + letters),
            max_position_embeddings=64,
            initializer_range=1.0,
            **sizes,
        )
        BertForTokenClassification(made).save_pretrained(folder)
    return folder


def two(weights, **changed):
    return LLMLingua2(LLMLingua2.Config(classifier=str(weights), **changed))


PROSE = "the old boat lay here. who rowed it?\n\nmira rowed 17 miles, alone. the rain fell. " * 4


def test_llmlingua_2_keeps_words_of_the_text_and_is_metered(weights):
    tools = tools_of()
    result, prompt, _ = answered(two(weights, rate=0.4), PROSE, tools)
    shown = [PROSE[s.start : s.end] for s in result.shown]
    assert "".join(shown).strip() in prompt
    words = PROSE.replace(".", " . ").replace("?", " ? ").replace(",", " , ").split()
    stays = "".join(shown).replace(".", " . ").replace("?", " ? ").replace(",", " , ").split()
    rest = iter(words)
    assert all(word in rest for word in stays)  # whole words, in their order
    assert 0.1 * len(words) < len(stays) < 0.6 * len(words)
    events = [e for e in tools.meter.events if e.role == "compressor"]
    assert all(e.kind == "embed" and e.new <= 64 for e in events)
    total = len(
        classifier.load_classifier(classifier.locate_and_hash_weights(str(weights)), tools.meter)
        .tokenize(PROSE)
        .tokens
    )
    assert sum(e.new for e in events) == total + 2 * len(events)  # each chunk with [CLS] and [SEP]
    shape = tools.meter.shapes[events[0].shape]
    pairs = shape.flops_per_pair * sum(e.new**2 for e in events)
    assert tools.meter.flops("full") == 2 * shape.layer_weights * sum(e.new for e in events) + pairs


def test_probabilities_are_those_of_the_network(weights):
    import torch
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    net, tokenizer = (
        AutoModelForTokenClassification.from_pretrained(weights),
        AutoTokenizer.from_pretrained(weights),
    )
    ids = [2, *tokenizer("mira rowed", add_special_tokens=False)["input_ids"], 3]
    with torch.inference_mode():
        wanted = net(torch.tensor([ids])).logits[0].softmax(-1)[1:-1, 1].tolist()
    found = classifier.load_classifier(
        classifier.locate_and_hash_weights(str(weights)), tools_of().meter
    )
    assert found.keep_probabilities(found.tokenize("mira rowed").tokens).tolist() == pytest.approx(
        wanted, abs=1e-5
    )


@pytest.mark.parametrize(
    ("changed", "stays"),
    [
        ({"force_tokens": ("rowed",)}, ["rowed"] * 8),
        ({"force_reserve_digit": True}, ["17"] * 4),
        ({"force_tokens": ("\n",)}, []),
    ],
)
def test_what_is_forced_stays(weights, changed, stays):
    method = two(weights, rate=0.1, **changed)
    index = method.index(Document("d", PROSE), tools_of())
    text = "".join(PROSE[slice(*piece)] for piece in index["pieces"])
    assert [w for w in re.findall(r"\w+", text) if w in stays] == stays
    assert text.count("\n\n") == (
        4 if "\n" in changed.get("force_tokens", ()) else text.count("\n\n")
    )


def test_a_budget_sets_the_rate(weights):
    def index(**budget):
        return two(weights, **budget).index(Document("d", PROSE), tools_of())

    assert index(target_tokens=100_000)["pieces"] == [[0, len(PROSE) - 1]]
    half = index(rate=0.5)["tokens"]
    assert index(target_tokens=half[0] // 2)["tokens"] == half


@pytest.mark.parametrize(
    ("values", "tokens", "rate", "wanted"),
    [
        # percentile int(100 * 0.5) + 1 = 51 of .1 .2 .3 .4: 0.253
        ([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], 0.5, [False, False, True, True]),
        # .1 .2 .4 .4 .4 .4: 0.4, and only what is above it stays
        ([0.1, 0.2, 0.4], [1, 1, 4], 0.5, [False, False, False]),
        (
            [0.0, 0.5, 0.51, 1.0],
            [50, 1, 1, 49],
            0.5,
            [False, False, False, True],
        ),  # 0.51 is the percentile 51
        ([1.0, 1.0, 0.1], [1, 1, 1], 0.1, [True, True, False]),  # forced words stay at 1.0
        ([0.3], [1], 0.001, [False]),  # int(100 * 0.999 + 1) = 100, and never above it
    ],
)
def test_the_percentile_of_a_chunk(values, tokens, rate, wanted):
    assert are_above_percentile(values, tokens, rate) == wanted


def test_chunks_end_at_a_stop_or_are_cut(weights):
    found = classifier.load_classifier(
        classifier.locate_and_hash_weights(str(weights)), tools_of().meter
    )
    text = "aa bb. cc dd"  # a ##a b ##b . c ##c d ##d
    tokens = found.tokenize(text)
    assert len(tokens.tokens) == 9
    assert chunk_ends(text, tokens, 7, (".",)) == [5, 9]
    assert chunk_ends(text, tokens, 4, (".",)) == [4, 5, 9]
    assert chunk_ends(text, tokens, 7, ()) == [7, 9]
    assert chunk_ends("aa\nbb", found.tokenize("aa\nbb"), 3, ("\n",)) == [2, 4]
    assert [
        text[w.start : w.end] for w in join_tokens_into_words(text, tokens, found.style, 0)
    ] == [
        "aa",
        "bb",
        ".",
        "cc",
        "dd",
    ]


def test_words_of_a_vocabulary_that_marks_their_beginnings():
    text = "don't \u5b66\u6821"
    spans = [(0, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)]
    tokens = classifier.Tokenized(["\u2581don", "'", "t", "\u2581", "\u5b66", "\u6821"], spans)
    assert [
        text[w.gap_start : w.end] for w in join_tokens_into_words(text, tokens, "metaspace", 0)
    ][:2] == [
        "don",
        "'t",
    ]
    assert [text[w.start : w.end] for w in join_tokens_into_words(text, tokens, "metaspace", 0)][
        -2:
    ] == [
        "\u5b66",
        "\u6821",
    ]


@pytest.mark.parametrize(
    "text", ["", "a", "x" * 3000, "\u5b66\u6821" * 50, "a" * 200 + " b" * 2000]
)
def test_llmlingua_2_on_odd_texts(weights, text):
    result, prompt, _ = answered(two(weights, rate=0.5), text)
    assert result.text == "Mira"
    assert prompt.count(QUESTION.text) == 1
    assert all(a.end <= b.start for a, b in pairwise(result.shown))


def test_without_weights_it_is_not_run(tmp_path):
    method = two(tmp_path / "none")
    with pytest.raises(CannotRun, match="^not run: weights: no model folder"):
        method.problems()
    with pytest.raises(CannotRun, match="^not run: weights: no model folder"):
        method.index(Document("d", PROSE), tools_of())


def test_weights_that_cannot_be_fetched_are_named_by_their_setting(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CannotRun, match="or name a folder with `--set method.classifier=FOLDER`$"):
        two("no-owner/no-classifier").problems()


def test_other_weights_compress_again(weights):
    tools = tools_of()
    document = Document("d", PROSE)
    method = two(weights, rate=0.4)
    stale = {**method.index(document, tools), "weights": "others", "pieces": []}
    result = method.answer(QUESTION, [document], [stale], tools)
    assert result.shown
    assert [e.phase for e in tools.meter.events if e.role == "compressor"].count("search") > 0


@pytest.mark.parametrize(("gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_the_classifier_runs_where_encoders_do(weights, monkeypatch, gpu, device):
    moved = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr("torch.nn.Module.to", lambda self, *where, **_: moved.append(where) or self)
    classifier._load_network(classifier.locate_and_hash_weights(str(weights)))
    assert moved[-1] == (device,)


def test_a_model_of_another_kind_is_no_classifier(tmp_path):
    from tests.random_model import save

    save(tmp_path / "llama", hidden_size=16, intermediate_size=32, num_hidden_layers=1)
    with pytest.raises(
        CannotRun, match="is no classifier of tokens to keep or drop|cannot load the classifier"
    ):
        classifier.load_classifier(
            classifier.locate_and_hash_weights(str(tmp_path / "llama")), tools_of().meter
        )
