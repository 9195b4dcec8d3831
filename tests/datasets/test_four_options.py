"""LongBench v2 and InfiniteBench: official rows as used, scores by group, option lists that are not
four."""

import pytest

from harness import scorers
from harness.datasets import load
from tests.datasets.support import check_mistake, config, infinite, longbench_v2, write_lines

CHOICE = {"subset": "longbook_choice_eng"}


def test_longbench_v2_rows_as_used(tmp_path):
    path = write_lines(
        tmp_path / "r.jsonl", [longbench_v2(1), longbench_v2(2, answer="D"), longbench_v2(3)]
    )
    data = load(config("longbench-v2", data=str(path)))
    first, second, _ = data.examples
    assert (first.question.id, first.question.text) == ("v1", "Who built mill 1?")
    assert first.question.options == ("Ada", "Bo", "Cy", "Di")
    assert (first.gold.answers, second.gold.answers) == (("Bo",), ("Di",))
    assert first.gold.extra == {
        "gold_label": 2,
        "all_classes": ["Ada", "Bo", "Cy", "Di"],
        "level": "hard",
        "type": "Single-Document QA",
        "sub_domain": "Literary",
        "length_class": "short",
    }
    assert first.question.document_ids == second.question.document_ids
    assert [document.text for document in data.documents.values()] == [longbench_v2(1)["context"]]
    assert data.kind_counts["level", "hard"] == 3


def test_infinitebench_rows_as_used(tmp_path):
    asked = [infinite(1), infinite(2, options=None, answer="Bo")]
    data = load(config("infinitebench", data=str(write_lines(tmp_path / "r.jsonl", asked))))
    assert [e.gold.answers for e in data.examples] == [("Ada", "A."), ("Bo",)]
    assert [e.question.options for e in data.examples] == [None, None]
    assert len(data.documents) == 1
    options = ["Ada", "Bo", "Cy", "Di"]
    given = ["Bo", ["Bo"], ["Bo", "B"]]
    chosen = [infinite(n, options=options, answer=answer) for n, answer in enumerate(given)]
    data = load(
        config("infinitebench", data=str(write_lines(tmp_path / "c.jsonl", chosen)), **CHOICE)
    )
    assert [e.gold.answers for e in data.examples] == [("Bo",)] * 3
    assert {e.gold.extra["gold_label"] for e in data.examples} == {2}


OPTIONS = {"options": ["Ada", "Bo", "Cy", "Di"], "answer": ["Ada"]}
MISTAKES = [
    ("longbench-v2", longbench_v2(2), {"choice_C": ""}, "options", "option C is empty"),
    (
        "longbench-v2",
        longbench_v2(2),
        {"choice_C": 3},
        "options[2]",
        "should be a string, is a number",
    ),
    ("longbench-v2", longbench_v2(2), {"answer": "E"}, "answer", "should be A, B, C or D, is 'E'"),
    (
        "longbench-v2",
        longbench_v2(2),
        {"difficulty": "x"},
        "difficulty",
        "should be easy or hard, is 'x'",
    ),
    (
        "longbench-v2",
        longbench_v2(2),
        {"length": "x"},
        "length",
        "should be short, medium or long, is 'x'",
    ),
    (
        "longbench-v2",
        longbench_v2(2),
        {"_id": "v1"},
        "question id",
        "'v1' is also the id of the row at",
    ),
    (
        "infinitebench",
        infinite(2),
        {**OPTIONS, "options": ["Ada", "Bo"]},
        "options",
        "should be 4 options, are 2",
    ),
    (
        "infinitebench",
        infinite(2),
        {"options": [], "answer": ["Ada", "A"]},
        "options",
        "should be 4 options, are 0",
    ),
    (
        "infinitebench",
        infinite(2),
        {"options": [*"abcde"], "answer": ["e", "E"]},
        "options",
        "4 options, are 5",
    ),
    (
        "infinitebench",
        infinite(2),
        {**OPTIONS, "answer": ["Ed"]},
        "answer",
        "'Ed' is none of the options",
    ),
    (
        "infinitebench",
        infinite(2),
        {**OPTIONS, "answer": ["Ada", "B"]},
        "answer",
        "with nothing or its letter behind",
    ),
    ("infinitebench", infinite(2), {**OPTIONS, "answer": []}, "answer", "the row has no answer"),
    ("infinitebench", infinite(2), {**OPTIONS, "input": ""}, "input", "is empty"),
]


@pytest.mark.parametrize(("form", "row", "changes", "field", "problem"), MISTAKES)
def test_mistake_is_named(tmp_path, form, row, changes, field, problem):
    good = longbench_v2(1) if form == "longbench-v2" else infinite(1, **OPTIONS)
    check_mistake(tmp_path, [good, {**row, **changes}], field, problem, config(form, **CHOICE))


def test_a_missing_option_is_counted(tmp_path):
    row = longbench_v2(2)
    del row["choice_B"]
    check_mistake(
        tmp_path,
        [longbench_v2(1), row],
        "options",
        "should be 4 options, are 3",
        config("longbench-v2"),
    )


@pytest.mark.parametrize(("level", "length"), [("easy", "long"), ("hard", "medium")])
def test_accuracy_by_difficulty_and_length(tmp_path, level, length):
    path = write_lines(tmp_path / "r.jsonl", [longbench_v2(1, difficulty=level, length=length)])
    (example,) = load(config("longbench-v2", data=str(path))).examples
    groups = [
        f"longbench_v2.accuracy.{name}" for name in ("easy", "hard", "short", "medium", "long")
    ]
    mine = {f"longbench_v2.accuracy.{level}", f"longbench_v2.accuracy.{length}"}
    for reply, value in (("The correct answer is (B)", 1.0), ("The correct answer is (A)", 0.0)):
        sheet = scorers.score_answer(groups, reply, (), example.gold)
        assert sheet.scores == dict.fromkeys(mine, value)
        assert set(sheet.flags.values()) == {"not of this group"}
