"""Bounded caches: what a press leaves, what it costs, and that nothing of it stays on the model."""

import json
import sys

import pytest

from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import CannotRun, QuestionError
from harness.llm.backend import load_model
from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.kv_eviction import PRESSES, BoundedCache, BoundedCacheConfig, CutReader
from tests.llm import tiny_families as tiny
from tests.methods.conftest import FakeTools

TEXT = "Red fox runs fast. Blue fox sleeps now. Green bird sings well. " * 20
QUESTION = Question("q", "Which bird?", ("d",))
BUDGET = 200


@pytest.fixture(scope="module")
def pocket():
    return load_model(resolve_model(Choices(model="pocket-llama")).value)


def plain(model):
    """The reply, the probabilities of two tokens and the events of the text read by a session."""
    meter = Meter()
    with model.session(meter) as session:
        session.user(TEXT)
        session.flush()
        probabilities = session.probe(["Yes", "No"]).mass
        return session.write(8).text, probabilities


def cut(model, cut_at=None, after="", **config):
    """The reader, the reply and the events of the text read with a cut cache."""
    meter = Meter()
    reader = CutReader(BoundedCacheConfig(**{"budget": BUDGET, **config}), cut_at)
    with model.session(meter) as session:
        session.user(TEXT)
        session.feed(after)
        written = session.write_plain(reader, 8)
    return reader, written, [event for event in meter.events if event.new]


@pytest.mark.parametrize("press", PRESSES)
def test_a_press_leaves_the_budget_and_nothing_on_the_model(pocket, press):
    before = plain(pocket)
    reader, _, events = cut(pocket, press=press)
    assert (reader.tokens_kept, reader.tokens_read) == (BUDGET, events[0].new)
    assert events[-1].kind == "decode"
    assert events[-1].cached == BUDGET
    assert plain(pocket) == before
    assert pocket.net.config._attn_implementation == "harness"


@pytest.mark.parametrize("press", PRESSES)
def test_a_text_within_the_budget_is_answered_as_without_one(pocket, press):
    reader, written, _ = cut(pocket, press=press, budget=10_000)
    assert reader.tokens_kept == reader.tokens_read
    assert written.text == plain(pocket)[0]


