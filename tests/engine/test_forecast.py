"""Forecasts: figures worked by hand, from what the run holds; "unknown" where it holds no answer."""

import json
from dataclasses import replace

import pytest

from harness.cli.plan_table import forecast_table, measuring_command, suite_line
from harness.config.layers import Choices
from harness.config.schema import Price
from harness.cost.flops import DEFAULT_CONVENTION
from harness.engine.forecast import NOTHING_ANSWERED, Forecast, forecast
from harness.engine.plan import plan_choices
from harness.method import Traits
from harness.types import Document, Example, Gold, Question, Support
from tests.made_up import write_rows
from tests.reports.build import record

# Three questions on two documents of 400 and 800 bytes: 100 and 200 tokens.
DOCUMENTS = {"a": Document("a", "x" * 400), "b": Document("b", "y" * 800)}
EXAMPLES = tuple(
    Example(Question(f"q{n}", "Who?" * n, ids), Gold(("x",), (Support("a", 0, 40),)))
    for n, ids in enumerate([("a",), ("a",), ("a", "b")])
)


@pytest.fixture
def plan(configs, tmp_path, monkeypatch):
    """A plan of a method without a model over the three questions."""
    monkeypatch.setenv("HARNESS_CONFIGS", str(configs))
    monkeypatch.chdir(tmp_path)
    made = plan_choices(
        Choices(method="echo", dataset="pocket/musique", sets={"dataset.tokens": 300})
    )
    return replace(made, dataset=replace(made.dataset, examples=EXAMPLES, documents=DOCUMENTS))


def usage(tokens, full, **more):
    return {
        "answer": {
            "tokens_in": tokens - 1,
            "tokens_out": 1,
            "flops": {DEFAULT_CONVENTION: full},
            "uncounted": 0,
            **more,
        }
    }


def store(folder, plan, records, documents=()):
    """A run folder with such records, and an index of 1,000 tokens and 5 TFLOPs a document."""
    folder.mkdir(parents=True)
    (folder / "run.yaml").write_text(json.dumps({"config": plan.config.model_dump(mode="json")}))
    rows = [record(0, 0.0 if used else None, question_id=q, usage=used) for q, used in records]
    built = [
        {"document_id": d, "key": d, "status": "built", "usage": usage(1000, 5e12)}
        for d in documents
    ]
    write_rows(folder / "records.jsonl", rows)
    write_rows(folder / "documents.jsonl", built)


def test_unknown_is_said_and_no_number_is_made_up(plan, tmp_path):
    found = forecast(plan, tmp_path / "nothing")
    assert (found.questions, found.done, found.tokens, found.tflops) == (3, 0, None, None)
    assert (found.money, found.hours, found.how) == (None, None, NOTHING_ANSWERED)


@pytest.mark.parametrize(
    ("second", "tokens", "tflops", "how"),
    [
        (usage(300, 4e12), 200.0, 3.0, "2 answered questions"),
        (
            {},
            100.0,
            2.0,
            "1 answered question",
        ),  # it failed: it is done, and says nothing of the cost
        (usage(300, 0.0, uncounted=1), 200.0, None, "2 answered questions"),
    ],
    ids=["answered", "failed", "uncounted"],
)
def test_the_own_folder_counts_what_is_left(plan, tmp_path, second, tokens, tflops, how):
    store(tmp_path / plan.folder, plan, [("q0", usage(100, 2e12)), ("q1", second)])
    found = forecast(plan, tmp_path)
    amounts = {"tokens": tokens, "tflops": tflops, "how": f"the mean of {how}"}
    assert found == Forecast("echo", "pocket/musique", 3, 2, **amounts)


def test_a_run_that_is_done_costs_nothing(plan, tmp_path):
    store(tmp_path / plan.folder, plan, [(f"q{n}", usage(100, 2e12)) for n in range(3)])
    found = forecast(plan, tmp_path)
    assert (found.done, found.tokens, found.tflops, found.how) == (
        3,
        0.0,
        0.0,
        "every question is stored",
    )
    less = replace(plan, config=plan.config.model_copy(update={"limit": 2}))
    assert (forecast(less, tmp_path).questions, forecast(less, tmp_path).done) == (2, 2)


