"""Conversations with a server: what is sent, what is booked, and what is refused before a run."""

import json
import math
import time
from pathlib import Path

import pytest
from transformers import AutoConfig

from harness.config.schema import Price, Shape
from harness.cost.flops import ModelShape, flops
from harness.cost.meter import Meter
from harness.cost.shapes import shape_of
from harness.errors import CannotRun, ModelOutputError, WindowExceeded
from harness.llm.backend import model_facts
from harness.llm.endpoint_info import endpoint_shape
from harness.llm.fast_tokenizer import FastTokenizer
from harness.llm.template import cut_template
from harness.llm.text import Text
from tests.llm.endpoints import POCKET, asked, config, loaded
from tests.llm.loopback import Loopback, completion

PRICE = Price(input=1.0, output=2.0)
SHAPE = {"layers": 2, "width": 8, "heads": 2, "kv_heads": 1, "head_size": 4, "mlp": 16, "vocab": 50}


def test_every_turn_is_sent_again_and_nothing_else():
    with Loopback(
        [lambda body: completion("one"), lambda body: completion("two", "length")]
    ) as loopback:
        s = loaded(loopback, source="served-name").session(Meter())
        s.user("Read: ")
        s.feed("a text")
        first = s.write(5, stop=["\n"], seed=7)
        s.user("And now?")
        with s.branch():
            s.feed(" never sent")
        second = s.write(3, temperature=0.7, top_p=0.9)
        s.user("x")
        s.reply("put there")
    assert (first.text, first.finish, second.finish) == ("one", "stop", "length")
    turns = [
        {"role": "user", "content": "Read: a text"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "And now?"},
    ]
    assert loopback.asked == [
        {
            "model": "served-name",
            "messages": turns[:1],
            "max_tokens": 5,
            "temperature": 0.0,
            "seed": 7,
            "stop": ["\n"],
        },
        {
            "model": "served-name",
            "messages": turns,
            "max_tokens": 3,
            "temperature": 0.7,
            "seed": 0,
            "top_p": 0.9,
        },
    ]


def test_extra_fields_reach_every_request_and_null_leaves_a_field_out():
    extra = {
        "seed": None,
        "temperature": None,
        "chat_template_kwargs": {"enable_thinking": False},
        "effort": "low",
    }
    with Loopback([lambda _: listed(Y=0.5)]) as loopback:
        s = loaded(loopback, extra=extra, logprobs=5).session(Meter())
        s.user("?")
        s.probe(["Y"])
        s.write(5)
    sent = [
        {key: body[key] for key in body if key not in ("model", "messages")}
        for body in loopback.asked
    ]
    fields = {"chat_template_kwargs": {"enable_thinking": False}, "effort": "low"}
    assert sent == [
        {"max_tokens": 1, "logprobs": True, "top_logprobs": 5, **fields},
        {"max_tokens": 5, **fields},
    ]


def test_counts_are_those_of_the_model_loaded_here():
    light = FastTokenizer(POCKET)
    text, pieces = (
        Text(light, "m"),
        cut_template(light.chat_template, light.special_tokens_map, "m", "26 Jul 2024"),
    )
    with Loopback() as loopback:
        model = loaded(loopback)
    words = "The river town of Abel lies north of the old bridge in 1902."
    assert model.offsets(words) == text.offsets(words)
    assert model.turn_tokens() == len(text.encode_template(pieces.before_first_user)) + len(
        text.encode_template(pieces.before_reply)
    )
    s = model.session(Meter())
    s.user("Read: ")
    span = s.feed(words)
    assert len(span) == len(text.encode_data(words))
    assert (
        s.length() == span.end == model.turn_tokens() + len(text.encode_data("Read: ")) + len(span)
    )
    assert s.room() == model.window - span.end


def test_waiting_at_the_servers_wish_is_time_in_the_queue():
    def slow(body):
        time.sleep(0.05)
        return completion()

    with Loopback(["429;0.6", slow]) as loopback:
        meter = Meter()
        with loaded(loopback).session(meter) as s:
            s.user("Who?")
            s.write(5)
    asked = meter.usage()["answer"]
    assert 0.05 <= asked["seconds"] < 0.5 < asked["queued"]


