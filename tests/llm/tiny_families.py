"""A tiny random model of any family of transformers, saved as a folder that `load_model` takes."""

import dataclasses
import inspect
import json
import shutil

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from tests.random_model import save

FAMILIES = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
LAYERS, WINDOW, VOCABULARY = 2, 400, 384
# By the names that most families use, or give as an alias; a family takes those that it knows.
NAMES = {
    VOCABULARY: "vocab_size vocab_size_per_layer_input",
    WINDOW: "max_position_embeddings",
    0: "bos_token_id num_nextn_predict_layers num_kv_shared_layers",
    1: "eos_token_id first_k_dense_replace n_group n_shared_experts topk_group",
    4: "decoder_attention_heads encoder_attention_heads num_attention_heads n_routed_experts num_experts "
    "num_local_experts rotary_dim pad_token_id",  # its token is "!", which no text of the tests holds
    8: "head_dim mamba_d_head mamba_n_heads qk_nope_head_dim qk_rope_head_dim v_head_dim",
    16: "kv_lora_rank q_lora_rank qk_head_dim moe_intermediate_size shared_expert_intermediate_size",
    32: "embedding_size hidden_size",
    48: "decoder_ffn_dim encoder_ffn_dim ffn_hidden_size intermediate_size n_inner",
}
SIZES = {
    "initializer_range": 0.3,
    "is_decoder": True,
    "num_key_value_heads": 2,
    "num_experts_per_tok": 2,
}
SIZES |= dict.fromkeys(("decoder_layers", "encoder_layers", "num_hidden_layers"), LAYERS)
SIZES |= {name: size for size, names in NAMES.items() for name in names.split()}
_LATENT = {"num_key_value_heads": 4}  # as many as heads, with latent attention
_ROPE = {"rope_type": "default", "rope_theta": 1e4}
_TOWER = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
}
LATENT = "axk1 deepseek_v2 deepseek_v3 dots3_note_text glm4_moe_lite minicpm3"
FIXES = {
    **dict.fromkeys(LATENT.split(), _LATENT),
    "cohere_compass_text": {
        "rope_parameters": dict.fromkeys(("full_attention", "sliding_attention"), _ROPE)
    },
    "git": {"vision_config": {**_TOWER, "image_size": 32, "patch_size": 16}},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "longcat_flash": {**_LATENT, "num_layers": 1, "expert_ffn_hidden_size": 16},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": LAYERS, "max_seq_len": WINDOW},
    "reformer": {"axial_pos_embds_dim": (16, 16), "axial_pos_shape": (20, 20)},
    "youtu": {**_LATENT, "tie_word_embeddings": False},  # they are tied only when they are loaded
}


def config_of(family, **changes):
    """The family's config with tiny sizes; raises what transformers raises when they do not go
    together."""
    kind = CONFIG_MAPPING[family]
    alias = getattr(kind, "attribute_map", {})
    known = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    names = {field.name for field in known} or set(inspect.signature(kind.__init__).parameters)
    sizes = {alias.get(name, name): value for name, value in SIZES.items()}
    return kind(
        **{**{k: v for k, v in sizes.items() if k in names}, **FIXES.get(family, {}), **changes}
    )


def network(config):
    """The network with large random weights, so that attention is far from flat, and transformers'
    eager kernel."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        with torch.no_grad():
            for name, weight in net.named_parameters():
                if weight.ndim > 1 or name.endswith("sinks"):
                    weight.normal_(0, 0.3)
    return net


def tokenizer_folder(folder):
    """A folder with the tokenizer of all these models."""
    words = "The river town of Abel lies north of the old bridge. Mira Tal founded the school in 1902. Yes No "
    save(
        folder,
        [words * 3],
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
    )
    for path in folder.glob("*"):
        if "token" not in path.name and path.suffix != ".jinja":
            path.unlink()
    return folder


def describe(folder, tokenizer, **settings):
    """A model folder with a config.json of `settings` and no weights in its file."""
    shutil.copytree(tokenizer, folder)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def saved(folder, tokenizer, family, **changes):
    """A model folder of `family`, with weights, and its network."""
    net = network(config_of(family, **changes))
    shutil.copytree(tokenizer, folder)
    net.save_pretrained(folder)
    return folder, net
