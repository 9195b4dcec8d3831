"""The sizes of a model, which the formulas of flops.py need, read from its transformers config."""

from typing import Any

from harness.cost.flops import ModelShape

# Decoders whose config names key/value heads but whose MLP is two matrices with an activation
# between them; the others have a third one, the gate. Counted on the modules of transformers 5
# (tests/cost/test_flops.py).
_NOT_GATED = frozenset(
    {"apertus", "arcee", "gpt_bigcode", "jais2", "nanochat", "nemotron", "phi", "starcoder2"}
)


def shape_of(config: Any, head: bool = False) -> ModelShape:
    """Read the sizes of a model from its transformers config. One that names key/value heads is of
    a decoder: with a language-model head, and a gated MLP but for some families (_NOT_GATED).

    Args:
        config: The config of a decoder or a BERT-like encoder. Of a mixture of experts the MLP is
            what the config calls intermediate_size.
        head: Whether the model has a language-model head even where its config names no key/value
            heads, as GPT-2's.

    Raises:
        AttributeError: The config has no such sizes.
    """
    heads = config.num_attention_heads
    model_type = getattr(config, "model_type", None)
    is_decoder = hasattr(config, "num_key_value_heads")
    has_head = is_decoder or head
    vocabulary_size = 0
    if has_head:
        vocabulary_size = config.vocab_size
    return ModelShape(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_size=getattr(config, "head_dim", None) or config.hidden_size // heads,
        mlp=_mlp_width(config, model_type),
        vocab=vocabulary_size,
        gated=is_decoder and model_type not in _NOT_GATED,
        tied=has_head and bool(getattr(config, "tie_word_embeddings", False)),
    )


def _mlp_width(config: Any, model_type: str | None) -> int:
    """The inner width of the MLP, which configs name differently from family to family.

    Args:
        config: The transformers config.
        model_type: Its model_type; None where it has none.
    """
    inner_width: int
    if hasattr(config, "n_inner"):  # GPT-2 and its kin, whose None means four times the width
        inner_width = config.n_inner or 4 * config.hidden_size
    elif model_type in ("opt", "xglm"):
        inner_width = config.ffn_dim
    else:
        inner_width = config.intermediate_size
    return inner_width
