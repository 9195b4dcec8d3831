"""Loading: what is wrong with a folder is said in one sentence; identity changes with what changes
the output."""

import json
import re
import shutil

import pytest

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm.backend import load_model, model_facts
from harness.llm.model_info import memory_problem
from harness.llm.passes import Transaction


def config(folder, **more):
    return ModelConfig(name="m", source=str(folder), **more)


@pytest.fixture
def copy(tiny_folder, tmp_path):
    return shutil.copytree(tiny_folder, tmp_path / "m")


def rewrite(path, **changes):
    value = json.loads(path.read_text())
    path.write_text(json.dumps({**value, **changes}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda d: [p.unlink() for p in d.glob("tokenizer*")],
            "has no tokenizer .*model.tokenizer=FOLDER",
        ),
        (
            lambda d: (d / "model.safetensors").rename(d / "pytorch_model.bin"),
            "not loaded \\(they can run code\\)",
        ),
        (
            lambda d: rewrite(d / "config.json", layer_types=["linear_attention"] * 3),
            "without full attention",
        ),
        (
            lambda d: rewrite(d / "config.json", max_position_embeddings=None),
            "how long its window is",
        ),
        (
            lambda d: (d / "chat_template.jinja").unlink(),
            "has no chat template.*model.template=none",
        ),
    ],
)
def test_a_spoilt_folder_is_named(copy, spoil, message):
    spoil(copy)
    with pytest.raises(CannotRun, match=message):
        load_model(config(copy))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"window": 4096}, "model.window=4096 is more than the 1024 positions"),
        ({"template": "missing.jinja"}, "no chat template file 'missing.jinja'"),
        ({"adapters": {"a": "/nowhere"}}, "no folder"),
    ],
)
def test_wrong_settings_are_found_without_loading(tiny_folder, more, message):
    (problem,) = model_facts(config(tiny_folder, **more)).problems
    assert re.search(message, problem)


TURNS = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.mark.parametrize(
    "head",
    [
        "<|user|>Day: {{ strftime_now('%Y-%m-%d') }}<|end|>",
        (
            "{% set d = strftime_now('%Y-%m-%d') if strftime_now is defined else 'none' %}<|user|>Day: "
            "{{ d }}<|end|>"
        ),
        (
            "{% if messages[0].role != 'system' %}<|user|>Day: {{ strftime_now('%Y-%m-%d') }}<|end|>{% "
            "endif %}"
        ),
        (
            "{% macro day() %}{{ strftime_now('%Y-%m-%d') }}{% endmacro %}<|user|>Day: {{ day() "
            "}}<|end|>"
        ),
    ],
    ids=["plain", "guarded", "in a branch", "in a macro"],
)
def test_a_template_that_asks_for_today_is_given_the_day_of_the_settings(copy, head):
    (copy / "chat_template.jinja").write_text("{{ bos_token }}" + head + TURNS)
    model = load_model(config(copy))
    assert model.pieces.before_first_user == "<|begin|><|user|>Day: 2024-07-26<|end|><|user|>"
    assert (
        load_model(config(copy, template_date="01 Feb 2025")).pieces.before_first_user.count(
            "Day: 2025-02-01"
        )
        == 1
    )