def test_without_a_tokenizer_lengths_are_estimates_that_the_server_corrects():
    reply = completion("Paris")
    reply["usage"] = {
        "prompt_tokens": 70,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 20},
    }
    with Loopback([lambda body: reply]) as loopback:
        model, meter = loaded(loopback, tokenizer=None, window=1200), Meter()
        assert (model.window, model.count("Read the manuals"), model.offsets("x 12")) == (
            1000,
            4,
            [(0, 1), (1, 3), (3, 4)],
        )
        with model.session(meter) as s:
            s.user("Where is it?")
            assert s.length() == 16 + 4
            s.write(5)
            assert s.length() == 70 + model.count("Paris")
    assert meter.usage()["answer"]["billed"] == {"reader": {"input": 50, "cached": 20, "output": 4}}


def test_without_a_tokenizer_the_window_has_a_margin_and_probes_are_refused():
    facts = model_facts(
        config("http://127.0.0.1:9/v1", tokenizer=None, window=1200, logprobs=5, price=PRICE)
    )
    assert (facts.problems, facts.window, facts.capabilities) == ([], 1000, {"sampling"})
    assert "model.tokenizer=FOLDER" in facts.refusals["probe"]
    (message,) = facts.warnings
    assert "are estimates" in message
    assert "20 %" in message


