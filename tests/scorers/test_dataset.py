"""Whole-file evaluations: small made-up files worked by hand, and the official scripts' figures on real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UnknownName
from harness.scorers import ScoreError
from harness.scorers.dataset import evaluate_file
from tests.scorers.support import REAL, equal, needs_real, rows

EVALUATIONS = 8  # lines of the golden file


def read(path: Path) -> Any:
    return list(rows(path)) if path.suffix == ".jsonl" else json.loads(path.read_text(encoding="utf-8"))


@needs_real
@pytest.mark.parametrize("line", range(EVALUATIONS))
def test_official_figures(line: int) -> None:
    root = Path(REAL or "")
    golden = list(rows(root / "golden" / "dataset_eval.jsonl"))
    assert len(golden) == EVALUATIONS
    row = golden[line]
    data = read(root / "data" / row["data_file"])
    extra = {"text_evidence_only": row.get("text_evidence_only")}
    assert equal(evaluate_file(row["metric"], data, row["predictions"], **extra), row["value"])


MUSIQUE = [
    {
        "id": "m1",
        "answer": "Paris",
        "answer_aliases": ["City of Light"],
        "paragraphs": [{"idx": 0, "is_supporting": True}, {"idx": 1, "is_supporting": False}],
    },
    {"id": "m2", "answer": "x y", "answer_aliases": [], "paragraphs": [{"idx": 3, "is_supporting": True}]},
]


def prediction(question: str, answer: str, support: list[int]) -> dict[str, Any]:
    return {"id": question, "predicted_answer": answer, "predicted_support_idxs": support}


def test_musique() -> None:
    given = [prediction("m2", "x", [3]), prediction("m1", "city of light", [0, 1])]
    figures = evaluate_file("musique.evaluate", MUSIQUE, given)
    assert figures == {
        "answer_f1": round((1 + 2 / 3) / 2, 3),
        "answer_em": 0.5,
        "support_f1": round((2 / 3 + 1) / 2, 3),
    }


def test_musique_needs_every_prediction() -> None:
    with pytest.raises(ScoreError, match="2 questions, 1 predictions"):
        evaluate_file("musique.evaluate", MUSIQUE, [prediction("m1", "", [])])


def test_hotpotqa_counts_what_is_missing_as_zero() -> None:
    data = [{"_id": name, "answer": "Paris", "supporting_facts": [["A", 0], ["B", 1]]} for name in ("p", "q")]
    figures = evaluate_file(
        "hotpotqa.eval", data, {"answer": {"p": "Paris now", "q": "Paris"}, "sp": {"p": [["A", 0]]}}
    )
    assert figures["em"] == 0.5
    assert figures["f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert figures["sp_recall"] == 0.25
    assert figures["joint_prec"] == 0.25  # 1/2 x 1 of p; q has no supporting facts, so no joint figure
    assert figures["joint_em"] == 0.0


def test_twowiki_joint_is_the_product_of_three() -> None:
    data = [
        {
            "_id": "p",
            "answer": "yes",
            "supporting_facts": [["A", 0]],
            "evidences": [["A", "is", "The B"], ["C", "d", "e"]],
        }
    ]
    given = {"answer": {"p": "Yes"}, "sp": {"p": [["a", 0]]}, "evidence": {"p": [["a", "is", "b"]]}}
    figures = evaluate_file("2wikimultihopqa.eval", data, given)
    assert (figures["em"], figures["sp_em"], figures["evi_em"]) == (100.0, 100.0, 0.0)
    assert (figures["evi_prec"], figures["evi_recall"], figures["joint_recall"]) == (100.0, 50.0, 50.0)
    assert figures["joint_f1"] == 66.67


def answer(**fields: Any) -> dict[str, Any]:
    base = {"unanswerable": False, "extractive_spans": [], "yes_no": None, "free_form_answer": "", "evidence": []}
    return {"answer": base | fields}


def paper(*answers: dict[str, Any]) -> dict[str, Any]:
    return {"paper": {"qas": [{"question_id": f"q{i}", "answers": [one]} for i, one in enumerate(answers)]}}


def test_qasper() -> None:
    data = paper(
        answer(extractive_spans=["blue", "red"], evidence=["p", "FLOAT SELECTED: Table 1"]),
        answer(yes_no=False, evidence=["p"]),
        answer(unanswerable=True),
        answer(free_form_answer="never asked"),
    )
    given = {
        "q0": {"answer": "blue", "evidence": ["p"]},
        "q1": {"answer": "No", "evidence": []},
        "q2": {"answer": "unanswerable", "evidence": []},
    }
    figures = evaluate_file("qasper.evaluate", data, given)
    assert figures["Answer F1"] == pytest.approx((2 / 3 + 1 + 1 + 0) / 4)
    assert figures["Answer F1 by type"] == pytest.approx(
        {"extractive": 2 / 3, "abstractive": 0.0, "boolean": 1.0, "none": 1.0}
    )
    assert figures["Evidence F1"] == pytest.approx((2 / 3 + 0 + 1 + 0) / 4)
    assert figures["Missing predictions"] == 1
    text_only = evaluate_file("qasper.evaluate", data, given, text_evidence_only=True)
    assert text_only["Evidence F1"] == pytest.approx((1 + 0 + 1 + 0) / 4)


def test_qasper_refuses_an_answer_of_no_kind() -> None:
    with pytest.raises(ScoreError, match="neither"):
        evaluate_file("qasper.evaluate", paper(answer()), {"q0": {"answer": "", "evidence": []}})


def test_triviaqa_divides_by_all_questions() -> None:
    data = {
        "Data": [
            {"QuestionId": name, "Answer": {"NormalizedAliases": ["hst"], "HumanAnswers": ["H.S. T"]}} for name in "ab"
        ]
    }
    figures = evaluate_file("triviaqa.evaluate_triviaqa", data, {"a": "h s t"})
    assert figures == {"exact_match": 50.0, "f1": 50.0, "common": 1, "denominator": 2, "pred_len": 1, "gold_len": 2}


def test_quality() -> None:
    questions = [{"question_unique_id": str(i), "gold_label": i, "difficult": i % 2} for i in (1, 2, 3, 4)]
    figures = evaluate_file("quality.accuracy", [{"questions": questions}], {"1": 1, "2": 2, "3": 1})
    assert figures == {"accuracy": 0.5, "n": 4, "accuracy_hard": 0.5, "n_hard": 2}
    plain = [{"questions": [{"question_unique_id": "1", "gold_label": 1}]}]
    assert evaluate_file("quality.accuracy", plain, {"1": 1}) == {"accuracy": 1.0, "n": 1}


def test_bad_calls() -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'hotpotqa\.eval'"):
        evaluate_file("hotpotqa.evl", [], {})
    with pytest.raises(ScoreError, match="takes no text_evidence_only"):
        evaluate_file("quality.accuracy", [], {}, text_evidence_only=True)
    with pytest.raises(ScoreError, match="takes no text_only"):
        evaluate_file("qasper.evaluate", {}, {}, text_only=True)
    with pytest.raises(ScoreError, match="nothing to average"):
        evaluate_file("quality.accuracy", [], {})
