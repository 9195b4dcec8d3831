"""The stand-in model: the same texts on any machine, a full vocabulary, and a version that is raised with the texts."""

import hashlib

from pocket import random_model


def test_the_texts_are_those_of_this_version() -> None:
    """Fails where the synthetic world writes otherwise: raise random_model.VERSION, then the two values here."""
    texts = random_model._tokenizer_texts()
    found = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    assert (random_model.VERSION, found) == (2, "12828ec1bfe7fb28")
    assert 20_000 < sum(map(len, texts)) < 40_000


def test_the_texts_fill_the_vocabulary() -> None:
    tokenizer = random_model._train_tokenizer(random_model._tokenizer_texts())
    assert tokenizer.get_vocab_size() == random_model.VOCABULARY
    text = "Who wrote the book, and when? Caf\u00e9 \u6771\u4eac \U0001f409"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
