"""A model folder of the pocket model's form that is made in a second and says nothing sensible."""

from pathlib import Path

from pocket import random_model
from pocket.train import llama

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 1024,
}  # fmt: skip


def make(folder: Path, seed: int = 0, texts: list[str] | None = None) -> Path:
    """Weights of the tiny shape with a tokenizer trained on `texts` (default: some of the world)."""
    from transformers import AutoTokenizer

    random_model.save(folder, texts, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    llama.save_weights(
        llama.new_network(len(tokenizer), seed, (tokenizer.bos_token_id, tokenizer.eos_token_id), **SIZES), folder
    )
    (folder / "generation_config.json").unlink()
    return folder
