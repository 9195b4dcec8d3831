"""The pocket model's tokenizer: reproducible, lossless, one token for a name, a template that can
be cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pocket.card import EMBEDDED
from pocket.train.tokenizer import BEGIN, END, VOCABULARY_SIZE
from pocket.world.names import ENDINGS, short_names

from harness.llm.template import cut_template
from harness.llm.text import Text

FILES = ("chat_template.jinja", "tokenizer.json", "tokenizer_config.json")
CONTROL = (BEGIN, END, "<|user|>", "<|assistant|>")
NAMES = [name for kind in ENDINGS for name in short_names(kind)]


@pytest.fixture(scope="module")
def data(own):
    return Text(own, "own")


def test_the_same_seed_gives_the_bytes_that_it_once_gave(tokenizer_folder):
    """In a process with other hashes: Python draws them anew for each."""
    built = {p.name: p.read_bytes() for p in tokenizer_folder.iterdir()}
    assert built == {name: (EMBEDDED / name).read_bytes() for name in FILES}


ODD = [
    *CONTROL,
    "<0x41>",
    "<0xE2>",
    "\ufffd",
    "\x00",
    " ",
    "\n\n",
    "Toren ",
    " by",
    "212",
    "\U0001f409",
    "e\u0301",
]
pieces = st.one_of(st.text(max_size=12), st.sampled_from(ODD))


@given(st.lists(pieces, max_size=8).map("".join))
def test_lossless(own, data, text):
    """Control strings are text like any other, and no token of plain text is a control token."""
    ids = data.encode_data(text)
    assert own.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False) == text
    assert not data.control.intersection(ids)
    assert data.decode(ids)[0] == text


def test_control_tokens(own, data):
    assert {own.convert_tokens_to_ids(c) for c in CONTROL} == set(range(4))
    assert (own.bos_token, own.eos_token) == (BEGIN, END)
    assert own("a")["input_ids"][0] == own.bos_token_id
    assert data.control == set(range(4))
    assert len(own) == own.backend_tokenizer.get_vocab_size() == VOCABULARY_SIZE


PLACES = [
    "{}",
    "by {} was",
    "{} is",
    "{}'s",
    '("{}")',
    "\n{}\n",
    "* {}.",
    "{}: ",
    "the lantern {}?",
    "About {}, and",
]
BEFORE_CAPITALS = ["{} Toren", "In {} 12 of", "The {} Prize"]


@pytest.mark.parametrize("place", [*PLACES, *BEFORE_CAPITALS])
def test_a_name_or_short_number_is_one_token_wherever_it_stands(own, data, place):
    torn = set()
    for thing in [*NAMES, *(str(n) for n in range(1000))]:
        tokens = own.convert_ids_to_tokens(data.encode_data(place.format(thing)))
        if thing not in (token.strip() for token in tokens):
            torn.add(thing)
    assert torn == set()


def test_the_template_can_be_cut(own, data):
    found = cut_template(own.chat_template, own.special_tokens_map, "own", "26 Jul 2024")
    assert (found.before_first_user, found.before_reply, found.before_next_user) == (
        f"{BEGIN}<|user|>",
        f"{END}<|assistant|>",
        f"{END}<|user|>",
    )
    assert not found.trims_contents
    ids = {
        piece: data.encode_template(piece)
        for piece in (found.before_first_user, found.before_reply, found.before_next_user)
    }
    assert {piece: len(i) for piece, i in ids.items()} == dict.fromkeys(ids, 2)