def test_hours_are_the_pace_of_the_answered_questions(plan, tmp_path):
    store(tmp_path / plan.folder, plan, [("q0", usage(100, 2e12))])
    rows = [record(0, 0.0, question_id="q0", usage=usage(100, 2e12), notes={"seconds": 7200.0})]
    write_rows(tmp_path / plan.folder / "records.jsonl", rows)
    assert forecast(plan, tmp_path).hours is None  # nobody stored how many were in flight
    manifest = {"starts": [{"parallel": 4}]}
    (tmp_path / plan.folder / "manifest.json").write_text(json.dumps(manifest))
    assert forecast(plan, tmp_path).hours == 2 * 2 / 4


def test_money_by_the_price_of_the_server(plan, tmp_path):
    served = plan.config.model.model_copy(update={"price": Price(input=10.0, output=20.0)})
    priced = replace(plan, config=plan.config.model_copy(update={"model": served}))
    billed = {"reader": {"input": 100_000, "cached": 0, "output": 50_000}}
    store(tmp_path / plan.folder, priced, [("q0", usage(100, 2e12, billed=billed))])
    assert forecast(priced, tmp_path).money == 2 * (1.0 + 1.0)


@pytest.mark.parametrize(
    ("given", "measured"),
    [
        ("harness run -m bm25 --plan", "harness run -m bm25 --limit 3"),
        ("harness run --limit 500 -m bm25 --plan --json", "harness run -m bm25 --limit 3"),
        ("harness run --sample=90 -m bm25 --plan", "harness run -m bm25 --sample 3"),
    ],
)
def test_the_command_that_would_tell(given, measured):
    assert measuring_command(given.split()) == measured.split()


def test_plan_says_which_command_would_tell_and_extrapolates_after_it(here):
    words = ["run", "-m", "echo", "-d", "pocket/musique", "--mlflow", "off"]
    before = here(*words, "--plan").checked()
    command = "harness run -m echo -d pocket/musique --mlflow off --limit 3"
    assert f"this command would tell the unknown costs: {command}\n" in before.stderr
    here(*command.split()[1:]).checked()
    after = here(*words, "--plan").checked()
    assert "the mean of 3 answered questions" in after.stdout
    assert after.stderr == ""


def indexed(plan, **attributes):
    """The plan with a method that builds indexes."""
    method = type("Indexed", (type(plan.method),), {"scope": "document", **attributes})(
        plan.method.config
    )
    return replace(plan, method=method)


@pytest.mark.parametrize(
    ("attributes", "indexes"),
    [
        ({"traits": Traits(one_document=False)}, 2),  # a and b
        ({"traits": Traits()}, 2),  # a, and a joined with b
        ({"traits": Traits(one_document=False), "scope": "question"}, 4),  # q0 a, q1 a, q2 a, q2 b
        ({"traits": Traits(), "scope": "question"}, 3),
        ({"scope": "none"}, 0),
    ],
    ids=str,
)
def test_indexes_are_counted_once(plan, tmp_path, attributes, indexes):
    store(tmp_path / plan.folder, plan, [("z", usage(100, 2e12))], ["z"])
    found = forecast(indexed(plan, **attributes), tmp_path)
    left = max(indexes - 1, 0)  # one is stored
    assert (found.tokens, found.tflops) == (300 + 1000 * left, 6 + 5 * left)


def test_stored_indexes_are_not_counted_again(plan, tmp_path):
    store(tmp_path / plan.folder, plan, [("q0", usage(100, 2e12))], ["a"])
    found = forecast(indexed(plan, traits=Traits(one_document=False)), tmp_path)
    assert (found.tokens, found.tflops) == (200 + 1000, 4 + 5)


def test_a_damaged_run_is_passed_over(plan, tmp_path):
    store(tmp_path / plan.folder, plan, [("q0", usage(100, 2e12))])
    assert forecast(plan, tmp_path).tokens == 200.0
    (tmp_path / plan.folder / "run.yaml").write_text("config: [")
    assert forecast(plan, tmp_path).tokens is None


