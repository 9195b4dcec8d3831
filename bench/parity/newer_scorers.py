"""Scorers of newer sets, evidence and joint scores: HELMET, Loong, LongBench v2 and Pro, OOLONG, Qasper, HotpotQA.

Replies and gold answers are made up. LongBench Pro's program needs the package pytrec_eval.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.parity import Found, import_theirs, stand_in
from bench.parity.rows import Rows
from harness.judging.kinds import UNCLEAR, parse_rating
from harness.scorers import score

PROGRAM = (
    "princeton-nlp/HELMET, MozerWang/Loong, THUDM/LongBench, caskcsg/longcontext, "
    "abertsch72/oolong, allenai/qasper-led-baseline, hotpotqa/hotpot"
)
METHODS = "the scorers of their data sets"
REASONS: dict[str, str] = {
    "OOLONG synth": "a reply of 20 or more spaces ends theirs with an error (0 here); a date without "
    "its day or year is completed by today's there; kept",
}
ANSWERS = 2000
WORDS = [
    *(
        [
            "the",
            "a",
            "Paris",
            "mill",
            "yes",
            "no",
            "noanswer",
            "Toren",
            "1719",
            "running",
            "runs",
            "Answer:",
            "ANSWER:",
        ]
    ),
    *(["\n", ":", ",", ".", "It", "is", "Rome"]),
]
RATINGS = [
    *(["[[87.5]]", "[[100]]", "[5]", "[3.5]", "[[.5]]", "[[5.]]", "87", "Rating:"]),
    *(["[[", "]]", "[12]]", "[[12]", "[[-3]]", "[[1e2]]"]),
]
LETTERS = [
    *(["The", "correct", "answer", "is", "(B)", "(C)", "**(A)**", "A", "D."]),
    "\n",
    "the correct answer",
]
LINES = ["Bo", "bo ", "Ada", " Cy", "Di  E", "", "Fy"]
TASKS = {
    "T1.1": "T1.1 Global Cohesive Retrieval",
    "T2.1": "T2.1 Global Timeline Reconstruction",
    "T3.2": "T3.2 Single-Hop Fact QA",
    "T5.1": "T5.1 Full-Sentence Citation Alignment",
    "T8.1": "T8.1 Structured Multi-Source Consistency Verification",
}
SYNTH = [
    "7",
    "8",
    "spam",
    "more common",
    "Label: [spam]",
    "Answer: **9**",
    " " * 9,
    "Date: May 1, 2023",
]


def _alone(folder: Path, name: str) -> Any:
    """A module of a program, imported anew, as several have modules of one name."""
    for clash in ("utils", "data", "metric", "modules", "modules.utils", "pred"):
        sys.modules.pop(clash, None)
    return import_theirs(folder, name)


def _words(dice: random.Random, words: list[str], most: int, gap: str = " ") -> str:
    """A made-up text of up to `most` words, with `gap` between them."""
    return gap.join(dice.choices(words, k=dice.randint(0, most)))


def _helmet(code: Path, dice: random.Random, found: Found) -> None:
    """Compare HELMET's scorers."""
    stand_in("pytrec_eval")
    theirs = _alone(code / "HELMET", "data")
    for _ in range(ANSWERS):
        reply = _words(dice, WORDS, 9)
        golds = [_words(dice, WORDS, 3).strip() or "x" for _ in range(dice.randint(1, 3))]
        values, _parsed = theirs.default_post_process({"output": reply}, {"answer": golds})
        for name, value in values.items():
            found.add(f"HELMET: {name}", float(value), score(f"helmet.{name}", reply, golds))


def _loong(code: Path, dice: random.Random, found: Found) -> None:
    """Compare what is read in a judge's reply for Loong."""
    theirs = _alone(code / "Loong" / "src" / "utils", "metric")
    for _ in range(ANSWERS):
        reply = _words(dice, RATINGS, 5, "")
        rating = parse_rating(reply)
        ours = None if rating == UNCLEAR else float(rating)
        found.add("Loong: ratings", theirs.extract_number(reply), ours)


def _longbench_v2(code: Path, dice: random.Random, found: Found) -> None:
    """Compare what is read in replies to LongBench v2."""
    stand_in("openai", "tiktoken")
    with contextlib.chdir(code / "LongBench"):
        theirs = _alone(code / "LongBench", "pred")
    for _ in range(ANSWERS):
        reply = _words(dice, LETTERS, 8)
        right = dice.randint(1, 4)
        value = float(theirs.extract_answer(reply) == "ABCD"[right - 1])
        ours = score("longbench_v2.accuracy", reply, ["x"], gold_label=right)
        found.add("LongBench v2: replies that are not empty", value, ours)


