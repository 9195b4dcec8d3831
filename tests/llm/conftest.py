"""A tiny random Llama with grouped heads, saved once a session."""

import pytest

from harness.config.schema import ModelConfig
from harness.llm.backend import load_model
from harness.llm.load import unload
from tests.random_model import save

WORDS = (
    "The river town of Abel lies north of the old bridge. Mira Tal founded the school in 1902. "
    "Yes No Question Information answer \u00e9t\u00e9 \u6771\u4eac caf\u00e9 \U0001f409 * Given "
    "the above. "
)
NODES = [
    "Mira Tal founded the school in 1902.",
    "The old bridge",
    "lies north of Abel, a river town. " * 4,
]
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save(folder, [WORDS * 3], seed=1, num_key_value_heads=2, max_position_embeddings=1024, **SIZES)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    return load_model(ModelConfig(name="tiny", source=str(tiny_folder)))


@pytest.fixture(scope="session")
def tiny_pieces(tiny_folder):
    """The same model, prefilling 7 tokens at a time."""
    return load_model(ModelConfig(name="tiny", source=str(tiny_folder), prefill_chunk=7))


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """The tokenizer of tiny models of every family; what was loaded is unloaded behind the file."""
    from tests.llm.tiny_families import tokenizer_folder

    yield tokenizer_folder(tmp_path_factory.mktemp("words") / "words")
    unload()


@pytest.fixture(scope="session")
def adapter_folder(tiny_folder, tmp_path_factory):
    """A LoRA adapter of the tiny model, of random weights."""
    peft = pytest.importorskip("peft", reason="the extra 'adapters' is not installed")
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(3)
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    folder = tmp_path_factory.mktemp("adapters") / "one"
    peft.get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_folder), lora).save_pretrained(
        folder
    )
    return folder


def let_replies_be(monkeypatch, pick):
    """Let pick(sampler, logits) choose each token of a reply."""
    monkeypatch.setattr("harness.llm.hf_session.Sampler.pick", pick)
    monkeypatch.setattr(
        "harness.llm.network.next_tokens",
        lambda rows, samplers: [
            sampler.pick(row[0]) for sampler, row in zip(samplers, rows, strict=True)
        ],
    )
