"""Whole-file evaluations: what a data set's official script prints for a file of predictions.

    evaluate_file("musique.evaluate", rows, predictions)             -> {"answer_f1": .., "support_f1": .., ...}
    evaluate_file("hotpotqa.eval", rows, {"answer": {}, "sp": {}})   -> {"em": .., ..., "joint_f1": ..}

`data_rows` is the data file as parsed: the list of rows, or the whole JSON value for Qasper and TriviaQA.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.errors import UnknownName
from harness.scorers import musique, qasper, triviaqa, twowiki
from harness.scorers.base import ScoreError, mean
from harness.scorers.squad import closed_overlap, exact
from harness.scorers.support import SetOverlap, facts, set_overlap

Row = Mapping[str, Any]
Figures = dict[str, Any]


def _musique(rows: Sequence[Row], predictions: Sequence[Row]) -> Figures:
    """evaluate_v1.0.py of StonyBrookNLP/musique on the answerable set; 0..1, three decimals.

    predictions: [{"id", "predicted_answer", "predicted_support_idxs"}], one per row.
    """
    by_id = {row["id"]: row for row in predictions}
    if by_id.keys() != {row["id"] for row in rows}:
        raise ScoreError(f"every question needs one prediction: {len(rows)} questions, {len(by_id)} predictions")
    values: dict[str, list[float]] = {"answer_f1": [], "answer_em": [], "support_f1": []}
    for row in rows:
        given = by_id[row["id"]]
        answers = [row["answer"], *row["answer_aliases"]]
        values["answer_f1"].append(musique.answer_f1(given["predicted_answer"], answers))
        values["answer_em"].append(musique.answer_em(given["predicted_answer"], answers))
        gold = [paragraph["idx"] for paragraph in row["paragraphs"] if paragraph["is_supporting"]]
        values["support_f1"].append(musique.support_f1(given["predicted_support_idxs"], gold))
    return {name: round(mean(figures), 3) for name, figures in values.items()}


def _answer(prediction: str, gold: str) -> SetOverlap:
    overlap = closed_overlap(prediction, gold)
    return SetOverlap(exact(prediction, gold), overlap.precision, overlap.recall, overlap.f1)


def _joint(parts: Sequence[SetOverlap]) -> SetOverlap:
    """The product of the parts' EM, precision and recall, and the F1 of those (Yang et al. 2018, section 5.2)."""
    em = precision = recall = 1.0
    for part in parts:
        em, precision, recall = em * part.em, precision * part.precision, recall * part.recall
    f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    return SetOverlap(em, precision, recall, f1)


Parts = dict[str, tuple[str, Callable[[Row, Any], SetOverlap]]]


def _multi_hop(rows: Sequence[Row], predictions: Mapping[str, Mapping[str, Any]], parts: Parts) -> dict[str, float]:
    """Means over all rows of each part and of their product; a missing prediction counts 0."""
    totals: dict[str, float] = {}
    for prefix in [*(f"{key}_" if key else "" for key in parts), "joint_"]:
        totals |= dict.fromkeys((f"{prefix}em", f"{prefix}f1", f"{prefix}prec", f"{prefix}recall"), 0.0)

    def add(prefix: str, value: SetOverlap) -> None:
        for name, figure in zip(("em", "prec", "recall", "f1"), value, strict=True):
            totals[prefix + name] += figure / len(rows)

    for row in rows:
        scores = []
        for key, (source, judge) in parts.items():
            if row["_id"] in predictions[source]:
                scores.append(judge(row, predictions[source][row["_id"]]))
                add(f"{key}_" if key else "", scores[-1])
        if len(scores) == len(parts):
            add("joint_", _joint(scores))
    return totals


def _hotpotqa(rows: Sequence[Row], predictions: Mapping[str, Mapping[str, Any]]) -> Figures:
    """hotpot_evaluate_v1.py: answer, supporting facts and joint, 0..1.

    predictions: {"answer": {id: text}, "sp": {id: [[title, sentence index]]}}.
    """
    parts: Parts = {
        "": ("answer", lambda row, given: _answer(given, row["answer"])),
        "sp": ("sp", lambda row, given: set_overlap(facts(given), facts(row["supporting_facts"]))),
    }
    return dict(_multi_hop(rows, predictions, parts))


def _twowiki(rows: Sequence[Row], predictions: Mapping[str, Mapping[str, Any]]) -> Figures:
    """2wikimultihop_evaluate_v1.1.py with an empty alias file; percent, two decimals.

    predictions: {"answer": {id: text}, "sp": {id: facts}, "evidence": {id: [[subject, relation, object]]}}.
    """
    parts: Parts = {
        "": ("answer", lambda row, given: _answer(given, row["answer"])),
        "sp": ("sp", lambda row, given: twowiki.sp_overlap(given, row["supporting_facts"])),
        "evi": ("evidence", lambda row, given: twowiki.evidence_overlap(given, row["evidences"])),
    }
    return {name: round(100 * value, 2) for name, value in _multi_hop(rows, predictions, parts).items()}