@pytest.mark.parametrize(
    ("press", "products"),
    [
        ("streamingllm", lambda n: 0),
        ("snapkv", lambda n: 64 * n),
        ("expected-attention", lambda n: n * (2 * 64 + 2)),  # heads of 64 numbers
    ],
)
def test_the_cost_is_that_of_the_passes_and_of_the_ranking(pocket, press, products):
    _, _, events = cut(pocket, press=press)
    n = events[0].new
    assert (events[0].kind, events[0].pairs) == ("prefill", n * (n + 1) // 2)
    assert events[0].ranking_pairs == products(n)
    assert [event.requests for event in events] == [1, 0]


def test_kvzip_costs_the_repetition_of_the_text(pocket):
    _, _, events = cut(pocket, press="kvzip")
    assert [event.kind for event in events] == ["prefill", "prefill", "decode"]
    assert events[1].cached == events[0].new
    assert events[1].new > 0.9 * events[0].new


def test_a_question_after_the_cut_is_read_over_what_is_left(pocket):
    before = pocket.count(TEXT)
    reader, _, events = cut(pocket, cut_at=before, after=" Which bird?", press="snapkv")
    assert (reader.tokens_read, reader.tokens_kept) == (before, BUDGET)
    first, second, decoded = events
    assert (first.new, second.cached) == (before, BUDGET)
    assert decoded.cached == BUDGET + second.new


def test_a_context_of_which_something_was_read_is_refused(pocket):
    with pocket.session(Meter()) as session:
        session.user(TEXT)
        session.flush()
        with pytest.raises(ValueError, match="a part of it was read before"):
            session.write_plain(CutReader(BoundedCacheConfig(), None), 3)


def test_a_network_that_kvpress_does_not_support(tmp_path):
    words = tiny.tokenizer_folder(tmp_path / "words")
    folder, _ = tiny.saved(tmp_path / "gpt2", words, "gpt2")
    model = load_model(ModelConfig(name="m", source=str(folder), window=tiny.WINDOW))
    session = model.session(Meter())
    session.user("Mira Tal founded the school.")
    with pytest.raises(CannotRun, match="cuts no cache of a GPT2LMHeadModel; use a model of Llama"):
        session.write_plain(CutReader(BoundedCacheConfig(), None), 3)


def test_kvzip_needs_another_kernel_than_eager():
    config = resolve_model(Choices(model="pocket-llama")).value.model_copy(
        update={"attention": "eager"}
    )
    with pytest.raises(CannotRun, match="does not work with model.attention=eager; set"):
        cut(load_model(config), press="kvzip")


def answered(**config):
    tools = FakeTools([Rule(reply="Green")])
    method = BoundedCache(BoundedCacheConfig(**{"budget": 100, **config}))
    return method.answer(QUESTION, [Document("d", TEXT)], [{}], tools), tools


@pytest.mark.parametrize(
    ("asked", "order"),
    [("behind", "text question"), ("before", "question text"), ("after", "text question")],
)
def test_the_place_of_the_question(asked, order):
    found, tools = answered(asked=asked)
    assert (found.text, found.stop_reason) == ("Green", "whole")
    prompt = tools.reader.prompts[0]
    place = {"text": prompt.index("Red fox"), "question": prompt.index("Which bird?")}
    assert " ".join(sorted(place, key=place.get)) == order


def test_a_budget_below_the_question_is_refused():
    with pytest.raises(
        QuestionError, match=r"takes \d+ tokens, more than the cache's budget of 33; raise"
    ):
        answered(budget=33, press="streamingllm")


@pytest.mark.parametrize(("window", "refused"), [(0, False), (100, True), (101, False)])
def test_a_budget_that_the_window_never_fills_is_refused(window, refused):
    method = BoundedCache(BoundedCacheConfig(budget=100))
    assert bool(method.model_problems("reader", window, {})) is refused


@pytest.fixture
def offline(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.cli.main._exit_at_once", sys.exit)
    return tmp_path


def test_the_command_records_what_was_kept(command, offline):
    names = ["-m", "kvzip", "-d", "pocket/musique", "--limit", "1", "--profile", "pocket"]
    code, _, err = command("run", *names, "--mlflow", "off", "-q", "--out", "out")
    assert code == 0, err
    (path,) = offline.glob("out/**/records.jsonl")
    (record,) = [json.loads(line) for line in path.read_text().splitlines()]
    (step,) = record["steps"]
    assert (step["scores"]["kept"], step["tokens"]) == (256.0, 256)
    assert step["scores"]["read"] > 256


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [("kvzip", "kvpress", "eviction"), ("llmlingua", "llmlingua", "compression")],
)
def test_a_package_that_is_missing_is_named_before_anything_runs(
    command, offline, monkeypatch, method, package, extra
):
    monkeypatch.setitem(sys.modules, package, None)  # importing it raises ModuleNotFoundError
    names = ["-m", method, "-d", "pocket/musique", "--profile", "pocket", "--out", "out"]
    code, out, err = command("run", *names, "--plan")
    assert (code, f"missing here: the package {package}" in out + err) == (0, True)
    code, _, err = command("run", *names)
    assert code == 2
    assert f"pip install 'longdoc-harness[{extra}]'" in err


def test_a_served_model_is_refused_in_one_sentence(command, offline):
    sets = ["model.backend=endpoint", "model.base_url=http://127.0.0.1:9/v1", "model.window=8192"]
    options = [word for setting in sets for word in ("--set", setting)]
    asked = ["-m", "snapkv", "-d", "pocket/musique", "--model", "served/m"]
    code, _, err = command("run", *asked, *options)
    assert code == 2
    assert "needs the transformers model itself, which the server of 'served/m' cannot give" in err
