"""The model `random`: a seeded random Llama with a tokenizer trained on made-up texts.

Its answers are noise. It is built on first use, in a second or two, and kept under
`.harness/models`.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocket.world.sample import FIRST_TRAINING_SEED, sample

from harness.config.schema import ModelConfig
from harness.errors import CannotRun
from harness.llm.backend import ModelFacts
from harness.llm.load import Transformers
from harness.storage.files import harness_home

if TYPE_CHECKING:
    import torch

VERSION = 2  # raised with anything that changes the weights or the tokenizer, the texts of `_tokenizer_texts` included
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}
SEED, VOCABULARY = 0, 2048
# What the tokenizer is trained on: kinds of pocket.world.sample, and the tokens (characters / 4) of
# each text.
KINDS, TEXT_TOKENS = ("musique", "hotpotqa", "narrativeqa", "qasper"), 2000
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% "
    "endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
SPECIAL = ["<|begin|>", "<|end|>", "<|user|>", "<|assistant|>"]


def recipe() -> dict[str, Any]:
    """The identity of the weights: the recipe and the versions of the libraries that draw the
    numbers."""
    versions = {
        name: importlib.metadata.version(name) for name in ("torch", "tokenizers", "transformers")
    }
    return {
        "recipe": f"random-llama-{VERSION}",
        "seed": SEED,
        "sizes": SIZES,
        "vocabulary": VOCABULARY,
    } | versions


class Random(Transformers):
    """The back end "random": a transformers model that is made on first use."""

    def facts(self, config: ModelConfig) -> ModelFacts:
        """Those of a transformers model; nothing of it can be missing. Raises CannotRun where it
        cannot be made."""
        build()
        return super().facts(config)

    def folder(self, config: ModelConfig) -> tuple[Path, dict[str, Any]]:
        """See build."""
        return build()


def build() -> tuple[Path, dict[str, Any]]:
    """The model's folder and its recipe.

    It is built when it is not there yet. Safe against two builders at once. Raises CannotRun.
    """
    made = recipe()
    folder = (
        harness_home()
        / "models"
        / f"{made['recipe']}-torch{made['torch']}-tokenizers{made['tokenizers']}"
    )
    if (folder / "config.json").exists():
        return folder, made
    from safetensors import SafetensorError

    draft = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".building-"))
        save(draft)
        os.replace(draft, folder)
    except (OSError, SafetensorError) as error:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
        if not (
            folder / "config.json"
        ).exists():  # else another process finished first, with the same bytes
            raise CannotRun(
                f"the embedded model cannot be built in {folder.parent} ({error}); set "
                "HARNESS_HOME to a folder you may"
                " write to, or name a model with --model"
            ) from error
    return folder, made


def save(
    folder: Path,
    texts: list[str] | None = None,
    seed: int = SEED,
    dtype: torch.dtype | None = None,
    **sizes: int,
) -> None:
    """Write config, safetensors and tokenizer into `folder`. texts: train the tokenizer, by default
    made-up ones.

    dtype: of the weights, float32 by default; sizes: in place of those in SIZES.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, logging

    logging.disable_progress_bar()

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_train_tokenizer(texts or _tokenizer_texts()),
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[1],
        additional_special_tokens=SPECIAL[2:],
        chat_template=TEMPLATE,
    )
    config = LlamaConfig(
        **{**SIZES, **sizes},
        vocab_size=len(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.1,  # not the usual 0.02, so that attention is not flat and tests see differences
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM._from_config(config, dtype=dtype or torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer_texts() -> list[str]:
    """A text of each of KINDS with its questions, of a training seed: the same on any machine."""
    texts = []
    for kind in KINDS:
        made = sample(kind, FIRST_TRAINING_SEED, tokens=TEXT_TOKENS, purpose="training")
        texts += [document.text for document in made.documents]
        texts += [example.question.text for example in made.examples]
    return texts


def _train_tokenizer(texts: list[str]) -> Any:
    """Train a byte-level BPE tokenizer of VOCABULARY tokens on `texts`, with the control tokens of
    SPECIAL."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    bos = (SPECIAL[0], tokenizer.token_to_id(SPECIAL[0]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{SPECIAL[0]} $A", special_tokens=[bos]
    )
    return tokenizer