def test_the_table_sums_what_is_known_and_says_what_is_not():
    rows = [
        Forecast("bm25", "musique", 24, 10, 12_345.0, 0.5, 1.5, 0.25, "stored x"),
        Forecast("pecan", "musique", 24, 0, how="no answer"),
    ]
    lines = forecast_table("suite s: 2 runs", rows).splitlines()
    assert lines[0] == "suite s: 2 runs"
    assert lines[2].split() == [
        "bm25", "musique", "14", "of", "24", "12.3k", "0.5", "1.50", "0.25", "stored", "x"
    ]  # fmt: skip
    unknown = ["unknown", "unknown", "-", "unknown"]
    assert lines[3].split() == ["pecan", "musique", "24", *unknown, "no", "answer"]
    assert lines[4].split()[:8] == [
        "together", "38", "of", "48", "12.3k", "0.5", "1.50", "0.25"
    ]  # fmt: skip
    assert lines[4].endswith("without 1 run whose cost is unknown")
    assert "unknown" in forecast_table("", rows[1:]).splitlines()[3]
    needed = "38 questions to answer, 12.3k tokens, 0.5 TFLOPs, 0.25 hours"
    line = f"suite s: 2 runs, {needed} (each run: --plan)"
    assert suite_line("s", rows) == line


def test_a_suite_says_what_it_will_cost_runs_and_names_what_did_not(here, configs, tmp_path):
    rows = "methods: [echo, fails-once, refuses, ranks, buggy]\ndatasets: [pocket/musique]\nset: [dataset.tokens=300]\n"
    (configs / "suites" / "mixed.yaml").write_text(rows + "limit: 2\n")
    words = ["--suite", "mixed", "--mlflow", "off"]
    planned = here("run", *words, "--plan", "--json")
    assert planned.returncode == 1  # the bug of one method
    forecasts = [json.loads(line) for line in planned.stdout.splitlines()]
    assert [(row["method"], row["questions"], row["tokens"]) for row in forecasts] == [
        ("echo", 2, None), ("fails-once", 2, None), ("refuses", 2, None)
    ]  # fmt: skip
    assert not (tmp_path / "results").exists()
    done = here("run", *words).checked(1)
    assert "suite mixed: 3 runs" in done.stderr
    assert done.stderr.index("suite mixed: 3 runs") < done.stderr.index(
        "--- echo on pocket/musique"
    )
    last = done.stderr.rstrip().splitlines()[-5:]
    assert last[0] == "4 of 5 runs are incomplete:"
    assert [line.strip().partition(":")[0] for line in last[1:]] == [
        f"{name} on pocket/musique" for name in ("ranks", "buggy", "fails-once", "refuses")
    ]
    assert "needs a reranker" in last[1]
    assert "a bug, see the traceback above (RuntimeError)" in last[2]
    assert last[3].endswith("1 of 2 questions failed")
    assert last[4].endswith("the weights are not there")
    again = here("run", *words, "--plan")
    assert "every question is stored" in again.stdout
    assert again.stdout.splitlines()[2].split()[:5] == ["echo", "pocket/musique", "0", "of", "2"]


def test_a_suite_that_runs_whole_says_so_and_plan_works_without_a_suite(here, configs):
    lists = "methods: [echo, echo-loud]\ndatasets: [pocket/musique]\nset: [dataset.tokens=300]\nlimit: 1\n"
    (configs / "suites" / "fine.yaml").write_text(lists)
    done = here("run", "--suite", "fine", "--mlflow", "off").checked()
    assert done.stderr.rstrip().splitlines()[-1] == "all 2 runs are complete"
    one = here("run", "--method", "echo", "--dataset", "pocket/musique", "--plan")
    assert (one.returncode, one.stdout.splitlines()[0]) == (0, "1 run")
    priced = here("run", "--suite", "fine", "--mlflow", "off", "--price-per-gpu-hour", "2")
    assert (priced.returncode, "--price-per-gpu-hour is for --max-money M" in priced.stderr) == (
        2,
        True,
    )
