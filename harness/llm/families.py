"""Which model families attention capture reproduces, from config.json alone; imports no torch.

A family is accepted when tests/llm/test_families.py shows its capture equal to transformers' eager
attention, so an unknown one is refused, and so are settings that change the mask or the scores: a
sliding window or attention chunk shorter than the model's window, soft-capping, bidirectional
attention, code of the model's own. The same test shows which families cannot serve a session at
all, because their cache cannot be rolled back.
"""

from collections.abc import Mapping

# Families without windows in this version of transformers.
_WITHOUT_WINDOWS_NAMES = """
apertus arcee aria_text axk1 biogpt bitnet cohere deepseek_v2 deepseek_v3 ernie4_5 ernie4_5_moe flex_olmo gemma glm
glm4 glm4_moe glm4_moe_lite gpt-sw3 gpt2 gpt_bigcode gpt_neox granite granitemoe granitemoeshared helium
hunyuan_v1_dense hunyuan_v1_moe hy_v3 hyperclovax internlm3 iquestcoder jais2 jetmoe llama longcat_flash minicpm3
minimax_m2 nanochat nemotron olmo olmo2 olmoe persimmon phi seed_oss stablelm youtu
"""
_WITHOUT_WINDOWS = frozenset(_WITHOUT_WINDOWS_NAMES.split())
# Families with a window in every layer: its tokens where config.json does not say, None: then there
# is no window.
_IN_EVERY_LAYER: dict[str, int | None] = {"ministral": 4096, "mistral": 4096}
_IN_EVERY_LAYER |= dict.fromkeys(("ministral3", "mixtral", "phi3", "phimoe", "starcoder2"))
# The same of families with one in the layers that layer_types names, and where use_sliding_window
# is true.
_BY_LAYER_TYPES: dict[str, int | None] = {
    "afmoe": 1024,
    "beam": 512,
    "cwm": 8192,
    "laguna": 512,
    "llama4_text": 8192,
}
_WINDOW_OF_4096 = (
    "cohere2",
    "cohere2_moe",
    "dots1",
    "exaone4",
    "exaone_moe",
    "gemma2",
    "gemma3_text",
    "olmo3",
    "vaultgemma",
)
_BY_LAYER_TYPES |= {"mellum": 1024} | dict.fromkeys(_WINDOW_OF_4096, 4096)
_WHERE_SWITCHED_ON = {
    "qwen2": 4096,
    "qwen2_moe": 4096,
    "qwen3": 4096,
    "qwen3_moe": 4096,
    "smollm3": None,
}
_WINDOWS = {**_IN_EVERY_LAYER, **_BY_LAYER_TYPES, **_WHERE_SWITCHED_ON}
_SOFT_CAPS = {"gemma2": 50.0, "vaultgemma": 50.0}
_ATTENTION_KINDS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
# Why a family is refused, for those that people are likely to name.
_HAS_SINKS = "has learned attention sinks"
_HAS_ALIBI = "adds ALiBi biases to its attention scores"
_REFUSAL_REASONS = {
    "diffllama": "subtracts two attention maps (differential attention)",
    "doge": "masks its attention by content (dynamic mask attention)",
    "falcon": "computes its attention in code of its own, with ALiBi biases in some sizes",
}
_REFUSAL_REASONS |= {"bloom": _HAS_ALIBI, "mpt": _HAS_ALIBI}
_WITH_SINKS = (
    "deepseek_v4",
    "flint",
    "gpt_oss",
    "granite_swa",
    "granitemoe_swa",
    "hy_v4",
    "mimo_v2_flash",
)
_REFUSAL_REASONS |= dict.fromkeys(_WITH_SINKS, _HAS_SINKS)
# Families whose state is not a list of keys and values, one pair a token, and so cannot be rolled
# back.
_KEEPS_STATE = "keeps a recurrent or convolutional state, which cannot be rolled back"
_KEEPS_INDEX = "keeps an index beside its keys and values, which cannot be rolled back"
_RECURRENT = """
bailing_hybrid bamba falcon_h1 falcon_mamba inkling2_text inkling_text jamba kimi_linear lfm2 lfm2_moe lfm3 mamba mamba2
minimax nemotron_h olmo_hybrid qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp_text recurrent_gemma rwkv xlstm zamba
zamba2 zaya
"""
_INDEXED = ("axk2", "deepseek_v32", "deepseek_v4", "glm_moe_dsa", "hy_v4", "minimax_m3_vl_text")
_NO_ROLLBACK = dict.fromkeys(_RECURRENT.split(), _KEEPS_STATE) | dict.fromkeys(
    _INDEXED, _KEEPS_INDEX
)