@pytest.mark.parametrize(
    "template",
    [
        TURNS,
        "{% if tools is not none %}TOOLS{% endif %}{% if documents %}TEXTS{% endif %}" + TURNS,
        "{{ ['<é>'] | tojson }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=True, indent=1) }}" + TURNS,
        TURNS.replace("{{ m.content }}", "{% generation %}{{ m.content }}{% endgeneration %}"),
        "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + TURNS,
        "{% for m in messages %}{% if loop.index0 > 2 %}{% break %}{% endif %}{% endfor %}\n  {% "
        "if true %}\n{% endif %}" + TURNS,
        "{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ bos_token }}{{ dict(a=ns.n).a }}"
        + TURNS,
    ],
)
def test_templates_are_rendered_as_transformers_does(copy, template):
    (copy / "chat_template.jinja").write_text(template)
    model = load_model(config(copy))
    turns = [
        {"role": "user", "content": "Who?"},
        {"role": "assistant", "content": "Mira"},
        {"role": "user", "content": "So?"},
    ]
    pieces, said = model.pieces, [t["content"] for t in turns]
    ours = (
        pieces.before_first_user
        + said[0]
        + pieces.before_reply
        + said[1]
        + pieces.before_next_user
        + said[2]
        + pieces.before_reply
    )
    assert ours == model.text.tokenizer.apply_chat_template(
        turns, tokenize=False, add_generation_prompt=True
    )


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{{ messages[0].content | upper }}",
            "shows a content 0 times instead of once; set model.template=none",
        ),
        (TURNS + "{% endfor %}", "cannot be applied \\(Encountered unknown tag 'endfor'"),
        (
            "{{ raise_exception('Only tools.') }}" + TURNS,
            "cannot be applied \\(Only tools.\\); set model.template=none",
        ),
    ],
)
def test_an_unusable_template_is_found_without_loading(copy, template, message):
    (copy / "chat_template.jinja").write_text(template)
    (problem,) = model_facts(config(copy)).problems
    assert re.search(f"the chat template of 'm' {message}", problem)


@pytest.fixture
def read(monkeypatch):
    """A function: the text that the last passes of a model have read since it was called last."""
    ids, forward = [], Transaction.run

    def spy(self, new, *more, **how):
        ids.extend(new)
        return forward(self, new, *more, **how)

    def taken(model):
        text = model.text.decode_context(ids)
        ids.clear()
        return text

    monkeypatch.setattr(Transaction, "run", spy)
    return taken


SWITCH = TURNS.replace(
    "<|assistant|>{% endif %}",
    "<|assistant|>{% if enable_thinking is defined and not enable_thinking "
    "%}<think>\n\n</think>\n\n{% endif %}{% endif %}",
)


def test_variables_of_the_user_reach_the_template_and_an_empty_thinking_is_no_part_of_the_answer(
    copy, read
):
    (copy / "chat_template.jinja").write_text("{{ bos_token }}" + SWITCH)
    for more in ({}, {"thinking": {"tokens": 50}}):
        model = load_model(config(copy, extra={"enable_thinking": False}, **more))
        meter = Meter()
        with model.session(meter) as s:
            s.user("Is it?")
            s.probe(["Yes", "No"])
            assert read(model).endswith("Is it?<|end|><|assistant|><think>\n\n</think>\n\n")
            written = s.write(1)
            assert read(model) == "<|end|><|assistant|><think>\n\n</think>\n\n"
            assert "think" not in s._text()
        assert written.thinking == ""
        assert meter.usage()["answer"].get("thinking") is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"extra": {"enable_thinkin": False}},
            "model.extra.enable_thinkin: .* no such variable .*; it has enable_thinking$",
        ),
        (
            {"extra": {"messages": []}},
            "model.extra.messages: the chat template of 'm' has no such variable of yours",
        ),
        (
            {"extra": {"a": 1}, "template": "none"},
            "model.extra.a is for a chat template, and none is in use; leave it out",
        ),
    ],
)
def test_a_variable_that_no_template_reads_is_refused(copy, more, message):
    (copy / "chat_template.jinja").write_text(SWITCH)
    (problem,) = model_facts(config(copy, **more)).problems
    assert re.search(message, problem)


def test_the_default_of_several_templates_is_checked_without_loading(copy):
    (copy / "chat_template.jinja").unlink()
    several = [
        {"name": "tool_use", "template": TURNS},
        {"name": "default", "template": "{{ messages[0].nothing.x }}"},
    ]
    rewrite(copy / "tokenizer_config.json", chat_template=several)
    (problem,) = model_facts(config(copy)).problems
    assert "has no attribute 'nothing'" in problem