def _qasper_answer(answer: Row) -> tuple[str, str]:
    """Text and type of one annotator's answer."""
    if answer["unanswerable"]:
        return "Unanswerable", "none"
    if answer["extractive_spans"]:
        return ", ".join(answer["extractive_spans"]), "extractive"
    if answer["free_form_answer"]:
        return answer["free_form_answer"], "abstractive"
    if answer["yes_no"] is None:
        raise ScoreError("a Qasper answer is neither unanswerable, extractive, free-form nor yes/no")
    return ("Yes" if answer["yes_no"] else "No"), "boolean"


def _qasper_evidence(answer: Row, text_only: bool) -> list[str]:
    if answer["unanswerable"]:
        return []
    return [text for text in answer["evidence"] if not (text_only and "FLOAT SELECTED" in text)]


def _qasper(papers: Mapping[str, Row], predictions: Mapping[str, Row], *, text_evidence_only: bool = False) -> Figures:
    """scripts/evaluator.py of allenai/qasper-led-baseline, 0..1; a missing prediction counts 0.

    predictions: {question id: {"answer": text, "evidence": [paragraph]}}. The type of a question is that of the
    reference the answer matched best.
    """
    f1, evidence_f1, missing = [], [], 0
    by_type: dict[str, list[float]] = defaultdict(list)
    for question in (question for paper in papers.values() for question in paper["qas"]):
        given = predictions.get(question["question_id"])
        if given is None:
            missing += 1
            f1.append(0.0)
            evidence_f1.append(0.0)
            continue
        answers = [annotation["answer"] for annotation in question["answers"]]
        scored = []
        for text, kind in map(_qasper_answer, answers):
            scored.append((qasper.token_f1_score(given["answer"], [text]), kind))
        value, kind = max(scored, key=lambda pair: pair[0])
        f1.append(value)
        by_type[kind].append(value)
        golds = [_qasper_evidence(answer, text_evidence_only) for answer in answers]
        evidence_f1.append(max(qasper.paragraph_f1_score(given["evidence"], gold) for gold in golds))
    kinds = ("extractive", "abstractive", "boolean", "none")
    return {
        "Answer F1": mean(f1),
        "Answer F1 by type": {kind: mean(by_type[kind]) if by_type[kind] else 0.0 for kind in kinds},
        "Evidence F1": mean(evidence_f1),
        "Missing predictions": missing,
    }


def _triviaqa(data: Mapping[str, Sequence[Row]], predictions: Mapping[str, str]) -> Figures:
    """evaluation/triviaqa_evaluation.py on NormalizedAliases and HumanAnswers, percent; no prediction counts 0."""
    rows = data["Data"]
    common, em, f1 = 0, 0.0, 0.0
    for row in rows:
        if row["QuestionId"] not in predictions:
            continue
        common += 1
        answer = row["Answer"]
        golds = [*answer["NormalizedAliases"], *map(triviaqa.normalize_answer, answer.get("HumanAnswers", ()))]
        em += triviaqa.em(predictions[row["QuestionId"]], golds)
        f1 += triviaqa.f1(predictions[row["QuestionId"]], golds)
    if not rows:
        raise ScoreError("there is no question to evaluate")
    return {
        "exact_match": 100.0 * em / len(rows),
        "f1": 100.0 * f1 / len(rows),
        "common": common,
        "denominator": len(rows),
        "pred_len": len(predictions),
        "gold_len": len(rows),
    }


def _quality(rows: Sequence[Row], predictions: Mapping[str, int]) -> Figures:
    """QuALITY accuracy (no script is published): share of options 1..4 equal to gold_label; also over difficult = 1.

    A question without a prediction counts as wrong. Rows without `difficult` give no hard figures.
    """
    questions = [question for row in rows for question in row["questions"]]
    right = [float(predictions.get(q["question_unique_id"]) == q["gold_label"]) for q in questions]
    figures: Figures = {"accuracy": mean(right), "n": len(questions)}
    hard = [value for value, q in zip(right, questions, strict=True) if q.get("difficult") == 1]
    if hard:
        figures |= {"accuracy_hard": mean(hard), "n_hard": len(hard)}
    return figures


EVALUATIONS: dict[str, Callable[..., Figures]] = {
    "musique.evaluate": _musique,
    "hotpotqa.eval": _hotpotqa,
    "2wikimultihopqa.eval": _twowiki,
    "qasper.evaluate": _qasper,
    "triviaqa.evaluate_triviaqa": _triviaqa,
    "quality.accuracy": _quality,
}


def evaluate_file(metric: str, data_rows: Any, predictions: Any, **extra: Any) -> Figures:
    """Run the official evaluation `metric` on a parsed data file; figures as its script prints them.

    extra: `text_evidence_only` of qasper.evaluate. Raises UnknownName, and ScoreError where the script would stop.
    """
    if metric not in EVALUATIONS:
        raise UnknownName("evaluation", metric, EVALUATIONS)
    given = {key: value for key, value in extra.items() if value is not None}
    if (given and metric != "qasper.evaluate") or given.keys() - {"text_evidence_only"}:
        raise ScoreError(f"{metric} takes no {', '.join(sorted(given))}")
    return EVALUATIONS[metric](data_rows, predictions, **given)
