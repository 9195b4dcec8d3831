"""Runs that were asked other questions, of other rows or for another task are told apart, and costs
are explained."""

import json
import math
from dataclasses import replace

import pytest

from harness.storage.run_folder import read_run
from reports.columns import sections, with_legend
from reports.comparability import QuestionSet, most_common_question_set, reasons_not_to_rank
from reports.figures.front import points
from reports.main_table import as_frame, best_first, frame, table_rows
from reports.methods_by_dataset import wide_table
from reports.page import page
from reports.table_formats import render, render_sections
from tests.reports.build import SCORE, built, mistake, record, stored, usage, write_run

SCORES = [0.2, 0.4, 0.5, 1.0, 0.0, 0.0, 0.3, 0.1]
INDEX = [built("d0", 3.0)]


def task(**changes):
    return {"dataset": {"name": "musique", "format": "musique", "scorers": [SCORE], **changes}}


DIFFERENCES = [
    (SCORES[:1], {}, "other questions (1 and 8, 1 in common)"),
    (
        SCORES,
        {"manifest": {"dataset": {"fingerprint": "a" * 64}}},
        "other rows of the data set (fingerprints ",
    ),
    (SCORES, {"settings": task(max_answer_tokens=2)}, "another task (max_answer_tokens)"),
    (
        SCORES,
        {"settings": task(instruction="x", answer_prefix="So:")},
        "another task (answer_prefix, instruction)",
    ),
]


@pytest.mark.parametrize(("scores", "changes", "reason"), DIFFERENCES)
def test_a_run_that_must_not_be_ranked_with_the_others_says_so(scores, changes, reason, tmp_path):
    usual = [stored(tmp_path, SCORES, method=m) for m in ("full-context", "pecan")]
    assert (
        reasons_not_to_rank([*usual, stored(tmp_path, SCORES[:2], dataset="qasper")]) == [None] * 3
    )
    runs = [stored(tmp_path, scores, method="bm25", **changes), *usual]
    (not_ranked, *others) = reasons_not_to_rank(runs)
    sentence = not_ranked.sentence
    assert sentence.startswith("bm25 should not be ranked with full-context: ")
    assert reason in sentence
    assert others == [None, None]
    table = as_frame(best_first(table_rows(runs))).set_index("method")
    assert sentence in table.loc["bm25", "notes"]
    assert sentence not in table.loc["pecan", "notes"]
    shown = " ".join(
        render_sections(sections(as_frame(best_first(table_rows(runs)))), "text").split()
    )
    assert sentence in shown
    # One task more or less is a matter of judgement; over other questions a ratio is of nothing.
    assert math.isnan(table.loc["bm25", "ratio"]) is ("questions" in reason or "rows" in reason)
    assert table.loc["pecan", "ratio"] == 1.0


def test_of_two_the_longer_is_the_usual():
    few, many = QuestionSet("f", frozenset("a")), QuestionSet("f", frozenset("ab"))
    assert most_common_question_set([few, many]) == many
    assert most_common_question_set([few, many, few]) == few
    without_rows, others = QuestionSet(None, frozenset("a")), QuestionSet("g", frozenset("b"))
    assert most_common_question_set([without_rows, others]) == without_rows


def bold(text):
    """The first words of the rows with a value in bold."""
    return [line.split()[0] for line in text.splitlines() if r"\textbf" in line]


def asked_apart(root):
    """Two runs of 8 questions, and one of the first 2 with the highest mean."""
    runs = [
        stored(root, scores, method=m) for m, scores in (("bm25", SCORES), ("pecan", [0.3] * 8))
    ]
    return [stored(root, [1.0, 1.0], method="raptor"), *runs]


@pytest.mark.parametrize("wide", [False, True])
def test_a_run_of_other_questions_is_never_the_best(wide, tmp_path):
    rows = best_first(table_rows(asked_apart(tmp_path)))
    assert [row.label for row in rows] == ["bm25", "pecan", "raptor"]
    found = wide_table(rows).sections() if wide else sections(as_frame(rows))
    text = render_sections(found, "latex")
    assert bold(text) == ["bm25"]
    assert "raptor: asked otherwise than most, never marked as best" in text


@pytest.mark.parametrize(
    "rivals", [{"bm25": [0.0] * 8, "pecan": [0.0] * 8}, {"bm25": [0.5] * 8, "pecan": [0.9]}]
)
def test_of_zeros_and_of_runs_that_are_ranked_with_none_no_one_is_best(rivals, tmp_path):
    rows = table_rows([stored(tmp_path, scores, method=m) for m, scores in rivals.items()])
    assert bold(render_sections(sections(as_frame(best_first(rows))), "latex")) == []


