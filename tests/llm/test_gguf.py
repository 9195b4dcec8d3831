"""GGUF files as models: a tiny one is written with the package gguf and compared with the model
that it was made of."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.engine.plan import plan_choices
from harness.errors import CannotRun, SaveError, UserError
from harness.llm.backend import load_model, model_facts
from harness.llm.gguf import find_or_convert
from harness.llm.load import unload
from harness.llm.model_info import find_or_download
from harness.storage.files import user_home
from tests.forked import start

gguf = pytest.importorskip("gguf")
transformers = pytest.importorskip("transformers")

LAYERS, WIDTH, HEADS, KV, MLP, WINDOW = 2, 64, 4, 2, 96, 256
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def rotated(weight, heads):
    """Query and key rows as llama.cpp stores them: the two halves of each head interleaved."""
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
        .swapaxes(1, 2)
        .reshape(weight.shape)
    )


def tensors(net):
    state = {name: value.detach().numpy() for name, value in net.state_dict().items()}
    found = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
    }
    for layer in range(LAYERS):
        parts = {
            "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj",
        }
        parts |= {
            "attn_output": "self_attn.o_proj",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
        }
        parts |= {
            "ffn_down": "mlp.down_proj",
            "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm",
        }
        for ours, theirs in parts.items():
            value = state[f"model.layers.{layer}.{theirs}.weight"]
            heads = {"attn_q": HEADS, "attn_k": KV}.get(ours)
            found[f"blk.{layer}.{ours}.weight"] = value if heads is None else rotated(value, heads)
    return found


def write(path, net, arch="llama", kind="F32", pre="smollm", template=TEMPLATE):
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    writer = gguf.GGUFWriter(str(path), arch)
    sizes = {
        "context_length": WINDOW,
        "embedding_length": WIDTH,
        "block_count": LAYERS,
        "feed_forward_length": MLP,
    }
    sizes |= {
        "head_count": HEADS,
        "head_count_kv": KV,
        "rope_dimension_count": WIDTH // HEADS,
        "vocab_size": 263,
    }
    tokens = [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        *bytes_to_unicode().values(),
        "Ġa",
        "12",
        "ab",
        "Ġab",
    ]
    words = {
        "tokenizer_model": "gpt2",
        "tokenizer_pre": pre,
        "token_list": tokens,
        "token_types": [3, 3, 3, *[1] * 260],
    }
    words |= {
        "token_merges": ["Ġ a", "1 2", "a b", "Ġa b"],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": False,
    }
    more = {
        "layer_norm_rms_eps": 1e-6,
        "rope_freq_base": 10000.0,
        **({"chat_template": template} if template else {}),
    }
    for name, value in {**sizes, **words, **more}.items():
        getattr(writer, f"add_{name}")(value)
    for name, value in tensors(net).items():
        form = gguf.GGMLQuantizationType[kind if value.ndim == 2 else "F32"]
        writer.add_tensor(
            name, gguf.quants.quantize(value.astype(np.float32), form), raw_dtype=form
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(3)
    config = transformers.LlamaConfig(
        vocab_size=263, hidden_size=WIDTH, intermediate_size=MLP, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV, max_position_embeddings=WINDOW, tie_word_embeddings=True, rope_theta=10000.0,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def file(tmp_path, net):
    return write(tmp_path / "tiny.gguf", net)


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    unload()


# Largest difference of a logit: bfloat16 keeps 8 bits of a weight, Q8_0 as many of the largest in
# 32.
@pytest.mark.parametrize(("kind", "apart"), [("F32", 0.02), ("Q8_0", 0.03), ("Q4_1", 0.25)])
def test_the_converted_model_computes_what_the_original_does(tmp_path, net, kind, apart):
    folder, identity = find_or_convert(write(tmp_path / "tiny.gguf", net, kind=kind))
    ours = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.arange(3, 60)[None]
    with torch.no_grad():
        difference = (ours(input_ids=ids).logits - net(input_ids=ids).logits).abs().max()
    assert difference < apart
    assert set(identity) == {"gguf", "conversion"}


def test_sessions_run_on_it_and_each_digit_is_a_token(file):
    config = resolve_model(Choices(model=str(file))).value
    assert config.name == "tiny"
    model = load_model(config)
    assert model.window == WINDOW
    assert {"attention", "probe", "score"} <= model.capabilities
    assert (
        model.count("12 ab") == 3
    )  # "1", "2", " ab": llama.cpp's "smollm" splits digits before merging
    with model.session(Meter()) as s:
        s.user("ab")
        watched = s.feed(" ab 12")
        assert len(s.feed(" 1", watch=[watched]).attention) == 1
        assert abs(sum(s.probe(["1", "2"]).p.values()) - 1) < 1e-6


def test_another_pre_tokenizer_is_left_as_transformers_has_it(tmp_path, net):
    folder, _ = find_or_convert(write(tmp_path / "tiny.gguf", net, pre="gpt-2"))
    assert transformers.AutoTokenizer.from_pretrained(folder).tokenize("12") == ["12"]


def test_it_is_converted_once_also_by_two_processes(tmp_path, file):
    words = "tests.llm.slow_conversion", [str(file)], tmp_path
    both = [start(*words, tmp_path / str(number), os.environ) for number in range(2)]
    ends = [one.end() for one in both]
    assert [code for code, _, _ in ends] == [0, 0]
    assert sum("converting tiny.gguf" in printed for _, _, printed in ends) == 1
    folder, _ = find_or_convert(file)
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path, file):
    data = file.read_bytes()
    for name, content, sentence in (
        ("no.gguf", b"PK" + data[2:], "is no GGUF file"),
        ("empty.gguf", b"", "is no GGUF file"),
        ("old.gguf", data[:4] + b"\x01\0\0\0" + data[8:], "is of GGUF version 1"),
        ("cut.gguf", data[: len(data) // 2], "is damaged or not whole"),
        ("head.gguf", data[:300], "is damaged or not whole"),
    ):
        (tmp_path / name).write_bytes(content)
        (problem,) = model_facts(ModelConfig(name="x", source=str(tmp_path / name))).problems
        assert sentence in problem, name
        assert "\n" not in problem
        assert not list((tmp_path / "home").glob("gguf/*-1"))


def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path, net, file):
    with pytest.raises(CannotRun, match="is not the one that is expected"):
        find_or_convert(file, "0" * 64)
    with pytest.raises(CannotRun, match="cannot be read: No such file"):
        find_or_download(ModelConfig(name="x", source=str(tmp_path / "gone.gguf")))
    data, name = bytearray(file.read_bytes()), b"token_embd.weight"
    at = (
        data.index(name) + len(name) + 4 + 2 * 8
    )  # behind the number of dimensions and both of them
    data[at : at + 4] = (99).to_bytes(4, "little")
    file.write_bytes(data)
    with pytest.raises(
        CannotRun, match="has a quantisation that cannot be unpacked .*; use a file with another"
    ):
        find_or_convert(file)
    with pytest.raises(
        CannotRun, match=r"the architecture of 'tiny\.gguf' is not one that transformers reads"
    ):
        find_or_convert(write(file, net, arch="rwkv6"))


def test_mistakes_are_reported_before_a_file_is_converted(tmp_path, file):
    choices = Choices(
        method="bm25",
        dataset="pocket/musique",
        model=str(file),
        sets={"dataset.scorers": ["nope.f1"]},
    )
    with pytest.raises(UserError, match=r"nope\.f1"):
        plan_choices(choices)
    assert not (tmp_path / "home" / "gguf").exists()


def test_no_room_on_the_disk_leaves_nothing_behind(tmp_path, file, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
    with pytest.raises(SaveError, match="No space left on device; make room"):
        find_or_convert(file)
    assert not [path for path in (tmp_path / "home" / "gguf").iterdir() if path.is_dir()]


def test_a_missing_chat_template_is_said_before_a_file_is_converted(tmp_path, net, monkeypatch):
    file = write(tmp_path / "plain.gguf", net, template=None)
    monkeypatch.setattr(
        "harness.llm.gguf_conversion.convert", lambda *_: pytest.fail("it was converted")
    )
    (problem,) = model_facts(ModelConfig(name=str(file))).problems
    assert problem.startswith("'plain.gguf' has no chat template; set --set model.template=none")
    monkeypatch.undo()
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    assert model_facts(ModelConfig(name=str(file), template="none")).problems == []


@pytest.fixture(scope="module")
def gemma():
    """Gemma 3 with random weights: windows of 16 tokens in all layers but the sixth."""
    torch.manual_seed(3)
    config = transformers.Gemma3TextConfig(
        vocab_size=len(GEMMA_TOKENS), hidden_size=32, intermediate_size=48, num_hidden_layers=7,
        num_attention_heads=2, num_key_value_heads=1, head_dim=256, max_position_embeddings=2048,
        sliding_window=16,
    )  # fmt: skip
    return transformers.Gemma3ForCausalLM(config).eval()


SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"]
BYTES = [f"<0x{number:02X}>" for number in range(256)]
LETTERS = ["\u2581", *map(chr, range(33, 127)), "\u2581a", "ab"]
GEMMA_TOKENS = [*SPECIAL, *BYTES, *LETTERS]
GEMMA_TEMPLATE = """{{ bos_token }}{% for m in messages %}<start_of_turn>{{
'model' if m['role'] == 'assistant' else m['role'] }}
{{ m['content'] }}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}"""


def write_gemma(path, net, **more):
    """A GGUF file as llama.cpp's converter wrote it for Gemma 3 in 2025: it names the length of the
    window, and not which layers have it. more: further values, {"rope_scaling_type": ...}."""
    sizes = {
        "context_length": 2048, "embedding_length": 32, "block_count": 7,
        "feed_forward_length": 48, "head_count": 2, "head_count_kv": 1, "key_length": 256,
        "value_length": 256, "layer_norm_rms_eps": 1e-6, "rope_freq_base": 1e6,
        "sliding_window": 16,
    }  # fmt: skip
    words = {
        "tokenizer_model": "llama", "tokenizer_pre": "default", "token_list": GEMMA_TOKENS,
        "token_scores": [-float(number) for number in range(len(GEMMA_TOKENS))],
        "token_types": [3, 3, 3, 2, 3, 4, 4, *[6] * 256, *[1] * len(LETTERS)],
        "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0, "add_bos_token": True,
        "add_space_prefix": False, "chat_template": GEMMA_TEMPLATE,
    }  # fmt: skip
    writer = gguf.GGUFWriter(str(path), "gemma3")
    for name, value in {**sizes, **words, **more}.items():
        getattr(writer, f"add_{name}")(value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA3, 7)
    for name, value in net.state_dict().items():
        if name == "lm_head.weight":  # that of the embeddings
            continue
        one = 1.0 if name.endswith("norm.weight") else 0.0  # llama.cpp multiplies by 1 + weight
        held = value.numpy().astype(np.float32) + np.float32(one)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), held)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_model_with_sliding_windows_computes_what_the_original_does(tmp_path, gemma):
    folder, _ = find_or_convert(write_gemma(tmp_path / "gemma.gguf", gemma))
    ours = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.arange(3, 103)[None]  # six windows
    with torch.no_grad():
        difference = (ours(input_ids=ids).logits - gemma(input_ids=ids).logits).abs().max()
    assert difference < 0.02


def test_a_model_with_sliding_windows_answers_questions_through_the_command(
    tmp_path, gemma, command
):
    file = write_gemma(tmp_path / "gemma.gguf", gemma)
    words = ["run", "-m", "bm25", "-d", "pocket/musique", "--model", str(file), "--limit", "2"]
    sets = ["dataset.tokens=300", "dataset.max_answer_tokens=3"]
    words += ["--mlflow", "off", "--out", str(tmp_path / "out"), "--set", *sets]
    assert command(*words)[0] == 0
    (path,) = tmp_path.glob("out/*/*/records.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["error"] for row in rows] == [None, None]
    assert all(row["usage"]["answer"]["tokens_in"] > 16 for row in rows)


def test_stretched_positions_that_transformers_leaves_out_are_refused(tmp_path, gemma):
    scaling = {"rope_scaling_type": gguf.RopeScalingType.LINEAR, "rope_scaling_factor": 8.0}
    file = write_gemma(tmp_path / "gemma.gguf", gemma, **scaling)
    with pytest.raises(CannotRun, match=r"leaves out of 'gemma.gguf' how its positions are"):
        find_or_convert(file)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"HARNESS_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/gguf"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/longdoc-harness/gguf"),
        ({"HOME": "/u"}, "/u/.cache/longdoc-harness/gguf"),
    ],
)
def test_a_converted_model_serves_every_folder_of_a_user(given, place, monkeypatch):
    for name in ("HARNESS_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert user_home() / "gguf" == Path(place)
