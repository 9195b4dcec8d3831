"""The network of the pocket model and of what is cut from it: a Llama of transformers, and its
first weights.

net = new_network(len(tokenizer), seed)       LlamaForCausalLM with first weights, float32
load_weights(net, folder)                     puts the folder's weights into it
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from harness_training.teacher import WINDOW
from safetensors.torch import load_file
from safetensors.torch import save as packed
from transformers import LlamaConfig, LlamaForCausalLM

from harness.errors import CannotRun
from harness.storage.files import write_json
from pocket.train.model_folder import WEIGHTS

SIZES = {
    "hidden_size": 192,
    "intermediate_size": 448,
    "num_hidden_layers": 6,
    "num_attention_heads": 3,
    "max_position_embeddings": WINDOW,
}
_DEVIATION_OF_MODULE = {"embed_tokens": 0.4, "lm_head": 0.02, "o_proj": 0.01, "down_proj": 0.01}
"""Standard deviations of first weights, by the module."""
_DEFAULT_DEVIATION = 0.06
"""Of all others."""


def config_of(folder: Path) -> LlamaConfig:
    """The settings of the network in a model folder. Raises OSError where they cannot be read."""
    return LlamaConfig.from_pretrained(str(folder))


def new_network(
    vocabulary_size: int, seed: int, ends: tuple[int, int] = (0, 1), **sizes: int
) -> Any:
    """A LlamaForCausalLM with first weights, float32: ones in norms, elsewhere normal with a
    deviation that depends on the module.

    Args:
        vocabulary_size: How many tokens the tokenizer has.
        seed: Another seed gives other weights.
        ends: Ids of the tokens that (begin a text, end a turn).
        **sizes: Sizes that are not as in SIZES.

    Layers start small beside the embeddings; input and output embeddings are not tied. Measured on
    recall of 4 pairs among 6,570 names, one core: all weights alike (deviation 0.06) and tied,
    training stood at 0.16 right after 1,400 steps; embeddings of 0.15 and more against outputs of
    0.01, 0.31 after 850; untied besides, 0.90 after 880. With tied weights the name in the question
    competes with the name in the answer.
    """
    config = LlamaConfig(
        **{**SIZES, **sizes},
        vocab_size=vocabulary_size,
        rms_norm_eps=1e-5,
        bos_token_id=ends[0],
        eos_token_id=ends[1],
    )
    network = LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in network.named_parameters():
        if "norm" not in name:  # those are ones already
            module = name.split(".")[-2]  # "model.layers.0.mlp.up_proj.weight" -> "up_proj"
            deviation = _DEVIATION_OF_MODULE.get(module, _DEFAULT_DEVIATION)
            torch.nn.init.normal_(weight, 0.0, deviation, generator)
    return network


def load_weights(network: Any, folder: Path, new_weights: Collection[str] = ()) -> None:
    """Put the weights of a model folder into a network, in the network's number type; weights
    beyond its layers are left out.

    Args:
        network: A network of transformers, which is changed.
        folder: The model folder.
        new_weights: Names of the network's weights that `folder` does not have.

    Raises:
        CannotRun: The names that it lacks are not exactly these.
    """
    result = network.load_state_dict(load_file(str(folder / WEIGHTS)), strict=False)
    missing_names = set(result.missing_keys)
    if missing_names != set(new_weights):
        raise CannotRun(
            f"the weights in {folder} are none of a pocket model: {len(missing_names)} tensors are "
            "missing"
        )


def save_weights(network: Any, folder: Path, dtype: str = "bfloat16") -> None:
    """Write the weights of a network in bfloat16, and its config.json. The file of weights is
    replaced as a whole, so that a kill leaves the old one.

    Args:
        network: A network of transformers.
        folder: The model folder, made if it is not there.
        dtype: The number type that config.json names, in which they are loaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    half_weights: dict[str, torch.Tensor] = {}
    for name, weight in network.state_dict().items():
        half_weights[name] = weight.detach().cpu().to(torch.bfloat16).contiguous()
    unfinished_file = folder / f".{WEIGHTS}"
    unfinished_file.write_bytes(packed(half_weights, metadata={"format": "pt"}))
    unfinished_file.replace(folder / WEIGHTS)
    write_json(
        folder / "config.json",
        {
            **network.config.to_diff_dict(),
            "architectures": [type(network).__name__],
            "dtype": dtype,
        },
    )