def test_the_leaderboard_marks_a_run_of_other_questions(tmp_path):
    shown = page([*asked_apart(tmp_path), stored(tmp_path, [0.3], dataset="qasper")])
    board = shown[shown.index('id="leaderboard"') :]
    marked = {
        name: "(q)" in row
        for row in board.split("</tr>")[1:5]
        for name in ("raptor", "bm25")
        if name in row
    }
    assert marked == {"raptor": True, "bm25": False}


def test_common_is_offered_and_reduces_runs_to_the_questions_of_all(tmp_path, command):
    offer, *_ = reasons_not_to_rank(asked_apart(tmp_path))
    assert "--common shows all runs on the questions in common" in offer.sentence
    code, out, _ = command("report", str(tmp_path), "--common", "--format", "json")
    rows = {row["method"]: row for row in json.loads(out)}
    assert code == 0
    assert {name: (row["n"], row[SCORE]) for name, row in rows.items()} == {
        "raptor": (2, 1.0), "bm25": (2, pytest.approx(0.3)), "pecan": (2, 0.3)}  # fmt: skip
    assert (
        "reduced to the 2 of 8 questions that every run was asked (--common)"
        in rows["bm25"]["notes"]
    )
    assert not any("should not be ranked" in note for row in rows.values() for note in row["notes"])


def test_common_is_refused_where_no_question_is(tmp_path, command):
    for method, number in (("bm25", 0), ("pecan", 1)):
        write_run(tmp_path, [record(number, 1.0)], method=method)
    message = mistake(command("report", str(tmp_path), "--common"))
    assert "--common: the runs over musique have no question in common" in message


def priced(root, method, costs, score=0.5):
    """A run whose question i cost costs[i] TFLOPs; None is a failed question."""
    asked = enumerate(costs)
    rows = [
        record(i, score, usage={"answer": usage(cost)}) if cost else record(i, None)
        for i, cost in asked
    ]
    return read_run(write_run(root, rows, method=method))


def test_the_ratio_is_over_the_questions_that_both_answered(tmp_path):
    """The long question fails with the whole document: by means alone 5 against 2 TFLOPs, 2.5x
    instead of 0.5x."""
    runs = [priced(tmp_path, "full-context", [2.0, None]), priced(tmp_path, "pecan", [1.0, 9.0])]
    table = frame(runs).set_index("method")
    assert table.loc["pecan", "ratio"] == 0.5
    assert "ratio is over the 1 of 2 questions that both answered" in table.loc["pecan", "notes"]
    assert table.loc["full-context", "ratio"] == 1.0
    assert not any("ratio" in note for note in table.loc["full-context", "notes"])


def test_runs_of_other_questions_beat_none_and_have_a_mark_of_their_own(tmp_path, drawn):
    runs = [
        priced(tmp_path, "dear", [5.0, 6.0, 7.0], 0.4),
        priced(tmp_path, "cheap", [1.0, 2.0, 3.0], 0.4),
        priced(tmp_path, "one", [0.1], 0.9),
        priced(tmp_path, "bad one", [0.2], 0.1),
        priced(tmp_path, "other task", [0.1, 0.2, 0.3], 0.9),
    ]
    config = runs[-1].config.with_dataset(instruction="Answer with the options at hand.")
    runs[-1] = replace(runs[-1], config=config)
    found = {p.method: (p.kind, p.beaten_by) for p in points(table_rows(runs))}
    otherwise = dict.fromkeys(("one", "bad one", "other task"), ("asked otherwise", ()))
    best = {"dear": ("beaten", ("cheap",)), "cheap": ("best for its cost", ())}
    assert found == best | otherwise
    shown = page(runs)
    # Three marks, in a wide and a narrow figure.
    assert shown.count("; asked otherwise: not compared") == 6
    assert shown.count("asked otherwise: not compared") > 6  # the legend has it, too


LEGEND = (
    "costs are per question, tflops.index per document; FLOPs under the convention all-params; "
    "ratio: cost against full-context"
)


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_a_line_below_the_table_says_what_costs_are_measured_by(form, tmp_path):
    runs = [stored(tmp_path, SCORES, method=m, documents=INDEX) for m in ("full-context", "pecan")]
    whole = frame(runs)
    text = render_sections(sections(whole), form)
    assert " ".join(text.split()).count(LEGEND) == 1
    assert "without the index" in text
    assert "costs are per question" not in render_sections(sections(whole, ["n"]), form)
    for plain in ("csv", "json"):
        assert "costs are per question" not in render(whole, plain)


def test_the_line_says_no_word_of_columns_without_a_value(tmp_path):
    (row,) = with_legend(frame([stored(tmp_path / "a", SCORES)]))["notes"]
    assert not any("ratio" in note or "per document" in note for note in row)
    (row,) = with_legend(frame([stored(tmp_path / "b", SCORES, documents=INDEX)]))["notes"]
    line = "costs are per question, tokens.index and tflops.index per document; FLOPs under the convention all-params"
    assert row[0] == f"{line}; seconds: the time of a question's own requests, without the queue"
