"""The sentence that opens a page, worked out by hand from the scores and costs of a few runs."""

import pytest

from harness.storage.run_folder import read_run
from reports.figures.front import points
from reports.finding import finding
from reports.main_table import frame
from reports.page import page
from tests.reports.build import record, usage, write_run

HIGH, LOW = [1.0] * 19 + [0.0], [0.0] * 19 + [1.0]
ALIKE = [1.0] * 18 + [0.0, 0.0]


def runs(root, *methods):
    """Runs of 20 questions on a document each; methods: (name, scores, TFLOPs a question)."""
    found = []
    for name, scores, cost in methods:
        costs = [{} if value is None else {"usage": {"answer": usage(cost)}} for value in scores]
        rows = [
            record(2 * n, value, **spent)
            for n, (value, spent) in enumerate(zip(scores, costs, strict=True))
        ]
        found.append(read_run(write_run(root, rows, method=name)))
    return found


PECAN = "pecan is the best of 2 (95.0 points, longbench.qa_f1)"
CASES = [  # runs, and how the sentence begins and ends
    ([("bm25", HIGH, 2.0)], "bm25 scores 95.0 points (longbench.qa_f1) on 20 questions.", ""),
    (
        [("pecan", HIGH, 4.0), ("bm25", ALIKE, 1.0), ("lead", LOW, 0.5)],
        (
            "bm25 cannot be told from pecan, the best of 3 (90.0 and 95.0 points, longbench.qa_f1), "
            "and takes 25 % of "
        ),
        " points.",
    ),
    (
        [("pecan", HIGH, 4.0), ("lead", LOW, 0.5)],
        f"{PECAN}; lead, the cheapest, takes 12 % of its FLOPs and",
        " points.",
    ),
    (
        [("pecan", HIGH, 1.0), ("lead", LOW, 2.0)],
        f"{PECAN} and the cheapest; 20 questions settle",
        " points.",
    ),
    (
        [("pecan", HIGH, 1.0), ("bm25", ALIKE, 0.998)],
        f"{PECAN} and within 1 % of the cheapest; 20 ques",
        " points.",
    ),
    # Of equal scores the cheaper one is the best.
    (
        [("pecan", HIGH, 2.0), ("lead", HIGH, 1.0)],
        "lead is the best of 2 (",
        "cheapest; 20 questions settle no difference.",
    ),
    # Too few to call them alike.
    (
        [("pecan", [1.0] * 4, 4.0), ("lead", [0.0] * 4, 1.0)],
        "pecan",
        "less; 4 questions settle no difference.",
    ),
    (
        [("pecan", [*HIGH[:-1], None], 1.0)],
        "pecan",
        " on 20 questions, of which 1 failed and count 0.",
    ),
]


@pytest.mark.parametrize(("methods", "begins", "ends"), CASES)
def test_the_sentence_follows_from_the_numbers(methods, begins, ends, tmp_path):
    found = runs(tmp_path, *methods)
    sentence = finding(frame(found), found, comparable=True)
    assert (sentence.startswith(begins), sentence.endswith(ends)) == (True, True), sentence


def test_without_a_score_there_is_no_best(tmp_path):
    rows = [record(0, None)]
    found = [
        read_run(write_run(tmp_path, rows, method=name, settings={"failed": "skip"}))
        for name in ("a", "b")
    ]
    assert (
        finding(frame(found), found, comparable=True) == "No answer has a score (longbench.qa_f1)."
    )


def test_runs_that_must_not_be_compared_are_not_called_alike(tmp_path):
    found = runs(tmp_path, ("pecan", HIGH, 4.0), ("bm25", ALIKE, 1.0))
    sentence = finding(frame(found), found, comparable=False)
    assert sentence.startswith("pecan is the best of 2")
    assert sentence.endswith("scores 5.0 points less on 20 questions.")


def test_where_flops_are_unknown_the_page_draws_money(tmp_path, drawn):
    billed = usage(0.0, uncounted=1) | {
        "billed": {"reader": {"input": 1000, "cached": 0, "output": 10}}
    }
    model = {
        "name": "m",
        "backend": "endpoint",
        "price": {"input": 2.0, "cached": None, "output": 5.0},
    }
    rows = [record(n, 1.0, usage={"answer": billed}) for n in range(3)]
    runs = [
        read_run(write_run(tmp_path, rows, method=name, settings={"model": model}))
        for name in ("bm25", "lead")
    ]
    body = page(runs).partition("<body>")[2]
    assert "bm25 (m): 100.0 at 0.00205 money" in body
    assert "money a question" in body
    assert points(frame(runs), runs) == []
