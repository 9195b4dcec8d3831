"""The tokens that PECAN's prompts have: those of the prompt as it is written, however it is fed."""

import re

import pytest
from pocket.card import EMBEDDED
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.models import MeteredModel
from harness.types import Question
from methods.pecan.build import feed_nodes
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import POINTS, PROBES
from methods.pecan.search import feed_node, node_line, open_search
from tests import random_model
from tests.methods.conftest import FakeTools
from tests.methods.pecan_search import SUMMARY, attention, probes, run

QUESTION = Question("q", "Where does the mother send her kittens?", ("d",))
CONFIG = PecanConfig()
NODES = [
    "The mother sends Tom and Mittens to the garden.",
    "the buttons of Tom burst, and the mother sews them on again",
    '"Fine company" is expected for tea.',
    "3 kittens tumble off the wall (into the road)",
]
# How Llama 3's tokenizer parts a text into words: one space belongs to the word behind it.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def like_llama_3(texts):
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    settings = {
        "special_tokens": random_model.SPECIAL,
        "initial_alphabet": alphabet,
        "show_progress": False,
    }
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=2000, **settings))
    return tokenizer


@pytest.fixture(scope="module", params=["like Llama 3", "byte-level", "pocket-llama"])
def model(request, tmp_path_factory):
    if request.param == "pocket-llama":
        return load_model(ModelConfig(name="pocket-llama", source=str(EMBEDDED)))
    folder = tmp_path_factory.mktemp("models") / "tiny"
    texts = 3 * ["* " + "\n* ".join(NODES) + "\n\n" + POINTS.text + PROBES["printed"].text]
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "like Llama 3":
            patch.setattr(random_model, "_train_tokenizer", like_llama_3)
        random_model.save(folder, texts, hidden_size=32, intermediate_size=32, num_hidden_layers=1)
    return load_model(ModelConfig(name=request.param, source=str(folder)))


def words(model, ids):
    """The text of each token; line breaks apart from what they are joined to."""
    return [part for i in ids for part in re.findall(r"\n+|[^\n]+", model.text.decode([i])[0])]


@pytest.mark.parametrize("level", [2, 3])
def test_a_construction_prompt_has_the_tokens_of_the_whole_string(model, level):
    metered = MeteredModel(model, Meter(), "builder")
    lines = NODES if level == 2 else ["* " + text for text in NODES]
    with metered.session() as s:
        spans = feed_nodes(s, NODES, level, CONFIG, metered)
        assert s.ids[len(model.before_first_user_ids) :] == model.text.encode_data(
            POINTS.text.format(nodes="\n".join(lines))
        )
        # A span has the tokens of its text alone, save a line break that shares one with a full
        # stop.
        for span, text in zip(spans, NODES, strict=True):
            shown = [model.text.decode([i])[0] for i in s.ids[span.start : span.end]]
            assert "".join(shown).strip() == text
            assert not shown[-1].isspace()


def test_a_search_prompt_has_the_tokens_of_the_whole_string(model):
    with MeteredModel(model, Meter(), "searcher").session() as s:
        asked = open_search(s, QUESTION, CONFIG)
        spans = [feed_node(s, text, asked) for text in NODES]
        nodes = "".join("\n* " + text for text in NODES)
        whole = PROBES["printed"].text.format(question=QUESTION.text, nodes=nodes)
        # What was read is not read again, so a line break is a token of its own.
        assert words(model, s.ids[len(model.before_first_user_ids) :]) == words(
            model, model.text.encode_data(whole)
        )
        assert [model.text.decode(s.ids[span.start : span.end])[0] for span in spans] == [
            " " + text for text in NODES
        ]
        before = [model.text.decode([s.ids[span.start - 1]])[0] for span in spans]
    assert before == ["*"] * len(NODES), "no token for the space stands before a node"


@pytest.mark.parametrize("bullet", [True, False])
def test_the_cost_of_a_node_is_the_tokens_that_it_takes(model, bullet):
    metered = MeteredModel(model, Meter(), "searcher")
    with metered.session() as s:
        asked = open_search(s, QUESTION, CONFIG)
        for text in NODES:
            before = s.length()
            feed_node(s, text, asked, bullet)
            assert s.length() - before == sum(map(metered.count, node_line(text, bullet)))


@pytest.mark.parametrize(
    ("chunk_mark", "chunk"), [("bullet", "\n* da db dc"), ("none", "\nda db dc")]
)
def test_a_point_has_a_bullet_and_a_chunk_has_one_by_choice(chunk_mark, chunk):
    tools = FakeTools([SUMMARY], probes(0.0, 0.9), attention)
    tools.reader._rules["replies"].append(
        SUMMARY.model_copy(update={"when": "", "reply": "the answer"})
    )
    answer, _, _ = run([], tools, chunk_mark=chunk_mark)
    assert [step.node for step in answer.steps] == [4, 5, 3]
    assert f"Information:\n* first point\n* second point{chunk}" in tools.reader.prompts[-1]
