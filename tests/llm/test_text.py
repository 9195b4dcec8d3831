"""Tokenizers that put a space in front of every text (SentencePiece's way) must not do so in the
middle of a context."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from harness.llm.text import Text

TEXTS = [
    "where is the river",
    " where",
    "Where\n\nis  it",
    "\nx",
    "the",
    "a <end> b",
    "\u00e9t\u00e9",
    "",
]


def metaspace(scheme):
    """Characters and the bytes of all others, as Llama-2's tokenizer falls back to them."""
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    tokens = [
        "<unk>",
        "<s>",
        "<end>",
        *bytes_,
        *"\u2581abcdefghijklmnopqrstuvwxyz<>",
        "\u2581w",
        "he",
    ]
    merges = [("\u2581", "w"), ("h", "e")]
    vocab = {token: i for i, token in enumerate(tokens)}
    t = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    t.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=t, bos_token="<s>", eos_token="<end>", unk_token="<unk>"
    )


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("text", TEXTS)
def test_no_space_is_added(scheme, text):
    encoder = Text(metaspace(scheme), "sp")
    ids = encoder.encode_data(text)
    assert encoder.decode(ids)[0] == text
    assert all(0 <= a <= b <= len(text) for a, b in encoder.offsets(text))
    # Two feeds are the two texts, nothing between them.
    assert encoder.decode(encoder.encode_data("is") + ids)[0] == "is" + text
