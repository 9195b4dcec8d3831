"""Limits: a run stops within one question of one, with everything saved, and goes on to the same
records."""

import json
import time

import pytest

from harness.cost.prices import Prices
from harness.engine.command_limits import LimitHook, command_with_higher_limit
from harness.engine.progress import Silent
from harness.engine.spending_limits import Budget
from harness.errors import LimitReached, UserError
from harness.storage.run_folder import read_run
from harness.storage.stored_config import StoredModel
from tests.engine.fakes import World, comparable, go, make_plan

QUESTIONS = 24  # so many that more than four are left at each limit, in whatever order four in flight begin and end


def limited(out, plan, most, name="tokens", parallel=1):
    """One start of a run under a limit, as a command makes it."""
    budget, progress = Budget({name: most}), Silent()
    hook = LimitHook(budget, [plan], out, ["harness", "run", f"--max-{name}", "1"], progress.note)
    hook.ready(plan)
    hook.started(plan)
    go(plan, out, progress=progress, parallel=parallel, budget=budget)
    return budget


def spent_budget(limit, tokens):
    """A limit of tokens, and how many are spent."""
    budget = Budget({"tokens": limit})
    budget.spend({"answer": {"tokens_in": tokens, "tokens_out": 0, "flops": {"all-params": 0}}})
    return budget


def spent(out, plan):
    """Tokens of a run folder, and those of its largest question."""
    run = read_run(out / plan.folder)
    used = [usage.values() for usage in run.usages()]
    tokens = [sum(phase["tokens_in"] + phase["tokens_out"] for phase in phases) for phases in used]
    return sum(tokens), max(tokens[: len(run.records)])


@pytest.mark.usefixtures("fake_model")
@pytest.mark.parametrize("parallel", [1, 4])
def test_a_run_stops_near_the_limit_and_goes_on_to_equal_records(tmp_path, parallel):
    plan = make_plan(
        World(questions=QUESTIONS, documents=1).dataset()
    )  # no question ends before the index is built
    go(plan, tmp_path / "whole", parallel=parallel)
    whole, largest = spent(tmp_path / "whole", plan)
    for share in (0.4, 0.7):
        with pytest.raises(
            LimitReached, match=rf"^stopped at --max-tokens .*of {QUESTIONS} questions are not answ"
        ):
            limited(tmp_path / "cut", plan, share * whole, parallel=parallel)
        now, _ = spent(tmp_path / "cut", plan)
        assert share * whole <= now < share * whole + parallel * largest
        assert read_run(tmp_path / "cut" / plan.folder).summary.state == "stopped"
    limited(tmp_path / "cut", plan, whole + 1, parallel=parallel)
    ours, theirs = (read_run(tmp_path / name / plan.folder) for name in ("cut", "whole"))
    drawn = ("prediction",) if parallel > 1 else ()  # the fake draws from what threads share
    for a, b in zip(map(comparable, ours.records), map(comparable, theirs.records), strict=True):
        assert {k: v for k, v in a.items() if k not in drawn} == {
            k: v for k, v in b.items() if k not in drawn
        }
    assert ours.summary.state == "finished"


@pytest.mark.usefixtures("fake_model")
def test_a_row_is_not_begun_behind_the_limit_and_what_is_stored_is_not_stopped(tmp_path):
    plan, budget = make_plan(), spent_budget(1, 1)
    with pytest.raises(LimitReached, match="not begun, as --max-tokens 1 "):
        LimitHook(budget, [plan], tmp_path, [], print).ready(plan)
    assert not list(tmp_path.iterdir())
    go(plan, tmp_path)
    assert not limited(tmp_path, plan, 1).reached_limit


def test_hours_of_earlier_starts_count(tmp_path):
    starts = [
        ("2026-01-01T10:00:00+00:00", "2026-01-01T11:30:00+00:00"),
        ("2026-01-02T10:00:00+00:00", None),
    ]
    written = {"starts": [{"started": a, "finished": b} for a, b in starts]}
    (tmp_path / "manifest.json").write_text(json.dumps(written))
    budget = Budget({"hours": 1.0, "money": 100.0}, price_per_hour=4.0)
    budget.open_run(tmp_path, Prices())
    assert budget.spent()["hours"] == pytest.approx(1.5, abs=0.01)
    assert budget.spent()["money"] == pytest.approx(6.0, abs=0.05)
    assert not budget.may_continue()
    assert budget.reached_limit_text() == "--max-hours 1 (1.5 h spent)"


