"""Sampled replies: the seed, the question and the request alone decide a draw; greedy rows are not
repeated."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.config import presets, registry
from harness.config.layers import Choices
from harness.config.resolve import resolve_method, resolve_model
from harness.engine.plan import plan_choices
from harness.errors import UserError
from harness.llm.backend import check_greedy
from harness.method import Method, draws_by_seed
from harness.models import Decoding, Sampling

Command = Callable[..., tuple[int, str, str]]
ROW = (
    "--dataset",
    "pocket/musique",
    "--set",
    "dataset.tokens=300",
    "--mlflow",
    "off",
    "--quiet",
    "--json",
)
WARM = "model.temperature=1.5"


def answers(command, out, *more, limit=4):
    code, shown, err = command(
        "run", "--method", "bm25", *ROW, "--limit", str(limit), "--out", out, *more
    )
    assert code == 0, err
    records = (Path(json.loads(shown)["run"]) / "records.jsonl").read_text().splitlines()
    return [json.loads(line)["prediction"] for line in records]


def test_answers_depend_on_seed_and_question_alone(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first = answers(command, "a", "--set", WARM)
    assert answers(command, "c", "--set", WARM, "--parallel", "2", limit=2) == first[:2]
    assert answers(command, "c", "--set", WARM) == first  # what was left, by a second start
    assert answers(command, "a", "--set", WARM, "--seed", "1") != first


def test_no_reply_is_longer_than_max_tokens(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    answers(command, "a", "--set", "model.max_tokens=1")
    (records,) = Path("a").rglob("records.jsonl")
    assert all(
        json.loads(line)["usage"]["answer"]["tokens_out"] <= 1
        for line in records.read_text().splitlines()
    )


GREEDY = Decoding(8, ("\n",))


@pytest.mark.parametrize(
    ("settings", "asked", "drawn"),
    [
        ({}, GREEDY, GREEDY),
        ({"max_tokens": 3}, GREEDY, Decoding(3, ("\n",))),
        ({"max_tokens": 30}, GREEDY, GREEDY),
        (
            {"temperature": 0.7, "top_p": 0.9},
            Decoding(8, (), 0.2, 1.0, 5),
            Decoding(8, (), 0.2, 1.0, 5),
        ),
    ],
)
def test_what_a_method_asks_for_stays(settings, asked, drawn):
    assert Sampling(1, **settings).applied_to(asked, lambda: "context") == drawn


def test_requests_draw_by_seed_and_context():
    def seed(of_question, context):
        return Sampling(of_question, temperature=1.0).applied_to(GREEDY, lambda: context).seed

    assert seed(1, "a") == seed(1, "a")
    assert len({seed(1, "a"), seed(1, "b"), seed(2, "a")}) == 3


def test_sampling_is_in_the_hash_and_in_no_index():
    def plan(*typed):
        sets = dict(one.split("=") for one in typed)
        return plan_choices(Choices("pecan", "pocket/musique", profile="pocket", sets=sets))

    plain, warm = plan(), plan(WARM)
    assert plain.hash8 != warm.hash8 != plan("model.temperature=1").hash8
    assert plain.hash8 == plan("model.temperature=0", "model.top_p=1.0").hash8
    assert plain.identities == warm.identities  # what index keys are made of


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ({"model.top_p": "0.5"}, "set model.temperature too"),
        ({"roles.builder.temperature": "0.5"}, "only the reader's replies are sampled"),
        ({"model.temperature": "-1"}, "greater than or equal to 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(sets, said):
    with pytest.raises(UserError, match=said):
        plan_choices(Choices("pecan", "pocket/musique", sets=sets))


def test_a_judge_is_greedy():
    with pytest.raises(UserError, match="a judge is asked greedily"):
        check_greedy(
            resolve_model(Choices(model="pocket-llama", sets={"model.temperature": 1})).value,
            "a judge",
        )
    with pytest.raises(UserError, match="a judge sends each request at once"):
        check_greedy(
            resolve_model(Choices(model="pocket-llama", sets={"model.batch": True})).value,
            "a judge",
        )


def test_greedy_rows_of_methods_that_draw_nothing_are_run_once(command):
    row = ("--dataset", "pocket/musique", "--repeat", "3")
    code, out, err = command("validate", "--method", "bm25,closed-book,random", *row)
    assert (code, out.count("ok  bm25"), out.count("ok  closed-book"), out.count("ok  random")) == (
        0,
        1,
        1,
        3,
    )
    assert "bm25, closed-book: greedy, so all 3 repeats would be equal" in err
    code, out, err = command("validate", "--method", "bm25", *row, "--set", WARM)
    assert (code, out.count("ok  bm25"), err) == (0, 3, "")


def test_methods_that_say_so_draw_nothing():
    for name in presets.names("methods"):
        cls = registry.load(resolve_method(Choices(method=name)).value.implementation, Method)
        if not draws_by_seed(cls):
            assert not any("sampling" in needed for needed in cls.needs.values()), name
            own = [c for c in cls.__mro__ if c.__module__.startswith("methods.")]
            assert not any("tools.seed" in inspect.getsource(c) for c in own), name
