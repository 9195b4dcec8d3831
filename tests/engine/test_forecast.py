"""Forecasts: figures worked by hand, from what the run holds or its method declares; "unknown"
where there is neither."""

import json
from dataclasses import replace

import pytest

from harness.cli.plan_table import as_table, suite_line
from harness.config.layers import Choices
from harness.cost.flops import DEFAULT, Event, flops
from harness.engine.forecast import FRAME, Forecast, forecast
from harness.engine.plan import plan_choices
from harness.method.hooks import Reads
from harness.types import Document, Example, Gold, Question, Support
from tests.engine.fakes import SHAPE
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
            "flops": {DEFAULT: full},
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
    assert found.how.startswith("unknown: nothing stored yet")


@pytest.mark.parametrize(
    ("second", "tokens", "tflops", "how"),
    [
        (usage(300, 4e12), 200.0, 3.0, "2 questions"),
        ({}, 100.0, 2.0, "1 question"),  # it failed: it is done, and says nothing of the cost
        (usage(300, 0.0, uncounted=1), 200.0, None, "2 questions"),
    ],
    ids=["answered", "failed", "uncounted"],
)
def test_the_own_folder_counts_what_is_left(plan, tmp_path, second, tokens, tflops, how):
    store(tmp_path / plan.folder, plan, [("q0", usage(100, 2e12)), ("q1", second)])
    found = forecast(plan, tmp_path)
    assert found == Forecast("echo", "pocket/musique", 3, 2, tokens, tflops, found.how)
    assert found.how == f"stored: the mean cost of {how}"


def test_a_run_that_is_done_costs_nothing(plan, tmp_path):
    store(tmp_path / plan.folder, plan, [(f"q{n}", usage(100, 2e12)) for n in range(3)])
    found = forecast(plan, tmp_path)
    assert (found.done, found.tokens, found.tflops, found.how) == (
        3,
        0.0,
        0.0,
        "done: every question is stored",
    )
    less = replace(plan, config=plan.config.model_copy(update={"limit": 2}))
    assert (forecast(less, tmp_path).questions, forecast(less, tmp_path).done) == (2, 2)


def indexed(plan, **attributes):
    """The plan with a method that builds indexes."""
    method = type("Indexed", (type(plan.method),), {"scope": "document", **attributes})(
        plan.method.config
    )
    return replace(plan, method=method)