def cache_problem(settings: Mapping[str, object]) -> str | None:
    """Why no session can run on a model, as the rest of a sentence that begins with its name; None
    when one can.

    A session takes tokens back, so the model's cache must hold a key for every token; and no token
    may attend to later ones, which a session has not read yet. Of several reasons the last one
    here is given.

    Args:
        settings: The model's config.json. That of a multimodal model that cannot be loaded as a
            text model keeps the layers of its text part under `text_config` only.
    """
    is_multimodal = isinstance(settings.get("text_config"), dict)
    if is_multimodal and "num_hidden_layers" not in settings:
        return "is a multimodal model, and only text models can be loaded; use a text model"
    reason = _NO_ROLLBACK.get(str(settings.get("model_type")))
    other_kinds = _layer_kinds(settings) - _ATTENTION_KINDS
    if reason is None and other_kinds:
        reason = "has layers without full attention, whose cache cannot be rolled back"
    is_bidirectional = settings.get("use_bidirectional_attention") in (True, "all")
    if is_bidirectional or settings.get("is_causal") is False:
        reason = "attends to later tokens, which a session has not read yet"
    if reason:
        return f"{reason}; use another model"
    return None


def is_checked(family: str) -> bool:
    """Whether tests show that sessions on a family (model_type of config.json) equal one eager
    pass."""
    return family in _WITHOUT_WINDOWS or family in _WINDOWS


def capture_problem(
    settings: Mapping[str, object], window: int, trust_remote_code: bool = False
) -> str | None:
    """Why attention capture is not exact for a model, as the rest of a sentence; None if it is.

    Args:
        settings: Its config.json.
        window: Tokens of context that a session may hold; a sliding window at least as long never
            takes effect.
        trust_remote_code: Whether code of the model's own runs.
    """
    reason = _score_change(settings, trust_remote_code)
    if reason is not None:
        return f"{reason}, which attention capture does not reproduce"
    family = str(settings.get("model_type"))
    if not is_checked(family):
        return (
            f"belongs to the family '{family}', which attention capture has not been checked with"
        )
    window_tokens = _sliding_window_tokens(settings)
    if window_tokens is None or window_tokens >= window:
        return None
    window_kind = "a sliding window"
    if family == "llama4_text":
        window_kind = "an attention chunk"
    way_out = ""
    if window_tokens:
        way_out = f" (with model.window={window_tokens} or less it never takes effect)"
    return (
        f"applies {window_kind} of {window_tokens or 'unknown'} tokens, which attention capture "
        f"does not reproduce{way_out}"
    )


def _score_change(settings: Mapping[str, object], trust_remote_code: bool) -> str | None:
    """What changes the attention scores or their mask at any length of the context, as the rest of
    a sentence ("soft-caps its attention scores at 50"); None for nothing.

    Args:
        settings: The model's config.json.
        trust_remote_code: Whether code of the model's own runs.
    """
    family = str(settings.get("model_type"))
    if trust_remote_code and "auto_map" in settings:
        return "runs code of its own (auto_map in its config.json)"
    soft_cap = settings.get("attn_logit_softcapping", _SOFT_CAPS.get(family))
    if isinstance(soft_cap, int | float) and soft_cap:
        return f"soft-caps its attention scores at {soft_cap:g}"
    return _REFUSAL_REASONS.get(family)


def _layer_kinds(settings: Mapping[str, object]) -> set[str]:
    """The kinds of attention that config.json says its layers have: {"full_attention"}."""
    kinds = settings.get("layer_types")
    if not isinstance(kinds, list):
        return set()
    return set(map(str, kinds))


def _sliding_window_tokens(settings: Mapping[str, object]) -> int | None:
    """Tokens of the sliding window, or of the attention chunk, of a checked family; None where
    there is none, 0 where its size is unknown.

    The size is that in config.json, else the family's default. A family has the window in every
    layer, in those that layer_types names, or only where use_sliding_window is true.

    Args:
        settings: The model's config.json.
    """
    family = str(settings["model_type"])
    layer_kinds = _layer_kinds(settings)
    if family not in _IN_EVERY_LAYER and layer_kinds == {"full_attention"}:
        return None
    key = "sliding_window"
    if family == "llama4_text":
        key = "attention_chunk_size"
    n_tokens = settings.get(key, _WINDOWS.get(family))
    is_switched_off = family in _WHERE_SWITCHED_ON and not settings.get("use_sliding_window")
    if isinstance(n_tokens, int) and n_tokens and not is_switched_off:
        return n_tokens
    has_windowed_layers = bool(layer_kinds - {"full_attention"})
    if has_windowed_layers:
        return 0
    return None
