"""The back end `vllm` against the transformers one: the same weights, and a stand-in of vLLM that
computes them by transformers (stand_in/vllm)."""

import dataclasses
import gc
import sys
from pathlib import Path

import pytest
from harness_vllm import backend

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm.backend import load_model, model_facts
from harness.llm.endings import begins_thinking
from harness.llm.load import unload
from harness.storage.run_folder import read_run
from tests.llm.conftest import let_replies_be

STAND_IN = Path(__file__).parent / "stand_in"
POCKET = ModelConfig(name="pocket-llama", package="pocket", package_path="model", dtype="float32")
RUN = ("run", "-d", "pocket/musique", "--limit", "4", "--mlflow", "off", "--model", "pocket-llama")
TEXT = "The river town of Abel lies north of the old bridge. Mira Tal founded the school. " * 6
MEASURED = ("seconds", "queued", "reused")  # what equal costs may differ in


@pytest.fixture
def vllm(monkeypatch):
    """The stand-in, which counts as installed."""
    monkeypatch.syspath_prepend(str(STAND_IN))
    import vllm

    yield vllm
    backend._model_of_last_run.clear()
    backend._models.clear()
    gc.collect()
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


def of_vllm(config, **engine):
    return config.model_copy(update={"backend": "vllm", "extra": {"engine": engine}})


def events(meter):
    """What was counted, without what may differ."""
    return [
        {name: value for name, value in dataclasses.asdict(event).items() if name not in MEASURED}
        for event in meter.events
    ]


def values(written):
    """A reply in values that can be compared."""
    return {**vars(written), "span": (written.span.start, written.span.end)}


def converse(model):
    """A conversation that asks for everything; returns what came, and its costs."""
    meter = Meter()
    with model.session(meter) as s:
        s.user(f"Read this text.\n\n{TEXT}")
        with s.branch():
            s.feed("\n\nDoes it name a school?")
            sure = s.probe(["Yes", "No"])
            s.feed(" Say why.")
            then = s.probe(["Yes", "No"], after="Well,")
        scores = s.score(" It lies north of Abel.")
        s.feed("\n\nWho founded the school?")
        answer = s.write(12)
        s.user("Where does the town lie?")
        stopped = s.write(24, stop=["e"])
        s.user("And the bridge?")
        begun = s.write(3, begin="It")
    return (sure, then), scores, (answer, stopped, begun), meter


def test_replies_scores_and_costs_are_those_of_transformers(vllm):
    found = converse(load_model(of_vllm(POCKET)))
    wanted = converse(load_model(POCKET))
    for ours, theirs in zip(found[0], wanted[0], strict=True):
        assert ours.mass == pytest.approx(theirs.mass, rel=1e-3)
        assert ours.top == theirs.top
    assert found[1] == pytest.approx(wanted[1], abs=1e-3)
    assert [values(written) for written in found[2]] == [values(w) for w in wanted[2]]
    assert any(written.finish == "stop" for written in found[2])
    assert any(written.finish == "length" for written in found[2])
    assert events(found[3]) == events(wanted[3])
    assert found[3].flops("executed") == wanted[3].flops("executed") > 0


def test_what_another_context_put_into_the_prefix_cache_is_said_and_costs_the_same(vllm):
    model = load_model(of_vllm(POCKET))
    meters = []
    for question in ("Who founded the school?", "Where is the bridge?"):
        meter = Meter()
        meters.append(meter)
        with model.session(meter) as s:
            s.user(f"{TEXT}\n\n")
            s.feed(question)
            s.write(4)
            s.user("Why?")
            s.write(4)
    first, second = ([event.reused for event in meter.events] for meter in meters)
    assert sum(first) == 0
    assert sum(second) % vllm.BLOCK == 0
    assert len(model.text.encode_data(TEXT)) - vllm.BLOCK < sum(second) < meters[1].events[0].new
    assert meters[0].events[0].new - meters[1].events[0].new == len(
        model.text.encode_data("Who founded the school?")
    ) - len(model.text.encode_data("Where is the bridge?"))


