"""Every decoder family of transformers: attention capture equals eager attention, or is refused
with a reason.

Each family is built tiny with random weights and goes the way of any model: config.json,
model_facts, load_model, a session. What the session reads in pieces, with probes and branches
between them, equals one eager pass as well.
"""

import json

import numpy as np
import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun, ConfigError
from harness.llm import families
from harness.llm.backend import load_model, model_facts
from tests.llm import tiny_families as tiny
from tests.llm.conftest import NODES

AFTER = " lies north"
# Families without capture, of each kind one: what loading shows of them, "" where they are read
# exactly.
NO_SIZES, NO_CACHE = (
    "from which its FLOPs are counted, cannot be read",
    "a trial pass with its cache failed",
)
UNCHECKED = dict.fromkeys(("bart", "falcon", "gemma3n_text", "xlnet"), NO_SIZES)
UNCHECKED |= dict.fromkeys(("modernbert-decoder", "xmod"), NO_CACHE)
UNCHECKED |= dict.fromkeys(
    ("bert-generation", "git", "gpt_neo", "gptj", "mimo_v2_flash", "opt"), ""
)


def asked(folder, **more):
    return ModelConfig(
        name="m", source=str(folder), prefill_chunk=23, **{"window": tiny.WINDOW, **more}
    )


def read(model, watch):
    """Feed, branch, probe, score and write; returns what each gave, and the tokens that it was
    given behind."""
    with model.session(Meter()) as s:
        s.user("Question:\n")
        question = s.feed("Where is the school of Mira Tal?")
        spans, probes = [], []
        for node in NODES:
            spans.append(s.feed(node, watch=[question, *spans] if watch else []))
            with s.branch():
                s.feed(NODES[2])
                s.flush()
            probes.append((s.ids + model.before_reply_ids, s.probe(["Yes", "No"]).mass))
        scores = (list(s.ids), s.score(AFTER))
        heads = s.attention_by_head(AFTER, spans[-1]) if watch else None
        written = s.write(5, watch=spans if watch else [])
        return [question, *spans], probes, scores, written, list(s.ids), heads