@pytest.mark.parametrize(
    ("attributes", "indexes"),
    [
        ({"one_document": False}, 2),  # a and b
        ({"one_document": True}, 2),  # a, and a joined with b
        ({"one_document": False, "scope": "question"}, 4),  # q0 a, q1 a, q2 a, q2 b
        ({"one_document": True, "scope": "question"}, 3),
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
    found = forecast(indexed(plan, one_document=False), tmp_path)
    assert (found.tokens, found.tflops) == (200 + 1000, 4 + 5)


@pytest.mark.parametrize(
    ("attributes", "embedded"),
    [
        ({"one_document": False}, 100 + 200),  # a and b
        ({"one_document": True}, 100 + 300),  # a, and a joined with b
        ({"one_document": False, "scope": "question"}, 100 + 100 + 300),  # q0 a, q1 a, q2 a, q2 b
    ],
    ids=str,
)
def test_the_encoder_reads_the_text_of_each_index_once(plan, tmp_path, attributes, embedded):
    def reads(self, tokens, room):
        return Reads(shown=0, requests=0, embedded=tokens)

    assert forecast(indexed(plan, reads=reads, **attributes), tmp_path).tokens == embedded


def test_a_damaged_run_is_passed_over(plan, tmp_path):
    store(tmp_path / plan.folder, plan, [("q0", usage(100, 2e12))])
    assert forecast(plan, tmp_path).tokens == 200.0
    (tmp_path / plan.folder / "run.yaml").write_text("config: [")
    assert forecast(plan, tmp_path).tokens is None


def test_declared_reading_is_counted_by_the_formulas(plan, tmp_path):
    seen = []

    def reads(self, tokens, room):
        seen.append((tokens, room))
        return Reads(shown=2 * tokens, requests=2)

    reader = plan.config.model.model_copy(
        update={"package": None, "source": str(tmp_path / "model")}
    )
    keys = (
        "num_hidden_layers",
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
    )
    sizes = dict(
        zip((*keys, "intermediate_size", "vocab_size"), (2, 8, 2, 1, 4, 16, 50), strict=True)
    )
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(sizes))
    (tmp_path / "model" / "model.safetensors").write_bytes(b"")
    task = plan.task.model_copy(update={"instruction": "i" * 40, "max_answer_tokens": 10})
    facts = {"reader": {"window": 1000, "weights": "those here"}}
    made = replace(
        indexed(plan, reads=reads, scope="none"),
        task=task,
        models={"reader": reader},
        identities=facts,
    )
    found = forecast(made, tmp_path / "results")
    # The frame of question n: its own words and twice the instruction of 10 tokens, and "Who?" n
    # times.
    frames = [FRAME + 20 + n for n in range(3)]
    assert seen == [
        (text, 1000 - frame - 10) for text, frame in zip((100, 100, 300), frames, strict=True)
    ]
    prompts = [frame + text for text, frame in zip((100, 100, 300), frames, strict=True)]
    assert found.tokens == sum(2 * (prompt + 10) for prompt in prompts)
    asked = [Event("", "", "answer", "prefill", p) for p in prompts]
    asked += [Event("", "", "answer", "decode", 10, p) for p in prompts]
    assert found.tflops == pytest.approx(2 * sum(flops(event, SHAPE) for event in asked) / 1e12)
    assert found.how.startswith("declared")
    unknown = replace(made, models={})
    assert (forecast(unknown, tmp_path / "results").tflops, forecast(unknown, tmp_path).tokens) == (
        None,
        found.tokens,
    )


@pytest.mark.parametrize(
    "method", ["full-context", "closed-book", "bm25", "sbert", "sliding-window", "oracle-evidence"]
)
def test_what_the_baselines_declare_is_near_what_they_read(method, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    sets = {"dataset.tokens": 1200, "dataset.questions": 4, "dataset.hops": [1, 2]}
    made = plan_choices(
        Choices(method=method, dataset="pocket/musique", profile="pocket", sets=sets)
    )
    found = forecast(made, tmp_path)
    assert found.how.startswith("declared")
    assert found.tokens is not None
    assert found.tflops
    texts = 4 * 1200
    if method in ("full-context", "sliding-window"):
        assert texts <= found.tokens <= 2 * texts
    elif method == "sbert":
        assert (
            texts <= found.tokens <= 2.2 * texts
        )  # the encoder reads every chunk, the reader five
    else:
        assert found.tokens < texts


def test_the_table_sums_what_is_known_and_says_what_is_not():
    rows = [
        Forecast("bm25", "musique", 24, 10, 12_345.0, 0.5, "stored: x"),
        Forecast("pecan", "musique", 24, 0, None, None, "unknown: y"),
    ]
    lines = as_table("suite s: 2 runs", rows).splitlines()
    assert lines[0] == "suite s: 2 runs"
    assert lines[2].split() == ["bm25", "musique", "14", "of", "24", "12.3k", "0.5", "stored:", "x"]
    assert lines[3].split() == ["pecan", "musique", "24", "unknown", "unknown", "unknown:", "y"]
    assert lines[4].split()[:6] == ["together", "38", "of", "48", "12.3k", "0.5"]
    assert lines[4].endswith("without 1 run whose cost is unknown")
    assert "unknown" in as_table("", rows[1:]).splitlines()[3]
    line = "suite s: 2 runs, 38 questions to answer, 12.3k tokens, 0.5 TFLOPs (each run: --plan)"
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
    assert "done: every question is stored" in again.stdout
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