@pytest.mark.parametrize("cached", [0, 20])
def test_tokens_are_the_servers_and_its_luck_with_a_prefix_costs_no_less(cached):
    """A prefix that the server still had depends on who asked before: the same question has the
    same cost."""
    reply = completion()
    reply["usage"] |= {"prompt_tokens_details": {"cached_tokens": cached}}
    _, meter, _ = asked(reply, shape=Shape(**SHAPE))
    usage = meter.usage()["answer"]
    tokens = {k: usage[k] for k in ("tokens_in", "tokens_cached", "tokens_reused", "tokens_out")}
    assert tokens == {"tokens_in": 50, "tokens_cached": 0, "tokens_reused": cached, "tokens_out": 4}
    assert (usage["requests"], usage["uncounted"]) == (1, 0)
    # By hand: W = 2 (2*8*2*4 + 2*8*1*4 + 3*8*16) = 1152, head 400, pair 4*2*2*4 = 64; 50 tokens,
    # then 3 on 50.
    prefill = 2 * 1552 * 50 + 64 * 50 * 50
    decode = 2 * 1552 * 3 + 64 * (3 * 50 + 6)
    assert usage["flops"]["full"] == prefill + decode
    assert sum(flops(e, ModelShape(**SHAPE), "executed") for e in meter.events) == (
        2 * (1152 * 50 + 400) + 64 * 1275 + 2 * (1152 + 400) * 3 + 64 * (3 * 50 + 6)
    )


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({}, True),
        ({"num_key_value_heads": None}, True),
        ({"vocab_size": "many"}, False),
        ({"head_dim": -1}, False),
    ],
)
def test_sizes_are_those_of_the_config_beside_the_tokenizer(change, known, tmp_path):
    values = json.loads((POCKET / "config.json").read_text()) | change
    (tmp_path / "tokenizer.json").write_bytes((POCKET / "tokenizer.json").read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(values))
    found = endpoint_shape(config("http://127.0.0.1:9/v1", tokenizer=str(tmp_path)))
    assert found == (shape_of(AutoConfig.from_pretrained(POCKET)) if known else None)
    del values["num_key_value_heads"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert endpoint_shape(config("http://127.0.0.1:9/v1", tokenizer=str(tmp_path))) is None


def test_without_a_shape_flops_are_unknown_and_without_usage_tokens_are_counted_here(tmp_path):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((POCKET / name).read_bytes())

    reply = {k: v for k, v in completion("Paris town").items() if k != "usage"}
    _, meter, model = asked(reply, "Where?", tokenizer=str(tmp_path), window=2048)
    usage = meter.usage()["answer"]
    assert usage["uncounted"] == 2
    assert usage["flops"]["full"] == 0
    assert usage["tokens_in"] == model.turn_tokens() + model.count("Where?")
    assert usage["tokens_out"] == model.count("Paris town")


@pytest.mark.parametrize(
    ("counts", "booked", "recounted"),
    [
        ({"prompt_tokens": -7, "completion_tokens": 10**12}, None, 2),
        ({"prompt_tokens": 10**6, "completion_tokens": 2.5}, None, 2),
        ({"prompt_tokens": 50, "completion_tokens": 4}, (50, 4), 0),
        ({}, None, 0),
    ],
)
def test_counts_that_cannot_be_true_are_replaced_and_the_record_says_so(counts, booked, recounted):
    _, meter, model = asked(completion("Paris town") | {"usage": counts}, "Where?")
    usage = meter.usage()["answer"]
    here = (model.turn_tokens() + model.count("Where?"), model.count("Paris town"))
    assert (usage["tokens_in"], usage["tokens_out"]) == (booked or here)
    assert usage["recounted"] == recounted


def listed(**logprobs):
    rows = [{"token": t.replace("_", " "), "logprob": math.log(p)} for t, p in logprobs.items()]
    return completion(
        "Y", logprobs={"content": [{"token": "Y", "logprob": 0.0, "top_logprobs": rows}]}
    )


@pytest.mark.parametrize(
    ("given", "p", "mass", "top"),
    [
        ({"Yes": 0.6, "No": 0.2, "Maybe": 0.1}, [0.75, 0.25], [0.6, 0.2], "Yes"),
        ({"Maybe": 0.6, "No": 0.2}, [0.0, 1.0], [0.0, 0.2], None),
        ({"Maybe": 0.6}, [0.5, 0.5], [0.0, 0.0], None),
    ],
)
def test_a_probe_reads_the_listed_tokens(given, p, mass, top, monkeypatch):
    with Loopback([lambda body: listed(**given)]) as loopback:
        meter = Meter()
        model = loaded(loopback, logprobs=5)
        # The pocket tokenizer cuts labels finer than a large model's does; the server's tokens are
        # whole words here.
        monkeypatch.setattr(model.tokens, "first_token_text", lambda label: label)
        s = model.session(meter)
        s.user("Can you answer?")
        before = s.length()
        found = s.probe(["Yes", "No"])
        assert s.length() == before
        s.feed(" Go on")
    assert list(found.p.values()) == pytest.approx(p)
    assert list(found.mass.values()) == pytest.approx(mass)
    assert found.top == top
    sent = loopback.asked[0]
    assert (sent["max_tokens"], sent["logprobs"], sent["top_logprobs"], sent["temperature"]) == (
        1,
        True,
        5,
        0.0,
    )
    assert [e.kind for e in meter.events] == ["probe"]


def test_what_a_server_cannot_do_is_refused():
    with Loopback() as loopback:
        model = loaded(loopback)
        s = model.session(Meter())
        span = s.user("abc")
        for call in (
            lambda: s.feed("x", watch=[span]),
            lambda: s.write(3, watch=[span]),
            lambda: s.write(3, begin="So"),
            lambda: s.probe(["Yes", "No"]),
            lambda: s.score("x"),
            lambda: model.session(Meter(), adapter="fast"),
        ):
            with pytest.raises(CannotRun, match=r"behind a server|cannot be begun"):
                call()
        assert loopback.asked == []
        assert model.capabilities == {"sampling"}


def test_the_window_is_kept_by_the_local_count():
    with Loopback() as loopback:
        s = loaded(loopback, window=60).session(Meter())
        s.user("word " * 20)
        with pytest.raises(WindowExceeded, match=r"and 60 more do not fit the window of 60"):
            s.write(60)
        with pytest.raises(WindowExceeded, match="do not fit the window of 60 of 'm'"):
            s.feed("word " * 60)
        assert loopback.asked == []


@pytest.mark.parametrize(
    ("reply", "ask", "error", "message"),
    [
        (completion("", "content_filter"), lambda s: s.write(3), ModelOutputError, "withheld"),
        (completion(), lambda s: s.probe(["Yes", "No"]), CannotRun, "gives no log-probabilities"),
    ],
)
def test_a_reply_without_what_was_asked_for(reply, ask, error, message):
    with Loopback([lambda body: reply]) as loopback:
        s = loaded(loopback, logprobs=5).session(Meter())
        s.user("?")
        with pytest.raises(error, match=message):
            ask(s)


def in_parts(*parts, finish="stop"):
    """A reply whose content is a list of parts, each (type, its value)."""
    return completion([{"type": kind, kind: value} for kind, value in parts], finish)


THOUGHT = ("thinking", [{"type": "text", "text": "A city."}])


@pytest.mark.parametrize(
    ("reply", "text", "thinking", "problem"),
    [
        (in_parts(THOUGHT, ("text", "Par"), ("text", "is")), "Paris", "A city.", ""),
        (in_parts(THOUGHT, finish="length"), "", "A city.", "thought"),
        (in_parts(("refusal", "I cannot help.")), "", "", "refused"),
        (in_parts(), "", "", "empty"),
        (completion(None, "refusal"), "", "", "refused"),
        (completion("", "SAFETY"), "", "", "refused"),
        (completion("Par", "model_length"), "Par", "", "unfinished"),
        (completion("", "MAX_TOKENS"), "", "", "thought"),
    ],
)
def test_replies_in_the_forms_of_other_servers(reply, text, thinking, problem):
    written, *_ = asked(reply)
    assert (written.text, written.thinking, written.problem) == (text, thinking, problem)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"base_url": None}, "say where: --set model.base_url=http://HOST:PORT/v1"),
        ({"base_url": "localhost:8000"}, "model.base_url is no address"),
        ({"base_url": "http://h:99999/v1"}, "model.base_url is no address"),
        ({"base_url": "http://h\u00e9/v1"}, "model.base_url is no address"),
        ({"base_url": "https://me:pa55@h/v1"}, "must be a plain address"),
        ({"base_url": "https://h/v1?key=pa55"}, "must be a plain address"),
        ({"tokenizer": None}, "set model.window=TOKENS"),
        (
            {"backend": "hf", "source": str(POCKET), "base_url": None, "price": PRICE},
            "model.price is for a model behind",
        ),
        ({"tokenizer": "/nowhere"}, "no folder '/nowhere'"),
        (
            {"tokenizer": "tests"},
            "no folder 'tests'" if not Path("tests").is_dir() else "has no tokenizer",
        ),
        (
            {"api_key_env": "NOT_SET"},
            "variable NOT_SET, which should hold the key of 'm', is not set",
        ),
        ({"api_key_env": "sk-pa55"}, "must be the name of an environment variable in capitals"),
        ({"api_key_env": "gsk_pa55"}, "must be the name of an environment variable in capitals"),
        ({"dtype": "bfloat16"}, "model.dtype says how a model is loaded here"),
        ({"adapters": {"a": "b"}}, "model.adapters says how a model is loaded here"),
        ({"embedded": True}, "model.embedded says how"),
        (
            {"extra": {"temperature": None}, "temperature": 0.7},
            "model.extra.temperature: this field of a request is",
        ),
        (
            {"extra": {"temperature": 1}},
            "model.extra.temperature: this field of a request is set by others; leave",
        ),
        (
            {"extra": {"stream": None}},
            "model.extra.stream: this field of a request is set by others; leave the setting",
        ),
        (
            {"backend": "scripted", "base_url": None, "extra": {"a": 1}},
            "model.extra.a is for a chat template",
        ),
        ({"backend": "hf", "source": str(POCKET)}, "model.base_url is for a model behind a server"),
        (
            {"backend": "scripted", "base_url": None, "retries": 2},
            "model.retries is for a model behind a server",
        ),
    ],
)
def test_mistakes_are_found_without_asking_anybody(more, message):
    problems = model_facts(config("http://127.0.0.1:9/v1").model_copy(update=more)).problems
    assert any(message in p for p in problems), problems
    assert "pa55" not in str(problems)


