"""A model folder of the pocket model's form that is made in a second and says nothing sensible."""

from pathlib import Path

from pocket import random_model
from pocket.train import network

SIZES = {"width": 32, "layers": 1, "heads": 2, "inner": 64, "window": 1024}


def make(folder: Path, seed: int = 0, texts: list[str] | None = None) -> Path:
    """Weights of the tiny shape with a tokenizer trained on `texts` (default: some of the world)."""
    from transformers import AutoTokenizer

    random_model.save(folder, texts, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    shape = network.Shape(vocabulary=len(tokenizer), **SIZES)
    network.save(network.start(shape, seed), shape, folder, (tokenizer.bos_token_id, tokenizer.eos_token_id))
    (folder / "generation_config.json").unlink()
    return folder
