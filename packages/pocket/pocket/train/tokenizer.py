"""The pocket model's own tokenizer: byte-fallback BPE; every short name and every number below
1,000 is one token.

A word keeps the space before it, or before a capital or a digit the space after it (" by " +
"Toren"), so that a name is the same token wherever it stands; trials showed that names of one token
are learnt several times faster. Lossless: what the vocabulary lacks becomes bytes.
"""

import json
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from harness.datasets.syllables import ENDINGS
from pocket.world import names
from pocket.world.sample import FIRST_TRAINING_SEED, KINDS, sample

BEGIN = "<|begin|>"
END = "<|end|>"
_TURN_TOKENS = ("<|user|>", "<|assistant|>")
_CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
_SPACE_BEFORE_NAME = r"(?: (?=[\p{Lu}\p{N}]))?"
_CAPITAL_WORD = r"\p{Lu}\p{L}*"
_WORD_PATTERNS = (
    rf" ?\p{{Ll}}+{_SPACE_BEFORE_NAME}",
    _CAPITAL_WORD,
    r"\p{N}{1,3}",
    rf" ?[^\s\p{{L}}\p{{N}}]+{_SPACE_BEFORE_NAME}",
    r"\s+",
)
# Learnt with spaces behind capital words, used without: with them, one name in ten fell apart
# before a name or number.
_PATTERNS_IN_TRAINING = tuple(
    word.replace(_CAPITAL_WORD, _CAPITAL_WORD + _SPACE_BEFORE_NAME) for word in _WORD_PATTERNS
)
# Not read from the methods, whose prompts may change, unlike this tokenizer.
_INSTRUCTIONS = (
    " ".join(Path(__file__).with_name("prompt_words.txt").read_text("utf-8").splitlines()) + " "
)
VOCABULARY_SIZE = (
    5600  # size of the vocabulary; the rarest words of the corpus below stay in pieces
)
_TEXTS_PER_KIND = 60  # of each kind
_TOKENS_PER_TEXT = 2000  # of a text
_REPETITIONS = 100
"""How often a name, a number and the words of prompts are repeated, so that their merges are not
missed."""


def _training_texts(seed: int) -> Iterator[str]:
    """Yield the texts that merges are learnt from: made-up documents and questions, then numbers,
    names and words of prompts, each many times.

    Args:
        seed: Another seed gives other documents.
    """
    for kind in KINDS:
        for number in range(_TEXTS_PER_KIND):
            made_text = sample(
                kind,
                FIRST_TRAINING_SEED + seed,
                tokens=_TOKENS_PER_TEXT,
                purpose="training",
                number=number,
            )
            for document in made_text.documents:
                yield document.text
            for example in made_text.examples:
                yield example.question.text
    numbers = map(str, range(1000))
    short_names = chain.from_iterable(map(names.short_names, ENDINGS))
    for text in (*numbers, *short_names, _INSTRUCTIONS):
        yield from repeat(text, _REPETITIONS)


def build(folder: Path, seed: int = 0) -> Any:
    """Train the tokenizer (byte-pair merges, with a token for each byte that has no other), write
    it into a folder, and return it; the same seed gives the same bytes. It splits words by other
    patterns once it is trained than in training.

    Args:
        folder: The folder, made if it is not there.
        seed: The seed of the texts that it is trained on.
    """
    backend = Tokenizer(models.BPE(byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(_PATTERNS_IN_TRAINING)), "isolated")
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    special_tokens = [BEGIN, END, *_TURN_TOKENS]
    byte_tokens = [f"<0x{number:02X}>" for number in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE, special_tokens=special_tokens + byte_tokens, show_progress=False
    )
    backend.train_from_iterator(_training_texts(seed), trainer)
    tokenizer_spec = json.loads(backend.to_str())
    # The trainer made control tokens of the bytes too; they become plain tokens.
    tokenizer_spec["added_tokens"] = [
        token for token in tokenizer_spec["added_tokens"] if token["content"] in special_tokens
    ]
    backend = Tokenizer.from_str(json.dumps(tokenizer_spec))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(_WORD_PATTERNS)), "isolated")
    begin_token = (BEGIN, backend.token_to_id(BEGIN))
    # BEGIN stands before a single text ($A).
    backend.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", special_tokens=[begin_token]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=BEGIN,
        eos_token=END,
        additional_special_tokens=list(_TURN_TOKENS),
        chat_template=_CHAT_TEMPLATE,
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(str(folder))
    return tokenizer