def _longbench_pro(code: Path, dice: random.Random, found: Found) -> None:
    """Compare the scorers of LongBench Pro's tasks."""
    stand_in("jieba", "rouge", "sentence_transformers")
    package = ModuleType("modules")
    package.__path__ = [str(code / "longcontext" / "LongBench-Pro" / "modules")]
    sys.modules["modules"] = package
    evaluation = import_theirs(code, "modules.evaluation")
    theirs = evaluation.Evaluator(1)
    for task in TASKS.values():
        for _ in range(ANSWERS // 4):
            lines = dice.choices(LINES, k=dice.randint(1, 5))
            mark = dice.choice(["", "So [Answer]\n", "[答案]\n"])
            reply = mark + _words(dice, LINES, 5, "\n")
            _, value = theirs.calculate_metric(task, lines, reply, False)
            ours = score("longbench_pro.score", reply, ["x"], lines=lines, type=task)
            found.add(f"LongBench Pro: {task.partition(' ')[0]}", value, ours, 1e-6)


def _oolong(code: Path, dice: random.Random, found: Found) -> None:
    """Compare the scores of OOLONG's made-up questions."""
    stand_in("litellm", "jsonlines", "tiktoken")
    theirs = _alone(code / "oolong" / "src" / "eval", "eval_helpers")
    about = {"id": "", "context_window_id": "", "dataset": ""}
    for _ in range(ANSWERS):
        reply = "".join(dice.choices(SYNTH, k=dice.randint(0, 3)))
        kind, gold = dice.choice(
            [("NUMERIC", "[7]"), ("LABEL", "['spam']"), ("COMPARISON", "['more common than']")]
        )
        row = {**about, "answer": gold, "answer_type": f"ANSWER_TYPE.{kind}"}
        try:
            value = float(theirs.synth_process_response(row, reply, "")["score"])
        except IndexError:
            value = -1.0  # the program ends
        ours = score("oolong.synth", reply, [gold.strip("[']")], answer_type=row["answer_type"])
        found.add("OOLONG synth", value, ours)


def _qasper(code: Path, dice: random.Random, found: Found) -> None:
    """Compare Qasper's score of evidence."""
    theirs = _alone(code / "qasper-led-baseline" / "scripts", "evaluator")
    for _ in range(3 * ANSWERS):
        predicted = dice.choices("pqrst", k=dice.randint(0, 5))
        gold = dice.choices("pqrst", k=dice.randint(0, 5))
        ours = score("qasper.paragraph_f1_score", predicted, gold)
        found.add("Qasper: evidence", theirs.paragraph_f1_score(predicted, gold), ours)


def _hotpot(code: Path, dice: random.Random, found: Found) -> None:
    """Compare HotpotQA's joint scores."""
    stand_in("ujson")
    theirs = _alone(code / "hotpot", "hotpot_evaluate_v1")
    theirs.json = json
    for _ in range(ANSWERS):
        answer, gold = _words(dice, WORDS, 3), _words(dice, WORDS, 2) or "x"
        predicted = [
            [title, i] for title in "AB" for i in dice.sample(range(2), dice.randint(0, 2))
        ]
        supporting = [["A", 0], *([title, 1] for title in dice.sample("AB", dice.randint(0, 2)))]
        values = _joint_of_theirs(theirs, answer, gold, predicted, supporting)
        for name in ("em", "f1", "prec", "recall"):
            ours = score(
                f"hotpotqa.joint_{name}", predicted, supporting, answer=answer, gold_answer=gold
            )
            found.add(f"HotpotQA: joint {name}", values[f"joint_{name}"], ours)


def _joint_of_theirs(
    theirs: Any, answer: str, gold: str, predicted: list[Any], supporting: list[Any]
) -> dict[str, float]:
    """What the program prints for a file of one question."""
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("predicted.json", "gold.json")]
        row = {"_id": "q", "answer": gold, "supporting_facts": supporting}
        for file, value in zip(
            files, ({"answer": {"q": answer}, "sp": {"q": predicted}}, [row]), strict=True
        ):
            Path(file).write_text(json.dumps(value), encoding="utf-8")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            theirs.eval(*files)
    values: dict[str, float] = json.loads(printed.getvalue().replace("'", '"'))
    return values


def compare(code: Path, rows: Rows, found: Found) -> None:  # noqa: ARG001 - all rows are made up
    """Compare the scores of made-up replies by both programs."""
    dice = random.Random(20261129)
    # LongBench Pro's own pytrec_eval comes before the stand-in that HELMET needs.
    for part in (_longbench_pro, _helmet, _loong, _longbench_v2, _oolong, _qasper, _hotpot):
        part(code, dice, found)
