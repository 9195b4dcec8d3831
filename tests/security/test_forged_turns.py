"""Texts that spell the markers of turns: no control token comes from data, as with
`sanitize_control_tokens`."""

import itertools
import random

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from harness.cost.meter import Meter
from harness.errors import QuestionError
from harness.llm.endings import END_MARKERS, OPENING_MARKERS
from harness.llm.endpoint_tokens import put_space_into_markers
from harness.llm.hf_session import HFSession
from harness.llm.text import Text
from tests.llm.endpoints import asked, loaded
from tests.llm.loopback import Loopback, completion
from tests.security.chat_kinds import KINDS, Kind


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    return [Kind(kind, tmp_path_factory.mktemp("kind")) for kind in KINDS]


def conversation(kind, *turns):
    """Token ids of user, reply, user ... as a session has them, each fed in two pieces; then the
    head of the reply."""
    s = HFSession(kind.model, Meter(), "reader")
    for number, (first, second) in enumerate(turns):
        if number % 2:
            s.reply(first + second)
        else:
            s.user(first)
            s.feed(second)
    s._queue(kind.model.before_reply_ids)
    return s.ids


def by_transformers(kind, *turns):
    """The same by `apply_chat_template`."""
    roles = [("user", "assistant")[number % 2] for number in range(len(turns))]
    messages = [{"role": role, "content": a + b} for role, (a, b) in zip(roles, turns, strict=True)]
    return kind.wrapped.apply_chat_template(
        messages, add_generation_prompt=True, sanitize_control_tokens=True, return_dict=False
    )


def words(r, letters):
    return "a" + "".join(r.choices(letters, k=r.randrange(20))) + "b"


def test_control_tokens_are_those_that_transformers_keeps(kinds):
    r = random.Random(0)
    for kind, _ in itertools.product(kinds, range(40)):
        marker = r.choice(kind.format.markers)
        cut = r.randrange(len(marker) + 1)
        rough = [words(r, "the riv <>|[]:#/_\n\u00e9") for _ in range(3)]
        turns = [(rough[0] + marker[:cut], marker[cut:] + rough[1]), ("a", "b"), (rough[2], "")]
        ours, theirs = conversation(kind, *turns), by_transformers(kind, *turns)
        kept = [[i for i in ids if i in kind.control] for ids in (ours, theirs)]
        assert kept[0] == kept[1]
        assert len(kept[0]) == len(
            [i for i in conversation(kind, *[("a", "b")] * 3) if i in kind.control]
        )
        # White space aside: SentencePiece's tokens for it depend on what stands before them.
        assert "".join(kind.wrapped.decode(ours).split()) == "".join(
            kind.wrapped.decode(theirs).split()
        )


def test_ids_of_plain_text_are_those_of_transformers(kinds):
    """Where the markers are tokens; "[INST] the" in plain text has the word with its space in one
    token there."""
    r = random.Random(1)
    marked = [
        k for k in kinds if k.model.name.startswith("bytes") and not k.model.name.endswith("plain")
    ]
    for kind, _ in itertools.product(marked, range(40)):
        turns = [(words(r, "the riv\n"), ""), ("a", ""), (words(r, "the riv\n"), "")]
        assert conversation(kind, *turns) == by_transformers(kind, *turns)


def test_a_vocabulary_that_spells_a_control_token_as_a_word_fails_the_question():
    backend = Tokenizer(
        models.Unigram([("<unk>", 0.0), ("</s>", -1.0), *((c, -3.0) for c in "ab </s>")], unk_id=0)
    )
    text = Text(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>"), "t5")
    with pytest.raises(
        QuestionError,
        match="a text holds '</s>', which the tokenizer of 't5' writes as the control",
    ):
        text.encode_data("ab</s>")


@pytest.mark.parametrize(
    ("text", "sent", "count"),
    [
        ("a<|im_end|>b", "a< |im_end|>b", 1),
        ("[INST]x[/INST]", "[ INST]x[ /INST]", 2),
        ("</s</s>>", "</s< /s>>", 1),
        ("x < y and a[0] </b> \u00e9t\u00e9", "x < y and a[0] </b> \u00e9t\u00e9", 0),
        ("", "", 0),
    ],
)
def test_text_for_a_server(text, sent, count):
    assert put_space_into_markers(text, {*END_MARKERS, *OPENING_MARKERS}) == (sent, count)


def test_the_markers_of_the_servers_own_tokenizer_are_broken_up_too(kinds):
    for kind in kinds:
        for marker in (
            m for m in kind.format.markers if kind.wrapped.convert_tokens_to_ids(m) in kind.control
        ):
            assert kind.tokens.break_markers(f"a{marker}b") == (f"a{marker[0]} {marker[1:]}b", 1)


def test_the_record_counts_markers_that_were_broken_up_for_a_server():
    with Loopback() as server:
        meter = Meter()
        with loaded(server).session(meter) as s:
            s.user("Read: [INST] and <|im")
            s.feed("_end|>")  # two pieces that make a marker together
            s.write(4)
    assert server.asked[0]["messages"][0]["content"] == "Read: [ INST] and < |im_end|>"
    assert meter.usage()["answer"]["markers_broken"] == 2
    _, clean, _ = asked(completion())
    assert "markers_broken" not in clean.usage()["answer"]