def only_run(folder):
    (found,) = (folder / "results/pocket~musique").iterdir()
    return read_run(found)


def test_a_run_equals_that_of_transformers_with_many_questions_in_one_batch(
    vllm, here, tmp_path, monkeypatch
):
    here(*RUN, "-m", "bm25", "--set", "model.backend=vllm").checked()
    run = only_run(tmp_path)
    (engine,) = vllm.engines
    assert engine.most_running == 4
    assert run.manifest.models["reader"]["vllm"] == {}
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    here(*RUN, "-m", "bm25").checked()
    wanted = {record.question_id: record for record in only_run(other).records}
    for record in run.records:
        assert record.prediction == wanted[record.question_id].prediction != ""
        ours, theirs = record.usage["answer"], wanted[record.question_id].usage["answer"]
        for count in ("tokens_in", "tokens_out", "flops", "requests"):
            assert ours[count] == theirs[count]
    unload()


def test_how_the_engine_is_spread_reaches_it_and_changes_no_run(vllm, here, tmp_path):
    spread = [
        "model.extra.engine.tensor_parallel_size=2",
        "model.extra.engine.data_parallel_size=4",
    ]
    here(*RUN, "-m", "closed-book", "--set", "model.backend=vllm").checked()
    again = here(*RUN, "-m", "closed-book", "--set", "model.backend=vllm", *spread).checked()
    only_run(tmp_path)
    assert "4 of 4" in again.stdout + again.stderr or "nothing" in again.stdout + again.stderr
    model = load_model(of_vllm(POCKET, tensor_parallel_size=2, data_parallel_size=4))
    arguments = vllm.engines[-1].arguments
    assert (arguments.tensor_parallel_size, arguments.data_parallel_size) == (2, 4)
    assert (arguments.max_model_len, arguments.dtype) == (model.window, "float32")
    assert model_facts(of_vllm(POCKET, quantization="fp8")).identity != model.identity


def test_a_run_without_vllm_is_one_sentence_with_how_to_install_it(here):
    ended = here(*RUN, "-m", "bm25", "--set", "model.backend=vllm").checked(2)
    assert (
        "needs vLLM, which is not installed; install it with: pip install 'vllm>=" in ended.stderr
    )


def test_a_method_that_needs_attention_is_refused_before_anything_is_loaded(vllm, here):
    ended = here(*RUN, "-m", "pecan", "--set", "model.backend=vllm").checked(2)
    assert (
        "'pecan' needs attention of its builder, which the model 'pocket-llama' does"
        in ended.stderr
    )
    assert "vLLM does not give it; use model.backend=hf" in ended.stderr
    assert not vllm.engines


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device_map": "auto"}, "model.device_map is for model.backend=hf"),
        ({"deterministic": True}, "model.deterministic is for model.backend=hf"),
        ({"extra": {"engine": {"dtype": "half"}}}, "model.extra.engine.dtype is set by"),
        ({"extra": {"tone": "kind"}}, "model.extra.tone"),
    ],
)
def test_settings_that_it_would_ignore_are_refused(vllm, settings, message):
    config = POCKET.model_copy(update={"backend": "vllm", **settings})
    assert message in model_facts(config).problems[0]


def test_an_argument_that_vllm_does_not_know_is_one_sentence(vllm):
    with pytest.raises(CannotRun, match=r"vLLM cannot load 'pocket-llama' .*tensor_size"):
        load_model(of_vllm(POCKET, tensor_size=2))


def test_the_runner_that_mixes_up_probabilities_is_refused(vllm, monkeypatch):
    monkeypatch.setattr(vllm.AsyncLLMEngine, "use_v2_model_runner", False)
    with pytest.raises(CannotRun, match="model runner V1"):
        load_model(of_vllm(POCKET))
    assert vllm.engines[-1].has_ended.is_set()


