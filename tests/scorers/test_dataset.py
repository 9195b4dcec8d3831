"""Whole files of predictions: the scorers, averaged as the official scripts average, give the figures these print."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.scorers import musique, qasper, triviaqa, twowiki
from harness.scorers.base import mean
from harness.scorers.squad import closed_overlap, exact, normalize_answer
from harness.scorers.support import SetOverlap, facts, set_overlap
from tests.scorers.support import REAL, equal, needs_real, rows

EVALUATIONS = 8  # lines of the golden file
Row = Mapping[str, Any]


def of_musique(data: Sequence[Row], predictions: Sequence[Row], text_only: bool) -> dict[str, Any]:
    """evaluate_v1.0.py of StonyBrookNLP/musique."""
    values = defaultdict(list)
    by_id = {row["id"]: row for row in predictions}
    for row in data:
        given, answers = by_id[row["id"]], [row["answer"], *row["answer_aliases"]]
        gold = [paragraph["idx"] for paragraph in row["paragraphs"] if paragraph["is_supporting"]]
        values["answer_f1"].append(musique.answer_f1(given["predicted_answer"], answers))
        values["answer_em"].append(musique.answer_em(given["predicted_answer"], answers))
        values["support_f1"].append(musique.support_f1(given["predicted_support_idxs"], gold))
    return {name: round(mean(figures), 3) for name, figures in values.items()}


def answered(given: str, row: Row) -> SetOverlap:
    return SetOverlap(exact(given, row["answer"]), *closed_overlap(given, row["answer"]))


def triples(value: Sequence[Sequence[str]]) -> set[tuple[str, ...]]:
    return {tuple(map(normalize_answer, triple)) for triple in value}


HOTPOT: dict[str, tuple[str, Callable[[Any, Row], SetOverlap]]] = {
    "": ("answer", answered),
    "sp_": ("sp", lambda given, row: set_overlap(facts(given), facts(row["supporting_facts"]))),
}
TWOWIKI = HOTPOT | {
    "sp_": ("sp", lambda given, row: twowiki.sp_overlap(given, row["supporting_facts"])),
    "evi_": ("evidence", lambda given, row: set_overlap(triples(given), triples(row["evidences"]))),
}


def multi_hop(parts: Mapping[str, Any], data: Sequence[Row], predictions: Row) -> dict[str, float]:
    """Means of each part and of their product (Yang et al. 2018, section 5.2); a missing prediction counts 0."""
    totals = {f"{head}{name}": 0.0 for head in (*parts, "joint_") for name in ("em", "f1", "prec", "recall")}

    def add(head: str, em: float, precision: float, recall: float, f1: float) -> None:
        for name, value in {"em": em, "prec": precision, "recall": recall, "f1": f1}.items():
            totals[head + name] += value / len(data)

    for row in data:
        found = [
            (head, judge(predictions[source][row["_id"]], row))
            for head, (source, judge) in parts.items()
            if row["_id"] in predictions[source]
        ]
        em = precision = recall = 1.0
        for head, part in found:
            add(head, *part)
            em, precision, recall = em * part.em, precision * part.precision, recall * part.recall
        if len(found) == len(parts):
            both = precision + recall
            add("joint_", em, precision, recall, 2 * precision * recall / both if both else 0.0)
    return totals


def of_hotpotqa(data: Sequence[Row], predictions: Row, text_only: bool) -> dict[str, Any]:
    """hotpot_evaluate_v1.py."""
    return multi_hop(HOTPOT, data, predictions)


def of_twowiki(data: Sequence[Row], predictions: Row, text_only: bool) -> dict[str, Any]:
    """2wikimultihop_evaluate_v1.1.py with an empty alias file."""
    return {name: round(100 * value, 2) for name, value in multi_hop(TWOWIKI, data, predictions).items()}


def qasper_answer(answer: Row) -> tuple[str, str]:
    if answer["unanswerable"]:
        return "Unanswerable", "none"
    if answer["extractive_spans"]:
        return ", ".join(answer["extractive_spans"]), "extractive"
    if answer["free_form_answer"]:
        return answer["free_form_answer"], "abstractive"
    return ("Yes" if answer["yes_no"] else "No"), "boolean"


def of_qasper(papers: Row, predictions: Row, text_only: bool) -> dict[str, Any]:
    """scripts/evaluator.py of allenai/qasper-led-baseline; the type is that of the best matching reference."""
    f1, evidence_f1, missing = [], [], 0
    by_type = defaultdict(list)
    for question in (question for paper in papers.values() for question in paper["qas"]):
        given = predictions.get(question["question_id"])
        if given is None:
            missing += 1
            f1.append(0.0)
            evidence_f1.append(0.0)
            continue
        answers = [annotation["answer"] for annotation in question["answers"]]
        scored = [(qasper.token_f1_score(given["answer"], [t]), kind) for t, kind in map(qasper_answer, answers)]
        value, kind = max(scored, key=lambda pair: pair[0])
        f1.append(value)
        by_type[kind].append(value)
        evidence = [
            [e for e in answer["evidence"] if not (text_only and "FLOAT SELECTED" in e)]
            if not answer["unanswerable"]
            else []
            for answer in answers
        ]
        evidence_f1.append(max(qasper.paragraph_f1_score(given["evidence"], gold) for gold in evidence))
    kinds = ("extractive", "abstractive", "boolean", "none")
    return {
        "Answer F1": mean(f1),
        "Answer F1 by type": {kind: mean(by_type[kind] or [0.0]) for kind in kinds},
        "Evidence F1": mean(evidence_f1),
        "Missing predictions": missing,
    }


def of_triviaqa(data: Row, predictions: Row, text_only: bool) -> dict[str, Any]:
    """evaluation/triviaqa_evaluation.py on NormalizedAliases and HumanAnswers; no prediction counts 0."""
    asked = [row for row in data["Data"] if row["QuestionId"] in predictions]
    em = f1 = 0.0
    for row in asked:
        answer, given = row["Answer"], predictions[row["QuestionId"]]
        golds = [*answer["NormalizedAliases"], *map(triviaqa.normalize_answer, answer.get("HumanAnswers", ()))]
        em, f1 = em + triviaqa.em(given, golds), f1 + triviaqa.f1(given, golds)
    total = len(data["Data"])
    counts = {"common": len(asked), "denominator": total, "pred_len": len(predictions), "gold_len": total}
    return {"exact_match": 100.0 * em / total, "f1": 100.0 * f1 / total, **counts}


def of_quality(data: Sequence[Row], predictions: Row, text_only: bool) -> dict[str, Any]:
    """The share of right options (no script is published), and that over difficult = 1."""
    questions = [question for row in data for question in row["questions"]]
    right = [float(predictions.get(q["question_unique_id"]) == q["gold_label"]) for q in questions]
    hard = [value for value, q in zip(right, questions, strict=True) if q.get("difficult") == 1]
    figures = {"accuracy": mean(right), "n": len(right)}
    return figures | ({"accuracy_hard": mean(hard), "n_hard": len(hard)} if hard else {})


OFFICIAL: dict[str, Callable[[Any, Any, bool], dict[str, Any]]] = {
    "musique.evaluate": of_musique,
    "hotpotqa.eval": of_hotpotqa,
    "2wikimultihopqa.eval": of_twowiki,
    "qasper.evaluate": of_qasper,
    "triviaqa.evaluate_triviaqa": of_triviaqa,
    "quality.accuracy": of_quality,
}


@needs_real
@pytest.mark.parametrize("line", range(EVALUATIONS))
def test_official_figures(line: int) -> None:
    root = Path(REAL or "")
    golden = list(rows(root / "golden" / "dataset_eval.jsonl"))
    assert len(golden) == EVALUATIONS
    row = golden[line]
    path = root / "data" / row["data_file"]
    data = list(rows(path)) if path.suffix == ".jsonl" else json.loads(path.read_text(encoding="utf-8"))
    found = OFFICIAL[row["metric"]](data, row["predictions"], bool(row.get("text_evidence_only")))
    assert equal(found, row["value"])
