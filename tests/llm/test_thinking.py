"""Reasoning models: thinking is no part of the answer or of the context behind it, and is counted
apart."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.schema import ModelConfig, Thinking
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm import hf_session as sessions
from harness.llm.backend import load_model, model_facts
from harness.llm.endings import begins_thinking, split_thinking
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.storage.run_folder import read_run
from harness.thinking import split_known_thinking
from reports.run_notes import run_notes
from tests.llm.conftest import let_replies_be
from tests.llm.endpoints import config, loaded
from tests.llm.loopback import Loopback, completion

HOW = Thinking(tokens=12)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<think>A city.</think>\n\nParis", ("<think>A city.</think>\n\n", "Paris", True)),
        ("\n<think>\n\n</think>Paris", ("\n<think>\n\n</think>", "Paris", True)),
        ("A city.</think> Paris", ("A city.</think> ", "Paris", True)),
        ("Paris <think>", ("", "Paris <think>", True)),
        ("Paris", ("", "Paris", True)),
        ("<think>A city", ("<think>A city", "", False)),
        ("<think>a</think>b</think>c", ("<think>a</think>", "b</think>c", True)),
    ],
)
def test_a_reply_in_two_parts(text, parts):
    assert split_thinking(text, HOW) == parts


@given(st.text(alphabet="<think>/ \na", max_size=30))
def test_nothing_is_lost(text):
    thinking, answer, closed = split_thinking(text, HOW)
    assert thinking + answer == text
    assert closed or not answer
    assert (begins_thinking(text, HOW) is True) == text.lstrip().startswith("<think>")


def _server(text, finish="stop", reasoning=None, tokens=None):
    reply = completion(text, finish)
    if reasoning is not None:
        reply["choices"][0]["message"]["reasoning_content"] = reasoning
    reply["usage"]["completion_tokens"] = 9
    if tokens is not None:
        reply["usage"]["completion_tokens_details"] = {"reasoning_tokens": tokens}
    return reply


@pytest.mark.parametrize(
    ("reply", "text", "finish", "thought", "unclosed"),
    [
        (_server("<think>a city</think>\n\nParis\nmore", tokens=6), "Paris", "stop", 6, 0),
        (_server("Paris\nmore", reasoning="a city", tokens=6), "Paris", "stop", 6, 0),
        (_server("<think>on and on", "length", tokens=9), "", "length", 9, 1),
        (_server("", "length", reasoning="on and on", tokens=9), "", "length", 9, 1),
        (
            _server("<think>x</think>one two three four five six", tokens=2),
            "one two three four",
            "length",
            2,
            0,
        ),
        (_server("Paris"), "Paris", "stop", 0, 0),
    ],
)
def test_a_server_s_reply(reply, text, finish, thought, unclosed):
    with Loopback([lambda body: reply]) as server:
        meter = Meter()
        with loaded(server, thinking={"tokens": 12}).session(meter) as s:
            s.user("Where?")
            before = s.length()
            limit = s._model.tokens.count("one two three four")
            written = s.write(limit, stop=["\n"])
            assert s.length() == before + len(written.span)
        assert server.asked[0]["max_tokens"] == limit + 12
        assert "stop" not in server.asked[0]
    usage = meter.usage()["answer"]
    assert (written.text, written.finish, usage["tokens_out"]) == (text, finish, 9)
    kept = usage.get("thinking", {"tokens": 0, "unclosed": 0})
    assert (kept["tokens"], kept["unclosed"]) == (thought, unclosed)


REFUSED = completion(None)
REFUSED["choices"][0]["message"]["refusal"] = "I cannot help with that."


@pytest.mark.parametrize(
    ("reply", "thinking", "problem"),
    [
        (_server("<think>on and on", "length", tokens=9), True, "thought"),
        (_server("<think>on and on", "length"), False, "thought"),
        (_server("", "length", reasoning="on and on"), True, "thought"),
        (_server("", "length", reasoning="on and on"), False, "thought"),
        (_server(None, "length", tokens=9), False, "thought"),
        (REFUSED, False, "refused"),
        (_server(None), False, "empty"),
        (_server(" \n"), False, "empty"),
        (_server("<think>so</think>", tokens=4), True, "empty"),
        (_server("Paris is", "length"), False, "unfinished"),
        (_server("<think>so</think>Paris is", "length"), True, "unfinished"),
        (_server("Paris"), False, ""),
        (_server("<think>so</think>Paris"), True, ""),
    ],
)
def test_replies_that_lack_an_answer_are_counted_by_what_they_lack(reply, thinking, problem):
    with Loopback([lambda body: reply]) as server:
        meter = Meter()
        with loaded(server, **({"thinking": {"tokens": 12}} if thinking else {})).session(
            meter
        ) as s:
            s.user("Where?")
            assert s.write(8).problem == problem
    assert meter.usage()["answer"].get("replies") == ({problem: 1} if problem else None)


def test_what_a_server_cannot_do_and_what_does_not_fit():
    facts = model_facts(
        config("http://127.0.0.1:1/v1", thinking={"tokens": 100}, logprobs=5, window=1000)
    )
    assert (facts.window, facts.capabilities, facts.identity["window"]) == (900, {"sampling"}, 1000)
    facts = model_facts(config("http://127.0.0.1:1/v1", thinking={"tokens": 1000}, window=1000))
    assert facts.problems == [
        "model.thinking.tokens=1000 fills the whole window of 1000 tokens; set fewer"
    ]


def test_a_script_s_thinking_is_counted_apart():
    model = ScriptedModel(Script(replies=[Rule(reply="<think>one two</think> Paris")]))
    model.thinking, meter = HOW, Meter()
    with model.session(meter) as s:
        s.user("Where?")
        written = s.write(8)
    assert (written.text, written.thinking) == ("Paris", "<think>one two</think> ")
    assert meter.usage()["answer"]["thinking"]["tokens"] == 3


@pytest.fixture(scope="module")
def thinker(tiny_folder):
    return load_model(ModelConfig(name="thinker", source=str(tiny_folder), thinking={"tokens": 60}))


def _ask(model, replies, monkeypatch, meter, **how):
    """Let the model write these tokens one after the other, whatever its logits."""
    stream = list(replies)

    def pick(self, logits):
        return stream.pop(0) if stream else min(model.stop_ids)

    let_replies_be(monkeypatch, pick)
    s = model.session(meter)
    s.user("Where does the river lie?")
    s.flush()
    return s, s.write(8, **how)


def test_the_thinking_of_a_loaded_model_leaves_the_context(thinker, monkeypatch):
    plain, meter = thinker.text.encode_data, Meter()
    thinking, answer = plain("<think>the town of Abel</think>\n\n"), plain("north of")
    # The first token of the answer is looked at once to see that the thinking is over.
    s, written = _ask(thinker, [*thinking, answer[0], *answer], monkeypatch, meter, stop=["\n"])
    with s:
        assert (written.text, written.finish) == ("north of", "stop")
        assert written.thinking == "<think>the town of Abel</think>\n\n"
        assert s.ids[written.span.start :] == answer
        assert "think" not in s._text()
        s.user("And then?")
        s.flush()
    usage = meter.usage()["answer"]
    assert usage["thinking"]["tokens"] == len(thinking)
    assert usage["thinking"]["unclosed"] == 0
    assert usage["tokens_out"] == len(thinking) + len(answer)
    assert 0 < usage["thinking"]["flops"]["full"] < usage["flops"]["full"]


def test_a_thinking_at_its_limit_is_closed_for_the_model(thinker, monkeypatch):
    plain, meter = thinker.text.encode_data, Meter()
    budget = thinker.thinking.tokens - len(thinker.close_thinking_ids)
    endless = (plain("<think>") + plain("a") * 100)[:budget]
    s, written = _ask(thinker, [*endless, *plain("north")], monkeypatch, meter)
    with s:
        assert written.text == "north"
        assert written.thinking.endswith("a\n</think>\n\n")
    assert meter.usage()["answer"]["thinking"]["unclosed"] == 1


def test_an_answer_without_thinking_is_an_answer(thinker, tiny, monkeypatch):
    meter = Meter()
    ids = thinker.text.encode_data("<the north>")
    looked = next(
        n
        for n in range(1, len(ids) + 1)
        if begins_thinking(thinker.text.decode_context(ids[:n]), HOW) is False
    )
    s, written = _ask(thinker, [*ids[:looked], *ids], monkeypatch, meter)
    with s:
        assert (written.text, written.thinking) == ("<the north>", "")
        assert s.ids[written.span.start :] == ids
    assert "thinking" not in meter.usage()["answer"]
    assert (thinker.window, tiny.window) == (1024 - 60, 1024)


def test_a_probe_and_a_begun_reply_skip_the_thinking(thinker, monkeypatch):
    meter, run, read = Meter(keeps_requests=True), sessions.Transaction.run, []

    def spy(self, ids, *more, **how):
        read.extend(ids)
        return run(self, ids, *more, **how)

    monkeypatch.setattr(sessions.Transaction, "run", spy)
    with thinker.session(meter) as s:
        s.user("Is it north?")
        s.probe(["Yes", "No"])
        assert thinker.text.decode_context(read).endswith("<think>\n\n</think>\n\n")
        let_replies_be(monkeypatch, lambda sampler, logits: min(thinker.stop_ids))
        s.write(4, begin="It is")
    probe, write = meter.requests
    assert probe.prompt.endswith("<think>\n\n</think>\n\n")
    assert write.prompt.endswith("<think>\n\n</think>\n\nIt is")


def test_a_template_that_opens_the_thinking(tiny_folder, tmp_path, monkeypatch):
    file = tmp_path / "template.jinja"
    file.write_text(
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}"
    )
    base = {"name": "opens", "source": str(tiny_folder), "template": str(file)}
    with pytest.raises(CannotRun, match=r"model\.thinking\.tokens=4096"):
        load_model(ModelConfig(**base))
    model = load_model(ModelConfig(**base, thinking={"tokens": 60}))
    answer, meter = model.text.encode_data("north"), Meter()
    s, written = _ask(
        model, [*model.text.encode_data("so</think> "), answer[0], *answer], monkeypatch, meter
    )
    with s:
        assert (written.text, written.thinking) == ("north", "<think>\nso</think> ")
        assert s._text().endswith("[assistant]north")


KNOWN = {
    "R1": "<think>Rome? No.</think>\n\nParis",
    "the end alone": "Rome? No.</think>Paris",
    "gpt-oss": "<|channel|>analysis<|message|>Rome? No.<|end|><|start|>assistant<|channel|>final<|message|>Paris",
    "gpt-oss to its end": "<|channel|>analysis<|message|>Rome?<|end|><|channel|>final<|message|>Paris<|return|>",
    "gpt-oss without special tokens": "analysisRome? No.assistantfinalParis",
    # Variations of the kind.
    "thinking": "<thinking>Rome?</thinking> Paris",
    "Magistral": "[THINK]Rome?[/THINK]Paris",
    "Seed-OSS": "<seed:think>Rome?</seed:think>Paris",
    "Kimi": "\u25c1think\u25b7Rome?\u25c1/think\u25b7Paris",
    "an empty thinking": "<think>\n\n</think>\n\nParis",
    "gpt-oss with a commentary": "<|channel|>commentary<|message|>a<|end|><|channel|>final <|constrain|>json<|message|>Paris",
}


@pytest.fixture
def replied(here, tmp_path):
    """Run a question whose reply this is; returns what ended and the record."""

    def run(reply, *more):
        (tmp_path / "wiki").mkdir()
        (tmp_path / "wiki/a.md").write_text("A town.")
        (tmp_path / "q.jsonl").write_text('{"question": "Which?", "answer": "Paris"}\n')
        (tmp_path / "script.yaml").write_text(json.dumps({"replies": [{"reply": reply}]}))
        words = "run -m full-context --documents wiki --questions q.jsonl --model scripted"
        words += " --mlflow off --out out --set model.script=script.yaml"
        ended = here(*words.split(), *more)
        (folder,) = (tmp_path / "out/wiki").iterdir()
        return ended, read_run(folder)

    return run


@pytest.mark.parametrize("reply", KNOWN.values(), ids=KNOWN)
def test_the_thinking_of_known_models_is_not_scored_and_a_note_says_so(replied, reply):
    ended, run = replied(reply)
    (record,) = run.records
    assert (record.prediction, record.scores["flashrag.em"]) == ("Paris", 1)
    sentence = "replies with reasoning before the answer, which is left out: 1; model.keep_thinking=true leaves it in"
    assert sentence in ended.stdout
    assert sentence in run_notes(run)


def test_a_thinking_without_an_end_has_no_answer(replied):
    ended, run = replied("<think>It may be Paris")
    assert run.records[0].prediction == ""
    assert "replies whose limit went into thinking: 1; set model.thinking.tokens" in ended.stdout


def test_thinking_is_kept_where_the_setting_says_so(replied):
    ended, run = replied(KNOWN["R1"], "model.keep_thinking=true")
    assert run.records[0].prediction == KNOWN["R1"]
    assert "reasoning" not in ended.stdout


@pytest.mark.parametrize("reply", ["Paris <think>", "The analysis: Paris", "Paris [x](<y>)"])
def test_an_answer_without_thinking_stays(replied, reply):
    ended, run = replied(reply)
    assert run.records[0].prediction == reply
    assert "reasoning" not in ended.stdout


@given(st.text(alphabet="<think>/ \na|channel", max_size=40))
def test_of_known_markers_nothing_is_lost(text):
    split = split_known_thinking(text)
    assert split.thinking + split.answer == text
    assert split.closed or not split.answer


def test_a_server_reads_its_answer_alone_in_the_next_turn():
    with (
        Loopback([lambda body: completion(KNOWN["R1"])] * 2) as server,
        loaded(server).session(Meter()) as s,
    ):
        s.user("Where?")
        assert s.write(8).text == "Paris"
        s.user("And?")
        s.write(8)
    assert [turn["content"] for turn in server.asked[1]["messages"]] == ["Where?", "Paris", "And?"]