def errors(model, net, watch):
    """Largest differences to eager passes over the whole context: log-probabilities, then captured
    attention."""
    spans, probes, (context, scores), written, ids, heads = read(model, watch)
    off = []
    with torch.no_grad():
        for before, mass in probes:
            p = net(torch.tensor([before]), use_cache=False).logits[0, -1].float().softmax(-1)
            off += [
                float(p[model.text.encode_data(label)[0]]) - value for label, value in mass.items()
            ]
        more = model.text.encode_data(AFTER)
        logp = (
            net(torch.tensor([context + more]), use_cache=False).logits[0].float().log_softmax(-1)
        )
        off += [float(logp[len(context) - 1 + i, t]) - scores[i] for i, t in enumerate(more)]
        if not watch:
            return np.abs(off).max(), 0.0
        maps = net(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
        asked = context + more + model.before_reply_ids
        by_head = net(torch.tensor([asked]), use_cache=False, output_attentions=True).attentions
    last = slice(spans[-1].start, spans[-1].end)
    by_head = torch.cat(by_head)[:, :, len(context) :, last].mean(2).numpy()
    assert heads.shape == by_head.shape
    assert np.ptp(by_head.sum(-1), axis=1).max() > 1e-3, (
        "heads are so alike that their order would not matter"
    )
    mean = torch.stack(maps).mean(0)[0].mean(0).numpy()
    rows = slice(written.span.start, written.span.end)
    captured = np.concatenate([*(s.attention for s in spans[1:]), written.attention.ravel()])
    eager = [
        mean[s.start : s.end, w.start : w.end].mean()
        for i, s in enumerate(spans)
        for w in spans[:i]
    ]
    eager = np.concatenate(
        [eager, np.stack([mean[rows, w.start : w.end].mean(-1) for w in spans[1:]], 1).ravel()]
    )
    assert np.ptp(eager) > 1e-3, "attention is so flat that agreement would say nothing"
    return np.abs(off).max(), max(np.abs(captured - eager).max(), np.abs(heads - by_head).max())


def check(folder, net):
    """Refused before loading, refused at load, or equal to eager; returns "", or the reason."""
    facts = model_facts(asked(folder))
    if facts.problems:
        return facts.problems[0]
    try:
        model = load_model(asked(folder))
    except CannotRun as error:
        return str(error)
    watch = "attention" in facts.capabilities
    logits, attention = errors(model, net, watch)
    assert logits < 1e-4
    assert attention < 1e-5
    if watch:
        return ""
    with model.session(Meter()) as s, pytest.raises(CannotRun, match="no capability 'attention'"):
        s.user()
        s.feed("b", watch=[s.feed("a")])
    return facts.refusals["attention"]


def described(family, words, folder):
    parts = getattr(CONFIG_MAPPING[family], "sub_configs", {})
    settings = {"text_config": tiny.SIZES} if "text_config" in parts else tiny.SIZES
    return model_facts(asked(tiny.describe(folder, words, model_type=family, **settings)))


def test_a_family_that_was_not_checked_is_refused_by_its_config(words, tmp_path):
    for family in (name for name in tiny.FAMILIES if not families.is_checked(name)):
        facts = described(family, words, tmp_path / family)
        reasons = facts.problems or set(facts.refusals.values())
        assert [reason[:4] for reason in reasons] == ["'m' "], family


@pytest.mark.parametrize(
    "family", sorted({*filter(families.is_checked, tiny.FAMILIES), *UNCHECKED})
)
def test_capture_of_a_family_equals_eager_or_is_refused(family, words, tmp_path):
    assert not described(family, words, tmp_path / "described").problems
    reason = check(*tiny.saved(tmp_path / "saved", words, family))
    assert UNCHECKED.get(family, "") in reason
    assert bool(reason) != (families.is_checked(family) and "soft-caps" not in reason), reason


def narrow(family, size=16):
    """Settings that give the family's layers, one at least, a window of `size` tokens."""
    key = "attention_chunk_size" if family == "llama4_text" else "sliding_window"
    kind = "chunked_attention" if family == "llama4_text" else "sliding_attention"
    settings = {key: size}
    if family not in families._IN_EVERY_LAYER and family != "qwen3_moe":
        settings["layer_types"] = [kind, "full_attention"]
    if family in families._WHERE_SWITCHED_ON:
        settings |= {"use_sliding_window": True, "max_window_layers": 0}
    if family in families._SOFT_CAPS:
        settings["attn_logit_softcapping"] = None
    return settings


# One of each kind of window: in every layer, in some, chunks, and switched on.
READ_EXACTLY = ("mistral", "gemma3_text", "llama4_text", "qwen2")


@pytest.mark.parametrize("family", sorted(families._WINDOWS))
def test_a_window_that_takes_effect_is_refused_for_capture_and_still_read_exactly(
    family, words, tmp_path
):
    if family in READ_EXACTLY:
        reason = check(*tiny.saved(tmp_path / "m", words, family, **narrow(family)))
    else:
        settings = json.loads(tiny.config_of(family, **narrow(family)).to_json_string())
        reason = model_facts(asked(tiny.describe(tmp_path / "m", words, **settings))).refusals[
            "attention"
        ]
    name = "an attention chunk" if family == "llama4_text" else "a sliding window"
    assert reason.startswith(
        f"'m' applies {name} of 16 tokens, which attention capture does not reproduce ("
    )
    assert reason.endswith("(with model.window=16 or less it never takes effect)")


@pytest.mark.parametrize(
    ("family", "settings", "reason"),
    [
        ("mistral", {"sliding_window": 400}, ""),
        ("mistral", {"sliding_window": 399}, "sliding window of 399 tokens"),
        ("mistral", {"sliding_window": None, "head_dim": 16}, ""),
        ("phi3", {"sliding_window": 400}, ""),
        ("qwen2", {"sliding_window": 16, "use_sliding_window": False}, ""),
        ("qwen3", {"sliding_window": 16, "use_sliding_window": False, "max_window_layers": 0}, ""),
        ("gemma2", {"attn_logit_softcapping": None}, ""),
        ("gemma2", {}, "soft-caps its attention scores at 50,"),
        ("gemma3_text", {"attn_logit_softcapping": 20.0}, "soft-caps its attention scores at 20,"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "attends to later tokens"),
        ("vaultgemma", {"attn_logit_softcapping": None}, ""),
        ("gpt_oss", {}, "has learned attention sinks,"),
        ("granite", {"attention_multiplier": 0.1}, ""),
        ("granitemoe", {"attention_multiplier": 0.1}, ""),
        ("granitemoe_swa", {}, "has learned attention sinks,"),
        ("gpt_neox", {"use_parallel_residual": False}, ""),
        ("stablelm", {"qk_layernorm": True}, ""),
        ("cohere", {"use_qk_norm": True}, ""),
        ("phi", {"qk_layernorm": True}, ""),
        ("olmo", {"clip_qkv": 0.5}, ""),
        ("deepseek_v2", {"q_lora_rank": None}, ""),
        ("llama4_text", {"attn_temperature_tuning": True, "floor_scale": 16}, ""),
        ("llama", {"num_key_value_heads": 1}, ""),
        ("llama", {"is_causal": False}, "attends to later tokens"),
        ("llama", {"layer_types": ["sliding_attention"] * 2}, "sliding window of unknown tokens"),
    ],
)
def test_settings_within_a_family(family, settings, reason, words, tmp_path):
    found = check(*tiny.saved(tmp_path / "m", words, family, **settings))
    assert reason in found
    assert bool(reason) == bool(found)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"model_type": "bloom"},
            "adds ALiBi biases to its attention scores, which attention capture does not",
        ),
        ({"model_type": "mpt"}, "adds ALiBi biases"),
        (
            {"model_type": "falcon", "alibi": True},
            "with ALiBi biases in some sizes, which attention capture does not",
        ),
        ({"model_type": "mistral"}, "sliding window of 4096 tokens"),
        ({"model_type": "llama4_text"}, "attention chunk of 8192 tokens"),
        (
            {"model_type": "new"},
            "belongs to the family 'new', which attention capture has not been checked with",
        ),
        (
            {"model_type": "llama", "auto_map": {}},
            "runs code of its own (auto_map in its config.json)",
        ),
    ],
)
def test_a_config_alone_is_enough_for_a_refusal(settings, reason, words, tmp_path):
    folder = tiny.describe(
        tmp_path / "m", words, **{**tiny.SIZES, "max_position_embeddings": 9000, **settings}
    )
    facts = model_facts(asked(folder, window=9000, trust_remote_code=True))
    assert facts.problems == []
    assert facts.capabilities == {"plain_model", "probe", "score", "sampling"}
    assert reason in facts.refusals["attention"]


