"""Suspect gold answers: each sign alone, and what is no sign."""

import json
from dataclasses import replace

import pytest
from harness_audit.answer_keys import analyse_runs, sections

from harness.storage.run_folder import read_run
from harness.types import Document, Example, Gold, Question, Support
from reports.gold_rows import QuestionRows
from tests.reports.build import SCORE, answered, record, write_run

TEXT = "Mira Toren was born in Kelford in 1907. She moved to Ardun."
RIGHT = 8  # questions that all methods get right, so that they are strong


def example(number, gold, question=""):
    name = f"d{number}"
    asked = Question(f"q{number}", question or f"Question {number}?", (name,), None)
    return Example(asked, Gold(tuple(gold), (Support(name, 0, len(TEXT)),)))


def audit(root, examples, answers):
    """answers: of each method to these questions; each method is right on RIGHT others."""
    easy = [example(100 + k, ["Kelford"]) for k in range(RIGHT)]
    asked = [*examples, *easy]
    documents = {d: Document(d, TEXT) for e in asked for d in e.question.document_ids}
    rows = QuestionRows({e.question.id: e for e in asked}, documents)
    found = []
    for number, own in enumerate(answers):
        records = [
            record(0, float(k >= len(examples)), prediction=text, question_id=e.question.id)
            | {"document_ids": list(e.question.document_ids)}
            for k, (e, text) in enumerate(zip(asked, [*own, *["Kelford"] * RIGHT], strict=True))
        ]
        settings = {"dataset": {"name": "musique", "format": "musique", "scorers": [SCORE]}}
        found.append(
            (read_run(write_run(root, records, method=f"m{number}", settings=settings)), rows)
        )
    (one,) = analyse_runs(found)
    return one


@pytest.mark.parametrize(
    ("gold", "answers", "reasons"),
    [
        (["Kelford"], ["Ardun", "ardun.", "Kelford"], {"methods agree"}),
        (["Kelford"], ["Ardun", "Kelford", "Kelford"], set()),
        (["Kelford"], ["Oslo", "Oslo", "Oslo"], set()),  # stands nowhere
        (["Mira Toren"], ["Toren", "Toren", "Toren"], set()),  # a part of gold
        (["yes"], ["no", "no", "no"], set()),  # no text shows it
        (["Berlin"], ["x", "y", "z"], {"not in the evidence"}),
        (["Berlin", "Kelford"], ["x", "y", "z"], set()),
        (["yes", "no"], ["x", "y", "z"], {"gold contradicts"}),
        (["Kelford", "unanswerable"], ["x", "y", "z"], {"gold contradicts"}),
        (["1907", "1911"], ["x", "y", "z"], {"gold contradicts"}),
        (["1907", "in 1907"], ["x", "y", "z"], set()),
        (["Kelford", "the town"], ["x", "y", "z"], set()),  # another name of the same
    ],
)
def test_signs(tmp_path, gold, answers, reasons):
    found = audit(tmp_path, [example(0, gold)], [[text] for text in answers])
    assert set(found.suspects.get("q0", {})) == reasons
    assert set(found.suspects) <= {"q0"}


F1, ROUGE = (
    f"{name} gives 0 to the same text" for name in ("longbench.qa_f1_score", "rouge_score.rougeL")
)
ACC = "flashrag.acc gives 1 to any text"


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (["A"], f"'A': {F1}, {ACC}"),
        (["\u2014"], f"'\u2014': {ROUGE}"),
        (["$"], f"'$': {F1}, {ROUGE}, {ACC}"),
        (["Kelford", "???"], f"'???': {F1}, {ROUGE}, {ACC}"),
        (["A mill"], None),
    ],
)
def test_gold_answers_of_which_nothing_is_left_are_named_with_what_scorers_make_of_them(
    tmp_path, gold, message
):
    names = (
        "longbench.qa_f1_score",
        "rouge_score.rougeL",
        "flashrag.acc",
        "flashrag.em",
        "logged.acc",
    )
    records = [record(0, 1.0, scores=dict.fromkeys(names, 1.0))]
    settings = {"dataset": {"name": "musique", "format": "musique", "scorers": [*names]}}
    run = read_run(write_run(tmp_path, records, settings=settings))
    (found,) = analyse_runs(
        [(run, QuestionRows({"q0": example(0, gold)}, {"d0": Document("d0", TEXT)}))]
    )
    assert found.suspects.get("q0", {}).get("nothing to compare") == message


@pytest.mark.parametrize("documents", [("d0",), ()])
def test_the_same_question_with_other_gold_answers(tmp_path, documents):
    asked = [
        example(0, ["Kelford"], "Where?"),
        example(1, ["Ardun"], "where"),
        example(2, ["1907"], "Where?"),
    ]
    same = [replace(e, question=replace(e.question, document_ids=documents)) for e in asked[:2]]
    found = audit(tmp_path, [*same, asked[2]], [["", "", ""]])
    assert found.suspects == {
        "q0": {"duplicate": "q1 has Ardun"},
        "q1": {"duplicate": "q0 has Kelford"},
    }


def test_what_is_wrong_more_often_than_right_outvotes_nothing(tmp_path):
    asked = [example(k, ["Kelford"]) for k in range(2 * RIGHT)]
    found = audit(tmp_path, asked, [["Ardun"] * len(asked)] * 2)
    assert found.suspects == {}
    assert "fewer than two methods have a mean of 50" in sections([found])[-1][1]["notes"][0][0]


def test_where_most_answers_are_not_verbatim_that_is_no_sign(tmp_path):
    asked = [example(k, ["in her own words"]) for k in range(RIGHT + 1)]
    assert audit(tmp_path, asked, [["x"] * len(asked)]).suspects == {}


def test_the_command(tmp_path, command):
    marks = [{"document_id": "d0", "start": start, "end": start + 4} for start in (0, 5)]
    gold = {"answers": ["yes", "no", "Oslo"], "supporting": marks, "extra": {}}
    write_run(tmp_path / "a", [answered(0, 1.0, gold)])
    code, out, err = command("audit-data", str(tmp_path), "--format", "json")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["reason"], row["evidence"]) == ("gold contradicts", "'yes' and 'no'")
    assert "note: without the evidence only contradictions and duplicates are found" in err