def test_identity_follows_what_changes_the_output(tiny_folder, copy):
    base = model_facts(config(tiny_folder)).identity
    assert model_facts(config(copy)).identity == base  # the place does not matter
    changes = [
        {"dtype": "bfloat16"},
        {"attention": "eager"},
        {"template": "none"},
        {"template_date": "1 Jan 2020"},
    ]
    seen = [base] + [
        model_facts(config(tiny_folder, **c)).identity for c in [*changes, {"window": 512}]
    ]
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])
    rewrite(copy / "tokenizer_config.json", extra=1)
    assert model_facts(config(copy)).identity["tokenizer"] != base["tokenizer"]
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert model_facts(config(copy)).identity["weights"] != base["weights"]


@pytest.mark.parametrize(
    ("named", "set_", "expected"),
    [
        ({"dtype": "bfloat16"}, {}, "bfloat16"),
        ({"dtype": None, "torch_dtype": "bfloat16"}, {}, "bfloat16"),  # before transformers 5
        ({"dtype": "torch.float16"}, {}, "float16"),
        ({"dtype": None}, {}, "float32"),
        ({"dtype": "float8_e4m3fn"}, {}, "float32"),
        ({"dtype": "bfloat16"}, {"dtype": "float32"}, "float32"),
        ({"dtype": "float32"}, {"dtype": "auto"}, "float32"),
    ],
)
def test_auto_is_the_dtype_that_the_checkpoint_names(copy, named, set_, expected):
    rewrite(copy / "config.json", **named)
    identity = model_facts(config(copy, **set_)).identity
    assert identity["dtype"] == expected
    assert identity == model_facts(config(copy, dtype=expected)).identity, (
        "said or not, it is the same model"
    )


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_memory_is_estimated_before_loading_in_the_dtype_of_the_checkpoint(copy, dtype, size):
    rewrite(copy / "config.json", dtype=dtype)
    model = load_model(config(copy))
    assert (model.dtype, str(next(model.net.parameters()).dtype)) == (dtype, f"torch.{dtype}")
    stored = (copy / "model.safetensors").stat().st_size
    needed = stored + 2 * 3 * 2 * 16 * 1024 * size  # layers, kv heads, head size, window
    assert memory_problem(config(copy), copy, 1024, int(needed / 0.9) + 1) is None
    said = memory_problem(config(copy), copy, 1024, int(needed / 0.9) - 1) or ""
    assert re.search(r"needs about .* cache for 1024 tokens", said)


def test_no_template_asks_in_plain_text(tiny_folder):
    model = load_model(config(tiny_folder, template="none"))
    assert model.before_first_user_ids == [model.text.bos]
    assert model.text.decode(model.before_reply_ids)[0] == "\n"


def test_a_hub_model_is_pinned_loaded_and_kept(tiny_folder, tmp_path, hub):
    commit, other = "a" * 40, "b" * 40
    files = {p.name: p.read_bytes() for p in tiny_folder.iterdir()}
    files |= {
        "pytorch_model.bin": b"never fetched",
        "modeling.py": b"never fetched",
        "onnx/model.onnx": b"no",
    }
    hub.add("me/tiny", commit, files)
    hub.add("me/pickled", commit, {"config.json": b"{}", "pytorch_model.bin": b"x"})
    asked = ModelConfig(name="me/tiny")
    assert model_facts(asked).identity["weights"] == {"hub": "me/tiny", "commit": commit}
    with load_model(asked).session(Meter()) as s:
        s.user("Where is the school?")
        first = s.write(5).text
    lock = json.loads((tmp_path / "home" / "model-lock.json").read_text())
    assert lock["me/tiny"]["revision"] == commit
    assert not [
        path for path in hub.asked if "pytorch_model" in path or ".py" in path or "onnx" in path
    ]
    # The branch moves on; the lock does not.
    hub.add("me/tiny", other, files)
    assert model_facts(asked).identity["weights"]["commit"] == commit
    assert (
        model_facts(ModelConfig(name="me/tiny", revision=other)).identity["weights"]["commit"]
        == other
    )
    assert "no *.safetensors" in model_facts(ModelConfig(name="me/pickled")).problems[0]
    assert "there is no model 'me/absent'" in model_facts(ModelConfig(name="me/absent")).problems[0]
    hub.close()
    # With the hub gone, the lock and the cache are enough.
    assert model_facts(asked).identity["weights"]["commit"] == commit
    with load_model(asked).session(Meter()) as s:
        s.user("Where is the school?")
        assert s.write(5).text == first