def test_an_engine_that_ends_ends_the_run_with_one_sentence(vllm, here, monkeypatch):
    start = vllm.AsyncLLMEngine.__init__

    def start_ill(self, arguments):
        start(self, arguments)
        self.is_dead = True

    monkeypatch.setattr(vllm.AsyncLLMEngine, "__init__", start_ill)
    ended = here(*RUN, "-m", "bm25", "--set", "model.backend=vllm")
    assert ended.returncode in (2, 3)
    assert "vLLM's engine for 'pocket-llama' has ended; see its log" in ended.stderr


def test_the_engine_of_an_earlier_model_has_ended_when_another_is_loaded(vllm, monkeypatch):
    load_model(of_vllm(POCKET))
    gc.collect()
    load_model(of_vllm(POCKET))
    (first,) = vllm.engines  # nobody holds the model, but the next run may want it
    ended_before = []
    start = vllm.AsyncLLMEngine.__init__

    def start_and_look(self, arguments):
        ended_before.append(first.has_ended.is_set())
        start(self, arguments)

    monkeypatch.setattr(vllm.AsyncLLMEngine, "__init__", start_and_look)
    load_model(of_vllm(POCKET, max_num_seqs=8))
    assert ended_before == [True]


def test_two_models_of_one_run_keep_their_engines(vllm):
    first = load_model(of_vllm(POCKET))
    second = load_model(of_vllm(POCKET, max_num_seqs=8))
    for model in (first, second):
        with model.session(Meter()) as s:
            s.user("Who?")
            assert s.write(2).span
    assert not any(engine.has_ended.is_set() for engine in vllm.engines)


OPENS = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]<think>\n{% endif %}"
)
THOUGHTS = {
    "closed": ("<think>the town of Abel</think>\n\n", ["north of"], "model"),
    "at its limit": ("<think>" + "a " * 100, ["north of"], "model"),
    "no thinking": ("<the", ["<the north>"], "model"),
    "opened by the template": ("so</think> ", ["north of"], OPENS),
}


@pytest.mark.parametrize("case", THOUGHTS)
def test_the_thinking_of_a_reasoning_model_is_that_of_transformers(
    vllm, case, tiny_folder, tmp_path, monkeypatch
):
    thinking, (answer,), template = THOUGHTS[case]
    if template != "model":
        (tmp_path / "template.jinja").write_text(template)
        template = str(tmp_path / "template.jinja")
    config = ModelConfig(
        name="thinker", source=str(tiny_folder), template=template, thinking={"tokens": 60}
    )
    theirs, ours = load_model(config), load_model(of_vllm(config))
    plain, answered = theirs.text.encode_data, theirs.text.encode_data(answer)
    thought = plain(thinking)
    if case == "at its limit":
        thought = thought[: 60 - len(theirs.close_thinking_ids)]
    elif case == "no thinking":
        thought = answered[: looked_at(theirs, answered)]
    else:
        thought = [*thought, answered[0]]  # looked at to see that the thinking is over
    end = min(theirs.stop_ids)
    tokens = [*thought, *answered, end]
    stream = list(tokens)
    let_replies_be(monkeypatch, lambda sampler, logits: stream.pop(0))
    vllm.engines[-1].forced = list(tokens)
    replies, meters = [], [Meter(), Meter()]
    for model, meter in zip((theirs, ours), meters, strict=True):
        with model.session(meter) as s:
            s.user("Where does the river lie?")
            replies.append((values(s.write(8)), s._text()))
    assert replies[1] == replies[0]
    assert replies[0][0]["text"] == answer
    assert bool(replies[0][0]["thinking"]) == (case != "no thinking")
    assert events(meters[1]) == events(meters[0])


def looked_at(model, ids):
    """How many tokens of a reply are looked at to see that it begins with the answer."""
    count = 1
    while begins_thinking(model.text.decode_context(ids[:count]), model.thinking) is None:
        count += 1
    return count