def test_a_key_that_no_header_can_hold_is_not_shown(monkeypatch):
    monkeypatch.setenv("MY_KEY", "pa55\nword")
    (message,) = model_facts(config("http://127.0.0.1:9/v1", api_key_env="MY_KEY")).problems
    assert "copy it again" in message
    assert "pa55" not in message


def test_facts_tell_capabilities_window_and_what_is_unknown(monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret-0")
    plain = model_facts(config("http://10.0.0.1/v1", api_key_env="MY_KEY"))
    assert plain.problems == []
    assert plain.capabilities == {"sampling"}
    assert plain.window == 2048  # of the config.json beside the tokenizer
    assert [w.partition(" ")[0] for w in plain.warnings] == ["FLOPs", "model.base_url"]
    known = model_facts(
        config("http://127.0.0.1:9/v1", logprobs=20, shape=Shape(**SHAPE), window=900)
    )
    assert (known.capabilities, known.window, known.warnings) == ({"sampling", "probe"}, 900, [])
    assert "secret-0" not in str(plain)


def test_the_identity_is_what_is_served_and_not_where():
    def identity(**more):
        return model_facts(config("http://127.0.0.1:9/v1").model_copy(update=more)).identity

    same = identity()
    assert same == identity(base_url="https://elsewhere/v1", timeout=3.0, retries=9)
    for other in (
        {"source": "n"},
        {"revision": "2"},
        {"window": 77},
        {"logprobs": 5},
        {"extra": {"seed": None}},
    ):
        assert identity(**other) != same


def test_the_run_yaml_of_an_older_run_has_a_dtype_that_nobody_chose():
    """float32 was the default and stands there for a model behind a server too."""
    old = config("http://127.0.0.1:9/v1").model_copy(update={"dtype": "float32"})
    assert not any("model.dtype" in problem for problem in model_facts(old).problems)