def test_a_template_and_a_tokenizer_in_the_home_folder_are_those_that_were_checked(
    copy, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "words").mkdir()
    for path in copy.glob("*token*"):
        path.rename(tmp_path / "words" / path.name)
    (copy / "chat_template.jinja").rename(tmp_path / "chat.jinja")
    model = load_model(
        ModelConfig(name="m", source="~/m", tokenizer="~/words", template="~/chat.jinja")
    )
    session = model.session(Meter())
    session.user("The river town")
    assert session.write(2).text is not None


def first_logprobs(model, adapter=None):
    with model.session(Meter(), adapter=adapter) as s:
        s.user("Where is the school of Mira Tal?")
        return s.score(" north of the old bridge")


def test_adapters_are_switched_per_session(tiny, tiny_folder, adapter_folder):
    plain = first_logprobs(tiny)
    model = load_model(
        ModelConfig(name="tiny", source=str(tiny_folder), adapters={"one": str(adapter_folder)})
    )
    assert "adapters" in model.capabilities
    with_one = first_logprobs(model, "one")
    assert max(abs(a - b) for a, b in zip(plain, with_one, strict=True)) > 1e-3
    assert first_logprobs(model) == pytest.approx(plain, abs=1e-5)
    assert first_logprobs(model, "one") == pytest.approx(with_one, abs=1e-5)
    with pytest.raises(CannotRun, match=r"has no adapter 'two' \(it has \['one'\]\)"):
        first_logprobs(model, "two")
    with pytest.raises(CannotRun, match="has no adapter 'one'"):
        first_logprobs(tiny, "one")


@pytest.mark.parametrize(
    ("trained", "sentence"),
    [
        (
            {"rows": 400, "methods": {"gist": 7, "pecan": 174}},
            "(pecan 44 % to gist 2 % of its rows)",
        ),
        ({"rows": 400, "methods": {}}, None),
        ({"rows": 400, "methods": {"pecan": "174"}}, None),
        ({"rows": 0, "methods": {"pecan": 174}}, None),
        ([], None),
        (None, None),
    ],
)
def test_whose_prompts_an_adapter_was_trained_on_is_told(
    tiny_folder, adapter_folder, tmp_path, trained, sentence
):
    folder = shutil.copytree(adapter_folder, tmp_path / "one")
    if trained is not None:
        (folder / "card.json").write_text(json.dumps({"trained": trained}))
    facts = model_facts(
        ModelConfig(name="tiny", source=str(tiny_folder), adapters={"one": str(folder)})
    )
    assert len(facts.identity["adapters"]["one"]) == 64
    own = f"the adapter 'one' of 'tiny' has seen the prompts of some methods more often than others' {sentence}: a method "
    own += (
        "with a small share, or none, can score low because of the adapter, not because it is worse"
    )
    assert facts.warnings == ([own] if sentence else [])


def test_an_adapter_in_the_weights_without_a_card_is_told(tiny_folder, adapter_folder):
    (sentence,) = model_facts(
        ModelConfig(name="tiny", source=str(tiny_folder), adapter=str(adapter_folder))
    ).warnings
    assert (
        sentence
        == f"no card says what the adapter 'model.adapter' in '{adapter_folder}' was trained on"
    )


@pytest.mark.parametrize(
    ("scheme", "quantised"),
    [
        (None, None),
        ({"quant_method": "gptq", "bits": 4}, "gptq, 4 bits"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bitsandbytes, 8 bits"),
        ({"quant_method": "fp8"}, "fp8"),
    ],
)
def test_quantised_weights_are_part_of_what_identifies_a_model(
    tiny_folder, tmp_path, scheme, quantised
):
    folder = tmp_path / "m"
    shutil.copytree(tiny_folder, folder)
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**settings, **({"quantization_config": scheme} if scheme else {})})
    )
    assert (
        model_facts(ModelConfig(name="m", source=str(folder))).identity.get("quantised")
        == quantised
    )