def test_indexes_that_failed_and_judges_count(tmp_path):
    row = {"document_id": "d", "key": "k", "usage": {"index": {"tokens_in": 100, "tokens_out": 7}}}
    lines = [row | {"status": status} for status in ("failed", "failed", "built", "hit")]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "manifest.json").write_text(
        json.dumps({"judges": {"judge.m": {"usage": {"tokens_in": 40}}}})
    )
    budget = Budget({"tokens": 1e6})
    budget.open_run(tmp_path, Prices())
    assert budget.spent()["tokens"] == 3 * 107 + 40


@pytest.mark.usefixtures("fake_model")
def test_an_index_that_fails_in_each_round_has_a_line_and_a_cost_each_time(tmp_path, monkeypatch):
    plan = make_plan(World(questions=2, documents=1).dataset())
    index = type(plan.method).index

    def broken(self, document, tools):
        index(self, document, tools)
        raise ValueError("broken")

    monkeypatch.setattr(type(plan.method), "index", broken)
    for number in range(3):
        go(plan, tmp_path, retry_failed=number > 0)
    run = read_run(tmp_path / plan.folder)
    assert [line.status for line in run.index_lines] == ["failed"] * 3
    assert run.summary.index.failed == 1
    assert (
        sum(line.usage["index"]["tokens_in"] for line in run.index_lines)
        == limited(tmp_path, plan, 1e6).spent()["tokens"]
    )


def test_money_is_that_of_requests_and_of_hours(tmp_path):
    billed = {"billed": {"reader": {"input": 1e6, "cached": 1e6, "output": 5e5}}}
    for price, of_tokens, most in [
        (None, {"input": 2.0, "output": 4.0}, 6.0),
        (None, {"input": 2.0, "output": 4.0, "cached": 0.5}, 4.5),
        (3600.0, None, 0.0),
    ]:
        budget = Budget({"money": 100.0}, price)
        model = StoredModel.from_json({"name": "served", "price": of_tokens})
        budget.open_run(tmp_path, Prices(model.billed_price))
        budget.spend({"answer": billed})
        assert most <= budget.spent()["money"] < most + 2


def test_a_limit_of_money_needs_a_price(tmp_path):
    plan = make_plan()
    with pytest.raises(UserError, match=r"model\.price\.input.*--price-per-gpu-hour P"):
        LimitHook(Budget({"money": 1.0}), [plan], tmp_path, [], print)
    LimitHook(Budget({"money": 1.0}, 2.0), [plan], tmp_path, [], print)


def test_this_command_counts_its_hours(monkeypatch):
    budget, now = Budget({"hours": 2.0}), time.monotonic()
    assert budget.may_continue()
    monkeypatch.setattr(time, "monotonic", lambda: now + 7201)
    assert not budget.may_continue()


@pytest.mark.parametrize(
    ("words", "higher"),
    [
        (["run", "--max-tokens", "10", "-q"], ["run", "--max-tokens", "24", "-q"]),
        (
            ["run", "--max-tokens=10", "--max-hours", "10"],
            ["run", "--max-tokens=24", "--max-hours", "10"],
        ),
    ],
)
def test_the_command_that_goes_on_has_a_higher_limit(words, higher):
    budget = spent_budget(10, 12)
    assert not budget.may_continue()
    assert command_with_higher_limit(budget, words) == higher


def test_tflops_that_nobody_counts_are_no_limit(tmp_path):
    with pytest.raises(UserError, match="the FLOPs of the reader of words on tiny are not counted"):
        LimitHook(Budget({"tflops": 1.0}), [make_plan()], tmp_path, [], print)


ROWS = (
    "--dataset",
    "pocket/musique",
    "--limit",
    "3",
    "--mlflow",
    "off",
    "--quiet",
    "--set",
    "dataset.tokens=300",
)


def test_the_command_ends_with_3_and_the_command_that_resumes(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["harness", "run", "--max-tokens", "60"])
    code, _, err = command("run", "--method", "closed-book", *ROWS, "--max-tokens", "60")
    assert code == 3, err
    assert "stopped at --max-tokens 60 (" in err
    assert err.splitlines()[-1].startswith("harness run --max-tokens 1")
    assert command("run", "--method", "closed-book", *ROWS, "--max-tokens", "9000")[0] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-hours", "0"], "should be more than 0"),
        (
            ["--max-hours", "9", "--shard", "1/2"],
            "--max-hours counts one process; leave it out, or --shard",
        ),
        (
            ["--max-money", "9", "--price-per-gpu-hour", "2", "--engine", "ray"],
            "--price-per-gpu-hour counts the time of",
        ),
    ],
)
def test_limits_that_mean_nothing_are_refused(command, options, said):
    code, _, err = command("run", "--method", "closed-book", *ROWS, *options)
    assert (code, said in err) == (2, True), err