def test_what_a_config_leaves_out_is_what_transformers_takes():
    for family in sorted({*families._WITHOUT_WINDOWS, *families._WINDOWS}):
        config = CONFIG_MAPPING[family]
        key = "attention_chunk_size" if family == "llama4_text" else "sliding_window"
        assert getattr(config, key, None) == families._WINDOWS.get(family), family
        assert getattr(config, "attn_logit_softcapping", None) == families._SOFT_CAPS.get(family), (
            family
        )


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("mistral", "MistralAttention masks or biases its scores beyond the causal mask"),
        ("gemma3_text", "Gemma3Attention masks or biases its scores"),
        ("gpt_oss", "GptOssAttention passes 's_aux' to its attention.*model.attention=eager"),
        ("gemma2", "Gemma2Attention passes 'softcap'"),
        ("doge", "DogeAttention masks or biases its scores"),
    ],
)
def test_capture_itself_refuses_what_the_config_did_not_show(
    family, message, words, tmp_path, monkeypatch
):
    settings = {"sliding_window": 16} if family in ("mistral", "gemma3_text") else {}
    folder, _ = tiny.saved(tmp_path / "m", words, family, **settings)
    monkeypatch.setattr(families, "capture_problem", lambda *_: None)
    monkeypatch.setattr("harness.llm.hf_model.trial_cache_problem", lambda *_: None)
    model = load_model(asked(folder))
    for call in (
        lambda s, span: s.feed(NODES[2], watch=[span]).attention,
        lambda s, span: s.write(3, watch=[span]),
    ):
        with model.session(Meter()) as s:
            s.user()
            span = s.feed(NODES[2])
            with pytest.raises(CannotRun, match=message):
                call(s, span)


def test_a_plan_names_the_reason_and_other_methods_still_run(words, tmp_path, monkeypatch):
    from harness.config.layers import Choices
    from harness.engine.plan import plan_choices

    monkeypatch.setenv("HARNESS_HOME", str(tmp_path))
    settings = {
        **tiny.SIZES,
        "model_type": "mistral",
        "max_position_embeddings": 9000,
        "sliding_window": 4096,
    }
    folder = tiny.describe(tmp_path / "Mistral-7B-v0.1", words, **settings)
    chosen = Choices(method="pecan", dataset="pocket/musique", model=str(folder), limit=1)
    with pytest.raises(
        ConfigError,
        match=r"Mistral-7B-v0.1' applies a sliding window of 4096 tokens, which attention",
    ):
        plan_choices(chosen)
    assert plan_choices(
        Choices(method="full-context", dataset="pocket/musique", model=str(folder), limit=1)
    )


def test_the_kernel_that_reads_is_part_of_the_identity(words, tmp_path):
    kernels = {}
    for family in ("llama", "mistral", "gemma2", "gpt_oss", "new"):
        folder = tiny.describe(
            tmp_path / family, words, **{**tiny.SIZES, "model_type": family, "sliding_window": 16}
        )
        kernels[family] = model_facts(asked(folder)).identity["attention"]
        assert model_facts(asked(folder, attention="eager")).identity["attention"] == "eager"
    others = dict.fromkeys(("gemma2", "gpt_oss", "new"), "transformers")
    assert kernels == {"llama": "sdpa", "mistral": "sdpa", **others}


def test_a_minimal_config_is_not_trusted_more_than_a_full_one(words, tmp_path):
    trusted = []
    for family in sorted({*families._WITHOUT_WINDOWS, *families._WINDOWS}):
        full = json.loads(
            tiny.config_of(family, max_position_embeddings=50_000).to_json_string(use_diff=False)
        )
        short = {"model_type": family, **tiny.SIZES}
        accepted = [
            families.capture_problem(settings, 50_000) is None for settings in (short, full)
        ]
        assert accepted[1] or not accepted[0], family
        trusted.append(accepted[0])
    assert set(trusted) == {True, False}
